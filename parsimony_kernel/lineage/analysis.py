"""What a cell's code says it does with names. Pure: code in, names out.

It reads the syntax and nothing else, so it answers for code that has not run, and errs towards
naming too much: a name that only might be read counts as read.
"""

import ast
import functools
import io
from dataclasses import dataclass

from parsimony_kernel.lineage.known_calls import CHANGING_FUNCTIONS, MUTATING_METHODS
from parsimony_kernel.lineage.syntax.parsing import tree
from parsimony_kernel.lineage.syntax.roots import Steps
from parsimony_kernel.lineage.syntax.visitor import Visitor

CHANGES_BY_NAME = MUTATING_METHODS | CHANGING_FUNCTIONS
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


@dataclass(frozen=True)
class CellNames:
    """The module-level names of a cell.

    ``reads`` are those whose value from before the cell is used, ``writes`` those that are bound,
    ``deletes`` those that are unbound, ``mutated`` those whose object is changed in place, and
    ``stale`` the part of those that may still have their object from before the cell then.
    ``literals`` are the strings of the code, except what is plainly only written to.

    Args:
        imports: the names that import statements bind, a part of ``writes``.
        modules: for each of them what it is bound to: ``pandas``, ``math:sqrt``.
        reached: those of whose parts one is changed in place, by way of another name.
        touched: those that are handed to a call, or of which a method is called.
        calls: those that are called.
        aliases: pairs of a name and one whose object, or a part of it, it is bound to.
        opaque: it may bind and change names that its text does not tell.
    """

    reads: frozenset[str] = frozenset()
    writes: frozenset[str] = frozenset()
    deletes: frozenset[str] = frozenset()
    mutated: frozenset[str] = frozenset()
    literals: tuple[str, ...] = ()
    stale: frozenset[str] = frozenset()
    imports: frozenset[str] = frozenset()
    modules: tuple[tuple[str, str], ...] = ()
    reached: frozenset[str] = frozenset()
    touched: frozenset[str] = frozenset()
    calls: frozenset[str] = frozenset()
    aliases: tuple[tuple[str, str], ...] = ()
    paths: tuple[tuple[str, Steps], ...] = ()
    opaque: bool = False


@dataclass(frozen=True)
class StatementNames(CellNames):
    """The names of one statement of a cell, as if it were a cell of its own.

    ``source`` is its text, with its decorators; the lines count from 1 and are both inside.
    ``defines`` says that it is a definition of a function or a class.
    """

    source: str = ""
    first_line: int = 0
    last_line: int = 0
    defines: bool = False


@functools.lru_cache(maxsize=256)
def analyse(code: str) -> CellNames:
    """The names of ``code``, which is Python after IPython's transforms. Nonsense has none."""
    statements = tree(code).body
    visitor = Visitor()
    try:
        for statement in statements:
            visitor.visit(statement)
        return CellNames(**visitor.names.found())
    except RecursionError:
        return CellNames()


@functools.lru_cache(maxsize=64)
def analyse_statements(code: str) -> tuple[StatementNames, ...]:
    """The same of each top-level statement, in their order. Nonsense has no statements."""
    lines = io.StringIO(code, newline=None).readlines()
    told = []
    try:
        for statement in tree(code).body:
            visitor = Visitor()
            visitor.visit(statement)
            decorators = getattr(statement, "decorator_list", [])
            first = min([statement.lineno, *(each.lineno for each in decorators)])
            last = statement.end_lineno or statement.lineno
            source = ast.get_source_segment(code, statement) or ""
            if decorators:
                source = "".join(lines[first - 1 : last]).rstrip()
            told.append(
                StatementNames(
                    **visitor.names.found(),
                    source=source,
                    first_line=first,
                    last_line=last,
                    defines=isinstance(statement, _DEFINITIONS),
                )
            )
    except RecursionError:
        return ()
    return tuple(told)
