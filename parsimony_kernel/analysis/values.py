"""What an expression evidently means: a string, a path, or an object of a library by its name.

What a name stood for before the cell isn't known here: it stays a reference, for whoever has the
namespace. ``None`` is what the text doesn't tell.
"""

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from parsimony_kernel.analysis.roots import names_in

# Parts of a string and items of a collection that are kept.
_MAX_PARTS = 40
_PATHS = frozenset({"Path", "PurePath", "PosixPath", "PurePosixPath", "WindowsPath"})
_FILES = frozenset({"open", "GzipFile", "FileIO"})
_SAME = frozenset({"abspath", "absolute", "as_posix", "expanduser", "fspath", "normpath"})
_SAME |= {"realpath", "resolve", "str"}
_LISTING = frozenset({"glob", "iterdir", "rglob"})


@dataclass(frozen=True)
class Ref:
    """An object by its dotted name; ``()`` in it marks the result of a call.

    ``outer`` says that it begins with a name from before the cell; other names are complete.
    """

    name: str
    outer: bool = False


@dataclass(frozen=True)
class Text:
    """A string in parts: literals, names from before the cell, ``None`` for unknown parts."""

    parts: tuple[str | Ref | None, ...]
    path: bool = False


Value = Ref | Text | tuple[Ref | Text | None, ...]
Known = Mapping[str, Value | None]


def value_of(node: ast.expr, known: Known) -> Value | None:
    """The meaning of ``node``, given the meaning of the names that are ``known``."""
    match node:
        case ast.Constant(value=str(text)):
            return Text((text,))
        case ast.Name(id=name):
            return known.get(name, Ref(name, outer=True))
        case ast.Attribute(value=inner, attr=name):
            return _attribute(value_of(inner, known), name)
        case ast.JoinedStr(values=parts):
            return _joined([value_of(each, known) for each in parts], path=False)
        case ast.BinOp(left=left, op=ast.Add() | ast.Div() as operator, right=right):
            on = value_of(left, known)
            both = (on, value_of(right, known))
            return None if on is None else _joined(both, path=isinstance(operator, ast.Div))
        case ast.BinOp(left=ast.Constant(value=str(text)), op=ast.Mod()):
            return Text((text.partition("%")[0], None))
        case ast.Call():
            return _result(node, known)
        case ast.List(elts=items) | ast.Tuple(elts=items) | ast.Set(elts=items):
            return tuple(_item(value_of(each, known)) for each in items[:_MAX_PARTS])
        case ast.ListComp(elt=item, generators=made) | ast.GeneratorExp(elt=item, generators=made):
            bound = names_in(*(each.target for each in made))
            return (_item(value_of(item, {**known, **dict.fromkeys(bound)})),)
        case ast.NamedExpr() | ast.Await() | ast.FormattedValue():
            return value_of(node.value, known)
    return None


def item_of(value: Value | None) -> Value | None:
    """Any item of a collection: its only one, or all of them."""
    if not isinstance(value, tuple):
        return None
    return value[0] if len(value) == 1 else value


def arguments_of(node: ast.Call, known: Known) -> tuple[Value | None, ...]:
    """The positional arguments of a call, up to the first starred one."""
    starred = (n for n, each in enumerate(node.args) if isinstance(each, ast.Starred))
    return tuple(value_of(each, known) for each in node.args[: next(starred, len(node.args))])


def _item(value: Value | None) -> Ref | Text | None:
    return None if isinstance(value, tuple) else value


def _attribute(value: Value | None, name: str) -> Value | None:
    if isinstance(value, Ref):
        return replace(value, name=f"{value.name}.{name}")
    is_path = isinstance(value, Text) and value.path
    return _joined((value, Text(("..",))), path=True) if is_path and name == "parent" else None


def _parts(value: Value | None) -> tuple[str | Ref | None, ...]:
    if isinstance(value, Text):
        return value.parts
    return (value if isinstance(value, Ref) and value.outer else None,)


def _joined(values: Sequence[Value | None], *, path: bool) -> Text:
    """The values joined, with separators between the parts of a path."""
    said: list[str | Ref | None] = []
    for value in values:
        said += ["/"] * (path and bool(said))
        said += _parts(value)
    if len(said) > _MAX_PARTS:
        said[_MAX_PARTS:] = [None]
    return Text(tuple(said), path or any(isinstance(each, Text) and each.path for each in values))


def _result(node: ast.Call, known: Known) -> Value | None:
    """The meaning of a call's result."""
    handed = arguments_of(node, known)
    first = handed[0] if handed else None
    if isinstance(node.func, ast.Attribute):
        on = value_of(node.func.value, known)
        if isinstance(on, Text):
            return _made_of(on, node.func.attr, handed)
        called = _attribute(on, node.func.attr)
    else:
        called = value_of(node.func, known)
    if not isinstance(called, Ref):
        return None
    name = called.name.rpartition(".")[2]
    match name, first:
        case _, _ if name in _PATHS or called.name.endswith("path.join"):
            return _joined(handed or (Text((".",)),), path=True)
        case "cwd" | "getcwd", None:
            return Text((".",), path=True)
        case "home", None:
            return Text(("~",), path=True)
        case _, Text() | Ref() if name in _SAME | _FILES:
            return replace(first, path=True) if isinstance(first, Text) else first
        case "glob" | "iglob", Text():
            return (first,)
        case "partial", _:
            return first
        case "import_module" | "__import__", Text(parts=(str(module),)):
            return Ref(module)
    # A client that is given its transport reaches nothing by itself.
    if any(each.arg == "transport" for each in node.keywords):
        return None
    return replace(called, name=f"{called.name}()")


def _made_of(text: Text, method: str, handed: Sequence[Value | None]) -> Value | None:
    """The meaning of a method call on a string or a path."""
    if not text.path:
        return _up_to(text, "{") if method == "format" else None
    if method in _SAME or method == "open":
        return text
    if method == "joinpath":
        return _joined((text, *handed), path=True)
    if method in _LISTING:
        return (_joined((text, *(handed or (Text(("*",)),))), path=True),)
    return None


def _up_to(text: Text, mark: str) -> Text:
    for number, part in enumerate(text.parts):
        if isinstance(part, str) and mark in part:
            return replace(text, parts=(*text.parts[:number], part.partition(mark)[0], None))
    return text
