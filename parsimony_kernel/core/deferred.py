"""Defer the import of a slow package that others import for one function."""

import sys
from importlib.util import find_spec, module_from_spec
from typing import Any

_NAME, _FUNCTION = "rfc3987_syntax", "is_valid_syntax"


def defer_grammar_of_addresses() -> None:
    """Replace the address grammar that jsonschema compiles on import by a stub.

    altair and nbformat import it; few schemas use its format, and it would add 2.5 s to the first
    chart. The first use imports it. Does nothing if it is already imported or not installed.
    """
    spec = None if _NAME in sys.modules else find_spec(_NAME)
    if spec is None or spec.loader is None:
        return
    module, loader = module_from_spec(spec), spec.loader

    def whole(attribute: str) -> Any:
        if "__getattr__" in vars(module):
            loader.exec_module(module)
            vars(module).pop("__getattr__", None)
        return getattr(module, attribute)

    def function(*given: Any, **more: Any) -> Any:
        return whole(_FUNCTION)(*given, **more)

    vars(module).update({"__getattr__": whole, _FUNCTION: function})
    sys.modules[_NAME] = module
