"""Charts in words, for readers who can't see the picture: the model, and screen readers.

Rule: a description comes from a chart's Vega-Lite specification and never from its data, so its
cost doesn't grow with the data, and any specification can be described.
"""

from collections.abc import Iterable, Mapping, Sequence
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
    """Return the title of a Vega-Lite specification in one line; empty without one."""
    title = spec.get("title")
    if isinstance(title, Mapping):
        title = title.get("text")
    if isinstance(title, Sequence) and not isinstance(title, str):
        title = " ".join(str(each) for each in title)
    return str(title or "")


def describe_chart(spec: Mapping[str, Any]) -> str:
    """Describe a Vega-Lite specification, such as "line chart of mean price by year".

    The description names the marks, the axes, the fields of colour, size and shape, and the
    panels. It leaves out the title: see ``title_of``.
    """
    for key, joined in _JOINED.items():
        if parts := spec.get(key):
            shared = _mapping(spec.get("encoding"))
            said = (
                describe_chart({**part, "encoding": {**shared, **_mapping(part.get("encoding"))}})
                for part in map(_mapping, parts)
            )
            return joined.join(dict.fromkeys(said))
    if isinstance(inner := spec.get("spec"), Mapping):
        facet = _mapping(spec.get("facet"))
        panels = [facet] if "field" in facet else facet.values()
        repeated = ", repeated" if spec.get("repeat") else ""
        return describe_chart(inner) + _panels(map(_channel, panels)) + repeated
    mark = spec.get("mark")
    kind = mark.get("type") if isinstance(mark, Mapping) else mark
    return _view(str(kind or ""), _mapping(spec.get("encoding")))


def _view(kind: str, encoding: Mapping[str, Any]) -> str:
    said = {name: words for name, each in encoding.items() if (words := _channel(each))}
    x, y = (_mapping(encoding.get(each)) for each in ("x", "y"))
    noun, joined = _MARKS.get(kind, f"{kind} chart" if kind else "chart"), " by "
    axes = [said.pop("y", ""), said.pop("x", "")]
    if _is_measure(x) and not _is_measure(y):
        axes.reverse()  # describe a horizontal chart like a vertical one
    if noun == "scatter plot":
        joined = " against "
    elif kind == "arc":
        axes = [said.get("theta", ""), said.pop("color", "")]
    for binned, counted in ((x, y), (y, x)):
        if kind == "bar" and binned.get("bin") and counted.get("aggregate") == "count":
            noun, axes = "histogram", [_channel(binned) or "values"]
    shown = joined.join(filter(None, axes))
    details = "".join(f", {how} {said[name]}" for name, how in _DETAIL.items() if name in said)
    panels = _panels(said.get(name, "") for name in _FACETS)
    return (f"{noun} of {shown}" if shown else noun) + details + panels


def _panels(fields: Iterable[str]) -> str:
    named = ", ".join(filter(None, fields))
    return f", one panel per {named}" if named else ""


def _is_measure(channel: Mapping[str, Any]) -> bool:
    return "aggregate" in channel or channel.get("type") == "quantitative"


def _channel(channel: object) -> str:
    """Describe a channel, as "mean mpg" or "year (yearmonth)"; empty for a constant or none."""
    known = _mapping(channel)
    field, aggregate, unit = (known.get(name) for name in ("field", "aggregate", "timeUnit"))
    if isinstance(field, Mapping):
        field = field.get("repeat")
    if isinstance(aggregate, Mapping):
        aggregate = next(iter(aggregate), "")
    if aggregate == "count" and not field:
        return "count of records"
    name = str(field or "").replace("\\", "")  # Vega-Lite escapes dots and brackets
    said = " ".join(str(each) for each in (aggregate, name) if each)
    return f"{said} ({unit})" if said and isinstance(unit, str) else said


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
