"""Of whom a class is. No metaclass is asked, and no package is imported."""

import sys
from typing import Any

_loaded: dict[tuple[str, tuple[str, ...]], tuple[Any, ...]] = {}
_module_of = type.__dict__["__module__"].__get__


def said_module(kind: type) -> Any:
    """What a class says is its module, which may be anything; empty where it says none."""
    try:
        return _module_of(kind)
    except AttributeError:
        return ""


def module_of(kind: type) -> str:
    """The module that a class says, empty where it says none."""
    module = said_module(kind)
    return module if type(module) is str else ""


def package_of(kind: type) -> str:
    """The package of a class, empty where it says none."""
    return module_of(kind).partition(".")[0]


def is_theirs(kind: type) -> bool:
    """Whether a class is of the notebook, as one that says no module is."""
    return module_of(kind) in ("", "__main__")


def loaded(package: str, *names: str) -> tuple[Any, ...]:
    """Those of a package's classes that there are: none of one that is not loaded yet."""
    found = _loaded.get((package, names))
    if found is None:
        module: Any = sys.modules.get(package)
        found = tuple(getattr(module, name) for name in names if hasattr(module, name))
        if len(found) == len(names):
            _loaded[package, names] = found
    return found


def is_frame(kind: type) -> bool:
    """Whether values of ``kind`` are frames or series of pandas."""
    return issubclass(kind, loaded("pandas", "DataFrame", "Series"))


def is_tabular(value: Any) -> bool:
    """Whether a value is of a class of pandas or polars."""
    return module_of(type(value)).startswith(("pandas.", "polars."))
