"""Audit events for libraries that open files and addresses with native code, which raises none.

The functions of ``native.toml`` are wrapped for all code of the process once their module has been
imported. A wrapper raises the events that Python's own functions would raise, with the path that
it is handed, and calls the function.

Workers install this too, so it imports only the standard library.
"""

import os
import re
import sys
import tomllib
from collections.abc import Callable
from fnmatch import filter as matching
from functools import partial, wraps
from importlib.abc import MetaPathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

from parsimony_kernel.analysis.calls import PATTERNS
from parsimony_kernel.core.audit import listen
from parsimony_kernel.execution import side_effects
from parsimony_kernel.execution.run_scope import Permit
from parsimony_kernel.execution.side_effects import host_of, is_installed, texts_in

_TABLE: dict[str, Any] = tomllib.loads(
    Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")
)
_MODULES: dict[str, dict[str, str]] = _TABLE["modules"]
_KEYWORDS = tuple(_TABLE["keywords"].split())
_WRITING_QUERY = re.compile(
    r"(?is)(?:^|;)\s*(?:COPY\b.+\bTO\b|EXPORT\s+DATABASE\b|ATTACH\b|CHECKPOINT\b|VACUUM\b.+\bINTO\b)"
)
_READ_ONLY = re.compile(r"(?i)\bREAD_ONLY\b|mode=ro")
_ADDRESS = re.compile(
    r"\b(?:https?|s3a?|gs|gcs|az|abfss?|ftp|hf|r2|tcp|grpc(?:\+\w+)?)://[^\s'\"),]+"
)
_INSERTING = re.compile(r"(?is)\s*INSERT\b[^;()]*(?:\([\w\s,]*\))?\s*VALUES\s*\([\w\s?,$]*\)[\s;]*")
_CALL = compile("_native[0](*_native[1], **_native[2])", __file__, "eval")
# The longest list or dict of the notebook in which functions are replaced.
_MOST_HELD = 200
# The files of the databases that a table belongs to, beside the count that makes one row of them.
_DATABASES = "count(*), (SELECT list(path) FROM duckdb_databases() WHERE NOT readonly)"
# The modules that are done, by name: one that is imported anew is another one.
_done: dict[str, ModuleType] = {}
# What was replaced, and by what, by the former's id.
_replaced: dict[int, tuple[Any, Any]] = {}


class _Finder(MetaPathFinder):
    """Wraps the functions of a module as soon as it has been imported."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        finders = (each for each in sys.meta_path if each is not self and name in _MODULES)
        specs = (each.find_spec(name, path, target) for each in finders)
        spec = next(filter(None, specs), None)
        if spec is not None and spec.loader is not None:
            run = spec.loader.exec_module

            def run_and_wrap(module: ModuleType) -> None:
                run(module)
                _wrap(name, module)

            setattr(spec.loader, "exec_module", run_and_wrap)  # noqa: B010
        return spec


_finder = _Finder()


def watch_native_code(namespace: dict[str, Any] | None = None) -> None:
    """Wrap the functions of the modules that are imported, and of others once they are.

    Those that ``namespace``, a module that is not installed, or another module of their library has
    imported by name before are replaced there, and in lists, dicts and partials of ``namespace``.
    """
    if _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)
    there = _MODULES.keys() & sys.modules.keys()
    names = [name for name in there if _done.get(name) is not sys.modules[name]]
    for name in names:
        _wrap(name, sys.modules[name])
    libraries = {name.partition(".")[0] for name in names}
    own = [each for each in [*sys.modules.values()] if names and _is_own(each, libraries)]
    places: list[Any] = [namespace or {}, *map(vars, own)]
    for place in places:
        for at, value in [*(enumerate(place) if type(place) is list else place.items())]:
            if id(value) in _replaced:
                place[at] = _replaced[id(value)][1]
            elif names and place is namespace is not value and type(value) in (list, dict):
                places += [value] if len(value) <= _MOST_HELD else []
            elif names and type(value) is partial and id(value.func) in _replaced:
                function = _replaced[id(value.func)][1]
                state = (function, value.args, value.keywords, vars(value))
                value.__setstate__(state)  # type: ignore[attr-defined]


def guard_worker(workspace: str, made: tuple[str, ...], is_dry: bool, refusals: str) -> None:
    """Refuse side effects that need approval from now on, in this whole process."""
    permit = Permit(Path(workspace), made=set(made), is_dry=is_dry)
    watch_native_code()
    side_effects.watch_environment(1)
    listen(side_effects.Keeper(permit, refusals=refusals).hear)


def _is_own(module: ModuleType, libraries: set[str]) -> bool:
    # Not by its attribute, which may import what a module puts off.
    file = vars(module).get("__file__") if isinstance(module, ModuleType) else None
    is_theirs = str(file).endswith(".py") and module.__name__.partition(".")[0] in libraries
    return isinstance(file, str) and (is_theirs or not is_installed(file))


def written_by(query: str) -> list[str]:
    """Return the files that a query in SQL writes to, or attaches to write to them."""
    if not _WRITING_QUERY.search(query) or _READ_ONLY.search(query):
        return []
    return [path for found in PATTERNS["sql_file"].findall(query) for path in found if path]


def _wrap(name: str, module: ModuleType) -> None:
    _done[name] = module
    for kind, functions in _MODULES[name].items():
        for each in functions.split():
            holder, _, function = each.rpartition(".")
            for owner in matching(dir(module), holder) if holder else [""]:
                its = getattr(module, owner) if owner else module
                for found in matching(dir(its), function):
                    # Fetched again: the function before may have replaced a class of C.
                    its = getattr(module, owner) if owner else module
                    _put(module, its, found, _wrapper(kind, getattr(its, found)))


def _put(module: ModuleType, owner: Any, name: str, wrapper: Callable[..., Any]) -> None:
    # Where pickle finds it again.
    wrapper.__module__ = module.__name__
    wrapper.__qualname__ = name if owner is module else f"{owner.__name__}.{name}"
    original: Any = getattr(owner, name)
    try:
        setattr(owner, name, wrapper)
    except TypeError:  # a class of C
        its = {name: wrapper, "__module__": owner.__module__, "__doc__": owner.__doc__}
        original, wrapper = owner, _Kind(owner.__name__, (owner,), {**its, "_of": owner})
        setattr(module, owner.__name__, wrapper)
    _replaced[id(original)] = original, wrapper


class _Kind(type):
    """The type of what stands in for a class of C, ``_of``: that class's objects are its own."""

    def __instancecheck__(cls, each: Any) -> bool:
        return issubclass(type(each), cls)

    def __subclasscheck__(cls, kind: type) -> bool:
        return type.__subclasscheck__(vars(cls).get("_of", cls), kind)


def _wrapper(kind: str, function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    def native(*args: Any, **named: Any) -> Any:
        __tracebackhide__ = True
        if kind == "prepares":
            told: dict[str, Any] = {}
            sys.audit("parsimony.worker", told)
            return {**told, **function(*args, **named)}
        _tell(kind, args, named)
        if kind != "queries":
            return function(*args, **named)
        # DuckDB looks for the tables of a query among the variables of the frame that calls it.
        by = sys._getframe(1)
        its = {*by.f_code.co_varnames, *by.f_code.co_cellvars, *by.f_code.co_freevars}
        said = " ".join(texts_in((*args, *named.values())))
        # A function whose variables were read holds them until it ends.
        held = {} if its and its.isdisjoint(re.findall(r"\w+", said)) else by.f_locals
        ours = {"_native": (function, args, named), "__tracebackhide__": True}
        return eval(_CALL, by.f_globals, {**held, **ours})

    return native


def _tell(kind: str, args: tuple[Any, ...], named: dict[str, Any]) -> None:
    """Raise the events of a call."""
    given = [*args, *named.values()]
    texts = [*texts_in(given)]
    if kind == "queries" and texts and _INSERTING.fullmatch(texts[0]):
        return  # its parameters are values
    addresses = [address for text in texts for address in _ADDRESS.findall(text)]
    paths: list[str] = []
    match kind:
        case "queries":
            paths = [path for text in texts for path in written_by(text)]
        case "writes" | "opens" if not addresses:
            path, mode, *_ = *texts_in((*args, *map(named.get, _KEYWORDS))), "", "r"
            mode = str(named.get("mode", mode or "r"))
            is_read = named.get("read_only", args[1] if args[1:] else False) is True
            if kind == "opens":
                is_read = "r" in mode and "+" not in mode
            paths = [] if is_read else [path]
        case "removes" if texts:
            sys.audit("os.remove", texts[0], -1)
        case "moves" | "copies" if texts:
            goals = *map(named.get, ("dest", "dst", "destination")), *texts[1:2], *texts
            to = next(filter(None, goals))
            if kind == "moves":
                sys.audit("os.rename", texts[0], to, -1, -1)
            else:
                paths = [*texts_in((to,))]
        case "changes":
            paths = [args[0].table_uri]
        case "below" if texts:
            paths = [f"{args[0].base_path}/{texts[0]}"]
        case "clouds":
            addresses = [args[0].__name__]
        case "tables":
            databases, *_ = args[0].limit(0).aggregate(_DATABASES).fetchall()
            for each in filter(None, databases[1]):
                sys.audit("parsimony.touch", each)
        case "settings":
            for each in texts:
                sys.audit("parsimony.setting", each)
        case "draws":
            from parsimony_kernel.execution.factory import addresses as of_chart  # deferred: slow

            addresses = [] if named.get("allowed_base_urls") == [] else [*of_chart(given)]
    for each in addresses:
        sys.audit("parsimony.fetch", host_of(each) or each)
    for each in paths:
        if each.strip(os.sep) and not each.startswith(":"):
            place = Path(each.removeprefix("file://"))
            sys.audit("parsimony.write", os.path.expanduser(place))  # noqa: PTH111  (no error)
