"""Defer the import of a slow package that others import for one function."""

import sys
from importlib import import_module
from importlib.util import find_spec, module_from_spec
from typing import Any

_NAME, _FUNCTION = "rfc3987_syntax", "is_valid_syntax"


def defer_grammar_of_addresses() -> None:
    """Replace the address grammar that jsonschema compiles on import by a stub.

    altair and nbformat import it; few schemas use its format, and it would add 2.5 s to the first
    chart. The first use imports it. Does nothing if it is already imported or not installed.
    """
    spec = None if _NAME in sys.modules else find_spec(_NAME)
    if spec is None:
        return
    stub = module_from_spec(spec)

    def whole(attribute: str) -> Any:
        if sys.modules.get(_NAME) is stub:
            sys.modules.pop(_NAME, None)
        return getattr(import_module(_NAME), attribute)

    vars(stub)["__getattr__"] = whole
    vars(stub)[_FUNCTION] = lambda *given, **more: whole(_FUNCTION)(*given, **more)
    sys.modules[_NAME] = stub
