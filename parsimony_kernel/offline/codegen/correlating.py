"""The code that correlates columns: a pair, a pair within groups, or all of them."""

from parsimony_kernel.offline.analysis import Analysis
from parsimony_kernel.offline.codegen.cells import Cell, Options
from parsimony_kernel.offline.codegen.channels import axis, chart_code, encode
from parsimony_kernel.offline.codegen.conversions import (
    as_numbers,
    assigning,
    source_of,
    values_of,
)
from parsimony_kernel.offline.codegen.grouping import keys_of
from parsimony_kernel.offline.codegen.heat_maps import draw_matrix
from parsimony_kernel.offline.codegen.python import (
    chain,
    headline,
    identifier,
    listed,
    literal,
    unique,
)
from parsimony_kernel.offline.codegen.row_charts import scatter
from parsimony_kernel.offline.codegen.shapes import Shapes
from parsimony_kernel.offline.schema import Table
from parsimony_kernel.offline.words import slug


def correlation(
    table: Table, analysis: Analysis, taken: set[str], options: Options, title: str
) -> Cell:
    """The correlation of two columns and of how many rows, as a number or for each group."""
    if analysis.groups:
        return _by_groups(table, analysis, taken, options)
    x, y = (literal(c.name) for c in analysis.columns)
    inner = "_".join(slug(c.name, 24) for c in analysis.columns)
    name = unique(identifier(f"correlation_{inner}", "correlation"), taken)
    frame = _frame(table, analysis, options)
    code = (
        f"{chain(name, [*frame, f'.corr({_method(analysis)})', f'.loc[{x}, {y}]'])}\n"
        f"print({literal(f'{title}:')}, {name})\n"
        f'print("Rows with both values:", len({"".join(frame)}.dropna()), "of", len({table.name}))'
    )
    if analysis.chart is None:
        return Cell(code, "", None)
    drawn = scatter(table, analysis, {*taken, name}, options, title)
    return Cell(f"{code}\n\n{drawn.code}", "", drawn.table, drawn.chart)


def _by_groups(table: Table, analysis: Analysis, taken: set[str], options: Options) -> Cell:
    x, y = (literal(c.name) for c in analysis.columns)
    by = "_and_".join(slug(g.label) or "group" for g in analysis.groups)
    name = unique(identifier(f"correlation_by_{by}"[:60], "correlations"), taken)
    keys, assigned = keys_of(table.name, analysis.groups, options, {"correlation", "rows"})
    assigned |= _converted(table, analysis, options)
    grouped = listed([k.code for k in keys], raw=True) if len(keys) > 1 else keys[0].code
    steps = [
        source_of(table.name, options),
        *assigning(assigned),
        f".dropna(subset=[{x}, {y}])",
        f".groupby({grouped}, observed=True)[[{x}, {y}]]",
        ".apply(lambda each: pd.Series({\n"
        f'    "correlation": each.corr({_method(analysis)}).loc[{x}, {y}],\n'
        '    "rows": len(each),\n'
        "}))",
        '.astype({"rows": int})',
        ".reset_index()",
    ]
    code = f"{name} = (\n" + "\n".join(f"    {x}" for s in steps for x in s.splitlines()) + "\n)"
    keyed = listed([*(k.name for k in keys), "correlation"])
    code += headline(
        "Strongest:",
        f"{name}[{keyed}]",
        '.sort_values("correlation", key=abs, ascending=False)',
        ".head(1)",
    )
    return Cell(f"{code}\n{name}", "", name)


def correlations(
    table: Table, analysis: Analysis, taken: set[str], options: Options, title: str
) -> Cell:
    """Every column with every other, or all others with the one that is ``x``."""
    if analysis.x is not None:
        return _with_one(table, analysis, taken, options, title)
    name = unique(identifier(f"{table.name}_correlations"), taken)
    steps = [
        *_frame(table, analysis, options),
        f".corr({_method(analysis)})",
        '.rename_axis("column")',
        ".reset_index()",
    ]
    code = chain(name, steps)
    code += headline(
        "Strongest:",
        name,
        '.melt("column", var_name="other", value_name="correlation")',
        '.loc[lambda each: each["column"] < each["other"]]',
        '.sort_values("correlation", key=abs, ascending=False)',
        ".head(1)",
    )
    if analysis.chart is None:
        return Cell(f"{code}\n{name}", "", name)
    chart = unique(f"{name}_chart", taken)
    order = [c.name for c in analysis.columns]
    return Cell(
        f"{code}\n\n{chart_code(chart, draw_matrix(name, order), title)}\n{chart}", "", name, chart
    )


def _with_one(
    table: Table, analysis: Analysis, taken: set[str], options: Options, title: str
) -> Cell:
    assert analysis.x is not None
    one = literal(analysis.x.name)
    name = unique(identifier(f"correlations_with_{slug(analysis.x.name)}"[:60]), taken)
    steps = [
        *_frame(table, analysis, options),
        f".corr({_method(analysis)})",
        f".loc[{one}]",
        f".drop({one})",
        '.rename_axis("column")',
        '.reset_index(name="correlation")',
        '.sort_values("correlation", key=abs, ascending=False, ignore_index=True)',
    ]
    code = chain(name, steps) + headline("Strongest:", name, ".head(1)")
    if analysis.chart is None:
        return Cell(f"{code}\n{name}", "", name)
    chart = unique(f"{name}_chart", taken)
    drawn = [
        f"alt.Chart({name})",
        ".mark_bar()",
        encode(
            f"x={axis('X', 'correlation', 'quantitative', f'Correlation with {analysis.x.name}')}",
            f"y={axis('Y', 'column', 'nominal', 'Column', sort='None')}",
            'tooltip=["column:N", alt.Tooltip("correlation:Q", format=".3f")]',
        ),
    ]
    return Cell(f"{code}\n\n{chart_code(chart, drawn, title)}\n{chart}", "", name, chart)


def _frame(table: Table, analysis: Analysis, options: Options) -> list[str]:
    """The columns to correlate, as numbers."""
    names = listed([c.name for c in analysis.columns])
    converted = assigning(_converted(table, analysis, options))
    return [source_of(table.name, options), *converted, f"[{names}]"]


def _converted(table: Table, analysis: Analysis, options: Options) -> dict[str, str]:
    return {
        c.name: as_numbers(values_of(table.name, c, options))
        for c in analysis.columns
        if c.kind == "number_text"
    }


def _method(analysis: Analysis) -> str:
    return "" if analysis.method == "pearson" else f"method={literal(analysis.method)}"


SHAPES: Shapes = {"correlation": correlation, "correlations": correlations}
