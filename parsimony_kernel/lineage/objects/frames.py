"""Which values are frames, and what setting a column of theirs does. Imports no package of them."""

import re
import sys
from typing import Any

from parsimony_kernel.lineage.snapshot import module_of

_FRAMES = ("pandas.", "polars.")
MOST_BLOCKS = 64
_MAJOR = re.compile(r"[0-2]\.")


def is_tabular(value: Any) -> bool:
    """Whether a value is of a class of pandas or polars."""
    return module_of(type(value)).startswith(_FRAMES)


def frames_of(pandas: Any) -> tuple[type, ...]:
    """The classes of frames and series that ``pandas``, the module, has by now."""
    return (pandas.DataFrame, pandas.Series) if hasattr(pandas, "Series") else ()


def writes_nothing(value: Any) -> bool:
    """Whether a column that is set is no write into memory: of a frame of pandas 3 or later."""
    pandas = sys.modules.get("pandas")
    if pandas is None or type(value) is not getattr(pandas, "DataFrame", None):
        return False
    return _MAJOR.match(pandas.__version__) is None
