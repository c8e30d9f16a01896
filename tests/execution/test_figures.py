"""Charts in words."""

from typing import Any

import altair as alt
import pandas as pd
import pytest

from parsimony_kernel.execution.figures import figure

CARS = pd.DataFrame(
    {"year": pd.to_datetime(["1970", "1971"]), "mpg": [18.0, 20.0], "origin": ["a", "b"]}
)
CHART = alt.Chart(CARS)


@pytest.mark.parametrize(
    ("chart", "told"),
    [
        (CHART.mark_line().encode(x="year", y="mean(mpg)"), "line chart of mean mpg by year"),
        (
            CHART.mark_point().encode(x="mpg", y="year", color="origin"),
            "scatter plot of mpg against year, coloured by origin",
        ),
        (CHART.mark_bar().encode(x=alt.X("mpg", bin=True), y="count()"), "histogram of mpg"),
        (
            CHART.mark_bar().encode(x="count()", y="origin"),
            "bar chart of count of records by origin",
        ),
        (CHART.mark_arc().encode(theta="mpg", color="origin"), "pie chart of mpg by origin"),
        (
            CHART.mark_line().encode(x="year", y="mpg")
            + CHART.mark_point().encode(x="year", y="mpg"),
            "line chart of mpg by year with scatter plot of mpg against year",
        ),
        (
            CHART.mark_bar().encode(x="origin", y="mpg", column="origin"),
            "bar chart of mpg by origin, one panel per origin",
        ),
        (
            CHART.mark_bar().encode(x="origin", y="mpg").facet("origin"),
            "bar chart of mpg by origin, one panel per origin",
        ),
    ],
)  # fmt: skip
def test_a_chart_is_told_in_words(chart: Any, told: str) -> None:
    made = figure(chart)
    assert made is not None
    assert made.description == told


def test_a_figure_has_its_specification_and_title() -> None:
    made = figure(CHART.mark_line().encode(x="year", y="mpg").properties(title="Economy"), "c")
    assert made is not None
    assert (made.name, made.title, made.library) == ("c", "Economy", "altair")
    assert made.spec is not None
    assert made.spec["mark"]["type"] == "line"
    assert made.png_base64 is None


def test_in_words_only_a_chart_of_any_size_is_cheap() -> None:
    """Drawn, altair refuses more than 5,000 rows; words need a few."""
    big = pd.DataFrame({"x": range(100_000), "y": 1.0})
    made = figure(alt.Chart(big).mark_line().encode(x="x", y="y"), drawn=False)
    assert made is not None
    assert (made.description, made.spec) == ("line chart of y by x", None)


def test_an_object_that_draws_itself_is_a_figure() -> None:
    class Picture:
        def _repr_svg_(self) -> str:
            return "<svg/>"

    made = figure(Picture())
    assert made is not None
    assert made.svg == "<svg/>"
