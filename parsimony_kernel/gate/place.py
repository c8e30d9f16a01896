"""Where code runs and what may be written to. Paths are compared by their names alone.

The record of the workspace, ``.ockham``, lies in it and is not the code's to write.
"""
# ruff: noqa: PTH111, PTH118, PTH120  (paths are compared as texts; nothing asks the disk)

import os

from parsimony_kernel.gate.origins import Said
from parsimony_kernel.identity import ARTIFACT_FOLDER

_MAX_NAME = 4_096
# Where writing reaches nobody.
_NOWHERE = ("/dev/null", "/dev/stdout", "/dev/stderr", "/dev/shm/")


class Place:
    """A folder, which code may change on its way, in a workspace. Both are absolute."""

    def __init__(self, workspace: str, folder: str) -> None:
        self._workspace = os.path.normpath(workspace)
        self._folder = folder

    def is_outside(self, said: Said) -> bool:
        """Whether a file of this name lies outside the workspace, or in its record.

        Of a name that is only known in part, what is known decides.
        """
        known = said.text if said.whole else os.path.dirname(said.text)
        if not _is_file_name(known) or known.startswith(_NOWHERE):
            return False
        return not self._holds(self.reached(known)) or self.is_of_record(said)

    def is_of_record(self, said: Said) -> bool:
        """Whether a file of this name, as far as it is known, lies in the workspace's record."""
        known = self.reached(said.text if said.whole else os.path.dirname(said.text))
        below = known.removeprefix(self._workspace).lstrip(os.sep)
        return self._holds(known) and below.partition(os.sep)[0].casefold() == ARTIFACT_FOLDER

    def shown(self, said: Said) -> str:
        """The name for a person: from the workspace where it lies in it, else in full."""
        reached = self.reached(said.text)
        if self._holds(reached):
            told = os.path.relpath(reached, self._workspace)
        else:
            told = said.text if said.text.startswith("~") else reached
        told += "/" * (said.text.endswith("/") and not told.endswith("/"))
        return told if said.whole else f"{told}…"

    def move(self, said: Said) -> None:
        """Go to a folder."""
        self._folder = self.reached(said.text)

    def reached(self, name: str) -> str:
        """The full name of a file."""
        return os.path.normpath(os.path.join(self._folder, os.path.expanduser(name)))

    def _holds(self, path: str) -> bool:
        root = self._workspace
        return path == root or path.startswith(root.rstrip(os.sep) + os.sep)


def _is_file_name(name: str) -> bool:
    return bool(name) and "\n" not in name and "\0" not in name and len(name) <= _MAX_NAME
