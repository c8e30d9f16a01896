"""What a private namespace holds before any code has run: names, and the builtins."""

import builtins
import importlib
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta, timezone
from typing import Any

# Loaded when code first names them: together they take seconds to import.
_LIBRARIES = {"pd": "pandas", "np": "numpy", "alt": "altair"}

_LEFT_OUT = frozenset(
    {"exec", "eval", "compile", "input", "breakpoint", "exit", "quit", "help", "copyright"}
    | {"credits", "license", "get_ipython"}
)


def _refusal(name: str, instead: str) -> Callable[..., Any]:
    def refuse(*_: Any, **__: Any) -> Any:
        raise RuntimeError(f"{name}() does not work here: {instead}")

    refuse.__name__ = refuse.__qualname__ = name
    return refuse


def private_builtins(display: Callable[..., None]) -> dict[str, Any]:
    """Python's builtins without those that compile text or wait for a person.

    What classes, imports and ``print`` need is there. This keeps honest code honest; it is no
    sandbox, and nothing in the process can be one.
    """
    kept = {name: value for name, value in vars(builtins).items() if name not in _LEFT_OUT}
    leave = "the cell ends by itself"
    return {
        **kept,
        "display": display,
        "input": _refusal("input", "put the value in the code"),
        "exit": _refusal("exit", leave),
        "quit": _refusal("quit", leave),
    }


def seed_names() -> dict[str, Any]:
    """The names that are there from the start and cost nothing."""
    return {"datetime": datetime, "timedelta": timedelta, "timezone": timezone}


def libraries_for(names: Iterable[str]) -> dict[str, Any]:
    """The libraries of the seed among ``names``, imported."""
    return {name: importlib.import_module(_LIBRARIES[name]) for name in names if name in _LIBRARIES}
