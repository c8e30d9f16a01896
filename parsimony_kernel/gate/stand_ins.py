"""What the names and expressions of a cell stand for, as far as its text tells.

Things of libraries by their full names, texts and paths by what is known of them from the left.
"""
# ruff: noqa: PTH118, PTH120, PTH122  (paths are compared as texts; nothing asks the disk)

import ast
import builtins
import functools
import os
import types
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import PosixPath, PurePosixPath, PureWindowsPath, WindowsPath
from typing import Any

from parsimony_kernel.gate.known_reaches import CLIENT, CONVENTION, canonical, names_in

# Of what a name may stand for, as many readings are followed.
_MAX_READINGS = 8
_MAX_TEXT = 20_000
_MAX_PARTS = 200

_SAME_PATH = frozenset(
    {
        "os.path.expanduser", "os.path.expandvars", "os.path.abspath", "os.path.realpath",
        "os.path.normpath", "os.fspath", "str", "os.fsdecode",
    }
)  # fmt: skip
_SAME_METHODS = frozenset({"resolve", "expanduser", "absolute", "as_posix"})
_HERE = frozenset({"os.getcwd", "pathlib.Path.cwd", "os.getcwdb"})
_HOME = frozenset({"pathlib.Path.home", "os.environ.get('HOME')"})
_ALWAYS_BOUND = frozenset({*vars(builtins), "get_ipython", "__builtins__"})
# What gives something whose parts are known.
_GIVING = frozenset(
    {"get_ipython", "globals", "locals", "vars", "psutil.Process", "psutil.process_iter"}
)
# What gives the names of files, and the methods of a path that do.
_LISTING = frozenset({"glob.glob", "glob.iglob"})
_LISTING_METHODS = frozenset({"glob", "rglob", "iterdir"})
_ITEMS = {"psutil.process_iter()": "psutil.Process()"}
_PATHS = (PosixPath, WindowsPath, PurePosixPath, PureWindowsPath)


@dataclass(frozen=True)
class Origin:
    """A thing of a library. ``()`` in its name is the result of a call."""

    name: str


@dataclass(frozen=True)
class Text:
    """A text or a path that begins with ``text``, and is no longer if ``whole``."""

    text: str
    whole: bool = True
    path: bool = False


@dataclass(frozen=True)
class Items:
    """A collection that holds ``values`` among others."""

    values: tuple[Origin | Text, ...]


Value = Origin | Text | Items


class Scopes:
    """What is bound, innermost scope last, and what expressions stand for under it."""

    def __init__(self, namespace: Mapping[str, Any], outer: "Scopes | None" = None) -> None:
        self._namespace = namespace
        self._outer = outer
        self._bound: dict[str, tuple[Value, ...]] = {}
        self._unsure = 0
        # What was found since something was last bound; holds what its keys identify.
        self._found: dict[tuple[int, int], tuple[Scopes, ast.expr, tuple[Value, ...]]]
        self._found = {} if outer is None else outer._found

    def inner(self, parameters: Sequence[str]) -> "Scopes":
        """A scope within this one, in which ``parameters`` are bound to what is not known."""
        made = Scopes(self._namespace, self)
        for name in parameters:
            made.bind(name, ())
        return made

    @contextmanager
    def unsure(self) -> Iterator[None]:
        """What is bound within may not be: what was bound before is kept as well."""
        self._unsure += 1
        try:
            yield
        finally:
            self._unsure -= 1

    def bind(self, name: str, values: Sequence[Value]) -> None:
        """``name`` stands for one of ``values``, or for what is not known."""
        kept = self._bound.get(name, ()) if self._unsure else ()
        self._bound[name] = _settled((*kept, *values))
        self._found.clear()

    def bind_all(self, module: str) -> None:
        """``from module import *``, as far as ``module`` is known."""
        for name in names_in(module):
            self.bind(name, (Origin(f"{module}.{name}"),))

    def texts(self, node: ast.expr) -> list[Text]:
        """The texts that ``node`` may stand for."""
        return [value for value in self.values(node) if isinstance(value, Text)]

    def values(self, node: ast.expr) -> tuple[Value, ...]:
        """What ``node`` may stand for; nothing when it is not known."""
        key = (id(self), id(node))
        if key not in self._found:
            self._found[key] = (self, node, _settled(self._read(node)))
        return self._found[key][2]

    def items(self, node: ast.expr) -> tuple[Value, ...]:
        """What one of the items of ``node`` may stand for."""
        found: list[Value] = []
        for value in self.values(node):
            if isinstance(value, Items):
                found += value.values
            elif isinstance(value, Origin) and value.name in _ITEMS:
                found.append(Origin(_ITEMS[value.name]))
        return _settled(found)

    def _read(self, node: ast.expr) -> Iterator[Value]:
        found: Iterator[Value] = iter(())
        match node:
            case ast.Constant(value=str(text)):
                found = iter((Text(text),))
            case ast.Constant(value=bytes(raw)):
                found = iter((Text(raw.decode("utf-8", "replace")),))
            case ast.Name(id=name):
                found = iter(self._named(name))
            case ast.Attribute():
                found = self._attribute(node)
            case ast.JoinedStr(values=parts):
                found = self._joined(parts)
            case ast.BinOp(op=ast.Add()):
                found = self._added(node)
            case ast.BinOp(op=ast.Div()):
                found = self._divided(node)
            case ast.BinOp(left=left, op=ast.Mod()):
                found = (_up_to(text, "%") for text in self.texts(left))
            case ast.Call():
                found = self._called(node)
            case ast.Subscript():
                found = self._item(node)
            case ast.List(elts=parts) | ast.Tuple(elts=parts) | ast.Set(elts=parts):
                found = self._held(parts)
            case ast.Dict(values=parts):
                found = self._held(parts)
            case ast.IfExp(body=one, orelse=other):
                found = iter((*self.values(one), *self.values(other)))
            case ast.BoolOp(values=parts):
                found = (value for part in parts for value in self.values(part))
            case ast.NamedExpr(value=inner) | ast.Await(value=inner):
                found = iter(self.values(inner))
        return found

    def _named(self, name: str) -> tuple[Value, ...]:
        scope: Scopes | None = self
        while scope is not None:
            if name in scope._bound:
                return scope._bound[name]
            scope = scope._outer
        if name in self._namespace:
            return _standing_for(self._namespace[name])
        if name == "__file__":
            return (Text("./", whole=False),)
        if name in CONVENTION or name in _ALWAYS_BOUND:
            return (Origin(CONVENTION.get(name, name)),)
        return ()

    def _attribute(self, node: ast.Attribute) -> Iterator[Value]:
        for value in self.values(node.value):
            if isinstance(value, Origin):
                yield Origin(f"{value.name}.{node.attr}")
                if value.name.startswith("vega_datasets.data.") and node.attr == "url":
                    yield Text("https://", whole=False)
            elif isinstance(value, Text) and value.path and node.attr == "parent":
                yield Text(os.path.normpath(os.path.join(value.text, "..")), path=True)

    def _joined(self, parts: Sequence[ast.expr]) -> Iterator[Value]:
        said = ""
        for part in parts:
            inner = part.value if isinstance(part, ast.FormattedValue) else part
            texts = self.texts(inner)
            said += texts[0].text if texts else ""
            if not texts or not texts[0].whole or len(said) > _MAX_TEXT:
                if said:
                    yield Text(said, whole=False)
                return
        yield Text(said)

    def _held(self, parts: Sequence[ast.expr]) -> Iterator[Value]:
        each = (value for part in parts[:_MAX_PARTS] for value in self.values(part))
        yield Items(tuple(value for value in _settled(each) if not isinstance(value, Items)))

    def _added(self, node: ast.BinOp) -> Iterator[Value]:
        for left in self.texts(node.left):
            if not left.whole:
                yield left
                continue
            right = self.texts(node.right)
            if not right:
                yield Text(left.text, whole=False)
            for each in right:
                yield Text(left.text + each.text, whole=each.whole)

    def _divided(self, node: ast.BinOp) -> Iterator[Value]:
        for left in self.texts(node.left):
            right = self.texts(node.right)
            yield from (_under(left, each) for each in right)
            if not right:
                yield Text(os.path.join(left.text, ""), whole=False, path=True)

    def _called(self, node: ast.Call) -> Iterator[Value]:
        for value in self.values(node.func):
            if isinstance(value, Origin):
                yield from self._result(value.name, node)
        if isinstance(node.func, ast.Attribute):
            for text in self.texts(node.func.value):
                yield from self._made_of(text, node.func.attr, node.args)
            if node.func.attr == "join" and len(node.args) == 1:
                yield from self._strung(node.func.value, node.args[0])

    def _result(self, name: str, node: ast.Call) -> Iterator[Value]:
        first = node.args[0] if node.args else None
        last = name.rpartition(".")[2]
        if name == "getattr" and len(node.args) > 1:
            yield from self._got(node.args[0], node.args[1])
        elif name in ("__import__", "importlib.import_module") and first is not None:
            yield from (Origin(text.text) for text in self.texts(first) if text.whole)
        elif name == "vars" and first is not None:
            yield from (
                Origin(f"{value.name}.__dict__")
                for value in self.values(first)
                if isinstance(value, Origin)
            )
        elif name == "functools.partial" and first is not None:
            yield from (value for value in self.values(first) if isinstance(value, Origin))
        elif name in ("pathlib.Path", "os.path.join"):
            yield from self._path(node.args)
        elif name in _SAME_PATH and first is not None:
            yield from self.texts(first)
        elif name == "os.path.dirname" and first is not None:
            yield from (Text(os.path.dirname(t.text) or ".", path=True) for t in self.texts(first))
        elif name in _LISTING and first is not None:
            yield Items(tuple(_up_to(text, "*") for text in self.texts(first)))
        elif name in _HERE:
            yield Text(".", path=True)
        elif name in _HOME:
            yield Text("~", path=True)
        elif name in ("os.getenv", "os.environ.get") and first is not None:
            yield from (Text("~") for text in self.texts(first) if text.text == "HOME")
        elif name == "tempfile.gettempdir":
            yield Text("/tmp", path=True)
        elif name in _GIVING or CLIENT.search(last):
            yield Origin(f"{name}()")

    def _got(self, owner: ast.expr, attribute: ast.expr) -> Iterator[Value]:
        for value in self.values(owner):
            if isinstance(value, Origin):
                for text in self.texts(attribute):
                    yield Origin(f"{value.name}.{text.text}")

    def _path(self, parts: Sequence[ast.expr]) -> Iterator[Value]:
        readings = [Text(".", path=True)] if not parts else []
        for number, part in enumerate(parts):
            texts = self.texts(part)
            if number == 0:
                readings = [Text(text.text, text.whole, path=True) for text in texts]
            elif texts:
                readings = [_under(left, text) for left in readings for text in texts]
                readings = readings[:_MAX_READINGS]
            else:
                readings = [
                    Text(os.path.join(left.text, "") if left.whole else left.text, False, True)
                    for left in readings
                ]
        yield from readings

    def _made_of(self, text: Text, method: str, arguments: Sequence[ast.expr]) -> Iterator[Value]:
        if text.path and method in _SAME_METHODS:
            yield text
        elif text.path and method == "joinpath":
            readings = [text]
            for argument in arguments:
                parts = self.texts(argument) or [Text("", whole=False)]
                readings = [_under(left, part) for left in readings for part in parts]
            yield from readings[:_MAX_READINGS]
        elif text.path and method in _LISTING_METHODS:
            yield Items((_under(text, Text("", whole=False)),))
        elif text.path and method == "with_suffix":
            yield Text(os.path.splitext(text.text)[0], whole=False, path=True)
        elif text.path and method == "with_name":
            yield Text(os.path.join(os.path.dirname(text.text), ""), whole=False, path=True)
        elif not text.path and method == "format":
            yield _up_to(text, "{")

    def _strung(self, glue: ast.expr, parts: ast.expr) -> Iterator[Value]:
        if not isinstance(parts, ast.List | ast.Tuple) or len(parts.elts) > _MAX_PARTS:
            return
        each = [self.texts(part)[:1] for part in parts.elts]
        if all(each):
            for text in self.texts(glue):
                yield Text(text.text.join(found[0].text for found in each))

    def _item(self, node: ast.Subscript) -> Iterator[Value]:
        keys = self.texts(node.slice)
        for value in self.values(node.value):
            if isinstance(value, Items):
                yield from value.values
            if not isinstance(value, Origin):
                continue
            for key in keys:
                if value.name == "sys.modules":
                    yield Origin(key.text)
                elif value.name.endswith(".__dict__"):
                    yield Origin(f"{value.name.removesuffix('.__dict__')}.{key.text}")
                elif value.name in ("globals()", "locals()", "vars()"):
                    yield from self._named(key.text)
                elif value.name == "os.environ" and key.text == "HOME":
                    yield Text("~")


def _settled(values: Iterable[Value]) -> tuple[Value, ...]:
    return tuple(dict.fromkeys(_bounded(value) for value in values))[:_MAX_READINGS]


def _bounded(value: Value) -> Value:
    if isinstance(value, Origin):
        return Origin(canonical(value.name[:_MAX_TEXT]))
    if isinstance(value, Text) and len(value.text) > _MAX_TEXT:
        return Text(value.text[:_MAX_TEXT], whole=False, path=value.path)
    return value


def _under(left: Text, right: Text) -> Text:
    if not left.whole:
        return Text(left.text, whole=False, path=True)
    return Text(os.path.join(left.text, right.text), whole=right.whole, path=True)


def _up_to(text: Text, mark: str) -> Text:
    known, found, _ = text.text.partition(mark)
    return Text(known, whole=text.whole and not found)


def _standing_for(thing: Any) -> tuple[Value, ...]:
    """What an object of the namespace is; no code of its own class is run to find out."""
    kind = type(thing)
    if kind is str:
        return (Text(thing),)
    if kind in _PATHS:
        return (Text(str(thing), path=True),)
    if kind is functools.partial:
        return _standing_for(thing.func)
    name = _origin_of(thing, kind)
    return () if name is None else (Origin(name),)


def _origin_of(thing: Any, kind: type) -> str | None:
    if issubclass(kind, types.ModuleType):
        return str(types.ModuleType.__getattribute__(thing, "__dict__").get("__name__"))
    if issubclass(kind, type):
        return _name_of(thing)
    if kind in (types.FunctionType, types.BuiltinFunctionType):
        owner = getattr(thing, "__self__", None)
        if owner is None or issubclass(type(owner), types.ModuleType):
            return f"{thing.__module__}.{thing.__qualname__}"
        return None
    if kind is types.MethodType:
        return f"{_name_of(type(thing.__self__))}().{getattr(thing.__func__, '__name__', '')}"
    name = _name_of(kind)
    if name == "os._Environ":
        return "os.environ"
    is_client = CLIENT.search(name.rpartition(".")[2]) or name.startswith("botocore.")
    return f"{name}()" if is_client else None


def _name_of(kind: type) -> str:
    module, name = (type.__getattribute__(kind, part) for part in ("__module__", "__qualname__"))
    return f"{module}.{name}"
