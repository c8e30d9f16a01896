"""The smallest script that rebuilds a variable: a backward slice over the cells that ran.

Across cells the ledger decides: a run is in when it made a version that is needed. Inside a cell
the text decides, statement by statement from the end, and errs towards keeping: what cannot be
told apart is kept, and what cannot be told at all is a ``SliceError``. No script is guessed.
"""

import ast
import builtins
import functools
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from parsimony_kernel.lineage.analysis import analyse
from parsimony_kernel.lineage.ledger import CellRun, InputRef, OriginLedger

# What a private namespace holds before any code has run, and how to get it elsewhere.
SEEDS: Mapping[str, str] = {
    "pd": "import pandas as pd",
    "np": "import numpy as np",
    "alt": "import altair as alt",
    "datetime": "from datetime import datetime",
    "timedelta": "from datetime import timedelta",
    "timezone": "from datetime import timezone",
    "read_excel": "from parsimony_kernel import read_excel",
    "read_pdf_text": "from parsimony_kernel import read_pdf_text",
    "read_pptx_text": "from parsimony_kernel import read_pptx_text",
    "load_dataset": "from parsimony_kernel import load_dataset",
    "display": "from IPython.display import display",
    "get_ipython": "from IPython import get_ipython",
}

_BUILTINS = frozenset(vars(builtins)) | {"__name__", "__builtins__"}
# What star imports, exec and %run bind: names that no text tells.
_ANY = "*"

_ATOMIC = frozenset(
    {
        "len", "int", "float", "str", "bool", "complex", "bytes", "abs", "round", "range", "hash",
        "ord", "chr", "isinstance", "issubclass", "callable", "hasattr", "type", "repr", "format",
        "bin", "hex", "oct", "id", "all", "any", "divmod", "pow", "print", "deepcopy", "display",
    }
)  # fmt: skip
_COPYING = frozenset({"list", "dict", "set", "tuple", "frozenset", "sorted", "sum", "bytearray"})
_CHANGING = frozenset(
    {
        "shuffle", "heappush", "heappop", "heapify", "heapreplace", "heappushpop", "insort",
        "insort_left", "insort_right", "copyto", "put", "place", "putmask", "fill_diagonal",
        "put_along_axis", "setattr", "delattr", "next", "setitem", "delitem", "iadd", "isub",
        "imul", "iconcat", "ior", "iand", "at",
    }
)  # fmt: skip
# Methods that leave their object as it is, of builtin values, frames, charts and figures.
_PURE = frozenset(
    {
        "head", "tail", "describe", "info", "sample", "groupby", "agg", "aggregate", "sum", "mean",
        "median", "min", "max", "std", "var", "count", "size", "nunique", "unique", "value_counts",
        "isna", "isnull", "notna", "notnull", "fillna", "dropna", "drop", "rename", "assign",
        "reset_index", "set_index", "pivot", "pivot_table", "melt", "stack", "unstack", "merge",
        "join", "query", "sort_values", "sort_index", "astype", "apply", "map", "transform",
        "pipe", "filter", "where", "mask", "clip", "round", "abs", "corr", "cov", "quantile",
        "rank", "diff", "shift", "pct_change", "cumsum", "cumprod", "cummax", "cummin", "rolling",
        "expanding", "ewm", "resample", "nlargest", "nsmallest", "duplicated", "drop_duplicates",
        "isin", "between", "replace", "explode", "to_frame", "to_dict", "to_list", "tolist",
        "to_numpy", "to_csv", "to_parquet", "to_json", "to_excel", "to_string", "to_markdown",
        "to_html", "to_pandas", "to_series", "to_datetime", "copy", "equals", "items", "keys",
        "values", "get", "index", "split", "strip", "lstrip", "rstrip", "lower", "upper", "title",
        "startswith", "endswith", "format", "encode", "decode", "find", "plot", "hist", "boxplot",
        "scatter", "line", "bar", "show", "mark_line", "mark_bar", "mark_point", "mark_area",
        "mark_rect", "mark_circle", "mark_tick", "mark_rule", "mark_text", "properties",
        "interactive", "facet", "select", "with_columns", "collect", "lazy", "reshape",
        "ravel", "flatten", "dot", "all", "any", "argmax", "argmin", "argsort", "nonzero",
        "isoformat", "strftime", "date", "time", "total_seconds", "union", "intersection",
        "difference", "symmetric_difference", "issubset", "issuperset", "isdisjoint",
        "idxmax", "idxmin", "itertuples", "iterrows", "select_dtypes", "add", "sub", "mul", "div",
        "savefig", "save", "bit_length", "is_integer", "month_name", "day_name", "contains", "cat",
        "len", "extract", "zfill", "combine_first", "first", "last", "nth", "mode", "skew", "kurt",
        "squeeze", "xs", "eval", "compare", "align", "reindex", "tz_localize", "tz_convert",
    }
) - {"add"}  # fmt: skip
_MUTATING = frozenset(
    {
        "append", "extend", "insert", "pop", "popitem", "remove", "clear", "sort", "reverse",
        "update", "setdefault", "add", "discard", "appendleft", "popleft", "extendleft", "rotate",
        "difference_update", "intersection_update", "symmetric_difference_update",
    }
)  # fmt: skip
_DYNAMIC = frozenset({"exec", "eval", "globals", "locals", "vars"})
_DRAWING = frozenset({"plt", "sns", "alt", "px", "go", "pyplot", "matplotlib", "warnings"})
# Magics whose text runs as part of the cell, and those that bind nothing.
_RUN_THEIR_TEXT = frozenset({"time", "prun", "capture", "memit"})
_BIND_NOTHING = frozenset(
    {"timeit", "matplotlib", "config", "load_ext", "reload_ext", "autoreload", "who", "whos"}
    | {"pwd", "ls", "pip", "conda", "precision", "html", "markdown", "latex", "agent"}
)


class SliceError(Exception):
    """There is no script that surely rebuilds the variable. ``names`` are in the way."""

    def __init__(self, message: str, names: Collection[str] = ()) -> None:
        super().__init__(message)
        self.names = tuple(sorted(names))


@dataclass(frozen=True)
class Part:
    """The statements of one run of a cell that a script holds, in their order.

    ``lines`` are their first and last lines in the cell's code, counted from 1.
    """

    run: CellRun
    statements: tuple[str, ...]
    lines: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Script:
    """A script that rebuilds ``name``.

    ``sources`` are the files and addresses that its cells read. ``unknown`` are names that its
    functions mention and that nothing is known to have bound.
    """

    name: str
    code: str
    parts: tuple[Part, ...] = ()
    sources: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()


def slice(ledger: OriginLedger, name: str, *, turns: Mapping[str, int] | None = None) -> Script:
    """The smallest script of top-level statements that rebuilds ``name`` as it is now.

    What draws random numbers, asks the time or reads from outside is run again, not repeated.

    Args:
        turns: the number of the turn of each run id, for the comments.

    Raises:
        SliceError: when the origin of something that went in is unknown, or a cell stopped
            where its effect cannot be told, or no order of the cells gives the versions back.
    """
    origin = ledger.get(name)
    if origin is None:
        raise SliceError(
            f"nothing is known of where {name!r} comes from: run the cell that makes it again, "
            "or give a variable that a cell made since tracking began",
            {name},
        )
    if not origin.cell_run:
        raise SliceError(f"the run of the cell that made {name!r} was not recorded", {name})
    program = _Program(ledger.cell_runs())
    plan = _Plan(program, ledger)
    plan.need_at_end(name, origin.cell_run)
    plan.resolve()
    return _written(name, plan, turns or {})


# One statement


@dataclass(frozen=True)
class _Statement:
    """A top-level statement and what it does with names.

    ``touched`` are names whose object it may change, with whether it may reach below its top, and
    ``changes`` those that it plainly changes. ``is_opaque`` says that it may bind names that its
    text does not tell, ``is_blind`` that it may read any.
    ``later`` is what the functions in it do when they run.
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
    later: "_Later | None" = None
    carried: frozenset[str] = frozenset()
    links: frozenset["_Link"] = frozenset()


@dataclass(frozen=True)
class _Later:
    """What happens when a function runs: names it reads, binds, and whose objects it changes."""

    reads: frozenset[str] = frozenset()
    writes: frozenset[str] = frozenset()
    touched: frozenset[str] = frozenset()

    def __or__(self, other: "_Later") -> "_Later":
        return _Later(
            self.reads | other.reads, self.writes | other.writes, self.touched | other.touched
        )


@dataclass(frozen=True)
class _Link:
    """Two names that may share an object: the ``same``, one ``part`` of the other, a ``copy`` with
    the same elements, or ``one`` that ``holds`` the other."""

    one: str
    other: str
    kind: str


@dataclass(frozen=True, eq=False)
class _Vocabulary:
    """What the cells of the notebook define: functions and methods by name, and imports."""

    functions: Mapping[str, tuple[ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda, ...]]
    classes: frozenset[str]
    methods: frozenset[str]
    imports: frozenset[str]
    _harmless: dict[str, bool] = field(default_factory=dict, compare=False)

    def is_harmless(self, name: str) -> bool:
        """Whether the notebook's function ``name`` leaves its arguments and globals alone."""
        if name not in self._harmless:
            self._harmless[name] = True  # while it is being found out: a recursive call adds none
            self._harmless[name] = not any(
                self._changes_what_is_not_its_own(each) for each in self.functions[name]
            )
        return self._harmless[name]

    def _changes_what_is_not_its_own(
        self, function: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
    ) -> bool:
        body = function.body if isinstance(function.body, list) else [function.body]
        touched = {name for node in body for name, _ in _touched(node, self)}
        if any(isinstance(each, ast.Global | ast.Nonlocal) for each in ast.walk(function)):
            return True
        if not touched:
            return False
        shared = _Sharing(link for node in body for link in _links(node, self))
        arguments = {each.arg for each in ast.walk(function.args) if isinstance(each, ast.arg)}
        bound = {
            each.id
            for node in body
            for each in ast.walk(node)
            if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)
        }
        read = {each.id for node in body for each in ast.walk(node) if isinstance(each, ast.Name)}
        outside = arguments | (read - bound - _BUILTINS - self.imports)
        return any(shared.affects(name, True, other) for name in touched for other in outside)


@functools.lru_cache(maxsize=16)
def _vocabulary(codes: tuple[str, ...]) -> _Vocabulary:
    functions: dict[str, list[ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda]] = {}
    classes, methods, imports = set[str](), set[str](), set[str]()
    for code in codes:
        for node in ast.walk(_tree(code)):
            match node:
                case ast.FunctionDef() | ast.AsyncFunctionDef():
                    functions.setdefault(node.name, []).append(node)
                case ast.Assign(targets=[ast.Name(id=name)], value=ast.Lambda() as made):
                    functions.setdefault(name, []).append(made)
                case ast.ClassDef():
                    classes.add(node.name)
                    methods |= {
                        each.name
                        for each in node.body
                        if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)
                    }
                case ast.Import() | ast.ImportFrom():
                    imports |= {each.asname or each.name.partition(".")[0] for each in node.names}
    return _Vocabulary(
        {name: tuple(found) for name, found in functions.items()},
        frozenset(classes),
        frozenset(methods),
        frozenset(imports | SEEDS.keys()),
    )


def _statement(node: ast.stmt, text: str, lines: tuple[int, int], known: _Vocabulary) -> _Statement:
    whole = analyse(text)
    now = whole
    later: _Later | None = None
    inner: list[ast.AST] = []
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            inner = [node]
            now = analyse(ast.unparse(_without_bodies(node)))
        case ast.ClassDef():
            inner = [
                each
                for each in ast.walk(node)
                if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
            ]
            now = analyse(ast.unparse(_without_bodies(node)))
        case _:
            inner = [
                each
                for each in ast.walk(node)
                if isinstance(
                    each,
                    ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.GeneratorExp,
                )
            ]
    for function in inner:
        found = _later(function, known)
        later = found if later is None else later | found
    defines = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
    is_import = isinstance(node, ast.Import | ast.ImportFrom)
    touched = frozenset() if defines else frozenset(_touched(node, known))
    seen = {name for name, _ in touched}
    touched |= {(name, True) for name in now.mutated - seen}
    reads = now.reads | (now.mutated - now.writes) | now.deletes
    star = isinstance(node, ast.ImportFrom) and any(each.name == "*" for each in node.names)
    return _Statement(
        text=text,
        lines=lines,
        reads=frozenset(reads),
        writes=now.writes,
        certain=frozenset(_certain(node) & now.writes),
        deletes=now.deletes,
        touched=touched,
        changes=now.mutated,
        is_opaque=_is_opaque(node),
        is_blind=_is_blind(node),
        is_star=star,
        is_future=isinstance(node, ast.ImportFrom) and node.module == "__future__",
        is_import=is_import,
        binds_whole=defines or is_import or _binds_whole(node),
        later=later,
        carried=frozenset() if is_import else frozenset(_carried(node, known)),
        links=frozenset() if defines else frozenset(_links(node, known)),
    )


def _decorators(node: ast.stmt) -> list[ast.expr]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return node.decorator_list
    return []


class _BodyRemover(ast.NodeTransformer):
    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        return ast.FunctionDef(**{**dict(ast.iter_fields(node)), "body": [ast.Pass()]})

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        return ast.AsyncFunctionDef(**{**dict(ast.iter_fields(node)), "body": [ast.Pass()]})


def _without_bodies(node: ast.stmt) -> ast.AST:
    again = ast.parse(ast.unparse(node)).body[0]
    stripped: ast.stmt = _BodyRemover().visit(again)
    return ast.fix_missing_locations(stripped)


def _later(function: ast.AST, known: _Vocabulary) -> _Later:
    match function:
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            bare = ast.parse(ast.unparse(function)).body[0]
            assert isinstance(bare, ast.FunctionDef | ast.AsyncFunctionDef)
            bare.decorator_list = []
            bare.args.defaults = [ast.Constant(None) for _ in bare.args.defaults]
            bare.args.kw_defaults = [each and ast.Constant(None) for each in bare.args.kw_defaults]
            text = ast.unparse(ast.fix_missing_locations(bare))
            names = analyse(text)
            own = {function.name}
        case ast.Lambda() | ast.GeneratorExp():
            names = analyse(ast.unparse(function))
            own = set()
        case _:
            return _Later()
    bound = {
        each.id
        for each in ast.walk(function)
        if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)
    } | {each.arg for each in ast.walk(function) if isinstance(each, ast.arg)}
    touched = {name for name, _ in _touched(function, known)}
    links = _Sharing(_links(function, known))
    reached = {
        name
        for name in names.reads
        if any(links.affects(each, True, name) for each in touched | names.mutated)
    }
    return _Later(
        names.reads - own,
        names.writes - own,
        frozenset((touched - bound) & (names.reads | names.mutated) | names.mutated | reached),
    )


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
                for name in ast.walk(item.optional_vars)
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
                for each in ast.walk(target)
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


def _is_opaque(node: ast.AST) -> bool:
    for each in ast.walk(node):
        match each:
            case ast.Call(func=ast.Name(id=name)) if name in _DYNAMIC:
                return True
            case ast.Call(
                func=ast.Attribute(attr="run_line_magic" | "run_cell_magic"),
                args=[ast.Constant(value=str(magic)), *_],
            ) if magic not in _BIND_NOTHING:
                return True
    return False


def _is_blind(node: ast.AST) -> bool:
    return any(
        isinstance(each, ast.Call)
        and isinstance(each.func, ast.Name)
        and each.func.id in ("exec", "eval")
        and not isinstance(each.args[0] if each.args else None, ast.Constant)
        for each in ast.walk(node)
    )


def _carried(node: ast.AST, known: _Vocabulary) -> Iterator[str]:
    """The names whose functions what is bound here may hold."""
    called = {
        id(each.func)
        for each in ast.walk(node)
        if isinstance(each, ast.Call)
        and isinstance(each.func, ast.Name)
        and each.func.id not in known.classes
        and not any(
            isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef)
            for function in known.functions.get(each.func.id, ())
            for inner in ast.walk(function)
            if inner is not function
        )
    }
    for each in ast.walk(node):
        if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load) and id(each) not in called:
            yield each.id


# What may be changed, and what may be shared


def _root(node: ast.AST) -> tuple[str, int]:
    """The name at the beginning of ``a.b[c].d``, and how many steps follow; ``""`` for others."""
    steps = 0
    while isinstance(node, ast.Attribute | ast.Subscript | ast.Starred):
        steps += not isinstance(node, ast.Starred)
        node = node.value
    return (node.id, steps) if isinstance(node, ast.Name) else ("", steps)


def _names(node: ast.AST) -> Iterator[str]:
    for each in ast.walk(node):
        if isinstance(each, ast.Name):
            yield each.id


def _touched(tree: ast.AST, known: _Vocabulary) -> Iterator[tuple[str, bool]]:
    """The names whose object ``tree`` may change, with whether below its top."""
    thrown_away = {id(each.value) for each in ast.walk(tree) if isinstance(each, ast.Expr)}
    for node in ast.walk(tree):
        match node:
            case (
                ast.Attribute(ctx=ast.Store() | ast.Del())
                | ast.Subscript(ctx=ast.Store() | ast.Del())
            ):
                name, steps = _root(node)
                if name:
                    yield name, steps > 1
            case ast.AugAssign(target=ast.Name(id=name)):
                yield name, False
            case ast.Call():
                yield from _touched_by_call(node, known, id(node) in thrown_away)


def _touched_by_call(
    node: ast.Call, known: _Vocabulary, is_thrown_away: bool
) -> Iterator[tuple[str, bool]]:
    handed = [*node.args, *(each.value for each in node.keywords)]
    theirs = False
    match node.func:
        case ast.Name(id=name):
            if name in known.functions:
                theirs = not known.is_harmless(name)
            elif name in known.classes or name in _CHANGING:
                theirs = True
            elif name not in _BUILTINS and name not in known.imports:
                theirs = True  # a function by another name
        case ast.Attribute(attr=method, value=receiver):
            name, steps = _root(receiver)
            in_place = any(
                each.arg == "inplace"
                and not (isinstance(each.value, ast.Constant) and each.value.value is False)
                for each in node.keywords
            )
            if name in known.imports:
                theirs = method in _CHANGING
                if is_thrown_away and name not in _DRAWING and method not in _PURE:
                    yield name, True  # a setting, such as a seed
            elif method in known.methods:
                theirs = True
                if name:
                    yield name, True
            elif name and method in _MUTATING:
                yield name, steps > 0
            elif name and (in_place or method not in _PURE):
                yield name, steps > 0 or not in_place
        case _:
            theirs = True
    functions = [
        each.id for each in handed if isinstance(each, ast.Name) and each.id in known.functions
    ]
    if any(not known.is_harmless(each) for each in functions):
        theirs = True
        if isinstance(node.func, ast.Attribute) and (name := _root(node.func.value)[0]):
            yield name, True
    for keyword in node.keywords:
        if keyword.arg == "out":
            for name in _names(keyword.value):
                yield name, True
    if theirs:
        for each in handed:
            for name in _names(each):
                yield name, True


def _links(tree: ast.AST, known: _Vocabulary) -> Iterator[_Link]:
    """Which names of ``tree`` may share objects."""
    for node in ast.walk(tree):
        match node:
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    yield from _bound(target, value, known)
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                yield from _bound(target, value, known)
            case ast.NamedExpr(target=target, value=value):
                yield from _bound(target, value, known)
            case ast.AugAssign(target=target, value=value):
                name, steps = _root(target)
                for other, kind in _shares(value, known):
                    yield _Link(name, other, "part" if steps else _inside(kind))
            case ast.For() | ast.AsyncFor() | ast.comprehension():
                for name in _names(node.target):
                    for other, _ in _shares(node.iter, known):
                        yield _Link(name, other, "part")
            case ast.withitem(context_expr=value, optional_vars=ast.expr() as target):
                yield from _parts(target, value)
            case ast.Match(subject=value):
                for case in node.cases:
                    for each in ast.walk(case.pattern):
                        label = getattr(each, "name", None) or getattr(each, "rest", None)
                        if isinstance(label, str):
                            for held in _names(value):
                                yield _Link(label, held, "part")
            case ast.Call():
                yield from _linked_by_call(node, known)


def _linked_by_call(node: ast.Call, known: _Vocabulary) -> Iterator[_Link]:
    handed = [*node.args, *(each.value for each in node.keywords)]
    shared = [name for each in handed for name, _ in _shares(each, known)]
    match node.func:
        case ast.Attribute(attr=method, value=receiver):
            name, _ = _root(receiver)
            if name and name not in known.imports and method not in _PURE:
                for other in shared:
                    yield _Link(name, other, "holds" if method in _MUTATING else "part")
                shared = []
        case ast.Name(id=name) if name in known.functions and known.is_harmless(name):
            return
        case ast.Name(id=name) if name in _BUILTINS and name != "setattr":
            return
    for other in shared[1:]:
        yield _Link(shared[0], other, "part")


def _bound(target: ast.expr, value: ast.expr, known: _Vocabulary) -> Iterator[_Link]:
    match target, value:
        case ast.Tuple(elts=targets) | ast.List(elts=targets), ast.Tuple(elts=values) | ast.List(
            elts=values
        ) if len(targets) == len(values) and not any(
            isinstance(each, ast.Starred) for each in [*targets, *values]
        ):
            for one, its in zip(targets, values, strict=True):
                yield from _bound(one, its, known)
        case ast.Name(id=name), _:
            for other, kind in _shares(value, known):
                yield _Link(name, other, kind)
        case ((ast.Attribute() | ast.Subscript()), _):
            root, _ = _root(target)
            for other, kind in _shares(value, known):
                if root:
                    yield _Link(root, other, "copy" if kind == "copy" else "holds")
        case _:
            yield from _parts(target, value)


def _parts(target: ast.expr, value: ast.expr) -> Iterator[_Link]:
    names = list(_names(target))
    for name in names:
        for other in (*_names(value), names[0]):
            yield _Link(name, other, "part")


def _shares(value: ast.AST, known: _Vocabulary) -> Iterator[tuple[str, str]]:
    """The names with whose objects the value of an expression may share, and how."""
    match value:
        case ast.Name(id=name):
            if name not in known.imports and name not in _BUILTINS:
                yield name, "same"
        case ast.Constant() | ast.JoinedStr() | ast.Compare():
            return
        case ast.BinOp() | ast.UnaryOp():
            parts = [value.operand] if isinstance(value, ast.UnaryOp) else [value.left, value.right]
            for part in parts:
                for name, kind in _shares(part, known):
                    yield name, _inside(kind)
        case ast.IfExp(body=body, orelse=orelse):
            yield from _shares(body, known)
            yield from _shares(orelse, known)
        case ast.BoolOp(values=values):
            for part in values:
                yield from _shares(part, known)
        case ast.List() | ast.Tuple() | ast.Set():
            for part in value.elts:
                for name, kind in _shares(part, known):
                    is_copy = kind == "copy" or (isinstance(part, ast.Starred) and kind == "same")
                    yield name, "copy" if is_copy else "holds"
        case ast.Dict(keys=keys, values=values):
            for each in (*keys, *values):
                if each is not None:
                    for name, kind in _shares(each, known):
                        yield name, "copy" if kind == "copy" else "holds"
        case ast.ListComp(elt=made) | ast.SetComp(elt=made):
            yield from _of_comprehension([made], known)
        case ast.DictComp(key=key, value=made):
            yield from _of_comprehension([key, made], known)
        case ast.Call():
            yield from _shared_by_call(value, known)
        case ast.Subscript() | ast.Attribute():
            name, _ = _root(value)
            if name:
                if name not in known.imports:
                    yield name, "part"
            else:
                inner = value.value
                for name, _ in _shares(inner, known):
                    yield name, "part"
        case ast.Await(value=inner) | ast.Starred(value=inner) | ast.NamedExpr(value=inner):
            yield from _shares(inner, known)
        case _:
            for name in _names(value):
                if name not in known.imports and name not in _BUILTINS:
                    yield name, "part"


def _inside(kind: str) -> str:
    """How a new container shares with what its elements were taken from."""
    return "copy" if kind in ("same", "copy") else "holds"


def _of_comprehension(made: list[ast.expr], known: _Vocabulary) -> Iterator[tuple[str, str]]:
    for each in made:
        for name, kind in _shares(each, known):
            yield name, "copy" if kind == "copy" else "holds"


def _shared_by_call(node: ast.Call, known: _Vocabulary) -> Iterator[tuple[str, str]]:
    handed = [*node.args, *(each.value for each in node.keywords)]
    kind = "part"
    match node.func:
        case ast.Name(id=name):
            if name in _ATOMIC and name not in known.functions:
                return
            if name in _COPYING and name not in known.functions:
                kind = "copy"
            elif name in known.functions or name in known.classes:
                yield name, "part"
        case ast.Attribute(attr="deepcopy"):
            return
        case ast.Attribute(attr=method, value=receiver):
            fresh = method in {"copy", "sum", "mean", "min", "max", "count", "nunique", "upper"}
            for name, how in _shares(receiver, known):
                yield name, "copy" if fresh and how != "part" else "part"
            if fresh:
                return
    for each in handed:
        for name, how in _shares(each, known):
            yield name, _inside(how) if kind == "copy" else "part"


class _Sharing:
    """Which names a change of one may be seen through."""

    def __init__(self, links: Iterable[_Link]) -> None:
        self._groups: dict[str, str] = {}
        # From a name, another and how the first sees it.
        self._seen_from: dict[str, set[tuple[str, str]]] = {}
        self._reached: dict[str, frozenset[str]] = {}
        for link in set(links):
            _join(self._groups, link.one, link.other)
            self._seen_from.setdefault(link.one, set()).add((link.other, link.kind))
            if link.kind != "holds":
                self._seen_from.setdefault(link.other, set()).add((link.one, link.kind))

    def affects(self, name: str, is_deep: bool, other: str) -> bool:
        """Whether changing the object of ``name`` may change that of ``other``."""
        if name == other:
            return True
        if _find(self._groups, name) != _find(self._groups, other):
            return False
        return is_deep or name in self._all_seen_from(other)

    def _all_seen_from(self, name: str) -> frozenset[str]:
        """The names whose very object ``name`` may hold."""
        if name not in self._reached:
            # With whether the object itself is reached, or only its elements.
            seen, pending = set[tuple[str, bool]](), [(name, True)]
            while pending:
                step = pending.pop()
                if step in seen:
                    continue
                seen.add(step)
                for other, kind in self._seen_from.get(step[0], ()):
                    pending.append((other, kind != "copy" and (kind != "same" or step[1])))
            self._reached[name] = frozenset(each for each, is_whole in seen if is_whole)
        return self._reached[name]


def _find(parents: dict[str, str], name: str) -> str:
    while (parent := parents.get(name, name)) != name:
        name = parent
    return name


def _join(parents: dict[str, str], one: str, other: str) -> None:
    parents[_find(parents, one)] = _find(parents, other)


# All cells


class _Program:
    """The statements of every run, and what their functions do."""

    def __init__(self, runs: tuple[CellRun, ...]) -> None:
        self.runs = runs
        codes = dict.fromkeys(run.code for run in runs)
        known = _vocabulary(tuple(filter(_defines, codes)))
        self.known = known
        told = {code: _statements(code, known) for code in codes}
        self._of_run = {run.number: told[run.code] for run in runs}
        everything = [each for statements in told.values() for each in statements]
        self.sharing = _Sharing(link for each in everything for link in each.links)
        self._later: dict[str, _Later] = {}
        self._holds: dict[str, set[str]] = {}
        for each in everything:
            for name in each.writes:
                if each.later is not None:
                    self._later[name] = self._later.get(name, _Later()) | each.later
                self._holds.setdefault(name, set()).update(each.carried)
        self.tracked = {ref.name for run in runs for ref in run.made}
        self.sets_path = any("sys" in {name for name, _ in each.touched} for each in everything)
        self.through = functools.lru_cache(maxsize=None)(self._through)

    def run(self, number: int) -> CellRun:
        return self.runs[number - 1]

    def statements(self, run: CellRun) -> tuple[_Statement, ...]:
        return self._of_run[run.number]

    def _through(self, names: frozenset[str]) -> _Later:
        """What the functions that ``names`` hold do when they run, all the way."""
        found, seen, pending = _Later(), set[str](), list(names)
        while pending:
            name = pending.pop()
            if name in seen:
                continue
            seen.add(name)
            pending += self._holds.get(name, ()) if name in self._holders else ()
            later = self._later.get(name)
            if later is not None:
                found |= later
                pending += later.reads
        return found

    @functools.cached_property
    def _holders(self) -> frozenset[str]:
        """The names that hold a function, or something that does."""
        holders = set(self._later)
        while True:
            more = {name for name, held in self._holds.items() if held & holders} - holders
            if not more:
                return frozenset(holders)
            holders |= more

    def reads(self, statement: _Statement) -> frozenset[str]:
        extra = {"sys"} if statement.is_import and self.sets_path else frozenset()
        return statement.reads | self.through(statement.reads).reads | extra

    def touched(self, statement: _Statement) -> Iterator[tuple[str, bool]]:
        yield from statement.touched
        for name in self.through(statement.reads).touched:
            yield name, True

    def maybe_writes(self, statement: _Statement) -> frozenset[str]:
        return statement.writes | self.through(statement.reads).writes


@functools.lru_cache(maxsize=4_096)
def _tree(code: str) -> ast.Module:
    try:
        return ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ast.Module(body=[], type_ignores=[])


@functools.lru_cache(maxsize=4_096)
def _defines(code: str) -> bool:
    """Whether a cell adds to the vocabulary of the notebook."""
    defining = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef
    return any(
        isinstance(each, defining | ast.Import | ast.ImportFrom) for each in ast.walk(_tree(code))
    )


@functools.lru_cache(maxsize=4_096)
def _statements(code: str, known: _Vocabulary) -> tuple[_Statement, ...]:
    """The statements of a cell, with those of magics that run Python in place of the magics."""
    found = []
    lines = code.splitlines(keepends=True)
    for node in _tree(code).body:
        first = min([node.lineno, *(each.lineno for each in _decorators(node))])
        where = (first, node.end_lineno or first)
        if (inner := _text_of_magic(node)) is not None:
            found += [replace(each, lines=where) for each in _statements(inner, known)]
            continue
        text = ast.get_source_segment(code, node) or ast.unparse(node)
        if _decorators(node):
            text = "".join(lines[first - 1 : node.end_lineno]).rstrip()
        found.append(_statement(node, text, where, known))
    return tuple(found)


def _text_of_magic(node: ast.stmt) -> str | None:
    match node:
        case ast.Expr(
            value=ast.Call(
                func=ast.Attribute(attr="run_line_magic" | "run_cell_magic"),
                args=[ast.Constant(value=str(magic)), *_, ast.Constant(value=str(text))],
            )
        ) if magic in _RUN_THEIR_TEXT:
            return text
    return None


# What is needed


@dataclass
class _Chosen:
    """What of one run is in: which statements, for which names, and what they find."""

    run: CellRun
    wanted: set[str] = field(default_factory=set)
    kept: tuple[int, ...] = ()
    finds: dict[str, int] = field(default_factory=dict)
    absent: frozenset[str] = frozenset()


class _Plan:
    """Which statements of which runs are needed, found from the newest run to the oldest.

    A need is a name with the number of the run that left it so.
    """

    def __init__(self, program: _Program, ledger: OriginLedger) -> None:
        self.program = program
        self.ledger = ledger
        self.chosen: dict[int, _Chosen] = {}
        self.seeds: set[str] = set()
        self.unknown: set[str] = set()
        self.target = ("", 0)
        self.at_end: dict[str, int] = {}
        # Between which runs a name has to keep what it is.
        self._spans: dict[str, set[tuple[int, int]]] = {}

    def need_at_end(self, name: str, number: int) -> None:
        """Want ``name`` as the run ``number`` left it, and what its functions use as it is now."""
        self.target = (name, number)
        self._want(name, number, len(self.program.runs) + 1)
        self.at_end = {name: number}
        runs = len(self.program.runs) + 1
        for other in self.program.through(frozenset({name})).reads - {name}:
            origin = self.ledger.get(other)
            found = origin.cell_run if origin is not None else 0
            found = found or self._by_text(other, runs)
            if found > 0:
                self._want(other, found, runs)
                self.at_end[other] = found
            elif other in SEEDS:
                self.seeds.add(other)
            elif other not in _BUILTINS:
                self.unknown.add(other)

    def _want(self, name: str, number: int, until: int) -> None:
        self._must_have_stood(name, number, until)
        self._spans.setdefault(name, set()).add((number, until))
        chosen = self.chosen.setdefault(number, _Chosen(self.program.run(number)))
        chosen.wanted.add(name)

    def _must_have_stood(self, name: str, number: int, until: int) -> None:
        """While a name stood for something else, between a change and its undo, nobody told what
        became of the object that it stood for before."""
        between = self.program.runs[number : until - 1]
        left = [run for run in between if any(ref.name == name for ref in run.made)]
        if not left:
            return
        back = {run.number for run in left if self._came_back(name, run, until)}
        for run in between:
            if run.number in back:
                pass  # it was taken back, and that was taken back in turn
            elif run is left[0] or (run.run_id and run.run_id == left[0].run_id):
                continue  # it was taken back with all that it changed
            made = {ref.name for ref in run.made}
            for each in self.program.statements(run):
                for touched, is_deep in self.program.touched(each):
                    if (
                        touched in made
                        and (touched != name or run.number in back)
                        and self.program.sharing.affects(touched, is_deep, name)
                    ):
                        raise SliceError(
                            f"{name!r} was taken back to what it was, and cell {run.number} may "
                            f"have changed that: run the cell that makes {name!r} again",
                            {name},
                        )

    def _came_back(self, name: str, run: CellRun, until: int) -> bool:
        """Whether what ``run`` made of ``name`` stands again after the run ``until``."""
        made = [ref.version for ref in run.made if ref.name == name]
        later = [
            ref.version
            for other in self.program.runs[until:]
            for ref in other.reads
            if ref.name == name
        ]
        return not {self.ledger.version(name), *later}.isdisjoint(made)

    def resolve(self) -> None:
        for number in range(len(self.program.runs), 0, -1):
            if number in self.chosen:
                self._choose(self.chosen[number])

    def _choose(self, chosen: _Chosen) -> None:
        run = chosen.run
        kept, live = self._slice_of(run, chosen.wanted)
        chosen.kept = kept
        self._must_not_be_taken_back(run, kept)
        statements = self.program.statements(run)
        direct = {name for index in kept for name in statements[index].reads}
        own = {name for each in statements for name in each.writes}
        # Under "from __future__ import annotations" a name in an annotation is not asked for.
        is_lenient = any(each.is_future for each in statements)
        absent = set()
        for name in sorted(live):
            number = self._before(run, name)
            if number > 0:
                chosen.finds[name] = number
                self._want(name, number, run.number)
                continue
            absent.add(name)
            if number == 0:
                if name in SEEDS:
                    self.seeds.add(name)
                    continue
                raise SliceError(
                    f"{name!r} was bound before its origin was tracked, so what it held cannot "
                    f"be rebuilt: run the cell that makes {name!r} again, then the cells that "
                    "use it",
                    {name},
                )
            if name in SEEDS:
                self.seeds.add(name)
            elif name in _BUILTINS or name == _ANY:
                continue
            elif star := self._by_text(_ANY, run.number):
                self._want(_ANY, star, run.number)
                chosen.finds[_ANY] = star
            elif name in direct and name not in own and not is_lenient:
                raise SliceError(
                    f"nothing is known of where {name!r} comes from: run the cell that binds it "
                    "again, then the cells that use it",
                    {name},
                )
            elif name not in own:
                self.unknown.add(name)
        chosen.absent = frozenset(absent)

    def _slice_of(self, run: CellRun, wanted: Collection[str]) -> tuple[tuple[int, ...], set[str]]:
        """What is kept of a run, and what that finds. A name that ends as it began, bound to
        something else meanwhile, has to end so in the script as well if it is used later on."""
        made = {ref.name for ref in run.made}
        ends = set(wanted)
        while True:
            kept, live = _Within(self.program, run).slice(ends)
            between = {
                name
                for index in kept
                for name in self.program.statements(run)[index].writes - made
                if any(start < run.number < until for start, until in self._spans.get(name, ()))
            }
            if between <= ends:
                return kept, live
            ends |= between

    def _must_not_be_taken_back(self, run: CellRun, kept: Iterable[int]) -> None:
        """An undo gives an object its earlier content back for all who hold it, told or not."""
        for ref in run.made:
            if not self._was_taken_back(ref, run):
                continue
            for index in kept:
                for name, is_deep in self.program.touched(self.program.statements(run)[index]):
                    if self.program.sharing.affects(name, is_deep, ref.name):
                        raise SliceError(
                            f"what cell {run.number} did to {ref.name!r} was taken back, and "
                            f"{self.target[0]!r} may hold the same object: run the cell that "
                            f"makes {self.target[0]!r} again",
                            {ref.name},
                        )

    def _was_taken_back(self, ref: InputRef, run: CellRun) -> bool:
        later = self.program.runs[run.number :]
        if any(
            each.name == ref.name and 0 < each.version < ref.version
            for other in later
            for each in other.reads
        ):
            return True
        stands = self.ledger.version(ref.name) >= ref.version
        return not stands and not any(ref.name in other.deleted for other in later)

    def _before(self, run: CellRun, name: str) -> int:
        """The run that left ``name`` as ``run`` found it: 0 unknown, -1 not bound, as it seems."""
        for ref in run.reads:
            if ref.name == name:
                if ref.version:
                    maker = self.ledger.maker(ref)
                    if maker is not None:
                        return maker.number
                return max(self._by_text(name, run.number), 0)
        names = analyse(run.code)
        plain = name in names.reads | names.mutated
        if name in self.program.tracked and not plain:
            for earlier in reversed(self.program.runs[: run.number - 1]):
                if any(ref.name == name for ref in earlier.made):
                    return earlier.number
                if name in earlier.deleted:
                    return -1
        return self._by_text(name, run.number) or -1

    def standing(self, name: str, number: int) -> int:
        """The run that bound or changed ``name`` last, up to the run ``number``; 0 when none."""
        for run in reversed(self.program.runs[:number]):
            if any(ref.name == name for ref in run.made):
                return run.number
        return 0

    def _by_text(self, name: str, before: int) -> int:
        """The newest run before ``before`` whose text binds or changes ``name``; 0 when none."""
        for run in reversed(self.program.runs[: before - 1]):
            for each in reversed(_ran(self.program, run)):
                if name == _ANY and (each.is_star or each.is_opaque):
                    return run.number
                if name in each.writes:
                    return run.number
                if name in each.reads and any(name == touched for touched, _ in each.touched):
                    return run.number
                if name in each.deletes:
                    return 0
        return 0


def _ran(program: _Program, run: CellRun) -> tuple[_Statement, ...]:
    """The statements of a run that ended, or all of them where that is not known."""
    statements = program.statements(run)
    if run.failed and run.stopped_at:
        return tuple(each for each in statements if each.lines[1] < run.stopped_at)
    return statements


class _Within:
    """The backward slice inside one run."""

    def __init__(self, program: _Program, run: CellRun) -> None:
        self._program = program
        self._run = run
        self._statements = program.statements(run)
        self._made = {ref.name for ref in run.made}

    def slice(self, wanted: Collection[str]) -> tuple[tuple[int, ...], set[str]]:
        """The statements that make ``wanted``, and the names that they find bound before."""
        statements = self._statements
        if not statements:
            raise SliceError(
                f"the text of run {self._run.number}, which made {_told(wanted)}, is no Python",
                wanted,
            )
        ran = len(_ran(self._program, self._run))
        if self._run.failed and not self._run.stopped_at:
            self._must_be_told(wanted)
        live, kept, explained = set(wanted), set[int](), set[str]()
        whole = any(each.is_opaque for each in statements[:ran])
        if any(each.is_blind for each in statements[:ran]):
            earlier = self._program.runs[: self._run.number - 1]
            live |= {ref.name for run in earlier for ref in run.made}
        for index in reversed(range(ran)):
            each = statements[index]
            bound = self._program.maybe_writes(each) & live
            changed = self._changes(each, index, live)
            if not (bound or changed or each.is_star or whole or each.deletes & live):
                continue
            kept.add(index)
            explained |= bound | changed
            live -= each.certain
            live |= self._program.reads(each)
        if not (whole or set(wanted) <= explained | {_ANY}):
            # Something changed it that no text names: the cell as it is.
            kept = set(range(ran))
            for index in reversed(range(ran)):
                live -= statements[index].certain
                live |= self._program.reads(statements[index])
            live |= set(wanted)
        if kept:
            kept |= {index for index in range(ran) if statements[index].is_future}
        if ran < len(statements):
            self._check_stop(statements[ran], ran, live | set(wanted))
        if _ANY in wanted:
            live.add(_ANY)
        return tuple(sorted(kept)), live

    def _changes(self, statement: _Statement, index: int, live: set[str]) -> set[str]:
        found = set()
        for name, is_deep in self._program.touched(statement):
            for other in live:
                if not self._program.sharing.affects(name, is_deep, other):
                    continue
                if other in statement.changes or self._may_have_changed(other, index):
                    found.add(other)
        return found

    def _may_have_changed(self, name: str, index: int) -> bool:
        """Whether the ledger leaves it open that a statement changed ``name``."""
        if name in self._made or name not in self._program.tracked:
            return True
        if name in self._run.deleted:
            return True
        if name in self._program.known.imports:
            return True
        return any(name in each.writes for each in self._statements[:index])

    def _must_be_told(self, wanted: Collection[str]) -> None:
        for name in wanted:
            makers = [
                each
                for index, each in enumerate(self._statements)
                if name in self._program.maybe_writes(each) or self._changes(each, index, {name})
            ]
            if len(makers) > 1 or any(not each.binds_whole for each in makers):
                raise self._stopped(name)

    def _check_stop(self, statement: _Statement, index: int, live: set[str]) -> None:
        """What stopped did some of its work, perhaps on what is needed."""
        bound = set() if statement.binds_whole else self._program.maybe_writes(statement) & live
        for name in sorted(bound | self._changes(statement, index, live)):
            raise self._stopped(name)

    def _stopped(self, name: str) -> SliceError:
        return SliceError(
            f"a cell stopped with an error where it may have changed {name!r}, and how far it "
            f"got is not known: run the cell that makes {name!r} again",
            {name},
        )


# The text


def _written(name: str, plan: _Plan, turns: Mapping[str, int]) -> Script:
    program = plan.program
    parts: list[Part] = []
    removals: dict[int, list[str]] = {}
    current: dict[str, int] = {}
    futures: dict[str, None] = {}
    for number in sorted(plan.chosen):
        chosen = plan.chosen[number]
        if not chosen.kept:
            continue
        _must_stand(chosen.finds, current)
        if gone := sorted(chosen.absent & current.keys()):
            removals[len(parts)] = gone
            for lost in gone:
                del current[lost]
        statements = program.statements(chosen.run)
        texts, lines = [], []
        made = {ref.name for ref in chosen.run.made}
        for index in chosen.kept:
            each = statements[index]
            if each.is_future:
                futures.setdefault(each.text)
                continue
            texts.append(each.text)
            lines.append(each.lines)
            for bound in each.writes | chosen.wanted:
                if bound in made or bound not in program.tracked or bound in chosen.wanted:
                    current[bound] = number
                elif bound not in current:
                    current[bound] = plan.standing(bound, number)
            for touched, is_deep in program.touched(each):
                for other in list(current):
                    if other in made and program.sharing.affects(touched, is_deep, other):
                        current[other] = number
            for gone_now in each.deletes - each.writes:
                current.pop(gone_now, None)
        if texts:
            parts.append(Part(chosen.run, tuple(texts), tuple(lines)))
    _must_stand(plan.at_end, current)
    sources = tuple(dict.fromkeys(source for part in parts for source in part.run.sources))
    return Script(
        name,
        _text(name, plan, parts, removals, tuple(futures), sources, turns),
        tuple(parts),
        sources,
        tuple(sorted(plan.unknown)),
    )


def _must_stand(finds: Mapping[str, int], current: Mapping[str, int]) -> None:
    for name, number in finds.items():
        if name != _ANY and current.get(name) != number:
            raise SliceError(
                f"{name!r} went in twice, once as it is now and once as it was before an undo, "
                "and no order of the cells gives both: run the cells that use it again",
                {name},
            )


def _text(
    name: str,
    plan: _Plan,
    parts: list[Part],
    removals: Mapping[int, list[str]],
    futures: tuple[str, ...],
    sources: tuple[str, ...],
    turns: Mapping[str, int],
) -> str:
    blocks = [f"# Rebuilds {name}."]
    blocks += [f"# Reads {_one_line(source)}" for source in sources]
    if futures:
        blocks += ["", *futures]
    imports = sorted(SEEDS[each] for each in plan.seeds)
    if imports:
        blocks += ["", *imports]
    for place, part in enumerate(parts):
        blocks += ["", f"# {_one_line(_place(part.run, turns))}"]
        blocks += [f"del {each}" for each in removals.get(place, ())]
        blocks += part.statements
    return "\n".join(blocks) + "\n"


def _place(run: CellRun, turns: Mapping[str, int]) -> str:
    if run.run_id in turns:
        return f"cell of turn {turns[run.run_id]} ({run.actor})"
    return f"cell {run.number} ({run.actor})"


def _one_line(text: str) -> str:
    return "".join(each if each.isprintable() else "?" for each in text)


def _told(names: Collection[str]) -> str:
    return ", ".join(repr(name) for name in sorted(names))
