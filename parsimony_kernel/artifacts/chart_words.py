"""Charts in words, for readers who can't see the picture: the model, and screen readers.

Rule: a description comes from a chart's Vega-Lite specification and never from its data, so its
cost doesn't grow with the data, and any specification can be described.
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
_DETAIL = {
    "color": "coloured by", "size": "sized by", "shape": "shaped by",
    "row": "one panel per", "column": "one panel per", "facet": "one panel per",
}  # fmt: skip


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
    encoding = _mapping(spec.get("encoding"))
    for key, joined in _JOINED.items():
        if parts := spec.get(key):
            views = (_within(encoding, _mapping(part)) for part in parts)
            return joined.join(dict.fromkeys(map(describe_chart, views)))
    if isinstance(inner := spec.get("spec"), Mapping):
        facet = _mapping(spec.get("facet"))
        return describe_chart(_within({"facet": facet} if "field" in facet else facet, inner))
    mark = spec.get("mark")
    kind = str((mark.get("type") if isinstance(mark, Mapping) else mark) or "")
    said = {name: words for name, each in encoding.items() if (words := _channel(each))}
    axes = [said.get("y") or said.get("theta"), said.get("x")]
    if _is_measure(encoding.get("x")) and not _is_measure(encoding.get("y")):
        axes.reverse()  # describe a horizontal chart like a vertical one
    of = " of ".join(filter(None, (_noun(kind), " by ".join(filter(None, axes)))))
    return of + "".join(f", {how} {said[name]}" for name, how in _DETAIL.items() if name in said)


def _within(outer: Mapping[str, Any], view: Mapping[str, Any]) -> Mapping[str, Any]:
    return {**view, "encoding": {**outer, **_mapping(view.get("encoding"))}}


def _noun(kind: str) -> str:
    return _MARKS.get(kind, f"{kind} chart" if kind else "chart")


def _is_measure(channel: object) -> bool:
    return "aggregate" in _mapping(channel) or _mapping(channel).get("type") == "quantitative"


def _channel(channel: object) -> str:
    """Describe a channel, as "mean mpg" or "year (yearmonth)"; empty for a constant or none."""
    field, aggregate, unit = (_mapping(channel).get(n) for n in ("field", "aggregate", "timeUnit"))
    if aggregate == "count" and not field:
        return "count of records"
    # Vega-Lite escapes dots and brackets.
    names = [str(each).replace("\\", "") for each in (aggregate, field) if isinstance(each, str)]
    said = " ".join(filter(None, names))
    return f"{said} ({unit})" if said and isinstance(unit, str) else said


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
