"""Charts in words, and pictures as bytes.

The words are for who cannot see the picture: the model, and a screen reader. They come from the
chart's own specification, never from its data.
"""

import base64
import io
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from parsimony_kernel.execution.outputs import FigureObject

_MARKS = {
    "point": "scatter plot", "circle": "scatter plot", "square": "scatter plot",
    "bar": "bar chart", "line": "line chart", "trail": "line chart", "area": "area chart",
    "rect": "heat map", "arc": "pie chart", "boxplot": "box plot", "tick": "strip plot",
    "rule": "rule", "text": "text", "geoshape": "map", "image": "image",
    "errorbar": "error bars", "errorband": "error band",
}  # fmt: skip

_DETAIL = {"color": "coloured by", "size": "sized by", "shape": "shaped by"}
_FACETS = ("row", "column", "facet")
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
    altair = sys.modules.get("altair")
    top = getattr(altair, "TopLevelMixin", None)
    return top is not None and isinstance(value, top)


def _is_matplotlib(value: Any) -> bool:
    module = sys.modules.get("matplotlib.figure")
    return module is not None and isinstance(value, module.Figure)


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
    return FigureObject(name=name, title=_title(spec), description=words(spec))


def from_spec(spec: dict[str, Any], name: str | None = None) -> FigureObject:
    """The figure of a Vega-Lite specification."""
    return FigureObject(name=name, title=_title(spec), description=words(spec), spec=spec)


def _title(spec: Mapping[str, Any]) -> str:
    title = spec.get("title", "")
    if isinstance(title, Mapping):
        title = title.get("text", "")
    if isinstance(title, Sequence) and not isinstance(title, str):
        title = " ".join(str(each) for each in title)
    return str(title or "")


def words(spec: Mapping[str, Any]) -> str:
    """What a Vega-Lite specification draws, such as "line chart of mean price by year"."""
    for key, joined in (
        ("layer", " with "), ("hconcat", " beside "), ("vconcat", " above "), ("concat", " and "),
    ):  # fmt: skip
        parts = spec.get(key)
        if parts:
            told = dict.fromkeys(
                words(
                    {**part, "encoding": {**spec.get("encoding", {}), **part.get("encoding", {})}}
                )
                for part in parts
            )
            return joined.join(told)
    if isinstance(spec.get("spec"), Mapping):
        facet = spec.get("facet")
        repeated = spec.get("repeat")
        told_inner = words(spec["spec"])
        if isinstance(facet, Mapping):
            by = ", ".join(
                _channel(each)
                for each in ([facet] if "field" in facet else facet.values())
                if isinstance(each, Mapping)
            )
            return f"{told_inner}, one panel per {by}"
        return f"{told_inner}, repeated" if repeated else told_inner
    mark = spec.get("mark", "")
    kind = str(mark.get("type", "") if isinstance(mark, Mapping) else mark)
    return _view(kind, spec.get("encoding", {}))


def _view(kind: str, encoding: Mapping[str, Any]) -> str:
    x, y = (encoding.get(each) or {} for each in ("x", "y"))
    noun = _MARKS.get(kind, f"{kind} chart" if kind else "chart")
    for binned, counted in ((x, y), (y, x)):
        if kind == "bar" and binned.get("bin") and counted.get("aggregate") == "count":
            return _with_detail(f"histogram of {binned.get('field', 'values')}", encoding)
    if kind == "arc":
        told = [_channel(encoding.get("theta") or {}), _channel(encoding.get("color") or {})]
        return f"{noun} of " + " by ".join(each for each in told if each)
    across, up = _channel(x), _channel(y)
    if _is_measure(x) and not _is_measure(y):
        across, up = up, across  # a horizontal chart tells the same
    if up and across:
        joined = "against" if noun == "scatter plot" else "by"
        told_axes = f"{noun} of {up} {joined} {across}"
    else:
        told_axes = f"{noun} of {up or across}" if up or across else noun
    return _with_detail(told_axes, encoding)


def _with_detail(told: str, encoding: Mapping[str, Any]) -> str:
    for channel, phrase in _DETAIL.items():
        field = _channel(encoding.get(channel) or {})
        if field:
            told += f", {phrase} {field}"
    panels = [_channel(encoding.get(each) or {}) for each in _FACETS]
    if any(panels):
        told += ", one panel per " + ", ".join(each for each in panels if each)
    return told


def _is_measure(channel: Mapping[str, Any]) -> bool:
    return "aggregate" in channel or channel.get("type") == "quantitative"


def _channel(channel: Any) -> str:
    if not isinstance(channel, Mapping):
        return ""
    field = channel.get("field", "")
    if isinstance(field, Mapping):
        field = field.get("repeat", "")
    aggregate = channel.get("aggregate", "")
    if isinstance(aggregate, Mapping):
        aggregate = next(iter(aggregate), "")
    if aggregate == "count" and not field:
        return "count of records"
    told = " ".join(str(each) for each in (aggregate, field) if each)
    unit = channel.get("timeUnit")
    return f"{told} ({unit})" if told and isinstance(unit, str) else told


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
        if isinstance(picture, tuple):
            picture = picture[0]
        made = from_bytes(picture, key, type(value), name)
        if made is not None:
            return made
    return None


def from_bytes(
    picture: Any, key: str, source: type | None, name: str | None = None
) -> FigureObject | None:
    """The figure of PNG bytes or base64 (``png_base64``) or SVG text (``svg``)."""
    if isinstance(picture, bytes):
        is_png = key == "png_base64" and picture.startswith(_PNG)
        picture = (
            base64.b64encode(picture).decode() if is_png else picture.decode("utf-8", "replace")
        )
    if not isinstance(picture, str) or not picture:
        return None
    library = "" if source is None else source.__module__.partition(".")[0]
    noun = "picture" if source is None else source.__name__
    made = FigureObject(
        name=name, library=library, description=f"{noun} of {library}" if library else noun
    )
    return made.model_copy(update={key: picture})
