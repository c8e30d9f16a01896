"""Static analysis of a cell or a function: one parse and one walk, cached."""

import ast
import functools
import io
from contextlib import suppress
from dataclasses import replace
from typing import Any

from parsimony_kernel.analysis.cell_names import NOTHING, Cell, Names, Statement
from parsimony_kernel.analysis.parse import parse, parse_cell
from parsimony_kernel.analysis.values import names_in
from parsimony_kernel.analysis.visitor import Visitor

_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_BINDINGS = (*_DEFINITIONS, ast.Assign, ast.AnnAssign, ast.Import, ast.ImportFrom)


@functools.lru_cache(maxsize=4_096)
def read(code: str) -> Cell:
    """Analyze ``code``: Python, or a cell in IPython's syntax. Never raises."""
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
    """Analyze a function's body as if it were a cell: its parameters count as notebook names.

    Args:
        code: the text that defines it.
        line: the line at which it begins, decorators included.
        name: its name, ``<lambda>`` for a lambda.

    Returns:
        The findings, or ``None`` if there is no such function.
    """
    for node in ast.walk(parse(code)[0]):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        if _first_line(node) == line and getattr(node, "name", "<lambda>") == name:
            visitor = Visitor()
            visitor.visit(node.body)
            visitor.found.merge(visitor.later)
            visitor.found.settled()
            return visitor.found
    return None


def literal_calls(code: str) -> list[tuple[str, list[Any], dict[str, Any]]]:
    """Parse ``code`` that consists of calls only, to names with positional and named arguments.

    Returns:
        The calls; empty if any statement isn't a call of a plain name with literal values.
    """
    calls = []
    for line in parse(code)[0].body:
        match line:
            case ast.Expr(value=ast.Call(func=ast.Name(id=name)) as call):
                with suppress(ValueError, TypeError):
                    given = [ast.literal_eval(each) for each in call.args]
                    named = {str(each.arg): ast.literal_eval(each.value) for each in call.keywords}
                    calls.append((name, given, named))
                    continue
        return []
    return calls


def _read(code: str, module: ast.Module) -> Cell:
    visitor, whole = Visitor(), Names()
    lines = io.StringIO(code, newline=None).readlines()
    statements = []
    changed = set[str]()
    for number, node in enumerate(module.body):
        visitor.number, visitor.found, visitor.later = number, Names(), NOTHING
        visitor.visit(node)
        for found in (visitor.found, visitor.later):  # ``reached`` doesn't count here
            changed |= found.may_mutate | found.mutated
        statements.append(_statement(node, visitor, lines))
        whole.merge(visitor.found)
    whole.changes_all |= not visitor.bound.isdisjoint(changed)
    whole.reads = visitor.fresh
    return Cell(**whole.settled(), statements=tuple(statements))


def _statement(node: ast.stmt, visitor: Visitor, lines: list[str]) -> Statement:
    first, last = _first_line(node), node.end_lineno or node.lineno
    text = "".join(lines[first - 1 : last]).encode()
    rest = len(lines[last - 1].encode()) - (node.end_col_offset or 0)
    source = text[node.col_offset : len(text) - rest].decode()
    now, later = set(visitor.found.reads), visitor.later
    visitor.found.merge(later)
    later.settled()
    return Statement(
        **visitor.found.settled(),
        now=now,
        later=later,
        source=source,
        lines=(first, last),
        defines=isinstance(node, _DEFINITIONS),
        rebinds=isinstance(node, _BINDINGS),
        certain={name for name, at in visitor.certain.items() if at == visitor.number},
        pairs=_pairs(node, visitor.found.reads),
    )


def _pairs(node: ast.stmt, reads: set[str]) -> dict[str, set[str]]:
    """Return the inputs of each name in ``a, b = x, y``; empty if it reads anything else."""
    match node:
        case ast.Assign(targets=[ast.Tuple(elts=targets)], value=ast.Tuple(elts=values)):
            bound = [each.id for each in targets if isinstance(each, ast.Name)]
            inputs = [reads.intersection(names_in(each)) for each in values]
            starred = any(isinstance(each, ast.Starred) for each in values)
            plain = len(bound) == len(values) == len(targets) and not starred
            if plain and reads <= set[str]().union(*inputs):
                return dict(zip(bound, inputs, strict=True))
    return {}


def _first_line(node: ast.stmt | ast.expr) -> int:
    """Return the first line of a node, decorators included."""
    above: list[ast.expr] = getattr(node, "decorator_list", [])
    return min(each.lineno for each in (node, *above))
