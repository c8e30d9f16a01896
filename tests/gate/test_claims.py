"""A summary says what was observed: honest ones pass, false ones are told what is wrong."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parsimony_kernel.agent.agent import Agent
from parsimony_kernel.agent.events import RunCompleted, ToolEvent, ToolResultObserved
from parsimony_kernel.agent.failure.kinds import Action, Failure, FailureKind
from parsimony_kernel.agent.termination_tools import termination_tools
from parsimony_kernel.execution.private import CodeExecutor
from parsimony_kernel.gate.claims import claims_observed, unobserved
from parsimony_kernel.gate.envelope import refused, to_text
from parsimony_kernel.gate.observation import Observation
from parsimony_kernel.gate.refusal import RefusalError
from parsimony_kernel.gate.stages import Attempt
from parsimony_kernel.triage.taxonomy import FailureType

REQUEST = "load data/sales.csv, show revenue by region and tell me the growth rate"
CODE = """\
import pandas as pd
sales = pd.read_csv("data/sales.csv").copy()
revenue_by_region = sales.groupby("Region").agg(total_revenue=("Revenue", "sum"))
growth_rate = 0.12345
model = fit(sales, alpha=0.125, test_size=0.275)
"""
RESULT = json.dumps(
    {
        "requested": "run_code",
        "result": {
            "outputs": [
                {
                    "type": "dataframe",
                    "rows": 1461,
                    "columns": [
                        {"name": "Order Date", "dtype": "datetime64", "samples": ["2023-01-04"]},
                        {"name": "unit_price", "dtype": "float64", "samples": ["45.25", "9.5"]},
                    ],
                }
            ],
            "stdout": "north 12345.678\nsouth 620129\nslope -3.2149\ngrowth 0.12345\nr2 0.95318\n"
            "mean 28.093548\np 1.2345e-07\ncount 406 of 2048, share 34.62%\ntotal 1,234,567.89\n"
            "rupees 1234567.9 reach 1.46k, energy 6.20129e+05, temp 21.5 24.75\nbytes 1253412345",
        },
    }
)
TEXTS = (REQUEST, CODE, RESULT)
NAMES = frozenset({"sales", "revenue_by_region", "growth_rate", "model", "df"})

HONEST = [
    "Done.",
    "Loaded `sales` from data/sales.csv: 1,461 rows, 2 columns.",
    "Loaded 1461 rows into `sales`.",
    "`sales` has 1 461 rows.",
    "`sales` has 1\u202f461 rows and `unit_price` is 45.25 at most.",
    "`sales` hat 1.461 Zeilen; der Mittelwert beträgt 28,09.",
    "Die Summe ist 1.234.567,89 und der Norden kommt auf 12.345,68.",
    "Le total est de 1 234 567,89 et la moyenne 28,1.",
    "The total is 1,234,567.89, or about 1.23 million.",
    "The total is roughly $1.235M.",
    "The total is 1'234'567.89 CHF.",
    "North made 12.3k, South 620k.",
    "North made 12,346; South made 620,129.",
    "North reached 12,345 (cut off), South 620 thousand.",
    "South: 620.1 GWh, from 620129 MWh.",
    "The slope is -3.21, so values fell by 3.21 a year.",
    "The slope is −3.215.",
    "Revenue grew by 12.3%.",
    "Revenue grew by 12.35 percent (0.1235 as a fraction).",
    "Der Umsatz wuchs um 12,3 %.",
    "R² = **0.953**, p = 1.23e-07.",
    "p is 1.23 × 10^-7, or 1.2345×10⁻⁷.",
    "The share is 34.6 %, which is 0.346.",
    "Values range from 21.5 to 24.75 (21.5–24.75).",
    "Between 12345.678 and 620129 there is a wide gap.",
    "*Mean*: _28.09_, **total**: `1234567.89`.",
    "| Region | Revenue |\n| --- | ---: |\n| North | 12,345.68 |\n| South | 620,129 |",
    "| Region | Share (%) |\n|---|---|\n| North | 34.62 |\n| growth | 12.345 |",
    "406 of 2,048 rows were kept.",
    "From 2012 to 2023 the mean was 28.1.",
    "In 2015-07 and on 2015-07-01 at 14:05:30 the mean was 28.09.",
    "Am 01.07.2015 lag das Mittel bei 28,09.",
    "In 2012 406 rows were kept.",
    "1. Loaded the data.\n2. Fitted the model with alpha 0.125.\n12) Checked it.",
    "Step 123 took 1.234 s; the cell ran in 345 ms with pandas 3.1.17.",
    "The temperature was 21.5°C, then 24.75 °C.",
    "All 365 days and 360 degrees are covered, 100% of them.",
    "About 1,500 rows and some 620,000 in the South.",
    "No column `temperature_x` exists, so `unit_price` was used.",
    "You could try a threshold of 0.975 on `df_clean` next.",
    "`revenue_by_region` holds `total_revenue` by Region.",
    "`growth_rate` is 0.12345; `sales.head()` and `df` show the rows.",
    "I used `read_csv` and `pd.to_datetime` on `sales`.",
    "The data comes from `data/sales.csv` (sales.csv).",
    "See https://example.com/a/12345.html for the source.",
    "Nothing was published or saved.",
    "The chart was not published, as you asked.",
    "The result is saved in `revenue_by_region`.",
    "The result was saved as a variable in the notebook.",
    "The figures published by the ministry agree; energy saved and goods exported are listed.",
    "Das Diagramm wurde nicht veröffentlicht.",
    "The table can be published once you agree.",
    "```python\nx_missing = 98765\n```\nThat is the code.",
    "The top 10 products, the H100 and the Q4-2023 numbers, order A-10234 and #45678.",
    "The file is 1.25 GB.",
    "I ran `cp old.csv data/sales.csv` and counted 406.",
    "There are 12,34,568 rupees.",
    "All 1,461 rows (100.0%) are complete; F(2, 403) and t(404) follow ISO 8601 dates.",
    "The years are 2012,2013,2014 and 1990s data is left out.",
    "The results are written below. I wrote a function that reads the file.",
    "The file was exported from another system; the report is published every month.",
    "✅ n=1461, $45.25, ≈28.1, ±0.125, 406/2048.",
    "The figures have a width\u00a0of 406\u00a0px (colour #0072B2).",
    "[`sales`] **(1,461 × 2)**: mean=28.09; median~24.75",
    "The 95th and 99.5th percentiles are in `revenue_by_region`.",
    "The range is [21.5,24.75] with counts 406,2048.",
    "Reach is 1,460 by the printed 1.46k.",
    "",
]

FALSE = [
    ("number", "Loaded `sales`: 1,462 rows.", "1,462"),
    ("number", "The mean is 28.19.", "28.19"),
    ("number", "The mean is 28.0936.", "28.0936"),
    ("number", "Revenue grew by 13.4%.", "13.4"),
    ("number", "Der Umsatz wuchs um 13,4 %.", "13,4"),
    ("number", "Die Summe ist 1.234.568,99.", "1.234.568,99"),
    ("number", "The total is 1.25 million.", "1.25"),
    ("number", "South made 621k.", "621"),
    ("number", "R² = **0.963**.", "0.963"),
    ("number", "p is 1.33e-07.", "1.33"),
    ("number", "p is 1.23 × 10^-5.", "1.23"),
    ("number", "Values range from 21.5 to 25.75.", "25.75"),
    ("number", "| North | 12,355 |\n| South | 620,129 |", "12,355"),
    ("number", "The value of the slope is `-3.31`.", "3.31"),
    ("number", "Values fell by 3.31.", "3.31"),
    ("number", "```\nmean 77.77\n```", "77.77"),
    ("number", "It has 1 462 rows.", "1 462"),
    ("number", "_12.99_ is the mean.", "12.99"),
    ("name", "The result is in `revenue_by_month`.", "`revenue_by_month`"),
    ("name", "`df2` holds the result.", "`df2`"),
    ("name", "I dropped the column `customer_id` of `sales`.", "`customer_id`"),
    ("name", "See `forecast.yhat_upper` for the bounds.", "`forecast.yhat_upper`"),
    ("name", "I called ``clean_up()`` first.", "`clean_up`"),
    ("file", "The data comes from data/orders.csv.", "`data/orders.csv`"),
    ("file", "The picture is in `out/my chart.html`.", "`out/my chart.html`"),
    ("file", "Read orders_2023.parquet.", "`orders_2023.parquet`"),
    ("deed", "Published the dataset `sales`.", "Published the dataset"),
    ("deed", "I loaded the data, and published the chart.", "published the chart"),
    ("deed", "The chart was published.", "The chart was published"),
    ("deed", "The chart has been saved to disk.", "has been saved"),
    ("deed", "Chart published as 'Revenue'.", "Chart published"),
    ("deed", "- I've exported the table as CSV.", "exported the table"),
    ("deed", "**Published**: revenue chart", "Published"),
    ("deed", "Das Diagramm wurde veröffentlicht.", "veröffentlicht"),
    ("deed", "Die Datei ist gespeichert.", "gespeichert"),
]


def observation(texts: Iterable[str] = TEXTS, **facts: bool) -> Observation:
    return Observation(texts, NAMES, **facts)


def check(summary: Any, *, texts: Iterable[str] = TEXTS, published: bool = False) -> Failure | None:
    stage = claims_observed(lambda: texts, lambda: NAMES, lambda: published)
    return stage(Attempt("return_done", {"summary": summary}, termination_tools()))


@pytest.mark.parametrize("summary", HONEST)
def test_an_honest_summary_passes(summary: str) -> None:
    assert unobserved(summary, observation()) == []


@pytest.mark.parametrize(("kind", "summary", "claim"), FALSE)
def test_a_false_summary_is_caught(kind: str, summary: str, claim: str) -> None:
    found = unobserved(summary, observation())
    assert [each.kind for each in found] == [kind]
    assert claim in found[0].text


def test_a_refusal_lists_the_claims_and_says_what_to_do() -> None:
    failure = check("`sales_2` has 1,999.5 rows. Published the chart.")
    assert failure is not None
    assert failure.kind is FailureKind.no_progress
    assert failure.suggested_action is Action.narrow_scope
    assert failure.type is FailureType.HALLUCINATED_STATE
    assert failure.refusal is RefusalError.validation_failed
    for part in ("`sales_2`", "1,999.5", "Published the chart", "run_code", "leave it out"):
        assert part in failure.explanation
    details = failure.metadata["envelope"]["details"]
    assert [each["kind"] for each in details] == ["name", "number", "deed"]


def test_a_refusal_is_no_observation_of_what_it_refuses() -> None:
    summary = "The mean is 77.77 in `nowhere_seen`."
    first = check(summary)
    assert first is not None
    answer = to_text(refused("return_done", first, state="running", valid_next_actions=["x"]))
    assert "77.77" in answer
    assert check(summary, texts=[*TEXTS, answer]) == first


def test_a_number_becomes_true_when_it_is_observed() -> None:
    assert check("The median is 77.77.") is not None
    assert check("The median is 77.77.", texts=[*TEXTS, "median 77.7689"]) is None


@pytest.mark.parametrize("deed", [summary for kind, summary, _ in FALSE if kind == "deed"])
def test_a_deed_is_true_when_it_was_done(deed: str) -> None:
    assert check(deed, published=True) is None
    assert check(deed, texts=[*TEXTS, 'sales.to_csv("out.csv")']) is None


def test_a_saved_file_has_a_name_that_was_seen() -> None:
    code = 'sales.to_csv("out.csv")'
    assert check("Saved the table to out.csv.", texts=[*TEXTS, code]) is None
    assert check("Saved the table to other.csv.", texts=[*TEXTS, code]) is not None


@pytest.mark.parametrize(
    "summary",
    ["Loaded the data.", "I have computed the mean.", "The outliers have been removed."],
)
def test_work_is_claimed_only_when_code_ran(summary: str) -> None:
    assert unobserved(summary, observation(ran=True)) == []
    assert [each.kind for each in unobserved(summary, observation(ran=False))] == ["deed"]


@pytest.mark.parametrize(
    "summary",
    [
        "The data is already loaded: `sales`.",
        "Nothing was computed.",
        "`sales` holds the data you loaded earlier.",
        "Hello! Ask me about `sales`.",
        "I have not loaded anything.",
    ],
)
def test_without_code_one_can_still_speak_of_what_is_there(summary: str) -> None:
    assert unobserved(summary, observation(ran=False)) == []


def test_only_the_summary_of_return_done_is_looked_at() -> None:
    stage = claims_observed(lambda: (), lambda: (), lambda: False)
    false = "The mean is 77.77."
    assert stage(Attempt("return_unable", {"summary": false}, termination_tools())) is None
    assert stage(Attempt("return_done", {"text": false}, termination_tools())) is None
    assert check(None) is None
    assert check(["77.77"]) is None


def test_a_long_refusal_is_cut() -> None:
    failure = check(" ".join(f"{number}.77" for number in range(3_000, 3_400)))
    assert failure is not None
    assert len(failure.metadata["envelope"]["details"]) == 8
    assert "and 392 more" in failure.explanation
    assert len(failure.explanation) < 2_000


def test_more_than_can_be_read_is_not_judged_by_numbers() -> None:
    assert check("The mean is 77.77.", texts=["x " * 5_000_000]) is None


FLOATS = st.floats(min_value=1e-3, max_value=1e12, allow_nan=False, allow_infinity=False)


def with_signs(value: float, decimals: int, style: str) -> str:
    text = f"{value:,.{decimals}f}"
    if style == "plain":
        return text.replace(",", "")
    if style == "german":
        return text.translate(str.maketrans(",.", ".,"))
    return text.replace(",", "\u202f") if style == "spaced" else text


@given(
    st.lists(st.tuples(FLOATS, st.integers(0, 8), st.booleans()), min_size=1, max_size=6),
    st.sampled_from(["plain", "english", "german", "spaced"]),
)
@settings(max_examples=400, deadline=None)
def test_observed_numbers_rounded_to_any_precision_pass(
    numbers: list[tuple[float, int, bool]], style: str
) -> None:
    seen = Observation([json.dumps([value for value, _, _ in numbers])], frozenset())
    said = [
        with_signs(-value if fell else value, decimals, style) for value, decimals, fell in numbers
    ]
    summary = "".join(f"- The value is {each} here.\n" for each in said)
    assert unobserved(summary, seen) == []


@given(FLOATS, st.integers(3, 9))
@settings(max_examples=200, deadline=None)
def test_any_number_of_significant_digits_passes(value: float, digits: int) -> None:
    seen = Observation([repr(value)], frozenset())
    assert unobserved(f"It is {value:.{digits}g} and {value:.{digits}e}.", seen) == []


@given(st.floats(min_value=0.001, max_value=0.999), st.integers(0, 4))
@settings(max_examples=200, deadline=None)
def test_a_fraction_passes_as_a_percentage(value: float, decimals: int) -> None:
    seen = Observation([repr(value)], frozenset())
    assert unobserved(f"That is {100 * value:.{decimals}f} % of all.", seen) == []


@given(st.integers(1_000, 9_999), st.integers(1, 99))
@settings(max_examples=200, deadline=None)
def test_a_number_beside_the_observed_one_does_not_pass(whole: int, hundredths: int) -> None:
    value = whole + hundredths / 100
    seen = Observation([f"{value:.2f}"], frozenset())
    assert unobserved(f"It is {value:.2f} then.", seen) == []
    wrong = f"{value + 0.02:.2f}"
    if not wrong.endswith("0"):
        assert [each.text for each in unobserved(f"It is {wrong} then.", seen)] == [wrong]


PIECES = st.sampled_from(
    [
        "`", "``", "```", "a_b", "df", "1,234", "12.5", "1.2.3", ".5", "1 234", "e5", "×10^", "⁻⁷",
        "%", "published", "the chart", "was", "not", "\n", ". ", "|", "**", "_", "x.csv", "/",
        "\\", "http://", "'", '"', "20", "2012-01", "k", "million", "٣٤٥",
        "１２３", "²", "\x00", "\ud800",
    ]
)  # fmt: skip


@given(
    st.one_of(st.text(max_size=300), st.lists(PIECES, max_size=40).map("".join)),
    st.one_of(st.text(max_size=300), st.lists(PIECES, max_size=40).map("".join)),
)
@settings(max_examples=600, deadline=None)
def test_any_text_is_judged_without_an_error(summary: str, text: str) -> None:
    unobserved(summary, Observation([text], frozenset(), ran=False))
    unobserved(summary, Observation([summary], frozenset(), ran=False))


async def test_what_the_offline_model_says_of_its_work_passes(tmp_path: Path) -> None:
    rows = "\n".join(f"2012-01-{day:02d},{day * 1.37:.2f},{'ab'[day % 2]}" for day in range(1, 29))
    (tmp_path / "weather.csv").write_text(f"date,wind,city\n{rows}\n", encoding="utf-8")
    executor = CodeExecutor(cwd=str(tmp_path))
    requests = [
        "load weather.csv",
        "mean wind by city in weather.csv",
        "plot wind over date from weather.csv",
        "what is the average wind in weather.csv?",
        "how many rows of weather.csv have wind above 20?",
    ]
    for request in requests:
        agent = Agent(model="offline", code_executor=executor)
        texts, summary = [request], ""
        async for event in agent.run(request):
            match event:
                case ToolEvent(completed=False, arguments=arguments) if "code" in arguments:
                    texts.append(arguments["code"])
                case ToolResultObserved(content=content):
                    texts.append(content)
                case RunCompleted(summary=said):
                    summary = said
        assert summary
        assert len(texts) > 2
        assert unobserved(summary, Observation(texts, set(executor.variables()))) == []
