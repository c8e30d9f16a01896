"""Names that the libraries in use give to what they offer.

Asks only what is imported already, and imports nothing.
"""

import inspect
import sys
from collections.abc import Iterator
from functools import lru_cache
from types import CodeType
from typing import Any

_LIBRARIES = ("altair", "numpy", "pandas")
_KINDS = ("DataFrame", "Series", "Chart")


def is_of_a_library(name: str) -> bool:
    """Whether ``name`` is a function, a method or a parameter of a loaded library."""
    loaded = tuple(each for each in _LIBRARIES if each in sys.modules)
    return name in _names(loaded)


@lru_cache(maxsize=8)
def _names(loaded: tuple[str, ...]) -> frozenset[str]:
    found: set[str] = set()
    for module in map(sys.modules.__getitem__, loaded):
        held = dict(vars(module))
        found.update(held)
        for kind in filter(None, map(held.get, _KINDS)):
            members = {each: inspect.getattr_static(kind, each, None) for each in dir(kind)}
            found.update(members)
            held.update(members)
        found.update(name for value in held.values() for name in _parameters(value))
    return frozenset(found)


def _parameters(function: Any) -> Iterator[str]:
    code = getattr(inspect.unwrap(function), "__code__", None)
    if isinstance(code, CodeType):
        yield from code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
