"""What a cell's code says it does with names. Pure: code in, names out.

It reads the syntax and nothing else, so it answers for code that has not run, and errs towards
naming too much: a name that only might be read counts as read.
"""

import ast
import dataclasses
import functools
import io
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from parsimony_kernel.lineage.known_calls import (
    CHANGING_FUNCTIONS,
    MAGIC_CALLS,
    MUTATING_METHODS,
    NAMESPACES,
    OUTSIDE_MAGICS,
    QUIET_MAGICS,
    RUN_TEXT,
    TEXT_MAGICS,
    TIMING_MAGICS,
)

# The steps from a name's object to the part of it that is changed: an attribute's name, an
# item's key in a tuple of its own, or None where the text does not tell.
Steps = tuple[str | tuple[str | int] | None, ...]

CHANGES_BY_NAME = MUTATING_METHODS | CHANGING_FUNCTIONS

# Calls whose text argument names something that is written, not read.
_WRITERS = ("to_", "save", "write", "dump", "savefig", "mkdir", "unlink", "rename")

# What gives the parts of what it is handed, or of what it is a method of.
_GIVES_PARTS = frozenset(
    {
        "items", "values", "get", "setdefault", "pop", "popleft", "popitem", "enumerate", "zip",
        "iter", "next", "reversed", "sorted", "list", "tuple", "set", "dict", "filter", "chain",
        "getattr", "min", "max", "memoryview", "view", "reshape", "ravel", "asarray", "transpose",
        "squeeze", "swapaxes", "diagonal", "atleast_1d", "atleast_2d", "broadcast_to", "vars",
        "__getitem__", "most_common", "islice", "cycle", "partial", "asanyarray", "frombuffer",
        "ascontiguousarray",
    }
)  # fmt: skip

_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)

_OPTIONS = re.compile(r"\s*(?:-\w+(?:\s+\d+)?\s+)*")
_QUERIED = re.compile(r"@([^\W\d]\w*)")
_LONGEST_PATH = 4


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
    visitor = _Visitor()
    try:
        for statement in statements:
            visitor.visit(statement)
        return CellNames(**visitor.found())
    except RecursionError:
        return CellNames()


@functools.lru_cache(maxsize=64)
def analyse_statements(code: str) -> tuple[StatementNames, ...]:
    """The same of each top-level statement, in their order. Nonsense has no statements."""
    lines = io.StringIO(code, newline=None).readlines()
    told = []
    try:
        for statement in tree(code).body:
            visitor = _Visitor()
            visitor.visit(statement)
            decorators = getattr(statement, "decorator_list", [])
            first = min([statement.lineno, *(each.lineno for each in decorators)])
            last = statement.end_lineno or statement.lineno
            source = ast.get_source_segment(code, statement) or ""
            if decorators:
                source = "".join(lines[first - 1 : last]).rstrip()
            told.append(
                StatementNames(
                    **visitor.found(),
                    source=source,
                    first_line=first,
                    last_line=last,
                    defines=isinstance(statement, _DEFINITIONS),
                )
            )
    except RecursionError:
        return ()
    return tuple(told)


@functools.lru_cache(maxsize=4_096)
def tree(code: str) -> ast.Module:
    """The syntax of ``code``, not to be changed. Nonsense is empty."""
    try:
        return ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ast.Module(body=[], type_ignores=[])


class _Visitor(ast.NodeVisitor):
    """Walks statements in the order of evaluation, knowing what is bound for certain."""

    def __init__(self) -> None:
        self.reads: set[str] = set()
        self.writes: set[str] = set()
        self.deletes: set[str] = set()
        self.mutated: set[str] = set()
        self.literals: list[str] = []
        self._certain: set[str] = set()
        # Names that belong to the functions and comprehensions around, innermost last.
        self._local: list[frozenset[str]] = []
        self._global: list[frozenset[str]] = []
        # How many of them are functions and classes; a comprehension binds around itself.
        self._functions = 0
        self.stale: set[str] = set()
        self.modules: dict[str, str] = {}
        self.reached: set[str] = set()
        self.touched: set[str] = set()
        self.calls: set[str] = set()
        self.paths: dict[tuple[str, Steps], None] = {}
        self.opaque = False
        self._aliases: dict[str, dict[_Root, None]] = {}
        # Names bound to what they stood for already.
        self._again: set[str] = set()
        # Within a block that may or may not run, or run again.
        self._maybe = 0

    def found(self) -> dict[str, Any]:
        """What was found, as the fields of ``CellNames``."""
        return {
            "reads": frozenset(self.reads),
            "writes": frozenset(self.writes),
            "deletes": frozenset(self.deletes),
            "mutated": frozenset(self.mutated),
            "literals": tuple(dict.fromkeys(self.literals)),
            "stale": frozenset(self.stale),
            "imports": frozenset(self.modules) & frozenset(self.writes),
            "modules": tuple(self.modules.items()),
            "reached": frozenset(self.reached - self.mutated),
            "touched": frozenset(self.touched),
            "calls": frozenset(self.calls),
            "aliases": tuple(
                dict.fromkeys(
                    (name, root.name) for name, roots in self._aliases.items() for root in roots
                )
            ),
            "paths": tuple(self.paths),
            "opaque": self.opaque,
        }

    # Names

    def _is_local(self, name: str) -> bool:
        for local, declared in zip(reversed(self._local), reversed(self._global), strict=True):
            if name in local:
                return True
            if name in declared:
                return False
        return False

    def _read(self, name: str) -> None:
        if not self._is_local(name) and name not in self._certain:
            self.reads.add(name)

    def _write(self, name: str) -> None:
        if self._is_local(name):
            return
        if not self._functions:
            self._certain.add(name)
            self.writes.add(name)
        elif name in self._global[-1]:
            self.writes.add(name)

    def _mutate(self, target: ast.expr) -> None:
        """What ``target`` gives is changed in place."""
        for root in _roots(target):
            if not root.is_call and not self._is_local(root.name):
                self.mutated.add(root.name)
                self.paths[root.name, root.path] = None
                if root.name not in self._certain or root.name in self._again:
                    self.stale.add(root.name)
            for held in self._aliases.get(root.name, ()):
                if self._is_local(held.name):
                    continue
                if held.is_same:
                    self.mutated.add(held.name)
                    self.stale.add(held.name)
                    self.paths[held.name, root.path] = None
                elif not held.is_call or held.gives_parts:
                    self.reached.add(held.name)
            if root.is_call and root.gives_parts and not self._is_local(root.name):
                self.reached.add(root.name)

    def _touch(self, node: ast.AST) -> None:
        for each in ast.walk(node):
            if isinstance(each, ast.Name):
                if not self._is_local(each.id):
                    self.touched.add(each.id)
                self.touched |= {root.name for root in self._aliases.get(each.id, ())}

    def _alias(self, target: ast.expr, value: ast.expr, *, part: bool = False) -> None:
        """``target`` is bound to what ``value`` gives, or to a part of it."""
        match target, value:
            case ast.Tuple(elts=targets) | ast.List(elts=targets), _:
                several = value.elts if isinstance(value, ast.Tuple | ast.List) else ()
                plain = len(several) == len(targets) and not part
                if any(isinstance(each, ast.Starred) for each in (*several, *targets)) or not plain:
                    for each in targets:
                        self._alias(each, value, part=True)
                    return
                for each, its in zip(targets, several, strict=True):
                    self._alias(each, its)
            case ast.Starred(value=inner), _:
                self._alias(inner, value, part=True)
            case ((ast.Attribute() | ast.Subscript()), _):
                held = {root.part(): None for root in _roots(value)}
                for root in _roots(target):
                    known = {each: None for each in held if each.name != root.name}
                    if known:
                        self._aliases[root.name] = {**self._aliases.get(root.name, {}), **known}
            case ast.Name(id=name), _:
                known = {}
                for root in _roots(value):
                    root = root.part() if part else root
                    known[root] = None
                    for further in self._aliases.get(root.name, ()):
                        known[further if root.is_same else further.part()] = None
                own = any(root.name == name for root in known)
                (self._again.add if own else self._again.discard)(name)
                known = {root: None for root in known if root.name != name}
                if self._maybe:
                    known = {**self._aliases.get(name, {}), **known}
                self._aliases[name] = known

    def visit_Name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Load):
            self._read(node.id)
        elif isinstance(node.ctx, ast.Store):
            self._write(node.id)
        elif not self._functions:
            self.deletes.add(node.id)
            self._certain.discard(node.id)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        if not isinstance(node.ctx, ast.Load):
            self._mutate(node.value)
        self.visit(node.value)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        if _is_namespace(node.value) and not (self._functions and _last(node.value) == "locals"):
            match node.slice:
                case ast.Constant(value=str(name)):
                    self.visit_Name(ast.Name(name, node.ctx))
                case _:
                    self.opaque = True
                    self.visit(node.slice)
            return
        if not isinstance(node.ctx, ast.Load):
            self._mutate(node.value)
        self.generic_visit(node)

    # Statements whose parts are evaluated in another order than they are written

    def visit_Assign(self, node: ast.Assign) -> None:
        self.visit(node.value)
        self._visit_all(node.targets)
        for target in node.targets:
            self._alias(target, node.value)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        self.visit(node.annotation)
        if node.value is not None:
            self.visit(node.value)
            self.visit(node.target)
            self._alias(node.target, node.value)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self.visit(node.value)
        if isinstance(node.target, ast.Name):
            self._read(node.target.id)
            self._mutate(node.target)
        self.visit(node.target)
        # A container that is added to keeps what it held.
        self._maybe += 1
        self._alias(node.target, ast.BinOp(node.target, node.op, node.value))
        self._maybe -= 1

    def visit_NamedExpr(self, node: ast.NamedExpr) -> None:
        self.visit(node.value)
        self.visit(node.target)
        self._alias(node.target, node.value)

    def visit_For(self, node: ast.For | ast.AsyncFor) -> None:
        self.visit(node.iter)
        self._touch(node.iter)
        self._alias(node.target, node.iter, part=True)
        self._visit_maybe([node.target, *node.body], node.orelse)

    visit_AsyncFor = visit_For

    def visit_With(self, node: ast.With | ast.AsyncWith) -> None:
        for item in node.items:
            self.visit(item)
            self._touch(item.context_expr)
            if item.optional_vars is not None:
                self._alias(item.optional_vars, item.context_expr, part=True)
        self._visit_all(node.body)

    visit_AsyncWith = visit_With

    def visit_While(self, node: ast.While) -> None:
        self.visit(node.test)
        self._visit_maybe(node.body, node.orelse)

    def visit_If(self, node: ast.If) -> None:
        self.visit(node.test)
        before = set(self._certain)
        self._maybe += 1
        self._visit_all(node.body)
        after, self._certain = self._certain, before
        otherwise = set(before)
        if node.orelse:
            self._visit_all(node.orelse)
            otherwise = self._certain
        self._certain = after & otherwise
        self._maybe -= 1

    def visit_Try(self, node: ast.Try | ast.TryStar) -> None:
        self._visit_all([each.type for each in node.handlers if each.type is not None])
        self._visit_maybe([*node.body, *node.orelse])
        for handler in node.handlers:
            before = set(self._certain)
            if handler.name is not None:  # unbound again at its end
                self._certain.add(handler.name)
            self._visit_maybe(handler.body)
            self._certain = before
        self._visit_all(node.finalbody)

    visit_TryStar = visit_Try

    def visit_Match(self, node: ast.Match) -> None:
        self.visit(node.subject)
        for case in node.cases:
            for each in ast.walk(case.pattern):
                if isinstance(each, ast.MatchAs | ast.MatchStar) and each.name is not None:
                    self._alias(ast.Name(each.name), node.subject, part=True)
        for case in node.cases:
            self._visit_maybe([case])

    def visit_MatchAs(self, node: ast.MatchAs) -> None:
        if node.name is not None:
            self._write(node.name)
        self.generic_visit(node)

    def visit_MatchStar(self, node: ast.MatchStar) -> None:
        if node.name is not None:
            self._write(node.name)

    def _visit_all(self, nodes: Iterable[ast.AST]) -> None:
        for node in nodes:
            self.visit(node)

    def _visit_maybe(self, *blocks: Iterable[ast.AST]) -> None:
        """Blocks that may or may not run: what they bind is not bound for certain."""
        for block in blocks:
            before = set(self._certain)
            self._maybe += 1
            self._visit_all(block)
            self._maybe -= 1
            self._certain = before

    # Definitions and scopes

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            name = alias.asname or alias.name.partition(".")[0]
            if alias.asname is None and "." in alias.name:
                self._read(name)  # the other modules of the package that it has stay
            self._import(name, alias.name)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        for alias in node.names:
            if alias.name == "*":
                self.opaque = True
            else:
                home = "." * node.level + (node.module or "")
                self._import(alias.asname or alias.name, f"{home}:{alias.name}")

    def _import(self, name: str, home: str) -> None:
        self._write(name)
        if not self._is_local(name):
            self.modules[name] = home

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        self._visit_all(node.decorator_list)
        self._visit_signature(node.args)
        if node.returns is not None:
            self.visit(node.returns)
        self._write(node.name)
        self._within_function(node.args, node.body)

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self._visit_signature(node.args)
        self._within_function(node.args, [node.body])

    def _visit_signature(self, arguments: ast.arguments) -> None:
        self._visit_all(arguments.defaults)
        self._visit_all(each for each in arguments.kw_defaults if each is not None)
        for each in _parameters(arguments):
            if each.annotation is not None:
                self.visit(each.annotation)

    def _within_function(
        self, arguments: ast.arguments, body: list[ast.stmt] | list[ast.expr]
    ) -> None:
        bound, declared = _bound_in(body)
        local = (bound | {each.arg for each in _parameters(arguments)}) - declared
        # It runs later, if at all: what it binds is certain to nobody.
        certain, aliases = set(self._certain), dict(self._aliases)
        for each in local:
            self._aliases.pop(each, None)
        self._local.append(frozenset(local))
        self._global.append(frozenset(declared))
        self._functions += 1
        self._visit_all(body)
        self._functions -= 1
        self._local.pop()
        self._global.pop()
        self._certain, self._aliases = certain, aliases

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._visit_all(node.decorator_list)
        self._visit_all(node.bases)
        self._visit_all(node.keywords)
        bound, declared = _bound_in(node.body)
        self._local.append(frozenset(bound - declared))
        self._global.append(frozenset(declared))
        self._functions += 1
        self._visit_all(node.body)
        self._functions -= 1
        self._local.pop()
        self._global.pop()
        self._write(node.name)

    def _comprehension(
        self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp
    ) -> None:
        targets = {
            each.id
            for generator in node.generators
            for each in ast.walk(generator.target)
            if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)
        }
        self.visit(node.generators[0].iter)
        aliases = dict(self._aliases)
        for generator in node.generators:
            self._touch(generator.iter)
            self._alias(generator.target, generator.iter, part=True)
        self._local.append(frozenset(targets))
        self._global.append(self._global[-1] if self._global else frozenset())
        for position, generator in enumerate(node.generators):
            if position:
                self.visit(generator.iter)
            self.visit(generator.target)
            self._visit_all(generator.ifs)
        if isinstance(node, ast.DictComp):
            self.visit(node.key)
            self.visit(node.value)
        else:
            self.visit(node.elt)
        self._local.pop()
        self._global.pop()
        for name in targets:
            self._aliases.pop(name, None)
            if name in aliases:
                self._aliases[name] = aliases[name]

    visit_ListComp = visit_SetComp = visit_GeneratorExp = visit_DictComp = _comprehension

    # Calls and literals

    def visit_Call(self, node: ast.Call) -> None:
        function, called = node.func, _last(node.func)
        if called in MAGIC_CALLS and isinstance(function, ast.Attribute):
            self._magic(node)
            return
        if isinstance(function, ast.Name):
            self.calls.add(called)
            if called in NAMESPACES and not node.args:
                self.opaque = self.opaque or not (self._functions and called != "globals")
            elif called in RUN_TEXT and not self._is_local(called):
                self._dynamic(node)
                return
        elif isinstance(function, ast.Attribute):
            if called == "get" and _is_namespace(function.value):
                match node.args:
                    case [ast.Constant(value=str(name)), *others]:
                        self._read(name)
                        self._visit_all(others)
                        return
            if called in RUN_TEXT and called != "eval":
                self.opaque = True
            if called in MUTATING_METHODS or _has_true(node, "inplace"):
                self._mutate(function.value)
            if called in ("query", "eval"):
                self._visit_query(node)
            self._touch(function.value)
        else:
            self._touch(function)
        if called in CHANGING_FUNCTIONS and node.args:
            self._mutate(node.args[0])
        for each in node.keywords:
            if each.arg == "out":
                outs = each.value.elts if isinstance(each.value, ast.Tuple) else [each.value]
                for out in outs:
                    self._mutate(out)
        for part in (*node.args, *(each.value for each in node.keywords)):
            self._touch(part)
        self.visit(function)
        known = len(self.literals)
        self._visit_all(node.args)
        self._visit_all(node.keywords)
        if called.startswith(_WRITERS) or (called == "open" and _opens_to_write(node)):
            del self.literals[known:]

    def visit_Compare(self, node: ast.Compare) -> None:
        match node:
            case ast.Compare(left=ast.Constant(value=str(name)), comparators=[held]) if (
                _is_namespace(held)
            ):
                self._read(name)
            case _:
                self.generic_visit(node)

    def _visit_query(self, node: ast.Call) -> None:
        """The names that pandas looks up in the text of a query."""
        for each in node.args[:1]:
            if isinstance(each, ast.Constant) and isinstance(each.value, str):
                for name in _QUERIED.findall(each.value):
                    self._read(name)

    def _dynamic(self, node: ast.Call) -> None:
        self._visit_all(node.keywords)
        match node.args:
            case [ast.Constant(value=str(text))]:
                self._run_text(text)
            case [_, ast.Name() | ast.Dict() | ast.Attribute() | ast.Subscript() as held, *_]:
                self._visit_all(node.args)
                self._mutate(held)
            case _:
                self._visit_all(node.args)
                self.opaque = True

    def _magic(self, node: ast.Call) -> None:
        texts = [each.value for each in node.args if isinstance(each, ast.Constant)]
        plain = [each for each in texts if isinstance(each, str)]
        if not plain or len(plain) != len(node.args):
            self._visit_all(node.args)
            self.opaque = True
            return
        name, line, body = plain[0], "".join(plain[1:2]), "".join(plain[2:])
        if name in QUIET_MAGICS | OUTSIDE_MAGICS:
            return
        if name in TIMING_MAGICS or name in TEXT_MAGICS:
            if name == "capture":
                for each in line.split():
                    if each.isidentifier():
                        self._write(each)
                line = ""
            for text in (_without_options(line), body):
                self._run_text(text, binds=name in TEXT_MAGICS)
            return
        self.literals += line.split()
        self.opaque = True

    def _run_text(self, text: str, *, binds: bool = True) -> None:
        """Text that runs as a cell in this place."""
        statements = tree(text.strip("\n")).body or tree(_transformed(text)).body
        self.opaque = self.opaque or (not statements and bool(text.strip()))
        if binds:
            self._visit_all(statements)
        else:
            nothing = ast.arguments([], [], None, [], [], None, [])
            self._within_function(nothing, statements)

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, str):
            self.literals.append(node.value)


@dataclass(frozen=True)
class _Root:
    """A name of which an expression gives the object, or a part of it.

    ``is_call`` says that a call lies between, ``gives_parts`` that all such calls give parts of
    what they are handed.
    """

    name: str
    path: Steps = ()
    is_call: bool = False
    gives_parts: bool = False

    @property
    def is_same(self) -> bool:
        return not self.path and not self.is_call

    def part(self, step: str | tuple[str | int] | None = None) -> "_Root":
        return dataclasses.replace(self, path=(*self.path, step)[-_LONGEST_PATH:])

    def through_call(self, gives_parts: bool) -> "_Root":
        gives_parts = gives_parts and (self.gives_parts or not self.is_call)
        return dataclasses.replace(self.part(), is_call=True, gives_parts=gives_parts)


def _roots(node: ast.expr) -> Iterator[_Root]:
    match node:
        case ast.Name(id=name):
            yield _Root(name)
        case ast.Attribute(value=value, attr="__dict__"):
            yield from _roots(value)
        case ast.Attribute(value=value, attr=name):
            yield from (root.part(name) for root in _roots(value))
        case ast.Subscript(value=value, slice=ast.Constant(value=str() | int() as key)):
            if _is_namespace(value) and isinstance(key, str):
                yield _Root(key)
            yield from (root.part((key,)) for root in _roots(value))
        case ast.Subscript(value=value):
            yield from (root.part() for root in _roots(value))
        case ast.Starred(value=value) | ast.Await(value=value) | ast.NamedExpr(value=value):
            yield from _roots(value)
        case ast.IfExp(body=one, orelse=other):
            yield from _roots(one)
            yield from _roots(other)
        case ast.BoolOp(values=values):
            for each in values:
                yield from _roots(each)
        case ast.Tuple(elts=values) | ast.List(elts=values) | ast.Set(elts=values):
            for each in values:
                yield from (root.part() for root in _roots(each))
        case ast.Dict(values=values):
            for each in values:
                yield from (root.part() for root in _roots(each))
        case (
            ast.ListComp(elt=elt, generators=generators)
            | ast.GeneratorExp(elt=elt, generators=generators)
        ):
            for each in (elt, *(generator.iter for generator in generators)):
                yield from (root.part() for root in _roots(each))
        case ast.BinOp(left=one, op=ast.Add() | ast.Mult() | ast.BitOr(), right=other):
            # A new container with the elements of both, where they are containers.
            for each in (one, other):
                yield from (root.through_call(gives_parts=True) for root in _roots(each))
        case ast.Call(func=ast.Name(id="vars"), args=[held]):
            yield from _roots(held)
        case ast.Call(func=function, args=args, keywords=keywords):
            gives = _last(function) in _GIVES_PARTS
            handed = [*args, *(each.value for each in keywords)]
            if isinstance(function, ast.Attribute):
                handed.append(function.value)
            for each in handed:
                yield from (root.through_call(gives) for root in _roots(each))


def _last(node: ast.expr) -> str:
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case ast.Call(func=function):
            return _last(function)
    return ""


def _is_namespace(node: ast.expr) -> bool:
    match node:
        case ast.Call(func=ast.Name(id=name), args=[], keywords=[]):
            return name in NAMESPACES
        case ast.Attribute(value=ast.Call(func=ast.Name(id="get_ipython")), attr="user_ns"):
            return True
    return False


def _has_true(node: ast.Call, keyword: str) -> bool:
    return any(
        each.arg == keyword and isinstance(each.value, ast.Constant) and each.value.value is True
        for each in node.keywords
    )


def _without_options(line: str) -> str:
    """The statement that a magic's line holds, after options such as ``-n 10``."""
    return _OPTIONS.sub("", line, count=1)


def _transformed(text: str) -> str:
    """``text`` after IPython's transforms, where IPython is there."""
    transformer = sys.modules.get("IPython.core.inputtransformer2")
    if transformer is None:
        return ""
    try:
        return str(transformer.TransformerManager().transform_cell(text))
    except (SyntaxError, ValueError):
        return ""


def _opens_to_write(node: ast.Call) -> bool:
    modes = [*node.args[1:2], *(each.value for each in node.keywords if each.arg == "mode")]
    return any(
        isinstance(each, ast.Constant)
        and isinstance(each.value, str)
        and bool(set(each.value) & set("wax"))
        for each in modes
    )


def _parameters(arguments: ast.arguments) -> list[ast.arg]:
    found = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    return found + [each for each in (arguments.vararg, arguments.kwarg) if each is not None]


def _bound_in(body: Iterable[ast.AST]) -> tuple[set[str], set[str]]:
    """The names that a function's or class's own body binds, and those it declares global."""
    bound: set[str] = set()
    declared: set[str] = set()
    pending = list(body)
    while pending:
        node = pending.pop()
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                bound.add(node.name)
                continue
            case ast.Lambda():
                continue
            case ast.Global():
                declared.update(node.names)
            case ast.Name(ctx=ast.Store() | ast.Del()):
                bound.add(node.id)
            case ast.Import() | ast.ImportFrom():
                bound.update(each.asname or each.name.partition(".")[0] for each in node.names)
            case ast.ExceptHandler(name=str(name)):
                bound.add(name)
            case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                bound.add(name)
            case ast.ListComp() | ast.SetComp() | ast.GeneratorExp() | ast.DictComp():
                # Its targets are its own; only a walrus inside binds here.
                pending += [
                    each.target for each in ast.walk(node) if isinstance(each, ast.NamedExpr)
                ]
                continue
        pending += list(ast.iter_child_nodes(node))
    return bound, declared
