"""Which names may stand for what moves on when it is read, or shows what another object holds.

Iterators, files, cursors and random numbers are not as they were once somebody read them, and no
ledger tells it. The text alone is asked, without the order of its statements; names inside
functions count as if they were those of the notebook.
"""

import ast
import functools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from parsimony_kernel.analysis.calls import (
    ATOMIC_FUNCTIONS,
    MUTATES_RECEIVER,
    PURE_METHODS,
    SEEDING_FUNCTIONS,
    STREAM_FUNCTIONS,
    STREAM_METHODS,
    STREAM_MODULES,
    VALUE_MODULES,
    VIEW_ATTRIBUTES,
    VIEW_METHODS,
)
from parsimony_kernel.analysis.parse import tree
from parsimony_kernel.lineage.slicing.effects import touched_by
from parsimony_kernel.lineage.slicing.vocabulary import (
    BUILTINS,
    RANDOM,
    Function,
    Vocabulary,
    arguments_of,
    last_of,
    names_in,
    nodes_of,
    root_of,
)

Kinds = frozenset[str]

_NONE: Kinds = frozenset()
# It moves on when it is read; it holds such; it may move on when its elements are asked for; it
# shows what another object holds; calling it changes another object.
_STREAM: Kinds = frozenset({"stream"})
_HOLDS: Kinds = frozenset({"holds"})
_LOOSE: Kinds = frozenset({"loose"})
_VIEW: Kinds = frozenset({"view"})
_HANDLE: Kinds = frozenset({"handle"})

# Special methods that a mere reading does not run, or that run when an object is made.
_QUIET_METHODS = frozenset(
    {"__init__", "__new__", "__post_init__", "__set_name__", "__init_subclass__"}
)
# Functions whose results hold iterators.
_GIVING_STREAMS = frozenset({"tee", "groupby"})
_SCOPES = Function | ast.ClassDef


@dataclass(frozen=True)
class Streams:
    """What the names of a notebook may stand for.

    Args:
        moving: what any use moves on, and what holds such.
        loose: what moves on, for all that is known, when its elements are asked for.
        views: what changes with another object that it was made from.
        handles: what changes another object when it is called.
    """

    moving: frozenset[str] = frozenset()
    loose: frozenset[str] = frozenset()
    views: frozenset[str] = frozenset()
    handles: frozenset[str] = frozenset()

    @functools.cached_property
    def untold(self) -> frozenset[str]:
        """The names of whose changes no ledger tells for certain."""
        return self.moving | self.loose | self.views | self.handles


@functools.lru_cache(maxsize=4)
def streams(codes: tuple[str, ...], known: Vocabulary) -> Streams:
    """What the names that ``codes`` bind may stand for."""
    nodes = [each for code in codes for each in nodes_of(tree(code))]
    kinds = _Kinds(known, _moving_classes(nodes, known))
    kinds.settle(nodes)
    of_kind = {
        each: frozenset(name for name, found in kinds.names.items() if found & each)
        for each in (_STREAM | _HOLDS, _LOOSE, _VIEW, _HANDLE)
    }
    seeded = {RANDOM} if any(map(_seeds, nodes)) else set[str]()
    return Streams(
        of_kind[_STREAM | _HOLDS] | seeded,
        of_kind[_LOOSE],
        of_kind[_VIEW],
        of_kind[_HANDLE],
    )


def _seeds(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and last_of(node.func) in SEEDING_FUNCTIONS


def _moving_classes(nodes: Iterable[ast.AST], known: Vocabulary) -> frozenset[str]:
    """The classes whose objects change when they are read: by special methods or properties."""
    return frozenset(
        node.name
        for node in nodes
        if isinstance(node, ast.ClassDef)
        and any(
            isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)
            and (_is_special(each.name) or each.decorator_list)
            and any(True for line in each.body for _ in touched_by(line, known))
            for each in node.body
        )
    )


def _is_special(method: str) -> bool:
    return method.startswith("__") and method not in _QUIET_METHODS


def _parts(kinds: Kinds) -> Kinds:
    """What an element of something of these kinds may be."""
    inner = _STREAM | _HOLDS if kinds & _HOLDS else _NONE
    return inner | (kinds & (_LOOSE | _HANDLE))


def _inside(kinds: Kinds) -> Kinds:
    """What something that holds one of these kinds is."""
    return (_HOLDS if kinds & (_STREAM | _HOLDS) else _NONE) | (kinds - _STREAM)


@dataclass
class _Kinds:
    """What each name may stand for, and what each function may give."""

    known: Vocabulary
    moving: frozenset[str]
    names: dict[str, Kinds] = field(default_factory=dict)
    given: dict[str, Kinds] = field(default_factory=dict)
    _is_settled: bool = False

    def settle(self, nodes: Iterable[ast.AST]) -> None:
        binding = [each for each in nodes if isinstance(each, _BINDING)]
        results = [
            (name, each)
            for name, functions in self.known.functions.items()
            for function in functions
            for each in _results(function)
        ]
        while not self._is_settled:
            self._is_settled = True
            for node in binding:
                self._bind_all(node)
            for name, result in results:
                self._give(name, self._of_result(result))

    def _add(self, name: str, kinds: Kinds) -> None:
        known = self.names.get(name, _NONE)
        if name and not kinds <= known:
            self.names[name] = known | kinds
            self._is_settled = False

    def _give(self, name: str, kinds: Kinds) -> None:
        known = self.given.get(name, _NONE)
        if not kinds <= known:
            self.given[name] = known | kinds
            self._is_settled = False

    def _of_result(self, result: ast.AST) -> Kinds:
        match result:
            case ast.Return(value=ast.expr() as value):
                return self.of(value)
            case ast.Yield(value=ast.expr() as value) | ast.YieldFrom(value=value):
                return _STREAM | _inside(self.of(value))
            case ast.Yield():
                return _STREAM
            case ast.expr():
                return self.of(result)
        return _NONE

    # What statements bind

    def _bind_all(self, node: ast.AST) -> None:
        match node:
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    self._bind_to(target, value)
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                self._bind_to(target, value)
            case ast.NamedExpr(target=target, value=value):
                self._bind_to(target, value)
            case ast.AugAssign(target=target, value=value):
                self._bind(target, self.of(value) - _STREAM)
            case ast.For() | ast.AsyncFor() | ast.comprehension():
                self._bind(node.target, _parts(self.of(node.iter)))
            case ast.withitem(context_expr=value, optional_vars=ast.expr() as target):
                self._bind(target, self.of(value))
            case ast.Match(subject=value, cases=cases):
                kinds = self.of(value)
                for each in (part for case in cases for part in nodes_of(case.pattern)):
                    label = getattr(each, "name", None) or getattr(each, "rest", None)
                    if isinstance(label, str):
                        self._add(label, kinds | _parts(kinds))
            case ast.Call():
                self._hand_over(node)
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.Lambda():
                self._define(node)
            case ast.ClassDef():
                for name in (each for line in node.body for each in _stored_in(line)):
                    self._add(node.name, _inside(self.names.get(name, _NONE)))

    def _bind_to(self, target: ast.expr, value: ast.expr) -> None:
        match target, value:
            case ast.Tuple(elts=targets) | ast.List(elts=targets), ast.Tuple(
                elts=values
            ) | ast.List(elts=values) if len(targets) == len(values):
                for one, its in zip(targets, values, strict=True):
                    self._bind_to(one, its)
            case _:
                self._bind(target, self.of(value))

    def _bind(self, target: ast.expr, kinds: Kinds) -> None:
        match target:
            case ast.Name(id=name):
                self._add(name, kinds)
            case ast.Starred(value=inner):
                self._bind(inner, _inside(kinds))
            case ast.Tuple(elts=targets) | ast.List(elts=targets):
                for each in targets:
                    self._bind(each, _parts(kinds))
            case ast.Attribute() | ast.Subscript():
                self._add(root_of(target)[0], _inside(kinds))

    def _hand_over(self, node: ast.Call) -> None:
        """What is handed to a function may stand for its parameters, or be kept by an object."""
        kinds = frozenset(each for part in arguments_of(node) for each in self.of(part))
        if not kinds:
            return
        called = last_of(node.func)
        names = {called} | ({"__init__"} if called in self.known.classes else set())
        if not names & (self.known.functions.keys() | self.known.imports | BUILTINS):
            names |= self.known.functions.keys()
        for name in names & self.known.functions.keys():
            for function in self.known.functions[name]:
                for each in nodes_of(function.args):
                    if isinstance(each, ast.arg):
                        self._add(each.arg, kinds)
        if isinstance(node.func, ast.Attribute):
            name, _ = root_of(node.func.value)
            if name not in self.known.imports and called not in PURE_METHODS:
                self._add(name, _inside(kinds))

    def _define(self, node: Function) -> None:
        defaults = [*node.args.defaults, *filter(None, node.args.kw_defaults)]
        kinds = frozenset(each for part in defaults for each in self.of(part))
        if kinds:
            for each in nodes_of(node.args):
                if isinstance(each, ast.arg):
                    self._add(each.arg, kinds)
        if isinstance(node, ast.Lambda):
            return
        self._add(node.name, _inside(kinds))
        for each in nodes_of(node)[1:]:
            if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef) and (
                any(isinstance(part, ast.Nonlocal) for part in nodes_of(each))
                or self._reads_moving(each)
            ):
                self._add(each.name, _STREAM)

    def _reads_moving(self, node: ast.AST) -> bool:
        return any(self.names.get(name, _NONE) & (_STREAM | _HOLDS) for name in names_in(node))

    # What expressions give

    def of(self, value: ast.AST | None) -> Kinds:
        match value:
            case ast.Name(id=name):
                return self.names.get(name, _NONE)
            case ast.GeneratorExp(elt=made):
                return _STREAM | _inside(self.of(made))
            case ast.Call():
                return self._of_call(value)
            case ast.Attribute(value=held, attr=name):
                kinds = self.of(held)
                found = _parts(kinds) | (kinds & _STREAM) | self._view(held)
                if name in MUTATES_RECEIVER:
                    found |= _HANDLE
                return found | (_VIEW if name in VIEW_ATTRIBUTES else _NONE)
            case ast.Subscript(value=held):
                return _parts(self.of(held)) | self._view(held)
            case ast.List(elts=elements) | ast.Tuple(elts=elements) | ast.Set(elts=elements):
                return self._inside_all(elements)
            case ast.Dict(values=elements):
                return self._inside_all(elements)
            case ast.ListComp(elt=made) | ast.SetComp(elt=made):
                return _inside(self.of(made))
            case ast.DictComp(key=key, value=made):
                return self._inside_all([key, made])
            case ast.Starred(value=inner):
                return _parts(self.of(inner))
            case ast.IfExp(body=one, orelse=other):
                return self.of(one) | self.of(other)
            case ast.BoolOp(values=several):
                return frozenset(each for part in several for each in self.of(part))
            case ast.BinOp(left=one, right=other):
                return (self.of(one) | self.of(other)) & (_HOLDS | _LOOSE | _HANDLE)
            case ast.NamedExpr(value=inner) | ast.Await(value=inner):
                return self.of(inner)
            case ast.Lambda():
                return _STREAM if self._reads_moving(value) else _NONE
        return _NONE

    def _view(self, held: ast.expr) -> Kinds:
        """Whether what is asked of ``held`` shows what another object holds. What an accessor
        gives, as ``df.loc[0]`` and ``df.day.dt.month`` do, is a value of its own."""
        if isinstance(held, ast.Attribute) and held.attr in VIEW_ATTRIBUTES:
            return _NONE
        return self.of(held) & _VIEW

    def _inside_all(self, elements: Iterable[ast.expr]) -> Kinds:
        return frozenset(each for part in elements for each in _inside(self.of(part)))

    def _of_call(self, node: ast.Call) -> Kinds:
        known, called = self.known, last_of(node.func)
        handed = arguments_of(node)
        kinds = frozenset(each for part in handed for each in self.of(part))
        if any(isinstance(each, ast.Name) and each.id in STREAM_FUNCTIONS for each in handed):
            kinds |= _HOLDS
        if any(each.arg in ("chunksize", "iterator") for each in node.keywords):
            return _STREAM | _inside(kinds)
        if called in known.functions:
            return self.given.get(called, _NONE) | self._of_receiver(node.func) | kinds & _HANDLE
        if called in known.classes:
            own = _STREAM if called in self.moving else _NONE
            return own | _inside(kinds | self.names.get("self", _NONE))
        root, _ = root_of(node.func)
        if root in known.imports:
            return self._of_library(known.homes.get(root, ""), called, kinds)
        match node.func:
            case ast.Name(id=name) if name in BUILTINS:
                if name in STREAM_FUNCTIONS:
                    return _STREAM | (kinds - _VIEW)
                if name == "memoryview":
                    return _VIEW
                if name == "dict":
                    named = [each.value for each in node.keywords if each.arg is not None]
                    return _parts(kinds) | (kinds & _HOLDS) | self._inside_all(named)
                return _NONE if name in ATOMIC_FUNCTIONS else _parts(kinds) | (kinds & _HOLDS)
            case ast.Attribute(attr=method, value=receiver):
                if method in STREAM_METHODS:
                    return _STREAM
                own = self._of_receiver(node.func)
                if method in VIEW_METHODS:
                    return own | _VIEW
                if self.of(receiver) & _STREAM:
                    own |= _LOOSE
                return own | (self._view(receiver) if method not in PURE_METHODS else _NONE)
        anything = frozenset(each for part in self.given.values() for each in part)
        return kinds | anything | self.of(node.func)

    def _of_receiver(self, function: ast.expr) -> Kinds:
        return _parts(self.of(function.value)) if isinstance(function, ast.Attribute) else _NONE

    def _of_library(self, home: str, called: str, kinds: Kinds) -> Kinds:
        module = home.partition(":")[0].partition(".")[0]
        own = home.partition(":")[2] or called
        if own in _GIVING_STREAMS:
            return _STREAM | _HOLDS | kinds
        if module in STREAM_MODULES or own in STREAM_FUNCTIONS or own in STREAM_METHODS:
            return _STREAM | kinds
        if own in ("partial", "methodcaller"):
            return _HANDLE | _inside(kinds)
        if module in VALUE_MODULES:
            return kinds & _HOLDS
        return _LOOSE | kinds


_BINDING = (
    ast.Assign, ast.AnnAssign, ast.NamedExpr, ast.AugAssign, ast.For, ast.AsyncFor,
    ast.comprehension, ast.withitem, ast.Match, ast.Call, ast.FunctionDef, ast.AsyncFunctionDef,
    ast.Lambda, ast.ClassDef,
)  # fmt: skip


def _results(function: Function) -> Iterator[ast.AST]:
    """What a function gives, without what those within it give."""
    if isinstance(function, ast.Lambda):
        yield function.body
        return
    pending: list[ast.AST] = list(function.body)
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Return | ast.Yield | ast.YieldFrom):
            yield node
        if not isinstance(node, _SCOPES):
            pending += ast.iter_child_nodes(node)


def _stored_in(node: ast.AST) -> Iterator[str]:
    for each in nodes_of(node):
        if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store):
            yield each.id
