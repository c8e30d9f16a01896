"""Code as syntax, parsed once, and as IPython turns it into Python."""

import ast
import functools
import warnings

NONSENSE = (SyntaxError, ValueError, RecursionError, MemoryError)


@functools.lru_cache(maxsize=4_096)
def parse(code: str) -> tuple[ast.Module, str | None]:
    """The syntax of ``code``, which callers leave unchanged, and the reason why there is none.

    Nonsense is an empty module.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # running the cell reports them
            return ast.parse(code), None
    except NONSENSE as error:
        reason = error.msg if isinstance(error, SyntaxError) else type(error).__name__
        return ast.Module(body=[], type_ignores=[]), reason


def tree(code: str) -> ast.Module:
    """The syntax of ``code``, which callers leave unchanged. Nonsense is an empty module."""
    return parse(code)[0]


def transformed(text: str) -> str:
    """``text`` after IPython's transforms, empty where that is not possible."""
    from IPython.core.inputtransformer2 import TransformerManager

    try:
        return str(TransformerManager().transform_cell(text))
    except (SyntaxError, ValueError):
        return ""
