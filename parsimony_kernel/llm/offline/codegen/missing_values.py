"""The code that counts, drops and fills missing values."""

from parsimony_kernel.llm.offline.codegen.shapes import Shapes

SHAPES: Shapes = {}
