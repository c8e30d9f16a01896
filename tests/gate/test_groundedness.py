"""Numbers that nothing supports are marked; names and deeds that are not there are refused once."""

import json
import time
from collections.abc import Iterable
from typing import Any

import pandas  # noqa: F401  (the names of loaded libraries are known)
import polars  # noqa: F401
import pytest
from hypothesis import given
from hypothesis import strategies as st

from parsimony_kernel.agent.termination_tools import termination_tools
from parsimony_kernel.core.kinds import Failure, FailureType, RefusalError
from parsimony_kernel.gate.envelope import refused, succeeded, to_text
from parsimony_kernel.gate.groundedness import (
    MAX_FOUND,
    Results,
    Seen,
    groundedness,
    unsupported,
    was_refused,
    without_marks,
)
from parsimony_kernel.gate.stages import Attempt

TOOLS = termination_tools()
REQUEST = "load data/sales.csv, show revenue by region and tell me the growth rate"
CODE = """\
import pandas as pd
sales = pd.read_csv("data/sales.csv").copy()
revenue_by_region = sales.groupby("Region").agg(total_revenue=("Revenue", "sum"))
growth_rate = 0.12345
model = sales.assign(alpha=0.125, test_size=0.275)
"""
OUTPUT = {"type": "dataframe", "rows": 1461, "columns": [
    {"name": "Order Date", "dtype": "datetime64", "samples": ["2023-01-04"]},
    {"name": "unit_price", "dtype": "float64", "samples": ["45.25", "9.5"]},
]}  # fmt: skip
STDOUT = (
    "north 12345.678\nsouth 620129\nslope -3.2149\ngrowth 0.12345\nr2 0.95318\n"
    "mean 28.093548\np 1.2345e-07\ncount 406 of 2048, share 34.62%\ntotal 1,234,567.89\n"
    "rupees 1234567.9 reach 1.46k, energy 6.20129e+05, temp 21.5 24.75\nbytes 1253412345"
)
ANSWER = {"requested": "run_code", "result": {"outputs": [OUTPUT], "stdout": STDOUT}}
RESULT = json.dumps(ANSWER)
TEXTS = (REQUEST, RESULT)
NAMES = frozenset({"sales", "revenue_by_region", "growth_rate", "model", "df"})

HONEST = [
    "Loaded `sales` from data/sales.csv: 1,461 rows, 2 columns.",
    "`sales` has 1\u202f461 rows and `unit_price` is 45.25 at most.",
    "`sales` hat 1.461 Zeilen; der Mittelwert beträgt 28,09.",
    "Le total est de 1 234 567,89 et la moyenne 28,1.",
    "North made 12.3k, South 620k.",
    "North reached 12,345 (cut off), South 620 thousand.",
    "The slope is -3.21, so values fell by 3.21 a year.",
    "The slope is −3.215.",
    "Revenue grew by 12.35 percent (0.1235 as a fraction).",
    "R² = **0.953**, p = 1.23e-07.",
    "p is 1.23 × 10^-7, or 1.2345×10⁻⁷.",
    "Values range from 21.5 to 24.75 (21.5–24.75).",
    "*Mean*: _28.09_, **total**: `1234567.89`.",
    "| Region | Revenue |\n| --- | ---: |\n| North | 12,345.68 |\n| South | 620,129 |",
    "| Region | Share (%) |\n|---|---|\n| North | 34.62 |\n| growth | 12.345 |",
    "In 2015-07 and on 2015-07-01 at 14:05:30 the mean was 28.09.",
    "1. Loaded the data.\n2. Fitted the model with alpha 0.125.\n12) Checked it.",
    "Step 123 took 1.234 s; the cell ran in 345 ms with pandas 3.1.17.",
    "No column `temperature_x` exists, so `unit_price` was used.",
    "`growth_rate` is 0.12345; `sales.head()` and `df` show the rows.",
    "See https://example.com/a/12345.html for the source.",
    "The chart was not published, as you asked.",
    "The result was saved as a variable in the notebook.",
    "The figures published by the ministry agree; energy saved and goods exported are listed.",
    "```python\nx_missing = 98765\n```\nThat is the code.",
    "The top 10 products, the H100 and the Q4-2023 numbers, order A-10234 and #45678.",
    "I ran `cp old.csv data/sales.csv` and counted 406.",
    "There are 12,34,568 rupees.",
    "All 1,461 rows (100.0%) are complete; F(2, 403) and t(404) follow ISO 8601 dates.",
    "The years are 2012,2013,2014 and 1990s data is left out.",
    "It took **1.234** s to draw 450x300 at 1080p and 300dpi, file 123abc, in 256px.",
    "The results are written below. I wrote a function that reads the file.",
    "The file was exported from another system; the report is published every month.",
    "✅ n=1461, $45.25, ≈28.1, ±0.125, 406/2048.",
    "The figures have a width\u00a0of 406\u00a0px (colour #0072B2).",
    "[`sales`] **(1,461 × 2)**: mean=28.09; median~24.75",
    "The 95th and 99.5th percentiles are in `revenue_by_region`.",
    "Reach is 1,460 by the printed 1.46k.",
    "Values went from 21.5 to 24.75, a rise of 15.1 %.",
    "South and North make 632,475 together, a difference of 607,783.",
    "I smoothed it over 7 rows (`min_periods` left as it is).",
    "`sales` was split with `max_features` at its default.",
    "To keep it, call `save_all('all.parquet')`.",
    "Most books in the table were published in the 1990s, 80 of 120.",
    "As the table shows, most goods were exported to the US.",
    "The figures were published on 5 May by the statistics office.",
    "Published: 2004, in the third table.",
    "The figures are written to the right of the bars.",
    "Eurostat, which collects them, published the figures.",
    "The file is saved as UTF-8, and the dates are saved as text.",
    "Die Berichte wurden 1994 veröffentlicht, als Datei am 5. Mai.",
    "",
]


TABLE = """\
        orders   revenue  mean_price
carrier
DHL         69  76004.90     1101.52
FedEx       57  73010.59     1280.89
UPS         74  80074.92     1082.09
"""


def seen(texts: Iterable[str] = TEXTS[1:], code: Iterable[str] = (CODE,), **facts: Any) -> Seen:
    return Seen(list(texts), [REQUEST], NAMES, list(code), **facts)


def said(
    summary: Any,
    held: Seen | None = None,
    *,
    strict: bool = False,
    action: str = "return_done",
    key: str = "summary",
) -> tuple[Failure | None, list[str]]:
    """The refusal of ``summary``, and its marks."""
    attempt = Attempt(action, {key: summary}, TOOLS)
    failure = groundedness(lambda: held or seen(), strict=strict)(attempt)
    return failure, attempt.not_found


@pytest.mark.parametrize("summary", HONEST)
def test_honest_summary_passes_unmarked(summary: str) -> None:
    assert said(summary) == (None, [])


@pytest.mark.parametrize(
    ("summary", "mark"),
    [
        ("Loaded `sales`: 1,462 rows.", "1,462"),
        ("The mean is 28.19.", "28.19"),
        ("Der Umsatz wuchs um 13,4 %.", "13,4"),
        ("The total is 1.25 million.", "1.25"),
        ("R² = **0.963**.", "0.963"),
        ("The value of the slope is `-3.31`.", "3.31"),
        ("It has 1 462 rows.", "1 462"),
        ("North and South make 642,474.678.", "642,474.678"),
    ],
)
def test_unsupported_number_is_marked_not_refused(summary: str, mark: str) -> None:
    assert said(summary) == (None, [mark])


@pytest.mark.parametrize(
    "text",
    [
        "| carrier | orders |\n|---|---:|\n| DHL | 69 |\n| FedEx | 5734 |\n",
        "carrier,orders\nDHL,69\nFedEx,5734\n",
        "carrier\torders\nDHL\t69\nFedEx\t5734\n",
        "  carrier  orders\n0     DHL      69\n1   FedEx    5734\n",
        "│ carrier ┆ orders │\n│ DHL     ┆ 69     │\n│ FedEx   ┆ 5734   │\n",
        json.dumps({"result": {"stdout": "       orders\nDHL        69\nFedEx    5734\n"}}),
    ],
    ids=["Markdown", "commas", "tabs", "numbered", "polars", "envelope"],
)
def test_tables_are_read_in_every_print_format(text: str) -> None:
    assert unsupported("DHL had 5,734 orders.", Results([text])) == ["5,734"]
    assert unsupported("FedEx had 5,734 orders, 5,803 with DHL.", Results([text])) == []


LONG = """\
         year          source  net_generation
0  2001-01-01    Fossil Fuels           35361
1  2001-01-01  Nuclear Energy            3853
2  2001-01-01      Renewables            1437
3  2017-01-01    Fossil Fuels           29329
4  2017-01-01  Nuclear Energy            5214
5  2017-01-01      Renewables           21933
"""
YEARS = "year  generation\n" + "\n".join(f"{2001 + n}  {1437 + n * n * 71}" for n in range(17))
CITIES = "        cost\n" + "".join(f"city{n:02}  {n * n * 1.37:.2f}\n" for n in range(1, 31))
# The header of an index is no column's, and a month is known by its name.
MONTHS = "month       amount\n2025-08  96626.17\n2025-12  90702.18\n"
BRANCHES = "branch     amount\nKöln    955000.10\nBonn    811111.20\n"
CLAIMS: list[tuple[tuple[str, ...], str, list[str]]] = [
    ((TABLE,), "UPS made $80,074.92, DHL $76,004.90.", []),
    ((TABLE,), "$80,074.92 came from UPS and $73,010.59 from FedEx.", []),
    ((TABLE,), "Revenue is $80,074.92 for UPS, less for the others ($73,010.59 and more).", []),
    ((TABLE,), "FedEx made $80,074.92.", ["80,074.92"]),
    ((TABLE,), "UPS made $73,010.59 and FedEx $80,074.92.", ["80,074.92"]),
    ((TABLE,), "UPS had 74 orders at $1,082.09.", []),
    ((TABLE,), "The mean price of UPS is $80,074.92.", ["80,074.92"]),
    ((TABLE,), "FedEx had 69 orders.", ["69"]),
    ((TABLE,), "DHL took 1,101.52 orders.", ["1,101.52"]),
    ((TABLE,), "The revenue per order is $1,101.52 for DHL.", []),
    ((TABLE,), "Overall an order brings 1,145.45 of revenue.", []),
    ((TABLE,), "UPS has 35.0 % of the revenue and DHL 33.2 %, 1.8 points less.", []),
    ((TABLE,), "UPS is 4.9 % above the mean revenue of 76,363.47.", []),
    ((LONG,), "The share of renewables rose from 3.5 % in 2001 to 38.8 % in 2017.", []),
    ((LONG,), "Renewables made up 3.5 % of net generation in 2001.", []),
    ((LONG,), "In 2017 the sources generated 18,825 on average, 56,476 together.", []),
    ((LONG,), "The share of renewables rose from 3.7 % in 2001 to 38.8 % in 2017.", ["3.7"]),
    ((LONG,), "Renewables made up 40.8 % of net generation in 2017.", ["40.8"]),
    ((YEARS,), "The average over the 17 years is 7,685 GWh.", []),
    ((YEARS,), "The average over the 17 years is 7,885 GWh.", ["7,885"]),
    ((CITIES,), "City07 and City19 cost 561.70, or 4.34 % of all.", []),
    ((CITIES,), "City07 and City19 cost 571.70, or 5.74 % of it.", ["571.70", "5.74"]),
    (
        (MONTHS, BRANCHES),
        "Köln's best month was August with 96,626.17, ahead of December with 90,702.18.",
        [],
    ),
    ((MONTHS, BRANCHES), "The amount of August was 96,626.17.", []),
    ((MONTHS, BRANCHES), "The amount of August was 90,702.18.", ["90,702.18"]),
]


@pytest.mark.parametrize(("tables", "summary", "marks"), CLAIMS)
def test_number_is_checked_against_its_stated_place(
    tables: tuple[str, ...], summary: str, marks: list[str]
) -> None:
    assert unsupported(summary, Results(tables)) == marks


@pytest.mark.parametrize(
    ("claim", "did"),
    [
        ("The result is in `revenue_by_month`.", {"texts": ["revenue_by_month"]}),
        ("`df2` holds the result.", {"code": ["df2 = 1"]}),
        ("I called ``clean_up()`` first.", {"code": ["clean_up()"]}),
        ("See `forecast.yhat_upper` for the bounds.", {"texts": ["forecast"]}),
        ("Published the dataset `sales`.", {"published": True}),
        ("Das Diagramm wurde veröffentlicht.", {"published": True}),
        ("Le tableau a été publié.", {"published": True}),
        ("The chart has been saved to disk.", {"code": ["chart.save('x.png')"]}),
        ("- I've exported the table as CSV.", {"code": ["!cp a.csv b.csv"]}),
        ("**Saved**: `late.csv`", {"exists": {"late.csv"}.__contains__}),
        ("Saved the table to `out.csv`.", {"earlier": ["Saved the table to `out.csv`."]}),
        ("I sent the report to the team.", {"acted": True}),
        ("I've emailed the results.", {"code": ["server.sendmail(a, b)"]}),
        ("I deleted the file old.csv.", {"code": ["os.remove(path)"]}),
    ],
)
def test_name_or_deed_is_supported_once_it_exists(claim: str, did: dict[str, Any]) -> None:
    failure, _ = said(claim)
    assert failure is not None
    assert said(claim, seen(**did)) == (None, [])


@pytest.mark.parametrize(
    ("claim", "code"),
    [
        ("I saved the table as sensors.csv.", "d = pd.to_datetime(x)\nn = x.to_numpy()"),
        ("I sent the table to Anna by e-mail.", "y = re.sub('a', 'b', x)\nq = output(3)"),
        ("I deleted the file old.csv.", "y = x.drop(columns='a').dropna()"),
    ],
)
def test_similar_sounding_call_is_no_deed(claim: str, code: str) -> None:
    failure, _ = said(claim, seen(code=[code]))
    assert failure is not None


def test_marked_number_does_not_support_itself() -> None:
    envelope = succeeded("return_report", {}, "running", ["x"], not_found=["44.4", "a [b] c"])
    answer = without_marks(json.dumps(envelope))
    assert unsupported("It reached 44.4 %.", Results([answer])) == ["44.4"]
    assert '"requested": "return_report"' in answer


def test_refusal_gives_remedy_and_comes_once() -> None:
    summary = "`sales_2` has 1,999.5 rows. Published the chart."
    failure, _ = said(summary)
    assert failure is not None
    assert failure.type is FailureType.HALLUCINATED_STATE
    assert failure.refusal is RefusalError.validation_failed
    for part in ("`sales_2`", "Published the chart", "run_code", "leave it out"):
        assert part in failure.explanation
    assert "1,999.5" not in failure.explanation
    marks = failure.metadata["envelope"]["not_found"]
    assert marks == ["`sales_2`", "“Published the chart.”", "1,999.5"]
    answer = to_text(refused("return_done", failure, state="running", valid_next_actions=["x"]))
    assert was_refused(answer)
    assert said(summary, seen(refused=True)) == (None, marks)


def test_strict_mode_asks_for_numbers_once() -> None:
    failure, _ = said("The mean is 28.19.", strict=True)
    assert failure is not None
    assert "28.19" in failure.explanation
    assert said("The mean is 28.19.", seen(refused=True), strict=True) == (None, ["28.19"])


def test_report_is_marked_never_refused() -> None:
    body = "The mean is 28.19; see `nowhere_seen`."
    assert said(body, action="return_report", key="body", strict=True) == (None, ["28.19"])


@pytest.mark.parametrize("text", [None, ["77.77"], 3])
def test_non_text_is_ignored(text: Any) -> None:
    assert said(text) == (None, [])


def test_numbers_in_comments_are_not_evidence() -> None:
    assert said("The mean is 77.77.", seen(code=["x = 1  # 77.77"])) == (None, ["77.77"])
    assert said("The mean is 77.77.", seen(code=["x = 77.77"])) == (None, [])


def test_columns_of_long_table_support_sum_and_mean() -> None:
    rows = [(n * n * 1.37, 7000 / n, n * 3.1) for n in range(1, 201)]
    lines = "\n".join(f"item{n}  {a:.2f}  {b:.2f}  {c:.2f}" for n, (a, b, c) in enumerate(rows))
    results = Results([f"        cost  weight  age\n{lines}\n"])
    for column in zip(*rows, strict=True):
        total = sum(column)
        assert unsupported(f"In all {total:,.0f}, {total / 200:.2f} on average.", results) == []


def test_derivation_search_is_bounded() -> None:
    rows = "\n".join(
        f"region {n}  {n * 7.13:.2f}  {n * 3.19:.2f}  {n * 1.7:.2f}" for n in range(400)
    )
    results = Results([f"      a  b  c\n{rows}"] * 40)
    summary = " ".join(f"The total of region {n} is {n}.123." for n in range(100, 400))
    assert MAX_FOUND < len(unsupported(summary, results)) < 40


@pytest.mark.parametrize(
    "text",
    [
        "10 × 10" * 2800,
        "12,345.67 " * 2000,
        "1 000" + " 000" * 4900,
        "-" * 20_000,
        "`" + " " * 9999,
    ],
    ids=["powers", "numbers", "groups", "dashes", "blanks"],
)
def test_long_nonsense_is_judged_quickly(text: str) -> None:
    started = time.process_time()
    said(text)
    assert time.process_time() - started < 5


def test_huge_numbers_raise_nothing() -> None:
    results = Results(["a  1e200\nb  1e308\nc  1e999\n"])
    assert unsupported("The sum is 3.27, its square 12.5, and a share of 41.2 %.", results)


FLOATS = st.floats(min_value=1e-3, max_value=1e12, allow_nan=False, allow_infinity=False)


@given(FLOATS, st.integers(3, 9))
def test_any_number_of_significant_digits_passes(value: float, digits: int) -> None:
    results = Results([repr(value)])
    assert unsupported(f"It is {value:.{digits}g} and {value:.{digits}e}.", results) == []


PIECES = st.sampled_from(
    [
        *("`", "``", "```", "a_b", "df", "1,234", "12.5", "1.2.3", ".5", "1 234", "e5", "×10^"),
        *("⁻⁷", "%", "published", "the chart", "was", "not", "\n", ". ", "|", "**", "_", "x.csv"),
        *("/", "\\", "http://", "'", '"', "20", "2012-01", "k", "million", "٣٤٥", "１２３", "²"),
        *("\x00", "  ", "\t", ",", "{", "[", "]", "}", "Name: x", "a  b"),
    ]
)
ANY = st.one_of(st.text(max_size=300), st.lists(PIECES, max_size=40).map("".join))


@given(ANY, ANY)
def test_any_text_is_judged_without_error(summary: str, text: str) -> None:
    said(summary, seen(texts=[text, summary]))
