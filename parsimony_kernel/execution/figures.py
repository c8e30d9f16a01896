"""Charts as figures: their words, and pictures as bytes.

A chart is asked for without importing the library that defines it.
"""

import base64
import io
import json
from typing import Any

from parsimony_kernel.artifacts.chart_words import describe_chart, title_of
from parsimony_kernel.execution.inspection import (
    class_name,
    class_package,
    comes_from,
    is_a,
    plain,
)
from parsimony_kernel.execution.outputs import FigureObject

_PNG = b"\x89PNG"


def figure(value: Any, name: str | None = None, *, drawn: bool = True) -> FigureObject | None:
    """A chart as a figure; ``None`` for anything else.

    With ``drawn`` false it is only put into words, at a cost that does not depend on its data.
    """
    if is_altair(value):
        return _altair(value, name, drawn=drawn)
    if _is_matplotlib(value):
        return _matplotlib(value, name, drawn=drawn)
    return _drawn_by_itself(value, name) if drawn else None


def is_figure(value: Any) -> bool:
    """Whether it is a chart of a library that is known here."""
    return is_altair(value) or _is_matplotlib(value)


def is_altair(value: Any) -> bool:
    """Whether it is a chart of altair."""
    return comes_from(value, "altair", "TopLevelMixin")


def _is_matplotlib(value: Any) -> bool:
    return comes_from(value, "matplotlib.figure", "Figure")


def _altair(chart: Any, name: str | None, *, drawn: bool) -> FigureObject:
    if drawn:
        spec = chart.to_dict()
        return from_spec(spec, name)
    light = chart
    data: Any = getattr(chart, "data", None)
    if hasattr(data, "head"):
        # The types of the columns are inferred from the data; a few rows tell as much as all.
        light = chart.copy(deep=False)
        light.data = data.head(20)
    spec = light.to_dict(validate=False)
    return FigureObject(name=name, title=title_of(spec), description=describe_chart(spec))


def from_spec(spec: dict[str, Any], name: str | None = None) -> FigureObject:
    """The figure of a Vega-Lite specification; ``ValueError`` or ``TypeError`` if it is no JSON."""
    json.dumps(spec, ensure_ascii=False).encode()
    return FigureObject(
        name=name, title=title_of(spec), description=describe_chart(spec), spec=spec
    )


def _matplotlib(drawing: Any, name: str | None, *, drawn: bool) -> FigureObject:
    axes = drawing.get_axes()
    titles = [drawing.get_suptitle()] if hasattr(drawing, "get_suptitle") else []
    titles += [each.get_title() for each in axes]
    told = "; ".join(
        " by ".join(label for label in (each.get_ylabel(), each.get_xlabel()) if label)
        or "unlabelled axes"
        for each in axes
    )
    png = None
    if drawn:
        target = io.BytesIO()
        drawing.savefig(target, format="png", bbox_inches="tight")
        png = base64.b64encode(target.getvalue()).decode()
    return FigureObject(
        name=name,
        library="matplotlib",
        title=next((each for each in titles if each), ""),
        description=f"matplotlib figure of {told}" if told else "empty matplotlib figure",
        png_base64=png,
    )


def _drawn_by_itself(value: Any, name: str | None) -> FigureObject | None:
    """An image of any library that gives IPython its PNG or SVG."""
    for method, key in (("_repr_png_", "png_base64"), ("_repr_svg_", "svg")):
        draw = getattr(type(value), method, None)
        picture = draw(value) if draw is not None else None
        if is_a(picture, tuple):
            picture = picture[0]
        made = from_bytes(picture, key, type(value), name)
        if made is not None:
            return made
    return None


def from_bytes(
    picture: Any, key: str, source: type | None, name: str | None = None
) -> FigureObject | None:
    """The figure of PNG bytes or base64 (``png_base64``) or SVG text (``svg``)."""
    if is_a(picture, bytes):
        is_png = key == "png_base64" and picture.startswith(_PNG)
        picture = (
            base64.b64encode(picture).decode() if is_png else picture.decode("utf-8", "replace")
        )
    if not is_a(picture, str) or not picture:
        return None
    library = "" if source is None else class_package(source)
    noun = "picture" if source is None else class_name(source)
    made = FigureObject(
        name=name, library=library, description=f"{noun} of {library}" if library else noun
    )
    return made.model_copy(update={key: plain(picture)})
