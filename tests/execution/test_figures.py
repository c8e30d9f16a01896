"""Charts and pictures as figures."""

from typing import Any

import altair as alt
import pandas as pd
import pytest

from parsimony_kernel.core.outputs import FigureObject, PrimitiveObject
from parsimony_kernel.execution.factory import OutputFactory, figure, from_spec

PNG = b"\x89PNG the rest of a picture"

CARS = pd.DataFrame({"year": pd.to_datetime(["1970", "1971"]), "mpg": [18.0, 20.0]})


def drawn(value: Any, *given: Any, **options: Any) -> FigureObject:
    made = figure(value, *given, **options)
    assert made is not None
    return made


def test_figure_has_specification_title_and_description() -> None:
    chart = alt.Chart(CARS, title="Economy").mark_line().encode(x="year", y="mpg")
    made = drawn(chart, "c")
    assert (made.name, made.title, made.library) == ("c", "Economy", "altair")
    assert (made.description, made.png_base64) == ("line chart of mpg by year", None)
    assert (made.spec or {})["mark"]["type"] == "line"


def test_description_alone_is_cheap() -> None:
    """Drawn, altair refuses more than 5,000 rows; words need a few."""
    big = pd.DataFrame({"x": range(100_000), "y": 1.0})
    made = drawn(alt.Chart(big).mark_line().encode(x="x", y="y"), drawn=False)
    assert (made.description, made.spec) == ("line chart of y by x", None)


def test_specification_is_a_json_copy() -> None:
    values: list[dict[Any, Any]] = [{"x": float("nan"), 1: (2, 3)}]
    spec = {"mark": "bar", "data": {"values": values}}
    made = from_spec(spec)
    assert made.spec == {"mark": "bar", "data": {"values": [{"x": None, "1": [2, 3]}]}}
    values.clear()
    assert FigureObject.model_validate_json(made.model_dump_json()) == made


def test_matplotlib_figure_is_drawn_and_described() -> None:
    from matplotlib.figure import Figure

    drawing = Figure()
    axes = drawing.subplots()
    axes.plot([1, 2])
    axes.set(title="Economy", xlabel="year", ylabel="mpg")
    made = drawn(drawing, "f")
    assert (made.library, made.title) == ("matplotlib", "Economy")
    assert made.description == "matplotlib figure of mpg by year"
    assert (made.png_base64 or "").startswith("iVBOR")
    told = figure(drawing, "f", drawn=False)
    assert told == made.model_copy(update={"png_base64": None})


def test_plotly_figure_has_title_and_published_picture() -> None:
    import plotly.graph_objects as go

    drawing = go.Figure(go.Scatter(y=[18, 20]), layout={"title": "Economy"})
    told = FigureObject(library="plotly", title="Economy", description="Figure of plotly")
    assert OutputFactory().summary(drawing, "f") == told.model_copy(update={"name": "f"})
    nested = OutputFactory().convert([drawing])
    assert isinstance(nested, PrimitiveObject)
    assert nested.text == "[<Figure of plotly>]"
    script = {"text/html": "<div>a script</div>"}
    assert OutputFactory().convert_displayed(drawing, script) == told
    pictured = OutputFactory().convert_displayed(drawing, {**script, "image/png": PNG})
    assert isinstance(pictured, FigureObject)
    assert (pictured.title, bool(pictured.png_base64)) == ("Economy", True)


@pytest.mark.parametrize(
    ("chart", "address"),
    [
        ({"data": {"url": "https://data.example.org/cars.json"}, "mark": "bar"}, "https://data"),
        ({"data": {"url": "//data.example.org/x"}, "mark": "bar"}, "//data.example.org/x"),
        ({"data": {"values": [{"flag": "https://pixel.example.org/?who=ada"}]},
          "mark": {"type": "image"}, "encoding": {"url": {"field": "flag"}}},
         "https://pixel.example.org"),
        ({"data": {"values": [{"page": "https://example.org"}]}, "mark": "bar"}, ""),
        ({"data": {"url": "cars.csv"}, "mark": "bar"}, ""),
    ],
    ids=["data", "without a scheme", "images", "a text", "a file"],
)  # fmt: skip
def test_chart_with_remote_data_is_described_not_shown(chart: dict[str, Any], address: str) -> None:
    made = from_spec(chart)
    assert (made.spec is None) == bool(address)
    assert (f"Not drawn, because it fetches {address}" in made.description) == bool(address)


CHART = {"mark": "bar", "encoding": {"x": {"field": "a", "type": "quantitative"}}}
SCRIPT = "<div><script>let rows = [1, 2];</script> <style>p {}</style>{}</div>"


@pytest.mark.parametrize(
    ("bundle", "told"),
    [
        ({"application/vnd.plotly.v1+json": {"layout": {"title": {"text": "Economy"}}},
          "text/html": SCRIPT},
         {"type": "figure", "title": "Economy", "description": "Figure of plotly"}),
        ({"application/vnd.plotly.v1+json": [7], "text/plain": "x"},
         {"type": "figure", "title": "", "description": "Figure of plotly"}),
        ({"application/vnd.vegalite.v5+json": CHART, "text/plain": "<VegaLite>"},
         {"type": "figure", "title": "", "description": "bar chart of a"}),
        ({"application/vnd.vegalite.v5+json": {"mark": object()}, "text/plain": "a chart"},
         {"type": "primitive", "python_type": "", "text": "a chart"}),
        ({"text/html": SCRIPT}, {"type": "primitive", "python_type": "", "text": "{}"}),
        ({"text/html": "<script>window.Plotly"},
         {"type": "primitive", "python_type": "", "text": "text/html"}),
    ],
)  # fmt: skip
def test_published_bundle_is_told_as_chart_or_text_without_scripts(
    bundle: dict[str, Any], told: dict[str, str]
) -> None:
    assert OutputFactory().convert_bundle(bundle).for_model() == told
