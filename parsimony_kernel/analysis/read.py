"""Reads a cell: one parse, one walk, kept for the next who asks."""

import ast
import functools
import io
from collections.abc import Iterator
from dataclasses import replace

from parsimony_kernel.analysis.cell import NOTHING, Cell, Names, Statement
from parsimony_kernel.analysis.parse import parse, parse_cell
from parsimony_kernel.analysis.state import Found, written
from parsimony_kernel.analysis.visitor import Visitor

_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_BINDINGS = (*_DEFINITIONS, ast.Assign, ast.AnnAssign, ast.Import, ast.ImportFrom)


@functools.lru_cache(maxsize=4_096)
def read(code: str) -> Cell:
    """What ``code`` does, which is Python or a cell in IPython's syntax. Never raises."""
    try:
        text, module, error = parse_cell(code)
        cell = _read(text, module)
    except RecursionError:
        return Cell(error="the code is nested too deeply to be read", changes_any=True)
    if error is None:
        return cell
    reason = error.msg if isinstance(error, SyntaxError) else type(error).__name__
    return replace(cell, statements=(), error=reason, changes_any=True)


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
            visitor.names.found.merge(visitor.later)
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
    nodes = [each for part in (module, *visitor.inner) for each in ast.walk(part)]
    return Cell(
        **whole.frozen(),
        statements=tuple(statements),
        mentions=frozenset(each.id for each in nodes if isinstance(each, ast.Name)),
        looked_up=frozenset(
            written(each)
            for each in nodes
            if isinstance(each, ast.Name | ast.Attribute) and isinstance(each.ctx, ast.Load)
        ),
        imported=frozenset(name for each in nodes for name in _imported(each)),
        defined=frozenset(name for each in nodes for name in _defined(each)),
        strings=frozenset(
            each.value
            for each in nodes
            if isinstance(each, ast.Constant) and isinstance(each.value, str)
        ),
    )


def _imported(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Import | ast.ImportFrom) and not getattr(node, "level", 0):
        home = f"{node.module}." if isinstance(node, ast.ImportFrom) else ""
        for alias in node.names:
            parts = f"{home}{alias.name}".split(".")
            yield from (".".join(parts[:length]) for length in range(1, len(parts) + 1))


def _defined(node: ast.AST) -> Iterator[str]:
    if isinstance(node, _DEFINITIONS):
        yield node.name
    elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Lambda):
        yield from (each.id for each in node.targets if isinstance(each, ast.Name))


def _statement(node: ast.stmt, visitor: Visitor, code: str, lines: list[str]) -> Statement:
    state = visitor.names
    first, last = _first_line(node), node.end_lineno or node.lineno
    source = ast.get_source_segment(code, node) or ""
    if getattr(node, "decorator_list", ()):
        source = "".join(lines[first - 1 : last]).rstrip()
    now = frozenset(state.found.reads)
    state.found.merge(visitor.later)
    later = Names(**visitor.later.frozen())
    return Statement(
        **state.found.frozen(),
        now=now,
        later=later if later != NOTHING else NOTHING,
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
