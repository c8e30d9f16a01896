"""Columns that code takes for granted, against the frames as they are.

Reads syntax and column names, never rows. It speaks only of a frame that is bound now and that
the code has not had a chance to change: when in doubt it says nothing.
"""

import ast
import builtins
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rapidfuzz import fuzz

from parsimony_kernel.agent.failure.kinds import Failure, FailureKind
from parsimony_kernel.execution.frames import cell
from parsimony_kernel.gate.refusal import RefusalError
from parsimony_kernel.gate.stages import Attempt, Stage
from parsimony_kernel.triage.taxonomy import FailureType

MAX_NAMED = 40
MAX_CHOICES = 8
MAX_COMPARED = 2_000

_CLEAR = 75.0
_MARGIN = 5.0


@dataclass(frozen=True)
class Frame:
    """The column names of a table; ``levels`` are the names of its index, ``rows`` its length."""

    columns: Any
    levels: frozenset[str]
    depth: int
    rows: int
    identity: int

    def has(self, column: str, *, or_level: bool) -> bool:
        """Whether ``column`` is one, or, where the call takes them, names a level of the index."""
        return column in self.columns or (or_level and column in self.levels)

    def names(self) -> list[str]:
        """The names that are text."""
        return list(dict.fromkeys(each for each in self.columns if isinstance(each, str)))


@dataclass(frozen=True)
class Use:
    """A literal column name that code looks up in the frame bound to ``frame``."""

    frame: str
    column: str
    or_level: bool = False


def columns_exist(variables: Callable[[], Mapping[str, Any]]) -> Stage:
    """Code asks frames only for columns that they have.

    One near name is offered, several are a question, and nothing is ever substituted.
    """

    def stage(attempt: Attempt) -> Failure | None:
        code = attempt.inputs.get("code")
        if attempt.action != "run_code" or not isinstance(code, str):
            return None
        tree = _parsed(code)
        if tree is None:
            return None
        mentioned = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        bound = variables()
        frames = {
            name: frame
            for name in sorted(mentioned)
            if name in bound and (frame := frame_of(bound[name])) is not None
        }
        missing = [
            use
            for use in dict.fromkeys(column_uses(tree, frames))
            if not frames[use.frame].has(use.column, or_level=use.or_level)
        ]
        return _refusal(attempt.action, missing, frames) if missing else None

    return stage


def frame_of(value: Any) -> Frame | None:
    """The columns of a frame of pandas or polars; ``None`` for anything that is not plainly one."""
    pandas, polars = sys.modules.get("pandas"), sys.modules.get("polars")
    if pandas is not None and type(value) is getattr(pandas, "DataFrame", None):
        # Dates and tuples as labels are looked up by rules of their own.
        if type(value.columns) is not pandas.Index:
            return None
        levels = frozenset(each for each in value.index.names if isinstance(each, str))
        return Frame(value.columns, levels, value.index.nlevels, len(value), id(value))
    if polars is not None and type(value) is getattr(polars, "DataFrame", None):
        return Frame(tuple(value.columns), frozenset(), 1, len(value), id(value))
    return None


def near_columns(name: str, columns: Iterable[str]) -> list[str]:
    """The columns that ``name`` may stand for, best first; more than one cannot be told apart."""
    scored = [(_nearness(name, column), column) for column in list(columns)[:MAX_COMPARED]]
    best = max((score for score, _ in scored), default=0.0)
    if best < _CLEAR:
        return []
    scored.sort(key=lambda each: -each[0])
    return [column for score, column in scored if score > best - _MARGIN]


def _words(name: str) -> list[str]:
    spread = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name[:200])
    return re.findall(r"[^\W_]+", spread.casefold())


def _nearness(name: str, column: str) -> float:
    asked, own = _words(name), _words(column)
    if not asked or not own:
        return 0.0
    if "".join(asked) == "".join(own):
        return 100.0
    if all(any(_alike(a, o) for o in own) for a in asked):
        return 92.0
    if all(any(_alike(a, o) for a in asked) for o in own):
        return 88.0
    return fuzz.ratio("".join(asked), "".join(own)) * 0.95


def _alike(a: str, b: str) -> bool:
    if a == b:
        return True
    short, long = sorted((a, b), key=len)
    if len(short) >= 4 and long.startswith(short):
        return True
    return len(short) >= 5 and fuzz.ratio(a, b) >= 85


def _refusal(action: str, missing: Sequence[Use], frames: Mapping[str, Frame]) -> Failure:
    near = {use: near_columns(use.column, frames[use.frame].names()) for use in missing}
    for use in missing:
        if len(near[use]) > 1:
            return _question(action, use, near[use][:MAX_CHOICES])
    details = [_detail(use, near[use], frames[use.frame]) for use in missing[:MAX_CHOICES]]
    parts = [
        f"`{use.frame}` has no column {cell(use.column)!r}"
        + (f" (did you mean {near[use][0]!r}?)" if near[use] else "")
        for use in missing[:MAX_CHOICES]
    ]
    reason = "; ".join(parts)
    listed = " ".join(
        f"Columns of `{name}`: {_listing(frames[name])}."
        for name in dict.fromkeys(use.frame for use in missing[:MAX_CHOICES])
    )
    envelope: dict[str, Any] = {
        "reason": reason,
        "details": details[0] if len(details) == 1 else details,
    }
    offered = [near[use][0] for use in missing if near[use]]
    if len(offered) == 1:
        envelope["did_you_mean"] = offered[0]
    return Failure(
        FailureKind.tool_error,
        f"{action}: {reason}. {listed} Nothing was run.",
        metadata={
            "refusal": RefusalError.validation_failed,
            "type": FailureType.SCHEMA_MISMATCH,
            "envelope": envelope,
        },
    )


def _detail(use: Use, near: Sequence[str], frame: Frame) -> dict[str, Any]:
    detail: dict[str, Any] = {
        "field": "code",
        "frame": use.frame,
        "column": cell(use.column),
        "columns": [cell(each) for each in frame.columns[:MAX_NAMED]],
    }
    return {**detail, "did_you_mean": near[0]} if near else detail


def _listing(frame: Frame) -> str:
    shown = ", ".join(repr(cell(each)) for each in frame.columns[:MAX_NAMED])
    more = len(frame.columns) - MAX_NAMED
    return f"{shown} and {more} more" if more > 0 else shown or "none"


def _question(action: str, use: Use, choices: Sequence[str]) -> Failure:
    question = f"Which column of `{use.frame}` do you mean by {cell(use.column)!r}?"
    reason = f"`{use.frame}` has no column {cell(use.column)!r}, and several come near"
    named = ", ".join(repr(each) for each in choices)
    return Failure(
        FailureKind.ambiguous_input,
        f"{action}: {reason}: {named}. Ask the person which one is meant. Nothing was run.",
        metadata={
            "refusal": RefusalError.validation_failed,
            "type": FailureType.UNKNOWN,
            "question": question,
            "choices": list(choices),
            "envelope": {
                "reason": reason,
                "details": {
                    "field": "code",
                    "frame": use.frame,
                    "column": cell(use.column),
                    "question": question,
                    "choices": list(choices),
                },
            },
        },
    )


def _parsed(code: str) -> ast.Module | None:
    try:
        return ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def column_uses(tree: ast.Module, frames: Mapping[str, Frame]) -> list[Use]:
    """The literal columns that ``tree`` certainly looks up in ``frames`` as they are now."""
    reader = _Reader(frames)
    try:
        for statement in tree.body:
            reader.visit(statement)
    except RecursionError:
        return []
    made = _made_names(tree)
    return [use for use in reader.uses if use.column not in made]


def _made_names(tree: ast.Module) -> set[str]:
    """Names that the code may itself give to columns, of whatever frame."""
    made: set[str] = set()
    altered = {node.target for node in ast.walk(tree) if isinstance(node, ast.AugAssign)}
    for node in ast.walk(tree):
        if node in altered:
            continue
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store):
            made.update(_strings(node.slice))
            if isinstance(node.slice, ast.Tuple):
                made.update(text for each in node.slice.elts for text in _strings(each))
        elif isinstance(node, ast.keyword) and node.arg is not None:
            made.add(node.arg)
    return made


# The parameters of a call that are columns, in order; ``None`` is something else.
_TAKES: dict[str, tuple[str | None, ...]] = {
    "drop": (None,),
    "drop_duplicates": ("subset",),
    "dropna": (),
    "duplicated": ("subset",),
    "groupby": ("by",),
    "melt": ("id_vars", "value_vars"),
    "nlargest": (None, "columns"),
    "nsmallest": (None, "columns"),
    "pivot": (),
    "pivot_table": ("values", "index", "columns"),
    "resample": (None,),
    "rolling": (None,),
    "set_index": ("keys",),
    "sort_values": ("by",),
    "value_counts": ("subset",),
}
_BY_KEYWORD: dict[str, tuple[str, ...]] = {
    "drop": ("columns",),
    "dropna": ("subset",),
    "pivot": ("columns", "index", "values"),
    "resample": ("on",),
    "rolling": ("on",),
}
_LEVELS_TOO = frozenset({"groupby", "sort_values", "pivot_table", "pivot"})
_GROUPING = frozenset({"groupby", "resample", "rolling", "expanding"})
_AGGREGATING = frozenset({"agg", "aggregate"})
# These give a frame with no column that was not there.
_KEEPING = frozenset(
    {
        "copy", "drop_duplicates", "dropna", "fillna", "head", "nlargest", "nsmallest", "query",
        "sample", "sort_index", "sort_values", "tail", "truncate", "convert_dtypes", "round",
    }
)  # fmt: skip
# These leave their frame as it is.
_READING = _KEEPING | frozenset(_TAKES) | _GROUPING | _AGGREGATING | frozenset(
    {
        "T", "abs", "all", "any", "apply", "applymap", "assign", "astype", "at", "attrs", "axes",
        "bfill", "columns", "corr", "corrwith", "count", "cov", "cummax", "cummin", "cumprod",
        "cumsum", "describe", "diff", "drop", "dtypes", "empty", "eq", "explode", "ffill",
        "filter", "ge", "get", "group_by", "gt", "hist", "iat", "idxmax", "idxmin", "iloc",
        "index", "info", "isin", "isna", "isnull", "items", "iterrows", "itertuples", "join",
        "keys", "kurt", "le", "loc", "lt", "map", "mask", "max", "mean", "median", "melt",
        "memory_usage", "merge", "min", "mode", "mul", "ndim", "ne", "notna", "notnull",
        "nunique", "pct_change", "plot", "prod", "quantile", "rank", "reindex", "rename",
        "replace", "reset_index", "select", "select_dtypes", "sem", "shape", "shift", "size",
        "skew", "sort", "stack", "std", "style", "sub", "sum", "to_clipboard", "to_csv",
        "to_dict", "to_excel", "to_feather", "to_html", "to_json", "to_latex", "to_markdown",
        "to_numpy", "to_parquet", "to_pickle", "to_records", "to_string", "transform",
        "transpose", "unstack", "values", "var", "where", "with_columns", "xs",
    }
)  # fmt: skip
_HARMLESS = (frozenset(dir(builtins)) | {"display"}) - {
    "__import__", "compile", "delattr", "eval", "exec", "getattr", "globals", "locals",
    "setattr", "vars",
}  # fmt: skip
_LIBRARIES = frozenset(
    {"alt", "altair", "np", "numpy", "pd", "pandas", "pl", "plt", "polars", "px", "sns"}
)


def _strings(node: ast.expr | None) -> list[str]:
    if isinstance(node, ast.Constant):
        return [node.value] if isinstance(node.value, str) else []
    if isinstance(node, ast.List):
        return [text for each in node.elts for text in _strings(each)]
    return []


def _picks_rows(node: ast.expr) -> bool:
    """Whether ``frame[node]`` is some rows of it for certain."""
    if isinstance(node, ast.BinOp):
        return isinstance(node.op, ast.BitAnd | ast.BitOr)
    if isinstance(node, ast.UnaryOp):
        return isinstance(node.op, ast.Invert)
    return isinstance(node, ast.Slice | ast.Compare)


def _root(node: ast.expr) -> ast.expr:
    while isinstance(node, ast.Attribute | ast.Subscript | ast.Starred):
        node = node.value
    return node


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
        """The frame whose columns ``node`` has, or some of them."""
        if isinstance(node, ast.Name):
            return node.id if self._known(node.id) else None
        if isinstance(node, ast.Subscript):
            holder = node.value
            if isinstance(holder, ast.Attribute) and holder.attr == "loc":
                holder = holder.value
            rows = _picks_rows(node.slice)
            listed = isinstance(node.slice, ast.List) and holder is node.value
            return self._table(holder) if rows or listed else None
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            plain = all(each.arg not in (None, "axis", "inplace") for each in node.keywords)
            return self._table(node.func.value) if node.func.attr in _KEEPING and plain else None
        return None

    def _groups(self, node: ast.expr) -> str | None:
        """The frame that ``node`` is a grouping of."""
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            return self._table(node.func.value) if node.func.attr in _GROUPING else None
        return None

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
            if node.attr not in _READING and not frame.has(node.attr, or_level=False):
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
            if not (function.id in _HARMLESS or function.id in self._imported):
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
        if function.attr in _AGGREGATING:
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
        takes = _TAKES.get(method)
        if takes is None or len(args) > len(takes) or {"level", "errors"} & set(keywords):
            return
        names = (*takes, *_BY_KEYWORD.get(method, ()))
        given = [value for parameter, value in zip(takes, args, strict=False) if parameter]
        given += [value for key, value in keywords.items() if key in names]
        for value in given:
            # As many labels as rows may be the groups themselves.
            if isinstance(value, ast.List) and len(value.elts) == self._frames[name].rows:
                continue
            self._look_up(name, _strings(value), or_level=method in _LEVELS_TOO)

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
        root = _root(target)
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
        for name in _names_in(node):
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


def _is_harmless(function: ast.expr) -> bool:
    if isinstance(function, ast.Name):
        return function.id in _HARMLESS
    root = _root(function)
    return isinstance(root, ast.Name) and root.id in _LIBRARIES


def _is_pair(node: ast.Tuple) -> bool:
    return len(node.elts) == 2


def _names_in(node: ast.AST) -> Iterator[str]:
    return (each.id for each in ast.walk(node) if isinstance(each, ast.Name))


def _aggregated(node: ast.Call) -> list[str]:
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
