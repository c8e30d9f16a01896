"""A package that others import for one function, and that takes seconds, imported when needed."""

import sys
from importlib.util import find_spec, module_from_spec
from typing import Any


def defer(name: str, function: str) -> None:
    """Have the package ``name`` imported by the first call of its ``function``, or by the first
    look at something else of it. Does nothing where it is imported already or not installed.
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
    """jsonschema, which altair and nbformat import, has a grammar compiled for a format that few
    schemas name: two seconds and a half of the first chart."""
    defer("rfc3987_syntax", "is_valid_syntax")
