"""The code that counts, drops and fills missing values."""

from parsimony_kernel.offline.analysis import Analysis
from parsimony_kernel.offline.codegen.cells import INCOMPLETE, MAX_BARS, Cell, Options
from parsimony_kernel.offline.codegen.channels import axis, chart_code, encode
from parsimony_kernel.offline.codegen.conversions import assigning, source_of, values_of
from parsimony_kernel.offline.codegen.grouping import keys_of
from parsimony_kernel.offline.codegen.python import chain, identifier, listed, literal, unique
from parsimony_kernel.offline.codegen.shapes import Shapes
from parsimony_kernel.offline.schema import Column, Table

_ENDINGS = {"drop": "complete", "fill": "filled"}
_CALLS = {
    "forward": ".ffill()",
    "backward": ".bfill()",
    "linear": ".interpolate()",
}


def changed_name(table: str, asked: str | None) -> str | None:
    """What a table is called without its missing values; none where they stay."""
    ending = _ENDINGS.get(asked or "")
    return identifier(f"{table}_{ending}") if ending else None


def missing(
    table: Table, analysis: Analysis, taken: set[str], options: Options, title: str
) -> Cell:
    """How many values of each column are missing, or the rows where some are."""
    if analysis.method == "rows":
        return _incomplete(table, analysis, taken, options)
    name = unique(identifier(f"{table.name}_missing"), taken)
    source = _chosen(source_of(table.name, options), analysis.columns)
    code = chain(
        name,
        [
            f'pd.DataFrame({{"missing": {source}.isna().sum(), "share": {source}.isna().mean()}})',
            '.rename_axis("column")\n.reset_index()',
            '.sort_values("missing", ascending=False, kind="stable", ignore_index=True)',
        ],
    )
    code += (
        f'\nprint("Missing values:", {name}["missing"].sum(), "in", len({table.name}), "rows")\n'
        "print(\n"
        "    *(\n"
        '        f"{each.column}: {each.missing} ({each.share:.1%})"\n'
        f"        for each in {name}.head(5).itertuples()\n"
        "        if each.missing\n"
        "    ),\n"
        '    sep=", ",\n'
        ")"
    )
    if analysis.chart is None:
        return Cell(f"{code}\n{name}", "", name)
    chart = unique(f"{name}_chart", taken)
    drawn = [
        f"alt.Chart({name}.head({MAX_BARS}))",
        ".mark_bar()",
        encode(
            f"x={axis('X', 'missing', 'quantitative', 'Missing values')}",
            f"y={axis('Y', 'column', 'nominal', 'Column', sort=literal('-x'))}",
            'tooltip=["column:N", "missing:Q", alt.Tooltip("share:Q", format=".1%")]',
        ),
    ]
    return Cell(f"{code}\n\n{chart_code(chart, drawn, title)}\n{chart}", "", name, chart)


def _incomplete(table: Table, analysis: Analysis, taken: set[str], options: Options) -> Cell:
    name = unique(identifier(f"{table.name}_incomplete"), taken)
    source = source_of(table.name, options)
    chosen = _chosen(source, analysis.columns)
    code = (
        f"{name} = {source}[{chosen}.isna().any(axis=1)]\n"
        f'print("{INCOMPLETE}:", len({name}), "of", len({table.name}))\n{name}'
    )
    return Cell(code, "", name)


def dropna(table: Table, analysis: Analysis, taken: set[str], options: Options, title: str) -> Cell:
    """The rows that miss nothing, or nothing in the columns that are named."""
    name = unique(changed_name(table.name, "drop") or "", taken)
    subset = f"subset={listed(c.name for c in analysis.columns)}" if analysis.columns else ""
    code = (
        f"{name} = {source_of(table.name, options)}.dropna({subset})\n"
        f'print("Rows kept:", len({name}), "of", len({table.name}))\n{name}.head()'
    )
    return Cell(code, "", name)


def fillna(table: Table, analysis: Analysis, taken: set[str], options: Options, title: str) -> Cell:
    """The table with its missing values filled; it says how many were."""
    name = unique(changed_name(table.name, "fill") or "", taken)
    filled = {c.name: _filled(table.name, c, analysis, options) for c in analysis.columns}
    source = source_of(table.name, options)
    code = chain(name, [source, *assigning(filled)])
    for column in analysis.columns if len(analysis.columns) <= 3 else ():
        before, after = values_of(table.name, column, options), f"{name}[{literal(column.name)}]"
        told = f"Missing in {column.name}:"
        code += (
            f'\nprint({literal(told)}, {before}.isna().sum(), "before,", '
            f'{after}.isna().sum(), "after{_value_told(table.name, column, analysis, options)})'
        )
    if len(analysis.columns) > 3:
        names = listed(c.name for c in analysis.columns)
        code += (
            f'\nprint("Missing in all of them:", {source}[{names}].isna().sum().sum(), '
            f'"before,", {name}[{names}].isna().sum().sum(), "after")'
        )
    return Cell(f"{code}\n{name}.head()", "", name)


def _filled(table: str, column: Column, analysis: Analysis, options: Options) -> str:
    values = values_of(table, column, options)
    method = analysis.method
    # Whole numbers with gaps in them cannot hold the fractions that fill these.
    fractions = method in ("mean", "median", "linear") or isinstance(method, float)
    if fractions and len(analysis.columns) == 1 and column.dtype.startswith("int"):
        values = f"{values}.astype(float)"
    elif column.dtype == "category" and _is_text(method):
        values = f"{values}.astype(object)"
    if isinstance(method, str) and method in _CALLS:
        return f"{values}{_CALLS[method]}"
    return f"{values}.fillna({_filling(table, column, analysis, options)})"


def _filling(table: str, column: Column, analysis: Analysis, options: Options) -> str:
    values, method = values_of(table, column, options), analysis.method
    if not isinstance(method, str):
        return literal(method)
    if _is_text(method):
        return literal(method[1:-1])
    if method == "common":
        if column.dtype == "category":
            values = f"{values}.astype(object)"
        return f"{values}.mode().min()"
    if analysis.groups:
        keys, assigned = keys_of(table, analysis.groups, options, set())
        by = [assigned.get(k.name, f"{source_of(table, options)}[{literal(k.name)}]") for k in keys]
        grouped = by[0] if len(by) == 1 else listed(by, raw=True)
        return f'{values}.groupby({grouped}).transform("{method}")'
    return f"{values}.{method}()"


def _value_told(table: str, column: Column, analysis: Analysis, options: Options) -> str:
    """The argument of ``print`` that tells what was filled in, where that is one value."""
    method = analysis.method
    if analysis.groups or (isinstance(method, str) and method in _CALLS):
        return '"'
    return f', filled with", {_filling(table, column, analysis, options)}'


def _is_text(method: str | float | None) -> bool:
    return isinstance(method, str) and method.startswith('"')


def _chosen(source: str, columns: list[Column]) -> str:
    return f"{source}[{listed(c.name for c in columns)}]" if columns else source


SHAPES: Shapes = {"missing": missing, "dropna": dropna, "fillna": fillna}
