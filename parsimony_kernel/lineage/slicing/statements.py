"""The top-level statements of a cell, and what each does with names."""

import ast
import functools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from parsimony_kernel.analysis.calls import NAMESPACES, names
from parsimony_kernel.analysis.cell import Statement as Told
from parsimony_kernel.analysis.parse import tree
from parsimony_kernel.analysis.read import read
from parsimony_kernel.lineage.slicing.effects import Later, later_of, touched_by
from parsimony_kernel.lineage.slicing.sharing import Link, links_of, links_of_definition
from parsimony_kernel.lineage.slicing.uses import Uses, uses_of
from parsimony_kernel.lineage.slicing.vocabulary import Function, Vocabulary, nodes_of

MAGIC_CALLS = frozenset({"run_line_magic", "run_cell_magic"})
QUIET_MAGICS, TEXT_MAGICS, TIMING_MAGICS = (
    names("magics", row) for row in ("quiet", "text", "timing")
)
_DYNAMIC = NAMESPACES | {"exec", "eval"}


_DEFINITION = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


_NO_USES = Uses()


@dataclass(frozen=True)
class Statement:
    """A top-level statement and what it does with names.

    ``touched`` are names whose object it may change, with whether it may reach below its top, and
    ``changes`` those that it plainly changes. ``is_opaque`` says that it may bind names that its
    text does not tell, ``is_blind`` that it may read any.
    ``later`` is what the functions in it do when they run, ``uses`` how it uses the names that it
    reads, and ``literals`` are the strings in it.
    """

    text: str
    lines: tuple[int, int]
    reads: frozenset[str] = frozenset()
    writes: frozenset[str] = frozenset()
    certain: frozenset[str] = frozenset()
    deletes: frozenset[str] = frozenset()
    touched: frozenset[tuple[str, bool]] = frozenset()
    changes: frozenset[str] = frozenset()
    is_opaque: bool = False
    is_blind: bool = False
    is_star: bool = False
    is_future: bool = False
    is_import: bool = False
    binds_whole: bool = False
    later: Later | None = None
    carried: frozenset[str] = frozenset()
    links: frozenset[Link] = frozenset()
    uses: Uses = _NO_USES
    literals: tuple[str, ...] = ()


def _statement(node: ast.stmt, told: Told, known: Vocabulary) -> Statement:
    nodes = nodes_of(node)
    definition = node if isinstance(node, _DEFINITION) else None
    is_import = isinstance(node, ast.Import | ast.ImportFrom)
    now = told if definition is None else read(ast.unparse(_without_bodies(definition)))
    later: Later | None = None
    for function in _functions_in(node, nodes):
        found = later_of(function, known)
        later = found if later is None else later | found
    touched = frozenset() if definition else frozenset(touched_by(node, known))
    seen = {name for name, _ in touched}
    caught = {each.name for each in nodes if isinstance(each, ast.ExceptHandler) and each.name}
    touched |= {(name, True) for name in (now.mutated | now.reached) - seen}
    return Statement(
        text=told.source,
        lines=told.lines,
        reads=now.reads | (now.mutated - now.writes - caught) | (now.deletes - caught),
        writes=now.writes,
        certain=frozenset(_certain(node) & now.writes),
        deletes=now.deletes - caught,
        touched=touched,
        changes=now.mutated,
        is_opaque=_is_opaque(nodes),
        is_blind=_is_blind(nodes),
        is_star=isinstance(node, ast.ImportFrom) and any(each.name == "*" for each in node.names),
        is_future=isinstance(node, ast.ImportFrom) and node.module == "__future__",
        is_import=is_import,
        binds_whole=definition is not None or is_import or _binds_whole(node),
        later=later,
        carried=frozenset() if is_import else frozenset(_carried(nodes, known)),
        links=frozenset(
            links_of_definition(definition, known) if definition else links_of(node, known)
        ),
        uses=_uses(node, known),
        literals=told.literals,
    )


def _uses(node: ast.stmt, known: Vocabulary) -> Uses:
    return uses_of(_without_bodies(node) if isinstance(node, _DEFINITION) else node, known)


def _functions_in(node: ast.stmt, nodes: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """What runs later than the statement itself. A function speaks for those within it."""
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            yield node
        case ast.ClassDef():
            yield from (each for each in nodes if isinstance(each, Function))
        case _:
            yield from (each for each in nodes if isinstance(each, Function | ast.GeneratorExp))


class _BodyRemover(ast.NodeTransformer):
    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        return ast.FunctionDef(**{**dict(ast.iter_fields(node)), "body": [ast.Pass()]})

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        return ast.AsyncFunctionDef(**{**dict(ast.iter_fields(node)), "body": [ast.Pass()]})


def _without_bodies(node: ast.stmt) -> ast.AST:
    again = ast.parse(ast.unparse(node)).body[0]
    stripped: ast.stmt = _BodyRemover().visit(again)
    return ast.fix_missing_locations(stripped)


def _certain(node: ast.stmt) -> set[str]:
    """The names that the statement surely binds when it ends."""
    match node:
        case ast.If(body=body, orelse=orelse):
            return _all_certain(body) & _all_certain(orelse)
        case ast.With(body=body) | ast.AsyncWith(body=body):
            held = {
                name.id
                for item in node.items
                if item.optional_vars is not None
                for name in nodes_of(item.optional_vars)
                if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store)
            }
            return held | _all_certain(body)
        case ast.Try(finalbody=body) | ast.TryStar(finalbody=body):
            return _all_certain(body)
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            return {node.name}
        case ast.Import() | ast.ImportFrom():
            return {each.asname or each.name.partition(".")[0] for each in node.names}
        case ast.Assign() | ast.AnnAssign() | ast.AugAssign():
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            return {
                each.id
                for target in targets
                for each in nodes_of(target)
                if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)
            }
    return set()


def _all_certain(body: list[ast.stmt]) -> set[str]:
    return {name for each in body for name in _certain(each)}


def _binds_whole(node: ast.stmt) -> bool:
    """Whether the statement, if it raises, has bound nothing."""
    match node:
        case ast.Assign(targets=[ast.Name()]) | ast.AnnAssign(target=ast.Name()):
            return True
        case ast.AugAssign(target=ast.Name()):
            return False
    return False


def _is_opaque(nodes: Iterable[ast.AST]) -> bool:
    for each in nodes:
        match each:
            case ast.Call(func=ast.Name(id=name)) if name in _DYNAMIC:
                return True
            case ast.Call(
                func=ast.Attribute(attr=call),
                args=[ast.Constant(value=str(magic)), *_],
            ) if call in MAGIC_CALLS and magic not in QUIET_MAGICS | TIMING_MAGICS:
                return True
    return False


def _is_blind(nodes: Iterable[ast.AST]) -> bool:
    return any(
        isinstance(each, ast.Call)
        and isinstance(each.func, ast.Name)
        and each.func.id in ("exec", "eval")
        and not isinstance(each.args[0] if each.args else None, ast.Constant)
        for each in nodes
    )


def _carried(nodes: Iterable[ast.AST], known: Vocabulary) -> Iterator[str]:
    """The names whose functions what is bound here may hold: not those of which only the result
    is used, where that holds no function."""
    called = {
        id(each.func)
        for each in nodes
        if isinstance(each, ast.Call)
        and isinstance(each.func, ast.Name)
        and each.func.id not in known.classes
        and each.func.id not in known.nesting
    }
    for each in nodes:
        if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load) and id(each) not in called:
            yield each.id


@functools.lru_cache(maxsize=4_096)
def statements_of(code: str, known: Vocabulary) -> tuple[Statement, ...]:
    """The statements of a cell, with those of magics that run Python in place of the magics."""
    found: list[Statement] = []
    for node, told in zip(tree(code).body, read(code).statements, strict=False):
        if inner := _of_magic(node, known):
            where = told.lines
            found += [replace(each, lines=where) for each in inner]
        else:
            found.append(_statement(node, told, known))
    return tuple(found)


def _of_magic(node: ast.stmt, known: Vocabulary) -> tuple[Statement, ...]:
    """The statements that a magic runs; none where it is no such magic, or does more than that."""
    match node:
        case ast.Expr(
            value=ast.Call(
                func=ast.Attribute(attr=call),
                args=[ast.Constant(value=str(magic)), *options, ast.Constant(value=str(text))],
            )
        ) if call in MAGIC_CALLS and magic in TEXT_MAGICS:
            plain = all(isinstance(each, ast.Constant) and not each.value for each in options)
            return statements_of(text, known) if plain else ()
    return ()
