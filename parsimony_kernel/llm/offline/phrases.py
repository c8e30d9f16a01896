"""What the offline model understands, as examples that are tested one by one.

The table is what the documentation and the refusals print.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Phrase:
    """A request as a person would write it, and what comes of it."""

    example: str
    does: str


_PHRASES = (
    Phrase("load data/cars.csv as autos", "reads CSV, TSV, Parquet, Excel or JSON into a variable"),
    Phrase("describe cars", "summarises every column"),
    Phrase("show the first 10 rows of cars", "shows rows"),
    Phrase("keep only the cars from Japan", "filters by a value of a text column"),
    Phrase("cars with horsepower above 150 and weight below 3000", "filters by numbers"),
    Phrase("show the cars from 1975 to 1980", "filters by years, months or dates"),
    Phrase("average horsepower by origin", "groups and aggregates: mean, total, median, count …"),
    Phrase("how many cars per origin and year?", "counts"),
    Phrase("monthly mean of temp_max", "resamples by day, week, month, quarter or year"),
    Phrase("top 10 cars by horsepower", "ranks rows or groups, from the top or the bottom"),
    Phrase("which origin has the highest mean horsepower?", "finds the extreme group"),
    Phrase("plot mean horsepower by year for Japan", "draws, choosing line or bar by the data"),
    Phrase("scatter horsepower vs weight colored by origin", "draws a scatter plot"),
    Phrase("histogram of horsepower with 20 bins", "draws a distribution"),
    Phrase("line chart of price over time by symbol", "draws one line per group"),
    Phrase("publish the chart as 'Power by origin'", "publishes a chart or a dataset"),
)

_REAL_MODEL = (
    "For anything else set a model, with its key in the environment: "
    "%agent model openai/gpt-5 (OPENAI_API_KEY), or %%agent --model NAME for one cell."
)


def what_it_understands() -> tuple[Phrase, ...]:
    """Examples of every clause of the grammar, with what each does."""
    return _PHRASES


def help_steps(*, short: bool = False) -> list[str]:
    """What to try instead, as suggested next steps."""
    examples = [_PHRASES[i].example for i in ((0, 11) if short else (0, 11, 9, 15))]
    steps = [f"Try for instance: {example!r}" for example in examples]
    if not short:
        steps.insert(
            0,
            "The offline model can load files, describe, filter, group and aggregate, resample by "
            "time, rank, draw line, bar and scatter charts and histograms, and publish.",
        )
    return [*steps, _REAL_MODEL]
