"""What the fixture ``race`` is: of a program and a path, what eight processes print."""

from collections.abc import Callable
from pathlib import Path

Race = Callable[[str, Path], list[str]]
