"""A summary says what was observed: honest ones pass, false ones are told what is wrong."""

import inspect
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pandas as pd
import polars  # noqa: F401  (the names of a loaded library's methods are known to be harmless)
import pytest
from hypothesis import given
from hypothesis import strategies as st

from parsimony_kernel.agent.agent import Agent
from parsimony_kernel.agent.termination_tools import termination_tools
from parsimony_kernel.core.events import RunCompleted, ToolEvent, ToolResultObserved
from parsimony_kernel.core.kinds import Action, Failure, FailureKind
from parsimony_kernel.core.refusals import RefusalError
from parsimony_kernel.core.taxonomy import FailureType
from parsimony_kernel.execution.private import CodeExecutor
from parsimony_kernel.gate.claims import claims_observed, unobserved
from parsimony_kernel.gate.envelope import refused, to_text
from parsimony_kernel.gate.observation import Observation
from parsimony_kernel.gate.stages import Attempt
from parsimony_kernel.testing.scripted import ScriptedModel, call

REQUEST = "load data/sales.csv, show revenue by region and tell me the growth rate"
CODE = """\
import pandas as pd
sales = pd.read_csv("data/sales.csv").copy()
revenue_by_region = sales.groupby("Region").agg(total_revenue=("Revenue", "sum"))
growth_rate = 0.12345
model = sales.assign(alpha=0.125, test_size=0.275)
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
TEXTS = (REQUEST, RESULT)
WRITING = 'sales.to_csv("out.csv")'
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
    "406 of the 2,048 rows (19.8 %) are from the north.",
    "Values went from 21.5 to 24.75, a rise of 15.1 %.",
    "South is 50.2 times North, and both make 632,474.678.",
    "South and North make 632,475 together, a difference of 607,783.",
    "The two prices add up to 54.75; their mean is 27.375.",
    "No value lies beyond 1.96 standard deviations (95.45 % within two).",
    "It fits into Excel, whose limit is 1,048,576 rows.",
    "The maximum is 45.25 lb, which is 20.53 kg.",
    "I smoothed it over 7 rows (`min_periods` left as it is).",
    "`sales` was split with `max_features` at its default.",
    "Run `sales.to_csv('out.csv')` to keep it.",
    "- Use `clean_up(sales)` for that.",
    "To keep it, call `save_all('all.parquet')`.",
    "Most books in the table were published in the 1990s, 80 of 120.",
    "As the table shows, most goods were exported to the US.",
    "The results were published in Nature, according to the title column of the file.",
    "The figures were published on 5 May by the statistics office.",
    "The figures have been published on 5 May.",
    "Published in 2004, the report lists all files.",
    "Published: 2004, in the third table.",
    "All titles are written to the left of the axis in the figure.",
    "The figures are written to the right of the bars.",
    "The table was exported from another system and published by Eurostat.",
    "Eurostat, which collects them, published the figures.",
    "The file is saved as UTF-8, and the dates are saved as text.",
    "The charts were published online by Eurostat.",
    "It lists 12 files; they were published between 1990 and 2000.",
    "Die Daten wurden von Eurostat veröffentlicht; die Tabelle ist vollständig.",
    "Die Berichte wurden 1994 veröffentlicht, als Datei am 5. Mai.",
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


def observation(
    texts: Iterable[str] = TEXTS, code: Iterable[str] = (CODE,), **facts: Any
) -> Observation:
    return Observation(texts, NAMES, code=code, **facts)


def check(
    summary: Any,
    *,
    texts: Iterable[str] = TEXTS,
    code: Iterable[str] = (CODE,),
    published: bool = False,
) -> Failure | None:
    stage = claims_observed(lambda: texts, lambda: NAMES, lambda: published, code=lambda: code)
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
    assert check(deed, code=[CODE, WRITING]) is None


@pytest.mark.parametrize("deed", [summary for kind, summary, _ in FALSE if kind == "deed"])
def test_a_deed_is_not_done_by_words(deed: str) -> None:
    assert check(deed, texts=[*TEXTS, f"please run {WRITING}"]) is not None
    assert check(deed, code=[CODE, f"# {WRITING}\nx = '{WRITING}'"]) is not None


def test_a_saved_file_has_a_name_that_was_seen() -> None:
    assert check("Saved the table to out.csv.", code=[CODE, WRITING]) is None
    assert check("Saved the table to other.csv.", code=[CODE, WRITING]) is not None


@pytest.mark.parametrize(
    "code",
    [
        'con.execute("create table t2 as select 1")',
        'con.sql("create table t2 as select 1")',
        "export_report(sales)",
        "sales.pipe(lambda d: d).to_html(path)",
        "joblib.dump(model, path)",
        "with open(path, 'w') as f:\n    print(1, file=f)",
        "with open(path, mode) as f:\n    print(1, file=f)",
        "np.savez(path, x)",
        "!cp data/sales.csv elsewhere",
        "def keep(d):\n    d.to_parquet(path)\nkeep(sales)",
        "(lambda: kept)()()",
    ],
)
def test_a_call_may_have_written(code: str) -> None:
    assert check("The result was saved to disk.", code=[CODE, code]) is None


@pytest.mark.parametrize(
    "code",
    [
        "print(sales.groupby('Region').agg('sum').sort_values('Revenue').head().to_string())",
        "import math\nmath.sqrt(2)\n[str(each).strip() for each in range(3)]",
        "from datetime import date\ndate(2020, 1, 1).isoformat()",
        "open('data/sales.csv').read()",
        "def double(x):\n    return x * 2\ndouble(2)",
        "import altair as alt\nalt.Chart(sales).mark_bar().encode(x='Region')",
        "sales['Region'].str.upper().value_counts()",
    ],
)
def test_a_call_that_is_known_to_write_nothing_has_not_written(code: str) -> None:
    assert check("The result was saved to disk.", code=[CODE, code]) is not None


def test_a_helper_of_the_person_may_name_its_file_itself() -> None:
    said = "The report was exported to `report.html`."
    assert check(said, code=[CODE, "export_report(sales)"]) is None
    assert check("The data comes from `report.html`.", code=[CODE, "f(sales)"]) is not None


def test_noise_is_no_claim() -> None:
    for noise in ("`", "``a", "the chart ", "saved ", "'", "[", "1 ", "wurde "):
        assert unobserved(noise * (20_000 // len(noise)), observation()) == []


def test_a_file_that_came_into_the_folder_was_written() -> None:
    summary = "Saved the table to `late.csv`."
    assert unobserved(summary, observation(exists={"late.csv"}.__contains__)) == []
    assert unobserved(summary, observation(exists={"other.csv"}.__contains__)) != []


def test_what_an_earlier_turn_saved_or_published_is_there() -> None:
    saved = ["Saved the table to `out.csv`."]
    seen = observation([*TEXTS, *saved], earlier=saved)
    assert unobserved("The table is saved in `out.csv`.", seen) == []
    assert unobserved("The table is saved in `data/sales.csv`.", seen) != []
    published = ['{"title": "Revenue", "path": "artifacts/1.json"}']
    assert unobserved("The chart is published as 'Revenue'.", observation(earlier=published)) == []
    assert unobserved("The chart is published as 'Sales'.", observation(earlier=published)) != []


def test_a_parameter_of_a_library_is_known() -> None:
    assert "min_periods" in inspect.signature(pd.DataFrame.rolling).parameters
    assert unobserved("I left `min_periods` as it is.", observation()) == []
    assert unobserved("I left `min_perils` as it is.", observation()) != []


def test_numbers_in_a_comment_were_not_computed() -> None:
    assert check("The mean is 77.77.", code=[CODE, "x = 1  # 77.77"]) is not None
    assert check("The mean is 77.77.", code=[CODE, "x = 77.77  # '''"]) is None
    assert check("The mean is 77.77.", code=[CODE, "x = '# 77.77'"]) is None


@pytest.mark.parametrize(
    "summary",
    [
        "406 of the 2,048 rows (18.8 %) are from the north.",
        "Values went from 21.5 to 24.75, a rise of 17.1 %.",
        "South is 53.2 times North.",
        "North and South make 642,474.678.",
        "The maximum is 45.25 lb, which is 27.53 kg.",
        "The change from 98.7 to 98.8 is 197.5.",
    ],
)
def test_what_does_not_follow_from_the_numbers_is_caught(summary: str) -> None:
    assert {each.kind for each in unobserved(summary, observation())} == {"number"}


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
        "I analyzed your question: a median is more robust than a mean.",
        "I created a plan with three steps.",
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
def test_any_number_of_significant_digits_passes(value: float, digits: int) -> None:
    seen = Observation([repr(value)], frozenset())
    assert unobserved(f"It is {value:.{digits}g} and {value:.{digits}e}.", seen) == []


@given(st.floats(min_value=0.001, max_value=0.999), st.integers(0, 4))
def test_a_fraction_passes_as_a_percentage(value: float, decimals: int) -> None:
    seen = Observation([repr(value)], frozenset())
    assert unobserved(f"That is {100 * value:.{decimals}f} % of all.", seen) == []


@given(st.integers(1_000, 9_999), st.integers(1, 99))
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
def test_any_text_is_judged_without_an_error(summary: str, text: str) -> None:
    unobserved(summary, Observation([text], frozenset(), ran=False))
    unobserved(summary, Observation([summary], frozenset(), ran=False))


LOAD = 'import pandas as pd\ndf = pd.read_csv("t.csv")\n'
SITUATIONS = [
    (
        'df.groupby("year").size()',
        "Most books in the table were published in the 1990s, 80 of 120.",
    ),
    (
        'df.groupby("country").amount.sum()',
        "As the table shows, most goods were exported to the US.",
    ),
    (
        'import sqlite3\ncon = sqlite3.connect(":memory:")\n'
        'con.execute("create table t2 as select 1 a")\ncon.close()',
        "The result was saved to the table `t2` in x.db.",
    ),
    ("print(df.amount.sum())", "Amounts went from 771.25 to 1234.5, a rise of 60.1 %."),
    ("df.country.value_counts()", "40 of the 120 rows (33.3 %) are from DE."),
    ('df.groupby("country").amount.sum()', "US and DE together make 80230."),
    ('df.groupby("country").amount.sum()', "US makes 58.9 % of all amounts."),
    ('df.groupby("country").amount.mean()', "US is 13.7 times FR."),
    ('df.year.agg(["min", "max"])', "The data span 1991-2003, 12 years."),
    (
        "df.amount.std()",
        "A test from `scipy.stats` such as `mannwhitneyu` is a good next thing.",
    ),
    (
        'df["amount"].rolling(7).mean()',
        "I smoothed it with a 7-row window (`min_periods` left at its default).",
    ),
    ("df.amount.sum()", "Die Summe beträgt 83.835,00 und der Mittelwert 698,63."),
    ("df.amount.mean()", "Customers in the table saved the most in 1994."),
    ("df.amount.max()", "The largest amount is €1,234.50 (1.23 k)."),
    ("df.amount.max()", "The maximum is 1234.5 lb, about 560 kg (559.96 kg)."),
    ("pd.cut(df.amount, 3).value_counts()", "The counts per bin are 40, 40 and 40."),
    (
        'print("p=", 3.2e-7)',
        "The difference is significant (p = 3.2e-07, alpha 0.05).",
    ),
    (
        'df = df.rename(columns={"amount": "amount_usd"})\ndf.columns',
        "I renamed `amount` to `amount_usd`.",
    ),
    ("df.head()", "Run `df.to_csv('out.csv')` to keep it."),
    ("name = 'o' + 'ut.csv'\ndf.to_csv(name)\n1 / 0", "Saved the table to `out.csv`."),
]


@pytest.mark.parametrize(("code", "summary"), SITUATIONS)
async def test_what_an_analyst_says_of_a_run_passes(
    code: str, summary: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    rows = "a,1991,US,1234.5\nb,1994,DE,771.25\nc,2003,FR,90.125\n" * 40
    (tmp_path / "t.csv").write_text(f"title,year,country,amount\n{rows}", encoding="utf-8")
    model = ScriptedModel(
        [call("run_code", code=LOAD + code), call("return_done", summary=summary)]
    )
    events = [event async for event in Agent(model).run("Look at t.csv and tell me about it")]
    assert isinstance(events[-1], RunCompleted)


async def test_without_code_a_general_answer_passes() -> None:
    summary = "I analyzed your question: a median is more robust than a mean."
    model = ScriptedModel([call("return_done", summary=summary)])
    events = [event async for event in Agent(model).run("which one?")]
    assert isinstance(events[-1], RunCompleted)


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
