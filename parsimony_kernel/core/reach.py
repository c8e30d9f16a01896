"""The side effects of a code cell outside the notebook. Values only."""

import re
from dataclasses import dataclass
from pathlib import PurePath

from parsimony_kernel.core.text import Worded


class ReachKind(Worded):
    """The kind of side effect, and what the code does."""

    shell = "shell", "starts another program"
    network = "network", "talks to the network"
    deletion = "deletion", "deletes or moves files"
    outside_write = "outside_write", "writes outside the workspace"
    installation = "installation", "changes the installed packages"
    secret = "secret", "reads keys or passwords"
    process = "process", "interferes with running processes"
    dynamic_code = "dynamic_code", "runs code that cannot be read beforehand"
    forgetting = "forgetting", "forgets every variable, the person's own too"
    runnable = "runnable", "writes a file that is run later"
    unpickling = "unpickling", "loads a file that can run code while it is loaded"
    replacing = "replacing", "replaces a file that is too large to be kept for undo"


# The kinds that do more than read outside the notebook.
_READING = {ReachKind.secret, ReachKind.forgetting, ReachKind.replacing, ReachKind.unpickling}
ACTING = frozenset(ReachKind) - _READING

# The calls that show which of both a deletion is.
_MOVING = re.compile(r"\bos\.(?:renames?|replace)\b|\bshutil\.move\b|\.(?:rename|replace)\(\)")
_DELETING = re.compile(
    r"\bos\.(?:remove|removedirs|rmdir|unlink)\b|rmtree\b|\bsend2trash\b|\.(?:rmdir|unlink)\("
)


@dataclass(frozen=True)
class Reach:
    """One place in a cell with a side effect outside.

    ``line`` counts from 1. ``does`` is what a deletion was seen to do; empty if it was not seen.
    """

    kind: ReachKind
    what: str
    line: int
    source_line: str
    does: str = ""

    @property
    def sentence(self) -> str:
        """Return a sentence for a person."""
        does, seen = self.does or self.kind.words, f"{self.what} {self.source_line}"
        if self.kind is ReachKind.deletion and not self.does:
            deletes, moves = (bool(each.search(seen)) for each in (_DELETING, _MOVING))
            if deletes != moves:
                does = "deletes files" if deletes else "moves files"
        return f"Line {self.line} {does}: {self.what}."


# Suffixes of files that Python or a shell executes.
_RUNNABLE = frozenset(
    {".py", ".pyw", ".ipy", ".pyc", ".pyo", ".pyd", ".so", ".dylib", ".dll", ".pth"}
    | {".sh", ".bash", ".zsh", ".fish", ".ksh", ".csh", ".command", ".bat", ".cmd"}
    | {".ps1", ".psm1"}
)
# Files of other names that make, git, an editor, a shell or a server runs: what is in them.
_RUN = re.compile(
    r"(?:^|/)(?:(?:gnu)?makefile|[^/]*\.mk|justfile|dockerfile|\.envrc|\.gitlab-ci\.yml"
    r"|\.pre-commit-config\.yaml|\.git/(?:config|hooks/[^/]+)|\.github/workflows/[^/]+"
    r"|\.vscode/(?:tasks|launch|settings)\.json|\.(?:bash|zsh)(?:rc|_profile|env)|\.profile)$",
    re.IGNORECASE,
)


def is_run_later(name: str) -> bool:
    """Return whether Python, a shell, make or git would execute a file of this name."""
    path = PurePath(name)
    return _RUN.search(path.as_posix()) is not None or path.suffix.casefold() in _RUNNABLE
