"""The columns of frames that code looks up, from its syntax alone."""

import ast
import functools
from collections.abc import Mapping

from parsimony_kernel.analysis.parse import tree

# Methods of a frame that read it.
_READERS = frozenset({"head", "tail", "describe", "info", "sum", "mean", "count", "groupby"})


@functools.lru_cache(maxsize=128)
def columns_only(code: str) -> frozenset[str]:
    """The names with which ``code`` does no more than to read or set columns by a label that
    stands there, to set an attribute, to call what only reads, or to show them."""
    parents = {
        id(child): node for node in ast.walk(tree(code)) for child in ast.iter_child_nodes(node)
    }
    every, others = set[str](), set[str]()
    for node in ast.walk(tree(code)):
        if isinstance(node, ast.Name):
            every.add(node.id)
            if not _is_of_columns(node, parents):
                others.add(node.id)
    return frozenset(every - others)


def _is_of_columns(node: ast.Name, parents: Mapping[int, ast.AST]) -> bool:
    use = parents.get(id(node))
    match use:
        case ast.Expr():
            return True
        case ast.Subscript(value=value, slice=ast.Constant(value=str())) if value is node:
            above = parents.get(id(use))
            return (
                isinstance(use.ctx, ast.Store | ast.Del) and not isinstance(above, ast.AugAssign)
            ) or isinstance(above, ast.BinOp | ast.Compare | ast.UnaryOp)
        case ast.Attribute(attr=name, ctx=ast.Store()):
            return name in ("columns", "index") and isinstance(parents.get(id(use)), ast.Assign)
        case ast.Attribute(attr=name):
            called = parents.get(id(use))
            return name in _READERS and isinstance(called, ast.Call) and called.func is use
    return False
