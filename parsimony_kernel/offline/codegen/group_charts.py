"""How a table of groups is drawn: along a time axis, or as bars by rank."""

from collections.abc import Sequence

from parsimony_kernel.offline.analysis import Analysis, Group
from parsimony_kernel.offline.codegen.cells import MAX_BARS
from parsimony_kernel.offline.codegen.channels import axis, color_channel, encode, tooltips
from parsimony_kernel.offline.codegen.grouping import Key
from parsimony_kernel.offline.codegen.python import capital, listed, literal
from parsimony_kernel.offline.schema import Column


def draw_groups(
    name: str, analysis: Analysis, keys: Sequence[Key], labels: Sequence[str]
) -> list[str]:
    """The steps that draw the table ``name``; ``labels`` are its measures."""
    first = keys[0]
    second = keys[1] if len(keys) > 1 else None
    melted = len(labels) > 1
    value, value_title = labels[0], capital(analysis.aggregates[0].label)
    source = f"alt.Chart({name})"
    if melted:
        source = (
            f"alt.Chart({name}.melt({literal(first.name)}, {listed(labels)}, "
            'var_name="measure", value_name="reading"))'
        )
        value, value_title = "reading", "Value"
    color_name = second.name if second is not None else "measure" if melted else None
    tooltip = [(k.name, _type(k.group)) for k in keys] + [(value, "quantitative")]
    if melted:
        tooltip.insert(1, ("measure", "nominal"))
    along = analysis.chart in ("line", "scatter")
    along_time = first.group.is_time
    by_rank = "-x" if not analysis.ascending else "x"
    if along or along_time or first.group.unit is not None:
        ordered = first.group.unit in ("weekday", "month_name")
        kind = _type(first.group)
        if analysis.chart == "bar" and along_time:
            kind = "temporal" if kind == "temporal" else "ordinal"
        channels = [
            "x="
            + axis(
                "X",
                first.name,
                kind,
                capital(first.group.label),
                year=kind == "quantitative" and _is_year(first.group),
                sort="None" if ordered else None,
            ),
            f"y={axis('Y', value, 'quantitative', value_title, zero=False if along else None)}",
        ]
        offset = "xOffset"
    else:
        if analysis.limit is None and not melted and second is None:
            source = f"alt.Chart({name}.head({MAX_BARS}))"
        channels = [
            f"x={axis('X', value, 'quantitative', value_title)}",
            f"y={axis('Y', first.name, 'nominal', first.name, sort=literal(by_rank))}",
        ]
        offset = "yOffset"
    if color_name is not None:
        group_column = second.group.column if second is not None else Column("measure", "text")
        shown = Column(color_name, "text") if second is not None and second.group.unit else None
        channels.append(f"color={color_channel(shown or group_column, nominal=True)}")
        if analysis.chart == "bar" and not analysis.stacked:
            channels.append(f"{offset}={axis(_channel(offset), color_name, 'nominal', None)}")
    channels.append(f"tooltip={tooltips(tooltip)}")
    marks = {"line": ".mark_line(point=True)", "scatter": ".mark_circle(size=60)"}
    return [source, marks.get(analysis.chart or "", ".mark_bar()"), encode(*channels)]


def _channel(offset: str) -> str:
    return offset[0].upper() + offset[1:]


def _is_year(group: Group) -> bool:
    return group.unit == "year" or group.column.is_year


def _type(group: Group) -> str:
    if _is_year(group):
        return "quantitative"
    if group.unit in ("weekday", "month_name", "hour_of_day"):
        return "ordinal"
    if group.column.is_date:
        return "temporal"
    return "ordinal" if group.column.is_number else "nominal"
