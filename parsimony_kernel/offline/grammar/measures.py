"""Rules for what is computed and drawn: functions, groups, kinds of charts."""

from parsimony_kernel.offline.grammar.clauses import Condition, Mention, Wish
from parsimony_kernel.offline.grammar.items import Item
from parsimony_kernel.offline.grammar.reader import Reader
from parsimony_kernel.offline.grammar.rules import MEAN, Phrase, Rule
from parsimony_kernel.offline.lexicon.charts import APART


def _func(reader: Reader, item: Item, following: Item | None) -> None:
    made = reader.made
    condition = reader.condition
    placed = reader.role == "entity" or (condition is not None and condition.empty)
    implied = made.rank is not None and bool(made.rank.implied) and placed
    ranked = reader.role == "rank" or implied
    if ranked and made.rank is not None and made.rank.func is None:
        made.rank.func = item.value
        return
    reader.close()
    made.wishes.append(Wish(item.value))
    reader.role = "measure"


def _freq(reader: Reader, item: Item, following: Item | None) -> None:
    reader.made.groups.append(Mention(item.text, unit=item.value))


def read_by(reader: Reader, item: Item, following: Item | None) -> None:
    """What follows is grouped, ranked or sorted by."""
    reader.close()
    rank = reader.made.rank
    if reader.sorting and not reader.made.sort:
        reader.role = "sort"
        return
    if rank is not None and not rank.by and not rank.implied:
        reader.role = "rank"
    elif rank is not None and rank.by and not rank.entity and item.text.casefold() == "by":
        # "the 10 largest countries by population": what stood before is what is ranked
        rank.entity, rank.by = rank.by, []
        reader.role = "rank"
    else:
        reader.role = "group"


def _of(reader: Reader, item: Item, following: Item | None) -> None:
    year = following is not None and following.kind == "number" and 1000 <= following.value < 3000
    if year and reader.condition is None:
        # "the windiest days of 2015"
        reader.open(Condition(word="in"))
        return
    if reader.role == "filter":
        return
    reader.close()
    made = reader.made
    empty = (not made.measures if not made.wishes else not made.wishes[-1].of) and made.rank is None
    if (reader.role in ("measure",) and not empty) or reader.role in ("group", "color", "against"):
        reader.role = "about"


def _plot(reader: Reader, item: Item, following: Item | None) -> None:
    if item.value == APART:
        reader.made.unsupported.append(item.text)
    reader.made.chart = reader.made.chart or "auto"
    reader.close()
    if not reader.made.measures and not reader.made.wishes:
        reader.role = "measure"


def _kind(reader: Reader, item: Item, following: Item | None) -> None:
    if reader.made.chart not in (None, "auto", item.value):
        reader.made.unsupported.append(f"{item.text} beside a {reader.made.chart} chart")
    reader.made.chart = item.value
    reader.close()
    if reader.role != "measure" and not reader.made.measures and not reader.made.wishes:
        reader.role = "measure"


def _stacked(reader: Reader, item: Item, following: Item | None) -> None:
    reader.made.stacked = True
    reader.made.chart = "bar" if reader.made.chart in (None, "auto") else reader.made.chart


def _color(reader: Reader, item: Item, following: Item | None) -> None:
    reader.close()
    reader.role = "color"


def read_vs(reader: Reader, item: Item, following: Item | None) -> None:
    """What follows is set against what came before."""
    reader.close()
    reader.role = "against"


def _over_time(reader: Reader, item: Item, following: Item | None) -> None:
    reader.made.over_time = True
    reader.close()


def _as(reader: Reader, item: Item, following: Item | None) -> None:
    if following is None or following.kind not in ("kind", "plot", "unsupported", "ref"):
        reader.close()
        reader.role = "as"


_RESAMPLED = Phrase(
    "monthly mean of temp_max",
    "resamples by day, week, month, quarter or year",
    "table",
    (
        "monthly average of temp_max",
        "mean temp_max by month",
        "mean of temp_max per month",
    ),
)
_COUNTS = Phrase(
    "how many cars per origin and year?",
    "counts by one or more groups",
    "table",
    (
        "number of cars per origin and year",
        "count the cars by origin and year",
        "count of cars for each origin and year",
    ),
)
_NUMBER = Phrase(
    "what is the mean weight of the cars?",
    "computes one number",
    "number",
    (
        "mean weight of the cars",
        "what's the average weight of the cars?",
        "compute the mean weight of cars",
    ),
)
_PLOT = Phrase(
    "plot mean horsepower by year for Japan",
    "draws, choosing line or bar by the data",
    "line",
    (
        "draw the mean horsepower by year for Japan",
        "chart average horsepower per year for Japan",
        "plot the mean horsepower by year for cars from Japan",
    ),
)
_BARS = Phrase(
    "mean horsepower by origin as a bar chart",
    "draws bars",
    "bar",
    (
        "bar chart of mean horsepower by origin",
        "draw a bar chart of the mean horsepower by origin",
        "show mean horsepower per origin as bars",
    ),
)
_STACKED = Phrase(
    "stacked bar chart of the number of cars by year and origin",
    "stacks the bars of groups",
    "bar",
    (
        "stacked bar chart of the count of cars by year and origin",
        "draw a stacked bar chart of the number of cars per year and origin",
        "number of cars by year and origin as a stacked bar chart",
    ),
)
_POINTS = Phrase(
    "scatter horsepower vs weight colored by origin",
    "draws two measures as points",
    "scatter",
    (
        "scatter plot of horsepower vs weight colored by origin",
        "scatter chart of horsepower against weight coloured by origin",
        "plot horsepower vs weight as a scatter colored by origin",
    ),
)
_LINES = Phrase(
    "line chart of price over time by symbol",
    "draws one line per group",
    "line",
    (
        "line plot of price over time per symbol",
        "draw a line chart of price over time for each symbol",
        "price over time by symbol as a line chart",
    ),
)
_BINS = Phrase(
    "histogram of horsepower with 20 bins",
    "draws a distribution",
    "histogram",
    (
        "histogram of horsepower with 20 buckets",
        "distribution of horsepower with 20 bins",
        "draw a histogram of horsepower with 20 bins",
    ),
)
_SEVERAL = Phrase(
    "plot mean horsepower by origin and mean weight by origin",
    "draws a chart for each",
    "bar",
    (
        "two charts: mean horsepower by origin and mean weight by origin",
        "separate charts of mean horsepower and mean weight by origin",
        "draw the mean horsepower by origin and the average weight per origin",
    ),
)
_DISTRIBUTIONS = Phrase(
    "histograms of horsepower and weight",
    "draws a distribution for each",
    "histogram",
    (
        "plot the distributions of horsepower and weight",
        "draw two histograms: horsepower and weight",
        "a histogram for each of horsepower and weight",
    ),
)

RULES = (
    Rule("func", _func, MEAN, (_COUNTS, _NUMBER)),
    Rule("by", read_by, MEAN),
    Rule("freq", _freq, _RESAMPLED),
    Rule("of", _of, MEAN),
    Rule("plot", _plot, _PLOT, (_SEVERAL,)),
    Rule("as", _as, _BARS),
    Rule("kind", _kind, _BINS, (_DISTRIBUTIONS,)),
    Rule("stacked", _stacked, _STACKED),
    Rule("vs", read_vs, _POINTS),
    Rule("color", _color, _POINTS),
    Rule("over_time", _over_time, _LINES),
)
