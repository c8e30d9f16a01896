"""What references and texts of a cell mean where it runs: with the namespace, or by convention."""

import builtins
import functools
import re
import types
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PosixPath, PurePosixPath, PureWindowsPath, WindowsPath
from typing import Any

from parsimony_kernel.analysis.calls import CONVENTION
from parsimony_kernel.analysis.values import Ref, Text, Value

_MAX_TEXT = 20_000
_PATHS = (PosixPath, WindowsPath, PurePosixPath, PureWindowsPath)
_ROOT = re.compile(r"[^.(]*")
_BUILTINS = frozenset({*vars(builtins), "display", "get_ipython"})
# Other names for the same thing.
_SAME = (
    (re.compile(r"^(?:posix|nt)(?=\.)"), "os"),
    (re.compile(r"^(?:builtins|__builtins__)\."), ""),
    (re.compile(r"^_?io\.open$"), "open"),
    (re.compile(r"^_(?=pickle\.|socket\.)"), ""),
    (re.compile(r"^[\w.()]*\bget_ipython\b"), "get_ipython"),
)


@dataclass(frozen=True)
class Said:
    """A text or a path that begins with ``text``, and is no longer if ``whole``."""

    text: str
    whole: bool = True
    path: bool = False


class Origins:
    """Full names and texts, by what is bound before the cell runs."""

    def __init__(self, namespace: Mapping[str, Any]) -> None:
        self._namespace = namespace

    def name(self, value: Value | None) -> str:
        """The full name of a thing of a library, empty where it is none or not known."""
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
        """What is known of a text or a path from the left; of several, the first."""
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
                    said = Said(part) if isinstance(part, str) else self.text(part)
                    if said is None or len(known) > _MAX_TEXT:
                        return Said(known, whole=False, path=path) if known else None
                    known, path = known + said.text, path or said.path
                return Said(known, path=path)
        return None


def _origin_of(thing: Any) -> str:
    """The full name of what is bound; no code of its own class runs to find out."""
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
