"""Defer the import of a slow package that others import for one function."""

import sys
from importlib.util import find_spec, module_from_spec
from typing import Any


def defer(name: str, function: str) -> None:
    """Replace the package ``name`` by a stub that imports it on first use.

    The first call of ``function`` or access to another attribute imports it. Does nothing if it is
    already imported or not installed.
    """
    spec = None if name in sys.modules else find_spec(name)
    if spec is None or spec.loader is None:
        return
    module, loader = module_from_spec(spec), spec.loader

    def whole(attribute: str) -> Any:
        if "__getattr__" in vars(module):
            loader.exec_module(module)
            vars(module).pop("__getattr__", None)
        return getattr(module, attribute)

    vars(module).update(
        {"__getattr__": whole, function: lambda *given, **more: whole(function)(*given, **more)}
    )
    sys.modules[name] = module


def defer_grammar_of_addresses() -> None:
    """Defer the address grammar that jsonschema compiles on import, for altair and nbformat.

    Few schemas use its format, and it would add 2.5 s to the first chart.
    """
    defer("rfc3987_syntax", "is_valid_syntax")
