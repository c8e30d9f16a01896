"""Types of failure and their properties, from ``taxonomy.toml``."""

import tomllib
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

from parsimony_kernel.core.kinds import *
from parsimony_kernel.core.kinds import FailureType

_TABLE = tomllib.loads((files(__package__) / "taxonomy.toml").read_text(encoding="utf-8"))


def column(name: str) -> Mapping[FailureType, Any]:
    """Return the column ``name`` of the table for the types that have it, in order of types."""
    return {kind: _TABLE[kind][name] for kind in FailureType if name in _TABLE[kind]}
