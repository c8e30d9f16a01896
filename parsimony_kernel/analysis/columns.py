"""The columns of frames that code looks up, from its syntax alone."""

import ast
import functools
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from parsimony_kernel.analysis import calls
from parsimony_kernel.analysis.calls import HARMLESS, READS_COLUMNS
from parsimony_kernel.analysis.parse import tree
from parsimony_kernel.analysis.roots import names_in
from parsimony_kernel.analysis.state import holder_of

# Where a bare name is only read from.
_READING = {"Attribute", "BinOp", "Compare", "Expr", "FormattedValue", "Subscript"}
# What may run only in part: the part that runs for certain. A manager may swallow what its body
# raises.
_NEVER_SURE = """While Try TryStar Match Assert With AsyncWith Lambda ListComp SetComp DictComp
GeneratorExp"""
_SURE = {"If": "test", "IfExp": "test", "For": "iter", "AsyncFor": "iter"} | dict.fromkeys(
    _NEVER_SURE.split(), ""
)
# Methods of a frame that read it.
_READERS = frozenset({"head", "tail", "describe", "info", "sum", "mean", "count", "groupby"})


@functools.lru_cache(maxsize=128)
def columns_only(code: str) -> frozenset[str]:
    """The names with which ``code`` does no more than to read or set columns by a label that
    stands there, to set an attribute, to call what only reads, or to show them."""
    nodes = list(ast.walk(tree(code)))
    uses = {each: node for node in nodes for each in ast.iter_child_nodes(node)}
    every = [each for each in nodes if isinstance(each, ast.Name)]
    others = {each.id for each in every if not _is_of_columns(each, uses)}
    return frozenset(each.id for each in every) - others


def _is_of_columns(node: ast.Name, uses: Mapping[ast.AST, ast.AST]) -> bool:
    use = uses[node]
    above = uses.get(use)
    match use:
        case ast.Expr():
            return True
        case ast.Subscript(value=value, slice=ast.Constant(value=str())) if value is node:
            if isinstance(use.ctx, ast.Load):
                return isinstance(above, ast.BinOp | ast.Compare | ast.UnaryOp)
            return not isinstance(above, ast.AugAssign)
        case ast.Attribute(attr=name, ctx=ast.Store()):
            return name in ("columns", "index") and isinstance(above, ast.Assign)
        case ast.Attribute(attr=name):
            return name in _READERS and isinstance(above, ast.Call) and above.func is use
    return False


@dataclass(frozen=True)
class Use:
    """A literal column name that code looks up in the frame bound to ``frame``."""

    frame: str
    column: str
    or_level: bool = False


class Frame(Protocol):
    """What has to be known of a frame: which object it is, its columns and its index."""

    @property
    def identity(self) -> int: ...
    @property
    def depth(self) -> int: ...
    @property
    def rows(self) -> int: ...
    def has(self, column: str, *, or_level: bool) -> bool: ...


def column_uses(code: str, frames: Mapping[str, Frame]) -> list[Use]:
    """The literal columns that ``code`` certainly looks up in ``frames`` as they are now.

    It speaks only of a frame that the code has had no chance to change.
    """
    reader, module = _Reader(frames), tree(code)
    try:
        reader.visit(module)
    except RecursionError:
        return []
    # Names that the code may itself give to columns, of whatever frame.
    made = set[str | None]()
    every = list(ast.walk(module))
    altered = [each.target for each in every if isinstance(each, ast.AugAssign)]
    for each in every:
        if isinstance(each, ast.keyword):
            made.add(each.arg)
        elif isinstance(each, ast.Subscript) and isinstance(each.ctx, ast.Store):
            keys = [each.slice, *getattr(each.slice, "elts", ())] if each not in altered else []
            made.update(text for key in keys for text in _strings(key))
    return [use for use in reader.uses if use.column not in made]


class _Reader:
    """Walks code in the order of evaluation for as long as it is known what a frame holds.

    A frame that is mentioned in any way that is not understood is not spoken of again.
    """

    def __init__(self, frames: Mapping[str, Frame]) -> None:
        self.uses: list[Use] = []
        self._frames = frames
        self._open = {frame.identity for frame in frames.values()}
        self._harmless = set(HARMLESS)

    def visit(self, node: ast.AST, use: ast.AST | None = None, sure: bool = True) -> None:
        """Visit a node, in its ``use``, after its parts; ``sure`` is what runs for certain."""
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            self._forget(node.name, *names_in(node))  # its body runs whenever it is called
            return
        for each, is_sure in _parts_of(node):
            self.visit(each, node, sure and is_sure)
        match node:
            case ast.Name(id=name) if not self._is_read_only(node, use):
                self._forget(name)
            case ast.Attribute(value=ast.Name(id=name), attr=attr, ctx=ast.Load()):
                frame = self._frames.get(name)
                if frame and attr not in READS_COLUMNS and not frame.has(attr, or_level=False):
                    self._forget(name)
            case ast.Subscript(ctx=ast.Load()) if sure:
                self._item(node)
            case ast.Attribute() | ast.Subscript() if not isinstance(node.ctx, ast.Load):
                self._set(node, use, sure)
            case ast.Call():
                self._call(node, sure)
            case ast.alias():
                bound = (node.asname or node.name).partition(".")[0]
                self._harmless.add(bound)
                self._forget(*self._frames if bound == "*" else [bound])
            case ast.ExceptHandler() | ast.MatchAs() | ast.MatchStar():
                self._forget(node.name or "")

    def _forget(self, *names: str) -> None:
        self._open -= {self._frames[each].identity for each in names if each in self._frames}

    def _look_up(self, name: str | None, columns: Any, sure: bool, level: bool = False) -> None:
        if sure and name is not None and self._is_known(name):
            self.uses += [Use(name, column, level) for column in columns]

    def _is_known(self, name: str) -> bool:
        return name in self._frames and self._frames[name].identity in self._open

    def _is_read_only(self, node: ast.Name, use: ast.AST | None) -> bool:
        """Whether this use of a bare name leaves its object as it is."""
        match use:
            case ast.For() | ast.AsyncFor():
                return node is use.iter
            case ast.AugAssign():
                return node is use.value
            case ast.Call(func=function):
                root = holder_of(function)
                return (
                    node is function
                    or (isinstance(function, ast.Name) and function.id in HARMLESS)
                    or (root is not function and getattr(root, "id", "") in calls.LIBRARIES)
                    or self._table(getattr(function, "value", function), calls.GROUPS) is not None
                )
        return type(use).__name__ in _READING

    def _table(self, node: ast.expr, groups: Collection[str] = ()) -> str | None:
        """The known frame whose columns ``node`` has, or some of them; or that it groups by one
        of ``groups``."""
        match node:
            case ast.Name(id=name):
                return name if self._is_known(name) else None
            case ast.Subscript(value=holder, slice=key):
                listed = isinstance(key, ast.List)
                if isinstance(holder, ast.Attribute) and holder.attr == "loc":
                    holder, listed = holder.value, False
                # Some rows for certain, or some columns.
                rows = isinstance(key, ast.Slice | ast.Compare) or isinstance(
                    getattr(key, "op", None), ast.BitAnd | ast.BitOr | ast.Invert
                )
                return self._table(holder) if rows or listed else None
            case ast.Call(func=ast.Attribute(value=holder, attr=method), keywords=keywords):
                plain = all(each.arg not in (None, "axis", "inplace") for each in keywords)
                keeps = method in calls.KEEPS_COLUMNS and plain
                return self._table(holder) if keeps or method in groups else None
        return None

    def _item(self, node: ast.Subscript) -> None:
        owner, key = node.value, node.slice
        if isinstance(owner, ast.Attribute) and owner.attr in ("loc", "at"):
            name = self._table(owner.value)
            if name and isinstance(key, ast.Tuple) and len(key.elts) == 2:
                self._look_up(name, _strings(key.elts[1]), self._frames[name].depth == 1)
        else:
            self._look_up(self._table(owner, calls.GROUPS), _strings(key), True)

    def _set(self, node: ast.Attribute | ast.Subscript, use: ast.AST | None, sure: bool) -> None:
        if isinstance(use, ast.AugAssign) and isinstance(node, ast.Subscript):
            self._look_up(getattr(node.value, "id", None), _strings(node.slice), sure)
        self._forget(getattr(holder_of(node), "id", ""))

    def _call(self, node: ast.Call, sure: bool) -> None:
        function, keywords = node.func, {each.arg: each.value for each in node.keywords}
        if isinstance(function, ast.Name) and function.id not in self._harmless:
            self._open.clear()
        if not isinstance(function, ast.Attribute):
            return
        method, name = function.attr, self._table(function.value)
        if name is not None and not {"axis", None} & keywords.keys():
            for value in _column_arguments(method, node.args, keywords):
                # As many labels as rows may be the groups themselves.
                if len(getattr(value, "elts", ())) != self._frames[name].rows:
                    self._look_up(name, _strings(value), sure, method in calls.COLUMNS_OR_LEVELS)
        if method in calls.AGGREGATES and "axis" not in keywords:
            self._look_up(self._table(function.value, calls.GROUPS), _aggregated(node), sure)
        if getattr(keywords.get("inplace"), "value", "inplace" in keywords) is not False:
            self._open.clear()


def _parts_of(node: ast.AST) -> Iterator[tuple[ast.AST, bool]]:
    """The parts of a node in the order of evaluation, with whether each runs if the node does."""
    match node:
        case ast.Call(func=function, args=args, keywords=keywords):
            yield from ((each, True) for each in (function, *args, *(k.value for k in keywords)))
        case ast.Assign(targets=targets, value=value):
            yield from ((each, True) for each in (value, *targets))
        case ast.BoolOp(values=[first, *others]):
            yield from ((each, each is first) for each in (first, *others))
        case ast.AugAssign() | ast.AnnAssign() | ast.NamedExpr():
            yield from ((each, True) for each in (node.value, node.target) if each is not None)
        case _:
            if generators := getattr(node, "generators", ()):
                yield generators[0].iter, True
            sure = _SURE.get(type(node).__name__)
            for part in ast.iter_child_nodes(node):
                yield part, sure is None or part is getattr(node, sure, None)


def _column_arguments(
    method: str, args: Sequence[ast.expr], keywords: Mapping[str | None, ast.expr]
) -> list[ast.expr]:
    """What a call of ``method`` is given where it takes columns."""
    takes = calls.COLUMNS_BY_PLACE.get(method)
    if takes is None or len(args) > len(takes) or {"level", "errors"} & keywords.keys():
        return []
    names = (*takes, *calls.COLUMNS_BY_KEYWORD.get(method, ()))
    given = [value for parameter, value in zip(takes, args, strict=False) if parameter != "-"]
    return given + [value for key, value in keywords.items() if key in names]


def _strings(node: ast.expr | None) -> list[str]:
    """The literal texts that ``node`` is, or is a list of."""
    if isinstance(node, ast.List):
        return [text for each in node.elts for text in _strings(each)]
    text = node.value if isinstance(node, ast.Constant) else None
    return [text] if isinstance(text, str) else []


def _aggregated(node: ast.Call) -> Iterator[str]:
    """The columns that a call of ``agg`` asks for."""
    match node.args:
        case [ast.Dict(keys=keys), *_]:
            yield from (text for key in keys for text in _strings(key))
    for keyword in node.keywords:
        match keyword.value:
            case ast.Tuple(elts=[column, _]):
                yield from _strings(column)
            case ast.Call(keywords=given):
                named = (named.value for named in given if named.arg == "column")
                yield from (text for value in named for text in _strings(value))
