"""The code that correlates columns."""

from parsimony_kernel.llm.offline.codegen.shapes import Shapes

SHAPES: Shapes = {}
