"""Charts in words."""

from typing import Any

import altair as alt
import pandas as pd
import pytest

from parsimony_kernel.artifacts.chart_words import describe_chart, title_of

CARS = pd.DataFrame(
    {"year": pd.to_datetime(["1970", "1971"]), "mpg": [18.0, 20.0], "origin": ["a", "b"]}
)
CHART = alt.Chart(CARS)
LINE = CHART.mark_line().encode(x="yearmonth(year)", y="mpg", color="origin")
HISTOGRAM = CHART.mark_bar().encode(x=alt.X("mpg", bin=True), y="count()")


@pytest.mark.parametrize(
    ("chart", "told"),
    [
        (CHART.mark_line().encode(x="year", y="mean(mpg)"), "line chart of mean mpg by year"),
        (
            CHART.mark_point().encode(x="mpg", y="year", color="origin"),
            "scatter plot of mpg by year, coloured by origin",
        ),
        (HISTOGRAM, "bar chart of count of records by mpg"),
        (
            CHART.mark_bar().encode(x="count()", y="origin"),
            "bar chart of count of records by origin",
        ),
        (
            CHART.mark_arc().encode(theta="mpg", color="origin"),
            "pie chart of mpg, coloured by origin",
        ),
        (
            CHART.mark_line().encode(x="year", y="mpg")
            + CHART.mark_point().encode(x="year", y="mpg"),
            "line chart of mpg by year with scatter plot of mpg by year",
        ),
        (
            CHART.mark_bar().encode(x="origin", y="mpg").facet("origin"),
            "bar chart of mpg by origin, one panel per origin",
        ),
        (LINE, "line chart of mpg by year (yearmonth), coloured by origin"),
        (
            LINE | HISTOGRAM,
            "line chart of mpg by year (yearmonth), coloured by origin "
            "beside bar chart of count of records by mpg",
        ),
        (HISTOGRAM & HISTOGRAM, "bar chart of count of records by mpg"),
        (
            CHART.mark_bar().encode(x="origin", y=alt.Y(alt.repeat("row"), type="quantitative"))
            .repeat(row=["mpg"]),
            "bar chart of origin",
        ),
        (
            alt.Chart("x.csv").mark_rect().encode(x="a.b:N", y=r"a\\.b:N", color="max(v):Q"),
            "heat map of a.b by a.b, coloured by max v",
        ),
    ],
)  # fmt: skip
def test_chart_is_described(chart: Any, told: str) -> None:
    assert describe_chart(chart.to_dict()) == told


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ({}, "chart"),
        ({"mark": None}, "chart"),
        ({"mark": {}, "encoding": None}, "chart"),
        ({"mark": "new", "encoding": {"x": None, "y": {"value": 3}, "color": []}}, "new chart"),
        ({"layer": [None]}, "chart"),
        (
            {
                "encoding": {"x": {"field": "year"}},
                "layer": [
                    {"mark": "line", "encoding": {"y": {"field": "mpg"}}},
                    {"mark": {"type": "rule"}},
                    {"mark": "rule", "encoding": None},
                ],
            },
            "line chart of mpg by year with rule of year",
        ),
    ],
)
def test_any_specification_is_described(spec: dict[str, Any], told: str) -> None:
    assert describe_chart(spec) == told


@pytest.mark.parametrize(
    ("spec", "title"),
    [
        ({}, ""),
        ({"title": None}, ""),
        ({"title": "Economy"}, "Economy"),
        ({"title": ["a", "b"]}, "a b"),
        ({"title": {"text": ["a", "b"], "fontSize": 9}}, "a b"),
        ({"title": {"fontSize": 9}}, ""),
    ],
)
def test_title_is_one_line(spec: dict[str, Any], title: str) -> None:
    assert title_of(spec) == title
