"""Charts as figures: their words, and pictures as bytes.

A chart is asked for without importing the library that defines it.
"""

import base64
import io
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from importlib.util import find_spec
from typing import Any

from parsimony_kernel.artifacts.chart_words import describe_chart, title_of
from parsimony_kernel.core.outputs import FigureObject
from parsimony_kernel.execution.inspection import (
    attempt,
    class_name,
    comes_from,
    is_a,
    is_exactly,
    plain,
)
from parsimony_kernel.lineage.classes import package_of

PLOTLY_MIME = "application/vnd.plotly.v1+json"

_PNG = b"\x89PNG"
_REMOTE = re.compile(r"\s*(?:https?:)?//", re.IGNORECASE)


def figure(value: Any, name: str | None = None, *, drawn: bool = True) -> FigureObject | None:
    """A chart as a figure; ``None`` for anything else.

    With ``drawn`` false it is only put into words.
    """
    draw = _drawer(value)
    if draw is not None:
        return draw(value, name, drawn)
    return _drawn_by_itself(value, name) if drawn else None


def is_figure(value: Any) -> bool:
    """Whether it is a chart of a library that is known here."""
    return _drawer(value) is not None


def is_altair(value: Any) -> bool:
    """Whether it is a chart of altair."""
    return _drawer(value) is _altair


def is_plotly(value: Any) -> bool:
    """Whether it is a figure of plotly."""
    return _drawer(value) is _plotly


def in_words(value: Any) -> str:
    """A chart in one line; empty for anything else."""
    made = figure(value, drawn=False)
    return ": ".join(each for each in (made.description, made.title) if each) if made else ""


def _drawer(value: Any) -> Callable[[Any, str | None, bool], FigureObject] | None:
    found = (draw for (module, kind), draw in _DRAWERS.items() if comes_from(value, module, kind))
    return next(found, None)


def _altair(chart: Any, name: str | None, drawn: bool) -> FigureObject:
    if drawn:
        return from_spec(chart.to_dict(), name)
    light = chart
    data: Any = getattr(chart, "data", None)
    if hasattr(data, "head"):
        # The types of the columns are inferred from the data; a few rows tell as much as all.
        light = chart.copy(deep=False)
        light.data = data.head(20)
    spec = light.to_dict(validate=False)
    return FigureObject(name=name, title=title_of(spec), description=describe_chart(spec))


def from_spec(spec: dict[str, Any], name: str | None = None) -> FigureObject:
    """The figure of a Vega-Lite specification; ``ValueError`` or ``TypeError`` if it is no JSON.

    The specification is a copy as JSON has it: what is no finite number there is null. One that
    fetches from elsewhere is left out, since whoever looks at it would fetch.
    """
    text = json.dumps(spec, ensure_ascii=False)
    spec = json.loads(text.encode(), parse_constant=lambda _: None)
    made = FigureObject(name=name, title=title_of(spec), description=describe_chart(spec))
    address = next(addresses(spec), None)
    if address is None:
        return made.model_copy(update={"spec": spec})
    why = f"Not drawn, because it fetches {plain(address)[:200]}: load that in code first."
    return made.model_copy(update={"description": f"{made.description}. {why}"})


def addresses(spec: Any) -> Iterator[str]:
    """What is fetched from elsewhere when a Vega-Lite specification is looked at: its data, and
    its images."""
    has_images = '"image"' in json.dumps(spec, default=str)
    waiting = [("", spec)]
    while waiting:
        key, value = waiting.pop()
        if isinstance(value, Mapping):
            waiting += value.items()
        elif isinstance(value, list):
            waiting += ((key, each) for each in value)
        elif is_a(value, str) and (key == "url" or has_images) and _REMOTE.match(value):
            yield value


def _matplotlib(drawing: Any, name: str | None, drawn: bool) -> FigureObject:
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


def _plotly(drawing: Any, name: str | None, drawn: bool) -> FigureObject:
    """In words, and as a PNG where kaleido is, which plotly draws with."""
    traces = [{"type": each.type} for each in drawing.data]
    made = from_plotly({"data": traces, "layout": drawing.layout.to_plotly_json()}, name)
    if not drawn or find_spec("kaleido") is None:
        return made
    # Kaleido draws in a browser, which may be missing where kaleido is not.
    png = attempt(lambda: drawing.to_image(format="png"), lambda _: None)
    return made.model_copy(update=picture_in({"image/png": png}))


_DRAWERS: dict[tuple[str, str], Callable[[Any, str | None, bool], FigureObject]] = {
    ("altair", "TopLevelMixin"): _altair,
    ("matplotlib.figure", "Figure"): _matplotlib,
    ("plotly.basedatatypes", "BaseFigure"): _plotly,
}


def from_plotly(drawing: Mapping[str, Any], name: str | None = None) -> FigureObject:
    """The words of a plotly figure as JSON: its title, its axes, and what it is made of."""
    data, layout = drawing.get("data") or (), drawing.get("layout") or {}
    kinds = Counter(plain(str(each.get("type") or "scatter")) for each in data)
    axes = (_plotly_title(layout.get(axis)) for axis in ("yaxis", "xaxis"))
    told = " by ".join(filter(None, axes)) or "unlabelled axes"
    traces = ", ".join(f"{count} {kind}" for kind, count in kinds.items())
    words = f"plotly figure of {told}: {traces}" if traces else "empty plotly figure"
    title = _plotly_title(layout)[:200]
    return FigureObject(name=name, library="plotly", title=title, description=words[:500])


def _plotly_title(holder: Any) -> str:
    """The title of an axis or a layout, which plotly writes as text or as ``{"text": …}``."""
    title = holder.get("title") if isinstance(holder, Mapping) else None
    text = title.get("text") if isinstance(title, Mapping) else title
    return plain(text) if is_a(text, str) else ""


def _drawn_by_itself(value: Any, name: str | None) -> FigureObject | None:
    """An image of any library that gives IPython its PNG or SVG."""
    for method, mime in (("_repr_png_", "image/png"), ("_repr_svg_", "image/svg+xml")):
        draw = getattr(type(value), method, None)
        content = draw(value) if draw is not None else None
        picture = picture_in({mime: content[0] if is_a(content, tuple) else content})
        if picture:
            return of_class(type(value), name).model_copy(update=picture)
    return None


def words_in(bundle: Mapping[str, Any]) -> FigureObject | None:
    """The chart of a mime bundle that has its specification."""
    words = None
    for mime, content in bundle.items():
        is_chart = mime.startswith("application/vnd.vegalite")
        if (is_chart or mime == PLOTLY_MIME) and is_exactly(content, dict):
            read = partial(from_spec if is_chart else from_plotly, content)
            words = attempt(read, lambda _: None) or words
    return words


def picture_in(bundle: Mapping[str, Any]) -> dict[str, str]:
    """The PNG of a mime bundle as base64, else its SVG, by the field of a figure that has it."""
    png, svg = bundle.get("image/png"), bundle.get("image/svg+xml")
    if is_a(png, bytes) and png.startswith(_PNG):
        png = base64.b64encode(png).decode()
    for field, content in (("png_base64", png), ("svg", svg)):
        text = content.decode("utf-8", "replace") if is_a(content, bytes) else content
        if is_a(text, str) and text:
            return {field: plain(text)}
    return {}


def of_class(source: type | None, name: str | None = None) -> FigureObject:
    """A figure of which nothing is known but the class that drew it."""
    library = "" if source is None else package_of(source)
    noun = "picture" if source is None else class_name(source)
    words = f"{noun} of {library}" if library else noun
    return FigureObject(name=name, library=library, description=words)
