"""The code of an analysis, by its shape."""

from collections.abc import Iterable

from parsimony_kernel.offline.analysis import Analysis
from parsimony_kernel.offline.codegen import (
    aggregates,
    correlating,
    missing_values,
    row_charts,
    rows,
)
from parsimony_kernel.offline.codegen.cells import Cell, Options
from parsimony_kernel.offline.codegen.python import with_imports
from parsimony_kernel.offline.codegen.shapes import Shapes
from parsimony_kernel.offline.schema import Table

SHAPES: Shapes = {
    **aggregates.SHAPES,
    **rows.SHAPES,
    **row_charts.SHAPES,
    **missing_values.SHAPES,
    **correlating.SHAPES,
}


def analyse(
    table: Table, analysis: Analysis, taken: Iterable[str], options: Options, heading: str
) -> Cell:
    """The cell that computes ``analysis`` on ``table`` and shows it."""
    title = f"{analysis.title}{options.title_suffix}"
    cell = SHAPES[analysis.shape](table, analysis, set(taken), options, title)
    return Cell(with_imports(cell.code), heading or title, cell.table, cell.chart)
