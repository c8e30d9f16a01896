"""The names under which generated code knows modules, where the person's variables have them.

A variable of the person is never bound anew by an import.
"""

import io
import re
import tokenize
from collections.abc import Collection

from parsimony_kernel.offline.codegen.python import unique

# By the usual name: the import, what it is imported as instead, and what is used of it. What is
# used tells the module from a table that is called the same.
_IMPORTS = {
    "pd": (
        "import pandas as pd",
        "import pandas as {}",
        "pandas",
        r"\.(?:to_datetime|to_numeric|Grouper|cut|json_normalize|read_\w+)\(",
    ),
    "alt": ("import altair as alt", "import altair as {}", "altair", r"\.[A-Z]\w*\("),
    "np": ("import numpy as np", "import numpy as {}", "numpy", r"\.(?:log|log10|exp)\("),
    "json": ("import json", "import json as {}", "json_module", r"\.(?:dumps|loads)\("),
    "Path": ("from pathlib import Path", "from pathlib import Path as {}", "FilePath", r"\("),
}


def with_free_aliases(code: str, taken: Collection[str]) -> str:
    """``code`` with its modules under names that are not ``taken`` by variables."""
    for name, (usual, other, wanted, used) in _IMPORTS.items():
        if name not in taken or not re.search(rf"^{usual}$", code, re.MULTILINE):
            continue
        alias = unique(wanted, taken)
        code = _renamed(code, name, alias, re.compile(used))
        line = other.format(alias)
        plain = line.replace(f"import {alias} as {alias}", f"import {alias}")
        code = re.sub(rf"^{usual}$", plain, code, flags=re.MULTILINE)
    return code


def _renamed(code: str, name: str, alias: str, used: re.Pattern[str]) -> str:
    """``code`` with ``name`` as ``alias`` where it is the module; text in quotes stays."""
    lines = code.splitlines(keepends=True)
    for token in reversed(list(tokenize.generate_tokens(io.StringIO(code).readline))):
        row, column = token.start
        if token.type == tokenize.NAME and token.string == name:
            line = lines[row - 1]
            rest = line[column + len(name) :]
            if used.match(rest):
                lines[row - 1] = f"{line[:column]}{alias}{rest}"
    return "".join(lines)
