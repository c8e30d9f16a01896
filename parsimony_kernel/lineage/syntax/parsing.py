"""Code as syntax: parsed once, and as IPython turns it into Python."""

import ast
import functools
import sys


@functools.lru_cache(maxsize=4_096)
def tree(code: str) -> ast.Module:
    """The syntax of ``code``, not to be changed. Nonsense is empty."""
    try:
        return ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ast.Module(body=[], type_ignores=[])


def transformed(text: str) -> str:
    """``text`` after IPython's transforms, where IPython is there."""
    transformer = sys.modules.get("IPython.core.inputtransformer2")
    if transformer is None:
        return ""
    try:
        return str(transformer.TransformerManager().transform_cell(text))
    except (SyntaxError, ValueError):
        return ""
