"""The columns of frames that code looks up, from its syntax alone."""

import ast
import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from parsimony_kernel.analysis.calls import (
    AGGREGATES,
    COLUMNS_BY_KEYWORD,
    COLUMNS_BY_PLACE,
    COLUMNS_OR_LEVELS,
    GROUPS,
    HARMLESS,
    KEEPS_COLUMNS,
    LIBRARIES,
    READS_COLUMNS,
)
from parsimony_kernel.analysis.parse import tree
from parsimony_kernel.analysis.state import holder_of, names_in

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
        for statement in module.body:
            reader.visit(statement)
    except RecursionError:
        return []
    made = _made_names(module)
    return [use for use in reader.uses if use.column not in made]


class _Reader(ast.NodeVisitor):
    """Walks code in the order of evaluation for as long as it is known what a frame holds.

    A frame that is mentioned in any way that is not understood is not spoken of again.
    """

    def __init__(self, frames: Mapping[str, Frame]) -> None:
        self.uses: list[Use] = []
        self._frames = frames
        self._open = {frame.identity for frame in frames.values()}
        self._imported: set[str] = set()
        # How many conditions, loops and functions are around: what is in them may never run.
        self._unsure = 0

    # What is known

    def _known(self, name: str) -> bool:
        return name in self._frames and self._frames[name].identity in self._open

    def _forget(self, name: str) -> None:
        if name in self._frames:
            self._open.discard(self._frames[name].identity)

    def _forget_all(self) -> None:
        self._open.clear()

    def _look_up(self, name: str, columns: Iterable[str], *, or_level: bool = False) -> None:
        if not self._unsure and self._known(name):
            self.uses += [Use(name, column, or_level) for column in columns]

    def _perhaps(self, nodes: Iterable[ast.AST | None]) -> None:
        self._unsure += 1
        for node in nodes:
            if node is not None:
                self.visit(node)
        self._unsure -= 1

    # Expressions that stand for a frame

    def _table(self, node: ast.expr) -> str | None:
        return _table_of(node, self._known)

    def _groups(self, node: ast.expr) -> str | None:
        return _groups_of(node, self._known)

    # Reading

    def visit_Name(self, node: ast.Name) -> None:
        self._forget(node.id)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        if not isinstance(node.ctx, ast.Load):
            self._changed(node)
            return
        if isinstance(node.value, ast.Name) and node.value.id in self._frames:
            name = node.value.id
            frame = self._frames[name]
            if node.attr not in READS_COLUMNS and not frame.has(node.attr, or_level=False):
                self._forget(name)
            return
        self.visit(node.value)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        if not isinstance(node.ctx, ast.Load):
            self._changed(node)
            return
        self._inspect(node.value)
        self._inspect(node.slice)
        owner = node.value
        if isinstance(owner, ast.Attribute) and owner.attr in ("loc", "at"):
            name = self._table(owner.value)
            if name is not None and isinstance(node.slice, ast.Tuple) and self._is_flat(name):
                self._look_up(name, _strings(node.slice.elts[-1]) if _is_pair(node.slice) else ())
            return
        name = self._table(owner) or self._groups(owner)
        if name is not None:
            self._look_up(name, _strings(node.slice))

    def _is_flat(self, name: str) -> bool:
        return self._frames[name].depth == 1

    def _inspect(self, node: ast.expr) -> None:
        """Visit a part whose value is only read from, so that a frame's bare name is harmless."""
        if not (isinstance(node, ast.Name) and node.id in self._frames):
            self.visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        function = node.func
        self._inspect(function)
        harmless = _is_harmless(function) or self._table_method(function)
        for argument in [*node.args, *(each.value for each in node.keywords)]:
            if harmless:
                self._inspect(argument)
            else:
                self.visit(argument)
        if isinstance(function, ast.Name):
            if not (function.id in HARMLESS or function.id in self._imported):
                self._forget_all()
        elif isinstance(function, ast.Attribute):
            self._method(node, function)

    def _table_method(self, function: ast.expr) -> bool:
        return isinstance(function, ast.Attribute) and (
            self._table(function.value) is not None or self._groups(function.value) is not None
        )

    def _method(self, node: ast.Call, function: ast.Attribute) -> None:
        keywords = {each.arg: each.value for each in node.keywords}
        name = self._table(function.value)
        if name is not None and not {"axis", None} & set(keywords):
            self._look_up_arguments(name, function.attr, node.args, keywords)
        if function.attr in AGGREGATES:
            of = name or self._groups(function.value)
            if of is not None and "axis" not in keywords:
                self._look_up(of, _aggregated(node))
        in_place = keywords.get("inplace")
        if in_place is not None and not (
            isinstance(in_place, ast.Constant) and in_place.value is False
        ):
            self._forget_all()

    def _look_up_arguments(
        self,
        name: str,
        method: str,
        args: Sequence[ast.expr],
        keywords: Mapping[str | None, ast.expr],
    ) -> None:
        for value in _column_arguments(method, args, keywords):
            # As many labels as rows may be the groups themselves.
            if isinstance(value, ast.List) and len(value.elts) == self._frames[name].rows:
                continue
            self._look_up(name, _strings(value), or_level=method in COLUMNS_OR_LEVELS)

    def visit_Compare(self, node: ast.Compare) -> None:
        self._inspect(node.left)
        for each in node.comparators:
            self._inspect(each)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        self._inspect(node.left)
        self._inspect(node.right)

    def visit_FormattedValue(self, node: ast.FormattedValue) -> None:
        self._inspect(node.value)

    def visit_Expr(self, node: ast.Expr) -> None:
        self._inspect(node.value)

    # What may not run

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        self.visit(node.values[0])
        self._perhaps(node.values[1:])

    def visit_IfExp(self, node: ast.IfExp) -> None:
        self.visit(node.test)
        self._perhaps([node.body, node.orelse])

    def visit_If(self, node: ast.If) -> None:
        self.visit(node.test)
        self._perhaps([*node.body, *node.orelse])

    def visit_For(self, node: ast.For | ast.AsyncFor) -> None:
        self._inspect(node.iter)
        self._perhaps([node.target, *node.body, *node.orelse])

    visit_AsyncFor = visit_For

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self._perhaps([node.args, node.body])

    def _comprehension(self, node: ast.AST, generators: list[ast.comprehension]) -> None:
        self._inspect(generators[0].iter)
        self._perhaps(ast.iter_child_nodes(node))

    def visit_ListComp(self, node: ast.ListComp) -> None:
        self._comprehension(node, node.generators)

    def visit_SetComp(self, node: ast.SetComp) -> None:
        self._comprehension(node, node.generators)

    def visit_DictComp(self, node: ast.DictComp) -> None:
        self._comprehension(node, node.generators)

    def visit_GeneratorExp(self, node: ast.GeneratorExp) -> None:
        self._comprehension(node, node.generators)

    def _guarded(self, node: ast.AST) -> None:
        self._perhaps(ast.iter_child_nodes(node))

    visit_While = _guarded
    visit_Try = _guarded
    visit_TryStar = _guarded
    visit_Match = _guarded
    visit_Assert = _guarded
    # A manager may swallow what its body raises.
    visit_With = _guarded
    visit_AsyncWith = _guarded

    # What may change a frame

    def _changed(self, target: ast.expr) -> None:
        root = holder_of(target)
        for child in ast.iter_child_nodes(target):
            if isinstance(child, ast.expr) and child is not root:
                self._inspect(child)
        if isinstance(root, ast.Name):
            self._forget(root.id)
        else:
            self.visit(root)

    def visit_Assign(self, node: ast.Assign) -> None:
        self.visit(node.value)
        for target in node.targets:
            self.visit(target)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self._inspect(node.value)
        target = node.target
        if isinstance(target, ast.Subscript) and isinstance(target.value, ast.Name):
            self._look_up(target.value.id, _strings(target.slice))
        self.visit(target)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)
        self.visit(node.target)

    def visit_NamedExpr(self, node: ast.NamedExpr) -> None:
        self.visit(node.value)
        self.visit(node.target)

    def _definition(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> None:
        # What its body does happens whenever it is called.
        for name in names_in(node):
            self._forget(name)
        self._forget(node.name)

    visit_FunctionDef = _definition
    visit_AsyncFunctionDef = _definition
    visit_ClassDef = _definition

    def visit_Import(self, node: ast.Import | ast.ImportFrom) -> None:
        for alias in node.names:
            bound = (alias.asname or alias.name).partition(".")[0]
            self._imported.add(bound)
            self._forget(bound)
            if bound == "*":
                self._forget_all()

    visit_ImportFrom = visit_Import

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> None:
        self._forget(node.name or "")
        self._guarded(node)

    def visit_MatchAs(self, node: ast.MatchAs) -> None:
        self._forget(node.name or "")
        self._guarded(node)

    def visit_MatchStar(self, node: ast.MatchStar) -> None:
        self._forget(node.name or "")


def _is_pair(node: ast.Tuple) -> bool:
    return len(node.elts) == 2


def _table_of(node: ast.expr, is_known: Callable[[str], bool]) -> str | None:
    """The known frame whose columns ``node`` has, or some of them."""
    if isinstance(node, ast.Name):
        return node.id if is_known(node.id) else None
    if isinstance(node, ast.Subscript):
        holder = node.value
        if isinstance(holder, ast.Attribute) and holder.attr == "loc":
            holder = holder.value
        rows = _picks_rows(node.slice)
        listed = isinstance(node.slice, ast.List) and holder is node.value
        return _table_of(holder, is_known) if rows or listed else None
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        plain = all(each.arg not in (None, "axis", "inplace") for each in node.keywords)
        return (
            _table_of(node.func.value, is_known)
            if node.func.attr in KEEPS_COLUMNS and plain
            else None
        )
    return None


def _groups_of(node: ast.expr, is_known: Callable[[str], bool]) -> str | None:
    """The known frame that ``node`` is a grouping of."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return _table_of(node.func.value, is_known) if node.func.attr in GROUPS else None
    return None


def _picks_rows(node: ast.expr) -> bool:
    """Whether ``frame[node]`` is some rows of it for certain."""
    if isinstance(node, ast.BinOp):
        return isinstance(node.op, ast.BitAnd | ast.BitOr)
    if isinstance(node, ast.UnaryOp):
        return isinstance(node.op, ast.Invert)
    return isinstance(node, ast.Slice | ast.Compare)


def _column_arguments(
    method: str, args: Sequence[ast.expr], keywords: Mapping[str | None, ast.expr]
) -> list[ast.expr]:
    """What a call of ``method`` is given where it takes columns."""
    takes = COLUMNS_BY_PLACE.get(method)
    if takes is None or len(args) > len(takes) or {"level", "errors"} & set(keywords):
        return []
    names = (*takes, *COLUMNS_BY_KEYWORD.get(method, ()))
    given = [value for parameter, value in zip(takes, args, strict=False) if parameter]
    return given + [value for key, value in keywords.items() if key in names]


def _strings(node: ast.expr | None) -> list[str]:
    """The literal texts that ``node`` is, or is a list of."""
    if isinstance(node, ast.Constant):
        return [node.value] if isinstance(node.value, str) else []
    if isinstance(node, ast.List):
        return [text for each in node.elts for text in _strings(each)]
    return []


def _made_names(module: ast.Module) -> set[str]:
    """Names that the code may itself give to columns, of whatever frame."""
    made: set[str] = set()
    altered = {node.target for node in ast.walk(module) if isinstance(node, ast.AugAssign)}
    for node in ast.walk(module):
        if node in altered:
            continue
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store):
            made.update(_strings(node.slice))
            if isinstance(node.slice, ast.Tuple):
                made.update(text for each in node.slice.elts for text in _strings(each))
        elif isinstance(node, ast.keyword) and node.arg is not None:
            made.add(node.arg)
    return made


def _aggregated(node: ast.Call) -> list[str]:
    """The columns that a call of ``agg`` asks for."""
    columns: list[str] = []
    if node.args and isinstance(node.args[0], ast.Dict):
        columns += [text for key in node.args[0].keys for text in _strings(key)]
    for each in node.keywords:
        value = each.value
        if isinstance(value, ast.Tuple) and len(value.elts) == 2:
            columns += _strings(value.elts[0])
        elif isinstance(value, ast.Call) and value.keywords:
            columns += [t for k in value.keywords if k.arg == "column" for t in _strings(k.value)]
    return columns


def _is_harmless(function: ast.expr) -> bool:
    """Whether a call of ``function`` leaves the frames that it is given as they are."""
    if isinstance(function, ast.Name):
        return function.id in HARMLESS
    root = holder_of(function)
    return isinstance(root, ast.Name) and root.id in LIBRARIES
