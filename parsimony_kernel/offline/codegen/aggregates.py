"""The code that aggregates, over groups or as a whole.

What is drawn of it is said in ``group_charts``.
"""

from parsimony_kernel.offline.analysis import Analysis
from parsimony_kernel.offline.codegen.cells import Cell, Options
from parsimony_kernel.offline.codegen.channels import chart_code
from parsimony_kernel.offline.codegen.conversions import (
    as_numbers,
    assigning,
    source_of,
    values_of,
)
from parsimony_kernel.offline.codegen.group_charts import draw_groups
from parsimony_kernel.offline.codegen.grouping import (
    aggregate_names,
    aggregation,
    calendar_order,
    keys_of,
)
from parsimony_kernel.offline.codegen.heat_maps import draw_heat_map
from parsimony_kernel.offline.codegen.python import (
    chain,
    headline,
    identifier,
    listed,
    literal,
    unique,
)
from parsimony_kernel.offline.codegen.shapes import Shapes
from parsimony_kernel.offline.schema import Table
from parsimony_kernel.offline.words import slug


def aggregate(
    table: Table, analysis: Analysis, taken: set[str], options: Options, title: str
) -> Cell:
    """A table of groups, and its chart if one is wanted."""
    aggregates, groups = analysis.aggregates, analysis.groups
    base = "_and_".join(a.name for a in aggregates)
    by = "_and_".join(slug(g.label) or "group" for g in groups)
    name = unique(identifier(f"{base}_by_{by}"[:60].strip("_"), "summary"), taken)
    keys, assigned = keys_of(table.name, groups, options, {a.name for a in aggregates})
    for aggregate in aggregates:
        column = aggregate.column
        if column is not None and column.kind == "number_text":
            assigned[column.name] = as_numbers(values_of(table.name, column, options))
    names = [key.name for key in keys]
    labels = aggregate_names(aggregates, names)
    steps = [source_of(table.name, options), *assigning(assigned)]
    grouped = listed([key.code for key in keys], raw=True) if len(keys) > 1 else keys[0].code
    steps.append(f".groupby({grouped}, observed=True)")
    if all(a.column is None for a in aggregates):
        steps.append(f".size()\n.reset_index(name={literal(labels[0])})")
    else:
        steps.append(aggregation(aggregates, labels))
        steps.append(".reset_index()")
    along_time = groups[0].is_time or groups[0].unit is not None or len(groups) > 1
    if analysis.limit is not None:
        order = "nsmallest" if analysis.ascending else "nlargest"
        steps.append(f".{order}({analysis.limit}, {literal(labels[0])})")
        steps.append(".reset_index(drop=True)")
    elif analysis.sort is not None:
        order = ", ascending=False" if analysis.descending else ""
        steps.append(f".sort_values({literal(analysis.sort.name)}{order}, ignore_index=True)")
    elif not along_time:
        direction = "" if analysis.ascending else ", ascending=False"
        steps.append(f".sort_values({literal(labels[0])}{direction}, ignore_index=True)")
    code = chain(name, steps)
    if groups[0].unit in ("weekday", "month_name") and analysis.limit is None:
        code += calendar_order(name, names[0], groups[0].unit or "")
    side = "Lowest" if analysis.ascending else "Highest"
    extreme = "nsmallest" if side == "Lowest" else "nlargest"
    code += headline(
        f"{side} {aggregates[0].label}:",
        f"{name}[{listed([*names, labels[0]])}]" if len(labels) > 1 else name,
        f".{extreme}(1, {literal(labels[0])})",
    )
    if analysis.chart is None:
        return Cell(f"{code}\n{name}", "", name)
    chart = unique(f"{name}_chart", taken)
    drawn = draw_heat_map(name, analysis, keys, labels) or draw_groups(name, analysis, keys, labels)
    return Cell(f"{code}\n\n{chart_code(chart, drawn, title)}\n{chart}", "", name, chart)


def scalar(table: Table, analysis: Analysis, taken: set[str], options: Options, title: str) -> Cell:
    """Single numbers, each printed under what it is."""
    lines: list[str] = []
    used = set(taken)
    first: str | None = None
    for aggregate in analysis.aggregates:
        column = aggregate.column
        if column is None:
            name, value = f"{table.name}_count", f"len({table.name})"
        else:
            name = identifier(aggregate.name, "result")
            values = values_of(table.name, column, options)
            if column.kind == "number_text":
                values = as_numbers(values)
            value = f"{values}.{aggregate.func}()"
        name = unique(name, used)
        used.add(name)
        first = first or name
        label = f"{aggregate.label[:1].upper()}{aggregate.label[1:]}{options.title_suffix}:"
        lines += [f"{name} = {value}", f"print({literal(label)}, {name})"]
    return Cell("\n".join(lines), "", None)


SHAPES: Shapes = {"aggregate": aggregate, "scalar": scalar}
