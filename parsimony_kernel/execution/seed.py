"""What a private namespace holds before any code has run: names, and the builtins."""

import builtins
from collections.abc import Callable, Iterable
from typing import Any

from parsimony_kernel.lineage.program import SEEDS

_FREE = ("datetime", "timedelta", "timezone")

_LEFT_OUT = frozenset(
    {"exec", "eval", "compile", "input", "breakpoint", "exit", "quit", "help", "copyright"}
    | {"credits", "license", "get_ipython"}
)


def _refusal(name: str, instead: str) -> Callable[..., Any]:
    def refuse(*_: Any, **__: Any) -> Any:
        raise RuntimeError(f"{name}() does not work here: {instead}")

    refuse.__name__ = refuse.__qualname__ = name
    return refuse


def _print(*values: Any, **options: Any) -> None:
    # Looked up when called: while code is captured there is another.
    builtins.print(*values, **options)


def private_builtins(display: Callable[..., None]) -> dict[str, Any]:
    """Python's builtins without those that compile text or wait for a person.

    What classes, imports and ``print`` need is there. This keeps honest code honest; it is no
    sandbox, and nothing in the process can be one.
    """
    kept = {name: value for name, value in vars(builtins).items() if name not in _LEFT_OUT}
    leave = "the cell ends by itself"
    return {
        **kept,
        "print": _print,
        "display": display,
        "input": _refusal("input", "put the value in the code"),
        "exit": _refusal("exit", leave),
        "quit": _refusal("quit", leave),
    }


def seed_names() -> dict[str, Any]:
    """The names that are there from the start and cost nothing."""
    return libraries_for(_FREE)


def libraries_for(names: Iterable[str]) -> dict[str, Any]:
    """The names of the seed among ``names``, imported: together they take seconds."""
    found: dict[str, Any] = {}
    for name in SEEDS.keys() & set(names) - {"display", "get_ipython"}:
        exec(SEEDS[name], found)
    found.pop("__builtins__", None)
    return found
