"""The code of an analysis, by its shape."""

from collections.abc import Iterable

from parsimony_kernel.llm.offline.analysis import Analysis
from parsimony_kernel.llm.offline.codegen.aggregates import aggregate, scalar
from parsimony_kernel.llm.offline.codegen.cells import Cell, Options
from parsimony_kernel.llm.offline.codegen.python import with_imports
from parsimony_kernel.llm.offline.codegen.row_charts import histogram, line, scatter
from parsimony_kernel.llm.offline.codegen.rows import describe, head, rows
from parsimony_kernel.llm.offline.schema import Table


def analyse(
    table: Table, analysis: Analysis, taken: Iterable[str], options: Options, heading: str
) -> Cell:
    """The cell that computes ``analysis`` on ``table`` and shows it."""
    writer = {
        "aggregate": aggregate,
        "scalar": scalar,
        "rows": rows,
        "scatter": scatter,
        "histogram": histogram,
        "line": line,
        "describe": describe,
        "head": head,
    }[analysis.shape]
    title = f"{analysis.title}{options.title_suffix}"
    cell = writer(table, analysis, set(taken), options, title)
    return Cell(with_imports(cell.code), heading or title, cell.table, cell.chart)
