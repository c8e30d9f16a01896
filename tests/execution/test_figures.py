"""Charts and pictures as figures."""

import altair as alt
import pandas as pd

from parsimony_kernel.execution.figures import figure

CARS = pd.DataFrame({"year": pd.to_datetime(["1970", "1971"]), "mpg": [18.0, 20.0]})


def test_a_figure_has_its_specification_its_title_and_words() -> None:
    chart = alt.Chart(CARS, title="Economy").mark_line().encode(x="year", y="mpg")
    made = figure(chart, "c")
    assert made is not None
    assert (made.name, made.title, made.library) == ("c", "Economy", "altair")
    assert made.description == "line chart of mpg by year"
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
