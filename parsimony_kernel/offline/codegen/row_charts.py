"""The code of charts of single rows: scatter plots, histograms and lines.

A chart holds no more points than a notebook carries well, and says so.
"""

from parsimony_kernel.offline.analysis import Analysis
from parsimony_kernel.offline.codegen.cells import MAX_POINTS, Cell, Options
from parsimony_kernel.offline.codegen.channels import (
    axis,
    chart_code,
    color_channel,
    encode,
    tooltips,
)
from parsimony_kernel.offline.codegen.conversions import (
    as_dates,
    as_numbers,
    assigning,
    source_of,
    values_of,
)
from parsimony_kernel.offline.codegen.python import (
    chain,
    headline,
    identifier,
    listed,
    literal,
    unique,
)
from parsimony_kernel.offline.codegen.rows import first_text
from parsimony_kernel.offline.codegen.shapes import Shapes
from parsimony_kernel.offline.schema import Column, Table
from parsimony_kernel.offline.words import slug


def scatter(
    table: Table, analysis: Analysis, taken: set[str], options: Options, title: str
) -> Cell:
    """Two measures as points."""
    x, y = analysis.columns[:2]
    color = analysis.color
    columns = list(dict.fromkeys([x.name, y.name, *([color.name] if color else [])]))
    label = first_text(table, x) if table.rows is not None and table.rows <= MAX_POINTS else None
    if label is not None and label not in columns:
        columns.append(label)
    name = unique(identifier(f"{slug(y.name)}_vs_{slug(x.name)}"[:60], "points"), taken)
    assigned = {
        c.name: as_numbers(values_of(table.name, c, options))
        for c in (x, y)
        if c.kind == "number_text"
    }
    steps = [
        source_of(table.name, options),
        *assigning(assigned),
        f"[{listed(columns)}]",
        f".dropna(subset={listed(dict.fromkeys([x.name, y.name]))})",
    ]
    code = chain(name, steps)
    if table.rows is None or table.rows > MAX_POINTS:
        code += (
            f"\n# A fixed sample keeps the chart small; every run draws the same points.\n"
            f"{name} = {name}.sample(min(len({name}), {MAX_POINTS}), random_state=0)"
        )
    code += f'\nprint("Points drawn:", len({name}), "of", len({table.name}))'
    channels = [
        f"x={axis('X', x.name, 'quantitative', x.name, zero=False)}",
        f"y={axis('Y', y.name, 'quantitative', y.name, zero=False)}",
    ]
    if color is not None:
        channels.append(f"color={color_channel(color)}")
    channels.append(
        "tooltip="
        + tooltips([(c, "quantitative" if c in (x.name, y.name) else "nominal") for c in columns])
    )
    chart = unique(f"{name}_chart", taken)
    drawn = [f"alt.Chart({name})", ".mark_circle(size=50, opacity=0.7)", encode(*channels)]
    return Cell(f"{code}\n\n{chart_code(chart, drawn, title)}\n{chart}", "", name, chart)


def histogram(
    table: Table, analysis: Analysis, taken: set[str], options: Options, title: str
) -> Cell:
    """The distribution of one measure, counted in bins."""
    column = analysis.columns[0]
    values = values_of(table.name, column, options)
    if column.kind == "number_text":
        values = as_numbers(values)
    inner = slug(column.name) or "values"
    name = unique(identifier(f"{inner}_distribution", "bins"), taken)
    chart = unique(f"{name}_chart", taken)
    code = (
        f"{name} = (\n"
        f"    pd.cut({values}, bins={analysis.bins})\n"
        "    .value_counts(sort=False)\n"
        '    .rename_axis("interval")\n'
        '    .reset_index(name="count")\n'
        ")\n"
        f'{name}["start"] = [interval.left for interval in {name}["interval"]]\n'
        f'{name}["end"] = [interval.right for interval in {name}["interval"]]\n'
        f'{name} = {name}[["start", "end", "count"]]\n'
        f"print({literal(f'Median {column.name}:')}, {values}.median())"
    )
    drawn = [
        f"alt.Chart({name})",
        ".mark_bar()",
        encode(
            f'x=alt.X("start:Q", bin="binned", title={literal(column.name)})',
            'x2="end:Q"',
            'y=alt.Y("count:Q", title="Number of rows")',
            'tooltip=["start:Q", "end:Q", "count:Q"]',
        ),
    ]
    return Cell(f"{code}\n\n{chart_code(chart, drawn, title)}\n{chart}", "", name, chart)


def line(table: Table, analysis: Analysis, taken: set[str], options: Options, title: str) -> Cell:
    """Measures along an axis, a line for each or for each colour."""
    x, measures, color = analysis.x, analysis.columns, analysis.color
    assert x is not None
    melted = len(measures) > 1
    columns = list(
        dict.fromkeys([x.name, *(m.name for m in measures), *([color.name] if color else [])])
    )
    label = "_and_".join(slug(m.name) for m in measures)[:40]
    name = unique(identifier(f"{label}_over_time", "series"), taken)
    assigned = {
        m.name: as_numbers(values_of(table.name, m, options))
        for m in measures
        if m.kind == "number_text"
    }
    if x.kind == "date_text":
        assigned[x.name] = as_dates(values_of(table.name, x, options), x, options)
    order = [color.name, x.name] if color is not None else [x.name]
    steps = [
        source_of(table.name, options),
        *assigning(assigned),
        f"[{listed(columns)}]",
        f".sort_values({listed(order) if len(order) > 1 else literal(order[0])})",
    ]
    code = chain(name, steps)
    code += headline(
        f"Highest {measures[0].name}:",
        f"{name}[{listed([x.name, *([color.name] if color else []), measures[0].name])}]",
        f".nlargest(1, {literal(measures[0].name)})",
    )
    limit = MAX_POINTS // (len(measures) if melted else 1)
    if table.rows is None or table.rows > limit:
        code += (
            "\n# Every n-th row keeps the chart small and its shape intact.\n"
            f"{name} = {name}.iloc[:: max(1, -(-len({name}) // {limit}))]"
        )
    code += f'\nprint("Points drawn:", len({name}), "of", len({table.name}))'
    x_type = "temporal" if x.is_date else "quantitative"
    source = f"alt.Chart({name})"
    y_name, color_code = measures[0].name, color_channel(color) if color is not None else None
    y_title = measures[0].name
    if melted:
        melted_names = listed([m.name for m in measures])
        kept = [c for c in columns if all(c != m.name for m in measures)]
        source = (
            f"alt.Chart({name}.melt({listed(kept)}, {melted_names}, "
            'var_name="measure", value_name="reading"))'
        )
        y_name, y_title = "reading", "Value"
        color_code = color_channel(Column("measure", "text"))
    channels = [
        f"x={axis('X', x.name, x_type, x.name, year=x.is_year)}",
        f"y={axis('Y', y_name, 'quantitative', y_title, zero=False)}",
    ]
    tooltip = [(x.name, x_type), (y_name, "quantitative")]
    if color_code is not None:
        channels.append(f"color={color_code}")
        tooltip.append(("measure" if melted else color.name if color else "", "nominal"))
    if melted and color is not None:
        channels.append(f"strokeDash={axis('StrokeDash', color.name, 'nominal', color.name)}")
    channels.append(f"tooltip={tooltips(tooltip)}")
    chart = unique(f"{name}_chart", taken)
    drawn = [source, ".mark_line()", encode(*channels)]
    return Cell(f"{code}\n\n{chart_code(chart, drawn, title)}\n{chart}", "", name, chart)


SHAPES: Shapes = {"scatter": scatter, "histogram": histogram, "line": line}
