"""What a person has written down for every agent: AGENTS.md and PARSIMONY.md.

They are read as the person's words and are nothing but words: approval, share mode, budgets and
tools are what they are without them.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from parsimony_kernel.core.events import RunStarted

NAMES = ("AGENTS.md", "PARSIMONY.md")
MAX_BYTES = 8 * 1024


@dataclass(frozen=True)
class Written:
    """One file: its path in the workspace, what is told of it, and the hash of all of it."""

    path: str
    text: str
    sha: str

    @property
    def block(self) -> str:
        """The text as it stands behind the system prompt."""
        return f'<instructions from="{self.path}">\n{self.text.strip()}\n</instructions>'


def read_instructions(folder: Path, workspace: Path) -> tuple[Written, ...]:
    """The nearest file of each name, from ``folder`` upward within ``workspace``.

    One that cannot be read, or whose link leads out of the workspace, is as if it were not there.
    """
    root = workspace.resolve()
    here = folder.resolve()
    places = [each for each in (here, *here.parents) if each.is_relative_to(root)]
    found = (
        next((each for place in places if (each := _read(place / name, root))), None)
        for name in NAMES
    )
    return tuple(each for each in found if each is not None)


def _read(path: Path, root: Path) -> Written | None:
    try:
        if not path.resolve(strict=True).is_relative_to(root):
            return None
        content = path.read_bytes()
    except OSError:
        return None
    text = content[:MAX_BYTES].decode("utf-8", "replace")
    if len(content) > MAX_BYTES:
        text = f"{text}\n… the rest is left out: {MAX_BYTES // 1024} KB are read."
    sha = hashlib.sha256(content).hexdigest()
    return Written(path.relative_to(root).as_posix(), text, sha) if text.strip() else None


def hashes(files: Sequence[Written]) -> dict[str, str]:
    """The hash of each file by its path."""
    return {each.path: each.sha for each in files}


def in_words(files: Sequence[Written], before: RunStarted | None) -> tuple[str, ...]:
    """A line for people of each file, which says where it is another than at ``before``."""
    lines = []
    for each in files:
        was = before.instructions.get(each.path, each.sha) if before else each.sha
        changed = "" if was == each.sha else ", which has changed since the turn before"
        lines.append(f"your instructions in {each.path}{changed}")
    return tuple(lines)
