"""Reads a cell: one parse, one walk, kept for the next who asks."""

import ast
import functools
import io

from parsimony_kernel.analysis.cell import Cell, Names, Statement
from parsimony_kernel.analysis.parse import parse
from parsimony_kernel.analysis.state import Found, names_in
from parsimony_kernel.analysis.visitor import Visitor

_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_BINDINGS = (*_DEFINITIONS, ast.Assign, ast.AnnAssign, ast.Import, ast.ImportFrom)


@functools.lru_cache(maxsize=1_024)
def read(code: str) -> Cell:
    """What ``code`` does, which is Python after IPython's transforms. Never raises."""
    module, error = parse(code)
    if error is None:
        try:
            return _read(code, module)
        except RecursionError:
            error = "the code is nested too deeply to be read"
    return Cell(error=error, changes_any=True)


@functools.lru_cache(maxsize=512)
def read_function(code: str, line: int, name: str) -> Names | None:
    """What the body of the function ``name`` does that begins at ``line`` of ``code``, as if it
    were a cell: its parameters count as names of the notebook. ``None`` where there is none."""
    for node in ast.walk(parse(code)[0]):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        if _first_line(node) == line and getattr(node, "name", "<lambda>") == name:
            visitor = Visitor()
            for each in node.body if isinstance(node.body, list) else [node.body]:
                visitor.visit(each)
            return Names(**visitor.names.found.frozen())
    return None


def _read(code: str, module: ast.Module) -> Cell:
    visitor, whole = Visitor(), Found()
    lines = io.StringIO(code, newline=None).readlines()
    statements = []
    for number, node in enumerate(module.body):
        visitor.begin(number, node)
        statements.append(_statement(node, visitor, code, lines))
        whole.merge(visitor.names.found)
    whole.changes_all |= not visitor.names.bound.isdisjoint(whole.may_mutate | whole.mutated)
    whole.reads = whole.fresh
    return Cell(
        **whole.frozen(), statements=tuple(statements), mentions=frozenset(names_in(module))
    )


def _statement(node: ast.stmt, visitor: Visitor, code: str, lines: list[str]) -> Statement:
    state = visitor.names
    first, last = _first_line(node), node.end_lineno or node.lineno
    source = ast.get_source_segment(code, node) or ""
    if getattr(node, "decorator_list", ()):
        source = "".join(lines[first - 1 : last]).rstrip()
    return Statement(
        **state.found.frozen(),
        source=source,
        lines=(first, last),
        defines=isinstance(node, _DEFINITIONS),
        rebinds=isinstance(node, _BINDINGS),
        certain=frozenset(name for name, at in state.certain.items() if at == state.number),
        pairs=tuple(visitor.pairs.items()),
    )


def _first_line(node: ast.stmt | ast.expr) -> int:
    """Its first line, that of its decorators if there are any."""
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    return min([node.lineno, *(each.lineno for each in decorators)])
