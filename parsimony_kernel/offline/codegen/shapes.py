"""What a writer of code is: it makes the cell of an analysis of its shape."""

from collections.abc import Callable, Mapping

from parsimony_kernel.offline.analysis import Analysis, Shape
from parsimony_kernel.offline.codegen.cells import Cell, Options
from parsimony_kernel.offline.schema import Table

# Gets the table, the analysis, the names that are taken, what errors have taught, and the title.
Writer = Callable[[Table, Analysis, set[str], Options, str], Cell]
Shapes = Mapping[Shape, Writer]
