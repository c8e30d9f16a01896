"""The code that shows rows as they are: sorted, ranked, summarised, or the first few."""

from parsimony_kernel.offline.analysis import Analysis
from parsimony_kernel.offline.codegen.cells import Cell, Options
from parsimony_kernel.offline.codegen.channels import axis, chart_code, encode, tooltips
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
from parsimony_kernel.offline.codegen.shapes import Shapes
from parsimony_kernel.offline.schema import Column, Table
from parsimony_kernel.offline.words import slug


def rows(table: Table, analysis: Analysis, taken: set[str], options: Options, title: str) -> Cell:
    """Rows in order, all or the extreme ones."""
    sort, columns = analysis.sort, analysis.columns
    assigned: dict[str, str] = {}
    if sort is not None and sort.kind in ("date_text", "number_text"):
        values = values_of(table.name, sort, options)
        assigned[sort.name] = (
            as_dates(values, sort, options) if sort.is_date else as_numbers(values)
        )
    steps = [source_of(table.name, options), *assigning(assigned)]
    if analysis.limit is not None and sort is not None:
        if sort.is_number:
            order = "nsmallest" if analysis.ascending else "nlargest"
            steps.append(f".{order}({analysis.limit}, {literal(sort.name)})")
        else:
            direction = "" if analysis.ascending else ", ascending=False"
            steps.append(f".sort_values({literal(sort.name)}{direction})")
            steps.append(f".head({analysis.limit})")
        side = "lowest" if analysis.ascending else "highest"
        name = f"{table.name}_{side}_{slug(sort.name)}"
    else:
        if sort is not None:
            direction = "" if analysis.ascending else ", ascending=False"
            steps.append(f".sort_values({literal(sort.name)}{direction})")
        name = f"{table.name}_{'_'.join(slug(c.name, 16) for c in columns[:3]) or 'sorted'}"
    if columns:
        steps.append(f"[{listed([c.name for c in columns])}]")
    elif sort is not None and analysis.limit is not None:
        steps += _ranked_first(table, sort)
    steps.append(".reset_index(drop=True)")
    name = unique(identifier(name[:60], "rows"), taken)
    code = chain(name, steps)
    if sort is not None:
        side = "Lowest" if analysis.ascending else "Highest"
        first = first_text(table, sort)
        shown = [first, sort.name] if first and (not columns or len(columns) > 1) else [sort.name]
        if analysis.limit == 1 and len(table.dates) == 1 and table.dates[0].name not in shown:
            shown.insert(-1, table.dates[0].name)
        shown = [s for s in shown if not columns or any(c.name == s for c in columns)]
        code += headline(f"{side} {sort.name}:", f"{name}[{listed(shown)}]", ".head(1)")
    else:
        code += headline("First row:", name, ".head(1)")
    if analysis.chart is None:
        return Cell(f"{code}\n{name}", "", name)
    chart = unique(f"{name}_chart", taken)
    label, measure = columns[0], columns[-1]
    drawn = [
        f"alt.Chart({name})",
        ".mark_bar()",
        encode(
            f"x={axis('X', measure.name, 'quantitative', measure.name)}",
            f"y={axis('Y', label.name, 'nominal', label.name, sort='None')}",
            f"tooltip={tooltips([(label.name, 'nominal'), (measure.name, 'quantitative')])}",
        ),
    ]
    return Cell(f"{code}\n\n{chart_code(chart, drawn, title)}\n{chart}", "", name, chart)


def _ranked_first(table: Table, sort: Column) -> list[str]:
    """The step that puts the ranked column right after the one that names the rows."""
    label = first_text(table, sort)
    first = [label, sort.name] if label is not None else [sort.name]
    names = [c.name for c in table.columns]
    if names[: len(first)] == first or len(set(names)) < len(names):
        return []
    shown = ", ".join(map(literal, first))
    return [f".pipe(lambda each: each[[{shown}, *each.columns.drop([{shown}])]])"]


def first_text(table: Table, other: Column) -> str | None:
    """The first column that can tell rows apart to a reader."""
    return next((c.name for c in table.columns if c != other and (c.is_text or c.is_date)), None)


def describe(
    table: Table, analysis: Analysis, taken: set[str], options: Options, title: str
) -> Cell:
    """What pandas says of every column."""
    columns = analysis.columns
    label = "_".join(slug(c.name, 20) for c in columns[:3])
    name = unique(identifier(f"{table.name}_{label}_summary".replace("__", "_")), taken)
    source = f"{table.name}[{listed([c.name for c in columns])}]" if columns else table.name
    code = (
        f'print("Rows:", len({table.name}), "Columns:", {source}.shape[1], '
        f'"Missing values:", int({source}.isna().sum().sum()))\n'
        f'{name} = {source}.describe(include="all").T\n{name}'
    )
    return Cell(code, "", name)


def head(table: Table, analysis: Analysis, taken: set[str], options: Options, title: str) -> Cell:
    """The first or the last rows, shown and not bound."""
    side = "tail" if analysis.tail else "head"
    chosen = f"[{listed([c.name for c in analysis.columns])}]" if analysis.columns else ""
    return Cell(f"{table.name}{chosen}.{side}({analysis.limit})", "")


SHAPES: Shapes = {"rows": rows, "describe": describe, "head": head}
