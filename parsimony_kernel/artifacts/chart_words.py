"""Charts in words, for readers who can't see the picture: the model, and screen readers.

Rule: the words come from a chart's Vega-Lite specification and never from its
data, so their cost does not grow with it, and any specification can be told.
"""

from collections.abc import Mapping, Sequence
from typing import Any

_MARKS = {
    "point": "scatter plot", "circle": "scatter plot", "square": "scatter plot",
    "bar": "bar chart", "line": "line chart", "trail": "line chart", "area": "area chart",
    "rect": "heat map", "arc": "pie chart", "boxplot": "box plot", "tick": "strip plot",
    "rule": "rule", "text": "text", "geoshape": "map", "image": "image",
    "errorbar": "error bars", "errorband": "error band",
}  # fmt: skip
_JOINED = {"layer": " with ", "hconcat": " beside ", "vconcat": " above ", "concat": " and "}
_DETAIL = {"color": "coloured by", "size": "sized by", "shape": "shaped by"}
_FACETS = ("row", "column", "facet")


def title_of(spec: Mapping[str, Any]) -> str:
    """The title of a Vega-Lite specification in one line; empty when it has none."""
    title = spec.get("title")
    if isinstance(title, Mapping):
        title = title.get("text")
    if isinstance(title, Sequence) and not isinstance(title, str):
        title = " ".join(str(each) for each in title)
    return str(title or "")


def describe_chart(spec: Mapping[str, Any]) -> str:
    """What a Vega-Lite specification draws, such as "line chart of mean price by year".

    It tells the marks, the axes, what colours, sizes and shapes stand for, and the panels. The
    title is left to ``title_of``.
    """
    for key, joined in _JOINED.items():
        if parts := spec.get(key):
            shared = _mapping(spec.get("encoding"))
            told = (
                describe_chart({**part, "encoding": {**shared, **_mapping(part.get("encoding"))}})
                for part in map(_mapping, parts)
            )
            return joined.join(dict.fromkeys(told))
    if isinstance(inner := spec.get("spec"), Mapping):
        return describe_chart(inner) + _panels(spec)
    mark = spec.get("mark")
    kind = mark.get("type") if isinstance(mark, Mapping) else mark
    return _view(str(kind or ""), _mapping(spec.get("encoding")))


def _panels(spec: Mapping[str, Any]) -> str:
    """How the inner specification of a facet or a repeated chart is multiplied."""
    if isinstance(facet := spec.get("facet"), Mapping):
        channels = [facet] if "field" in facet else facet.values()
        by = ", ".join(told for each in channels if (told := _channel(each)))
        return f", one panel per {by}"
    return ", repeated" if spec.get("repeat") else ""


def _view(kind: str, encoding: Mapping[str, Any]) -> str:
    x, y = (_mapping(encoding.get(each)) for each in ("x", "y"))
    noun = _MARKS.get(kind, f"{kind} chart" if kind else "chart")
    for binned, counted in ((x, y), (y, x)):
        if kind == "bar" and binned.get("bin") and counted.get("aggregate") == "count":
            return _with_detail(f"histogram of {_channel(binned) or 'values'}", encoding)
    if kind == "arc":
        told = [each for each in (_told(encoding, "theta"), _told(encoding, "color")) if each]
        return " of ".join(each for each in (noun, " by ".join(told)) if each)
    across, up = _channel(x), _channel(y)
    if _is_measure(x) and not _is_measure(y):
        across, up = up, across  # a horizontal chart tells the same
    if up and across:
        joined = "against" if noun == "scatter plot" else "by"
        return _with_detail(f"{noun} of {up} {joined} {across}", encoding)
    return _with_detail(f"{noun} of {up or across}" if up or across else noun, encoding)


def _with_detail(told: str, encoding: Mapping[str, Any]) -> str:
    for name, phrase in _DETAIL.items():
        if field := _told(encoding, name):
            told += f", {phrase} {field}"
    panels = ", ".join(field for name in _FACETS if (field := _told(encoding, name)))
    return f"{told}, one panel per {panels}" if panels else told


def _told(encoding: Mapping[str, Any], name: str) -> str:
    return _channel(encoding.get(name))


def _is_measure(channel: Mapping[str, Any]) -> bool:
    return "aggregate" in channel or channel.get("type") == "quantitative"


def _channel(channel: object) -> str:
    """What a channel shows: "mean mpg", "year (yearmonth)"; empty for a constant or no channel."""
    known = _mapping(channel)
    field = known.get("field")
    if isinstance(field, Mapping):
        field = field.get("repeat")
    aggregate = known.get("aggregate")
    if isinstance(aggregate, Mapping):
        aggregate = next(iter(aggregate), "")
    if aggregate == "count" and not field:
        return "count of records"
    name = str(field or "").replace("\\", "")  # Vega-Lite escapes dots and brackets
    told = " ".join(str(each) for each in (aggregate, name) if each)
    unit = known.get("timeUnit")
    return f"{told} ({unit})" if told and isinstance(unit, str) else told


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
