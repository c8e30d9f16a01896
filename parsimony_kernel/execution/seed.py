"""What a private namespace holds before any code has run: names, and the builtins."""

import builtins
import importlib
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta, timezone
from typing import Any

# Loaded when code first names them: together they take seconds to import. Of a module that is
# followed by a name that name is meant, else the module itself.
_DOCUMENTS = "parsimony_kernel.execution.documents"
_LIBRARIES = {
    "pd": ("pandas", ""),
    "np": ("numpy", ""),
    "alt": ("altair", ""),
    "read_excel": (_DOCUMENTS, "read_excel"),
    "read_pdf_text": (_DOCUMENTS, "read_pdf_text"),
    "read_pptx_text": (_DOCUMENTS, "read_pptx_text"),
    "load_dataset": ("parsimony_kernel.execution.datasets", "load_dataset"),
}

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
    return {"datetime": datetime, "timedelta": timedelta, "timezone": timezone}


def libraries_for(names: Iterable[str]) -> dict[str, Any]:
    """The libraries and readers of the seed among ``names``, imported."""
    found: dict[str, Any] = {}
    for name in names:
        if name in _LIBRARIES:
            module, inside = _LIBRARIES[name]
            loaded = importlib.import_module(module)
            found[name] = getattr(loaded, inside) if inside else loaded
    return found
