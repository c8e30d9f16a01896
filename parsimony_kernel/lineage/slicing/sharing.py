"""Which names may share objects, and through which of them a change of one may be seen.

The text alone is asked, without the order of its statements: what was shared once counts for ever.
"""

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from parsimony_kernel.analysis.calls import (
    ATOMIC_FUNCTIONS,
    COPYING_FUNCTIONS,
    DRAWING_METHODS,
    MUTATES_RECEIVER,
    PURE_METHODS,
)
from parsimony_kernel.lineage.slicing.vocabulary import (
    BUILTINS,
    Function,
    Vocabulary,
    arguments_of,
    names_in,
    nodes_of,
    root_of,
)

_COPYING_METHODS = frozenset({"copy", "sum", "mean", "min", "max", "count", "nunique", "upper"})


@dataclass(frozen=True)
class Link:
    """Two names that may share an object: the ``same``, one ``part`` of the other, a ``copy`` with
    the same elements, or ``one`` that ``holds`` the other."""

    one: str
    other: str
    kind: str


# What of the next name is reached, from what of the one before and by which kind of link: its
# object as a ``whole``, only the ``elements`` of that, or that it goes ``around`` what is looked
# from, so that what is taken out of it may be that very thing.
_STEPS = {
    ("whole", "same"): "whole", ("whole", "part"): "whole", ("whole", "holds"): "whole",
    ("whole", "copy"): "elements", ("whole", "held"): "around",
    ("elements", "same"): "elements", ("elements", "part"): "whole",
    ("elements", "holds"): "whole", ("elements", "copy"): "elements",
    ("elements", "held"): "around",
    ("around", "same"): "around", ("around", "part"): "whole", ("around", "copy"): "around",
    ("around", "held"): "around",
}  # fmt: skip


class Sharing:
    """Which names a change of one may be seen through."""

    def __init__(self, links: Iterable[Link]) -> None:
        self._groups: dict[str, str] = {}
        # From a name, another and how the first sees it.
        self._seen_from: dict[str, set[tuple[str, str]]] = {}
        self._reached: dict[str, frozenset[str]] = {}
        for link in set(links):
            _join(self._groups, link.one, link.other)
            self._seen_from.setdefault(link.one, set()).add((link.other, link.kind))
            back = "held" if link.kind == "holds" else link.kind
            self._seen_from.setdefault(link.other, set()).add((link.one, back))

    def affects(self, name: str, is_deep: bool, other: str) -> bool:
        """Whether changing the object of ``name`` may change that of ``other``."""
        if name == other:
            return True
        if _find(self._groups, name) != _find(self._groups, other):
            return False
        return is_deep or name in self._all_seen_from(other)

    def _all_seen_from(self, name: str) -> frozenset[str]:
        """The names whose very object ``name`` may hold, or be."""
        if name not in self._reached:
            seen, pending = set[tuple[str, str]](), [(name, "whole")]
            while pending:
                step = pending.pop()
                if step in seen:
                    continue
                seen.add(step)
                for other, kind in self._seen_from.get(step[0], ()):
                    if (how := _STEPS.get((step[1], kind))) is not None:
                        pending.append((other, how))
            self._reached[name] = frozenset(each for each, how in seen if how == "whole")
        return self._reached[name]


def _find(parents: dict[str, str], name: str) -> str:
    while (parent := parents.get(name, name)) != name:
        name = parent
    return name


def _join(parents: dict[str, str], one: str, other: str) -> None:
    parents[_find(parents, one)] = _find(parents, other)


def links_of(tree: ast.AST, known: Vocabulary) -> Iterator[Link]:
    """Which names of ``tree`` may share objects."""
    for node in nodes_of(tree):
        match node:
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    yield from _bound(target, value, known)
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                yield from _bound(target, value, known)
            case ast.NamedExpr(target=target, value=value):
                yield from _bound(target, value, known)
            case ast.AugAssign(target=target, value=value):
                name, steps = root_of(target)
                for other, kind in shares(value, known):
                    yield Link(name, other, "part" if steps else _inside(kind))
            case ast.For() | ast.AsyncFor() | ast.comprehension():
                for name in names_in(node.target):
                    for other, _ in shares(node.iter, known):
                        yield Link(name, other, "part")
            case ast.withitem(context_expr=value, optional_vars=ast.expr() as target):
                yield from _parts(target, value)
            case ast.Match(subject=value):
                for case in node.cases:
                    for each in nodes_of(case.pattern):
                        label = getattr(each, "name", None) or getattr(each, "rest", None)
                        if isinstance(label, str):
                            for held in names_in(value):
                                yield Link(label, held, "part")
            case ast.Try() | ast.TryStar():
                for handler in node.handlers:
                    for held in (name for each in node.body for name in names_in(each)):
                        if handler.name:
                            yield Link(handler.name, held, "part")
            case ast.Call():
                yield from _linked_by_call(node, known)


def links_of_definition(
    node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef, known: Vocabulary
) -> Iterator[Link]:
    """What a function or a class holds from where it is defined: defaults, what its decorators
    and bases are made from, and what its class's own statements bind."""
    held: list[ast.AST] = [*node.decorator_list]
    if isinstance(node, ast.ClassDef):
        held += [*node.bases, *(each for each in node.body if not isinstance(each, Function))]
    else:
        held += [*node.args.defaults, *filter(None, node.args.kw_defaults)]
    for each in held:
        for name in names_in(each):
            if name not in known.imports and name not in BUILTINS:
                yield Link(node.name, name, "part")


def _linked_by_call(node: ast.Call, known: Vocabulary) -> Iterator[Link]:
    handed = arguments_of(node)
    shared = [name for each in handed for name, _ in shares(each, known)]
    match node.func:
        case ast.Attribute(attr=method, value=receiver):
            name, _ = root_of(receiver)
            if name and name not in known.imports and method not in PURE_METHODS:
                for other in shared:
                    yield Link(name, other, "holds" if method in MUTATES_RECEIVER else "part")
                shared = []
        case ast.Name(id=name) if name in known.functions and name in known.harmless:
            return
        case ast.Name(id=name) if name in BUILTINS and name != "setattr":
            return
    for other in shared[1:]:
        yield Link(shared[0], other, "part")


def _bound(target: ast.expr, value: ast.expr, known: Vocabulary) -> Iterator[Link]:
    match target, value:
        case ast.Tuple(elts=targets) | ast.List(elts=targets), ast.Tuple(elts=values) | ast.List(
            elts=values
        ) if len(targets) == len(values) and not any(
            isinstance(each, ast.Starred) for each in [*targets, *values]
        ):
            for one, its in zip(targets, values, strict=True):
                yield from _bound(one, its, known)
        case ast.Name(id=name), _:
            for other, kind in shares(value, known):
                yield Link(name, other, kind)
        case ((ast.Attribute() | ast.Subscript()), _):
            root, _ = root_of(target)
            for other, kind in shares(value, known):
                if root:
                    yield Link(root, other, "copy" if kind == "copy" else "holds")
        case _:
            yield from _parts(target, value)


def _parts(target: ast.expr, value: ast.expr) -> Iterator[Link]:
    names = list(names_in(target))
    for name in names:
        for other in (*names_in(value), names[0]):
            yield Link(name, other, "part")


def shares(value: ast.AST, known: Vocabulary) -> Iterator[tuple[str, str]]:
    """The names with whose objects the value of an expression may share, and how."""
    match value:
        case ast.Name(id=name):
            if name not in known.imports and name not in BUILTINS:
                yield name, "same"
        case ast.Constant() | ast.JoinedStr() | ast.Compare():
            return
        case ast.BinOp() | ast.UnaryOp():
            parts = [value.operand] if isinstance(value, ast.UnaryOp) else [value.left, value.right]
            for part in parts:
                for name, kind in shares(part, known):
                    yield name, _inside(kind)
        case ast.IfExp(body=body, orelse=orelse):
            yield from shares(body, known)
            yield from shares(orelse, known)
        case ast.BoolOp(values=values):
            for part in values:
                yield from shares(part, known)
        case ast.List() | ast.Tuple() | ast.Set():
            for part in value.elts:
                for name, kind in shares(part, known):
                    is_copy = kind == "copy" or (isinstance(part, ast.Starred) and kind == "same")
                    yield name, "copy" if is_copy else "holds"
        case ast.Dict(keys=keys, values=values):
            for each in (*keys, *values):
                if each is not None:
                    for name, kind in shares(each, known):
                        yield name, "copy" if kind == "copy" else "holds"
        case ast.ListComp(elt=made) | ast.SetComp(elt=made):
            yield from _of_comprehension([made], known)
        case ast.DictComp(key=key, value=made):
            yield from _of_comprehension([key, made], known)
        case ast.Call():
            yield from _shared_by_call(value, known)
        case ast.Subscript() | ast.Attribute():
            name, _ = root_of(value)
            if name:
                if name not in known.imports:
                    yield name, "part"
            else:
                inner = value.value
                for name, _ in shares(inner, known):
                    yield name, "part"
        case ast.Await(value=inner) | ast.Starred(value=inner) | ast.NamedExpr(value=inner):
            yield from shares(inner, known)
        case _:
            for name in names_in(value):
                if name not in known.imports and name not in BUILTINS:
                    yield name, "part"


def _inside(kind: str) -> str:
    """How a new container shares with what its elements were taken from."""
    return "copy" if kind in ("same", "copy") else "holds"


def _of_comprehension(made: list[ast.expr], known: Vocabulary) -> Iterator[tuple[str, str]]:
    for each in made:
        for name, kind in shares(each, known):
            yield name, "copy" if kind == "copy" else "holds"


def _shared_by_call(node: ast.Call, known: Vocabulary) -> Iterator[tuple[str, str]]:
    handed = arguments_of(node)
    kind = "part"
    match node.func:
        case ast.Name(id=name):
            if name in ATOMIC_FUNCTIONS and name not in known.functions:
                return
            if name in COPYING_FUNCTIONS and name not in known.functions:
                kind = "copy"
            elif name in known.functions or name in known.classes:
                yield name, "part"
        case ast.Attribute(attr="deepcopy"):
            return
        case ast.Attribute(attr=method) if method in DRAWING_METHODS - known.methods:
            return
        case ast.Attribute(attr=method, value=receiver):
            fresh = method in _COPYING_METHODS
            for name, how in shares(receiver, known):
                yield name, "copy" if fresh and how != "part" else "part"
            if fresh:
                return
    for each in handed:
        for name, how in shares(each, known):
            yield name, _inside(how) if kind == "copy" else "part"
