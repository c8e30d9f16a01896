"""Where code runs and what may be written to. Paths are compared by their names alone.

The record of the workspace, ``.ockham``, lies in it and is not the code's to write.
"""
# ruff: noqa: PTH118, PTH120  (paths are compared as texts; nothing asks the disk)

import os
import re

from parsimony_kernel.gate.stand_ins import Text
from parsimony_kernel.identity import ARTIFACT_FOLDER

_MAX_NAME = 4_096
# Where writing reaches nobody.
_NOWHERE = ("/dev/null", "/dev/stdout", "/dev/stderr")


class Place:
    """A folder, which code may change on its way, in a workspace. Both are absolute."""

    def __init__(self, workspace: str, folder: str) -> None:
        self._workspace = os.path.normpath(workspace)
        self._folder = folder

    def is_outside(self, text: Text) -> bool:
        """Whether a file of this name lies outside the workspace, or in its record.

        Of a name that is only known in part, what is known decides.
        """
        name = text.text
        if not _is_file_name(name) or name in _NOWHERE:
            return False
        if name.startswith("~"):
            return True
        known = name if text.whole else os.path.dirname(name)
        if not known and not text.whole:
            return False
        if re.match(r"^[A-Za-z]:[\\/]|^\\\\", known) and os.sep == "/":
            return True
        return not self._holds(self._reached(known)) or self.is_of_record(text)

    def is_of_record(self, text: Text) -> bool:
        """Whether a file of this name, as far as it is known, lies in the workspace's record."""
        known = self._reached(text.text if text.whole else os.path.dirname(text.text))
        below = known.removeprefix(self._workspace).lstrip(os.sep)
        first = below.partition(os.sep)[0].casefold()
        return self._holds(known) and first == ARTIFACT_FOLDER

    def shown(self, text: Text) -> str:
        """The name for a person: from the workspace where it lies in it, else in full."""
        name = text.text
        if not _is_file_name(name) or (self.is_outside(text) and name.startswith("~")):
            return name
        reached = self._reached(name)
        inside = self._holds(reached)
        told = os.path.relpath(reached, self._workspace) if inside else reached
        if name.endswith("/") and not told.endswith("/"):
            told += "/"
        return told if text.whole else f"{told}…"

    def move(self, text: Text) -> None:
        """Go to the folder ``text``."""
        self._folder = self._reached(text.text)

    def _reached(self, name: str) -> str:
        return os.path.normpath(os.path.join(self._folder, name))

    def _holds(self, path: str) -> bool:
        root = self._workspace
        return path == root or path.startswith(root.rstrip(os.sep) + os.sep)


def _is_file_name(name: str) -> bool:
    return bool(name) and "\n" not in name and "\0" not in name and len(name) <= _MAX_NAME
