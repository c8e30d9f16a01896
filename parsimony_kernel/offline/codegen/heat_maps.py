"""How a table of two groupings, or of correlations, is drawn as a heat map."""

from collections.abc import Sequence

from parsimony_kernel.offline.analysis import MONTH_NAMES, Analysis
from parsimony_kernel.offline.codegen.channels import axis, encode, field_of, tooltips
from parsimony_kernel.offline.codegen.grouping import Key
from parsimony_kernel.offline.codegen.python import capital, listed, literal

_WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_PARTS_OF_A_YEAR = frozenset({"month_name", "hour_of_day"})
# What is shown of a date that stands for the span that begins with it.
_SPANS = {
    "month": "yearmonth",
    "quarter": "yearquarter",
    "week": "yearmonthdate",
    "day": "yearmonthdate",
    "hour": "yearmonthdatehours",
}


def draw_heat_map(
    name: str, analysis: Analysis, keys: Sequence[Key], labels: Sequence[str]
) -> list[str] | None:
    """The steps that draw the table ``name`` as a heat map; none where it is no heat map."""
    if analysis.chart != "heatmap" or len(keys) != 2:
        return None
    x, y = keys
    if y.group.unit in _PARTS_OF_A_YEAR and x.group.unit not in _PARTS_OF_A_YEAR:
        x, y = y, x
    value = labels[0]
    title = literal(capital(analysis.aggregates[0].label))
    color = f"{field_of(value, 'quantitative')}, title={title}"
    return [
        f"alt.Chart({name})",
        ".mark_rect()",
        encode(
            f"x={_position('X', x)}",
            f"y={_position('Y', y)}",
            f'color=alt.Color({color}, scale=alt.Scale(scheme="viridis"))',
            "tooltip=" + tooltips([*((k.name, _kind(k)) for k in (x, y)), (value, "quantitative")]),
        ),
    ]


def draw_matrix(name: str, order: Sequence[str]) -> list[str]:
    """The steps that draw the matrix of correlations ``name``, its columns in ``order``."""
    source = f'{name}.melt("column", var_name="other", value_name="correlation")'
    sort = listed(order)
    return [
        f"alt.Chart({source})",
        ".mark_rect()",
        encode(
            f"x={axis('X', 'other', 'nominal', '', sort=sort)}",
            f"y={axis('Y', 'column', 'nominal', '', sort=sort)}",
            'color=alt.Color("correlation:Q", title="Correlation", '
            'scale=alt.Scale(scheme="redblue", domain=[-1, 1]))',
            'tooltip=["column:N", "other:N", alt.Tooltip("correlation:Q", format=".2f")]',
        ),
    ]


def _position(channel: str, key: Key) -> str:
    """A grouping along one side of the map, in its own order."""
    calendar = {"month_name": MONTH_NAMES, "weekday": _WEEKDAYS}.get(key.group.unit or "")
    title = capital(key.group.label)
    span = _SPANS.get(key.group.unit or "")
    if span is not None:
        field = field_of(key.name, "ordinal")
        return f'alt.{channel}({field}, title={literal(title)}, timeUnit="{span}")'
    sort = listed(calendar) if calendar else None
    return axis(channel, key.name, _kind(key), title, sort=sort)


def _kind(key: Key) -> str:
    group = key.group
    if group.unit in _SPANS:
        return "temporal"
    return "ordinal" if group.unit is not None or not group.column.is_text else "nominal"
