"""Origins: resolve a cell's references and strings, and check the paths that it may write to.

Names are resolved in the namespace, or by convention if they are not bound. Paths are compared as
text, without following links or touching the disk.
"""
# ruff: noqa: PTH111, PTH118, PTH120

import builtins
import functools
import os
import re
import types
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PosixPath, PurePosixPath, PureWindowsPath, WindowsPath
from typing import Any

from parsimony_kernel.analysis.calls import CONVENTION
from parsimony_kernel.analysis.values import Ref, Text, Value
from parsimony_kernel.identity import ARTIFACT_FOLDER

_MAX_TEXT = 20_000
_MAX_NAME = 4_096
# Paths where writing has no lasting effect.
_NOWHERE = ("/dev/null", "/dev/stdout", "/dev/stderr", "/dev/shm/")
_PATHS = (PosixPath, WindowsPath, PurePosixPath, PureWindowsPath)
_ROOT = re.compile(r"[^.(]*")
_BUILTINS = frozenset({*vars(builtins), "display", "get_ipython"})
# Aliases of the same object, normalised to one name.
_SAME = (
    (re.compile(r"^(?:posix|nt)(?=\.)"), "os"),
    (re.compile(r"^(?:builtins|__builtins__)\."), ""),
    (re.compile(r"^_?io\.open$"), "open"),
    (re.compile(r"^_(?=pickle\.|socket\.)"), ""),
    (re.compile(r"^[\w.()]*\bget_ipython\b"), "get_ipython"),
)


@dataclass(frozen=True)
class Said:
    """The known text of a string or path: all of it if ``whole``, else a prefix."""

    text: str
    whole: bool = True
    path: bool = False


class Origins:
    """Resolver of references by the bindings before the cell runs."""

    def __init__(self, namespace: Mapping[str, Any]) -> None:
        self._namespace = namespace

    def name(self, value: Value | None) -> str:
        """Return the full name of a library object; empty if unknown or not of a library."""
        if not isinstance(value, Ref):
            return ""
        name = value.name
        if value.outer:
            root = _ROOT.match(name)[0]  # type: ignore[index]
            if root in self._namespace:
                home = _origin_of(self._namespace[root])
            else:
                home = CONVENTION.get(root, root if root in _BUILTINS else "")
            if not home or home.startswith("__main__."):
                return ""
            name = home + name[len(root) :]
        for pattern, instead in _SAME:
            name = pattern.sub(instead, name)
        return name

    def text(self, value: Value | None) -> Said | None:
        """Resolve a string or a path as far as it is known from the left; of several, the first."""
        match value:
            case (first, *_):
                return self.text(first)
            case Ref(name=name, outer=True):
                thing = self._namespace.get(name)
                if type(thing) is str or type(thing) in _PATHS:
                    return Said(str(thing)[:_MAX_TEXT], path=type(thing) is not str)
            case Text(parts=parts, path=path):
                known = ""
                for part in parts:
                    piece = Said(part) if isinstance(part, str) else self.text(part)
                    if piece is None or len(known) > _MAX_TEXT:
                        return Said(known, whole=False, path=path) if known else None
                    known, path = known + piece.text, path or piece.path
                return Said(known, path=path)
        return None


def _origin_of(thing: Any) -> str:
    """Return an object's full name without running any code of its class."""
    kind = type(thing)
    if kind is functools.partial:
        return _origin_of(thing.func)
    if issubclass(kind, types.ModuleType):
        return str(types.ModuleType.__getattribute__(thing, "__dict__").get("__name__"))
    if issubclass(kind, type):
        return _name_of(thing)
    if kind in (types.FunctionType, types.BuiltinFunctionType):
        return f"{thing.__module__}.{thing.__qualname__}"
    if kind is types.MethodType:
        return f"{_name_of(type(thing.__self__))}().{getattr(thing.__func__, '__name__', '')}"
    name = _name_of(kind)
    return "os.environ" if name == "os._Environ" else f"{name}()"


def _name_of(kind: type) -> str:
    module, name = (type.__getattribute__(kind, part) for part in ("__module__", "__qualname__"))
    return f"{module}.{name}"


class PathPolicy:
    """Paths that code may write to: the workspace without its record ``.ockham``.

    Args:
        workspace: an absolute path.
        folder: the working folder, absolute; ``move`` changes it as the code does.
    """

    def __init__(self, workspace: str, folder: str) -> None:
        self._workspace = os.path.normpath(workspace)
        self._folder = folder

    def is_outside(self, path: Said) -> bool:
        """Whether a path lies outside the workspace, or in its record.

        A partly known path is judged by its known folder; from one above the workspace, it may lead
        back into it.
        """
        known = path.text if path.whole else os.path.dirname(path.text)
        is_file_name = 0 < len(known) <= _MAX_NAME and "\n" not in known and "\0" not in known
        if not is_file_name or known.startswith(_NOWHERE):
            return False
        folder = self.reached(known)
        may_lead_back = not path.whole and _is_in(self._workspace, folder)
        return not (self._holds(folder) or may_lead_back) or self.is_of_record(path)

    def is_of_record(self, path: Said) -> bool:
        """Whether a path, as far as it is known, lies in the workspace's record."""
        known = self.reached(path.text if path.whole else os.path.dirname(path.text))
        below = known.removeprefix(self._workspace).lstrip(os.sep)
        return self._holds(known) and below.partition(os.sep)[0].casefold() == ARTIFACT_FOLDER

    def shown(self, path: Said) -> str:
        """Render the path for a person: relative inside the workspace, else in full."""
        shortened = self.reached(path.text)
        if self._holds(shortened):
            shortened = os.path.relpath(shortened, self._workspace)
        elif path.text.startswith("~"):
            shortened = path.text
        shortened += "/" * (path.text.endswith("/") and not shortened.endswith("/"))
        return shortened if path.whole else f"{shortened}…"

    def move(self, folder: Said) -> None:
        """Change the working folder, as ``os.chdir`` in the code would."""
        self._folder = self.reached(folder.text)

    def reached(self, name: str) -> str:
        """Return the absolute path of a name."""
        return os.path.normpath(os.path.join(self._folder, os.path.expanduser(name)))

    def _holds(self, path: str) -> bool:
        return _is_in(path, self._workspace)


def _is_in(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)
