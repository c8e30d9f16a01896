"""Effects outside the notebook: those of a code cell, and the record of external writes.

The record is a write-ahead log, so that no write is done twice. The intent is recorded before a
write runs and its commit afterwards. An intent without a commit is uncertain: it is reconciled with
the source of truth, or a person says what happened.
"""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any, Literal, Protocol

from parsimony_kernel.core.text import Worded

Inputs = Mapping[str, Any]

_SENSITIVE = frozenset({"delete", "modify", "transfer", "refund"})


@dataclass(frozen=True)
class Standing:
    """The state of a write: ``intended`` is uncertain, ``committed`` has its ``answer``.

    ``others`` are the keys under which other runs began the same write with unknown outcome;
    ``may_go_on`` means that one of those runs may still be working on it.
    """

    state: Literal["intended", "committed"]
    answer: Any = None
    others: tuple[str, ...] = ()
    may_go_on: bool = False


class Effects(Protocol):
    """The record of writes. Every change is recorded before the call returns.

    A key belongs to one run. The same action with the same inputs, begun by another run with
    unknown outcome, blocks the write as well, and is settled together with the run's own; another
    run's committed write does not.
    """

    def standing(self, key: str, action: str = "", inputs: Inputs | None = None) -> Standing | None:
        """Return the state of the write; ``None`` if it was never begun, or did not happen.

        Other runs are considered only with ``action`` and ``inputs``.
        """

    def intend(self, key: str, action: str, inputs: Inputs) -> bool:
        """Record that the write is about to run; a committed write stays committed.

        Returns:
            ``False`` if it was begun before, here or in another run, and so must not run.
        """

    def commit(self, key: str, answer: Any) -> None:
        """Record that the write happened, in whichever run; ``answer`` is JSON."""

    def withdraw(self, key: str) -> None:
        """Record that the write did not happen and may be retried; a committed one is kept."""


class MemoryEffects:
    """A record in memory, lost with its process."""

    def __init__(self) -> None:
        self._standings: dict[str, Standing] = {}
        self._writes: dict[str, str] = {}

    def standing(self, key: str, action: str = "", inputs: Inputs | None = None) -> Standing | None:
        own = self._standings.get(key)
        if own is not None and own.state == "committed":
            return own
        others = () if inputs is None else self._open(action_sha(action, inputs), key)
        return Standing("intended", others=others) if own is not None or others else None

    def intend(self, key: str, action: str, inputs: Inputs) -> bool:
        began = self.standing(key, action, inputs) is not None
        self._standings.setdefault(key, Standing("intended"))
        self._writes[key] = action_sha(action, inputs)
        return not began

    def commit(self, key: str, answer: Any) -> None:
        for each in (key, *self._open(self._writes.get(key), key)):
            self._standings[each] = Standing("committed", answer)

    def withdraw(self, key: str) -> None:
        own = self._standings.get(key)
        if own is not None and own.state == "intended":
            for each in (key, *self._open(self._writes.get(key), key)):
                del self._standings[each]

    def _open(self, write: str | None, key: str) -> tuple[str, ...]:
        """Return the other keys under which ``write`` was begun with unknown outcome."""
        return tuple(
            each
            for each, standing in self._standings.items()
            if each != key and standing.state == "intended" and self._writes.get(each) == write
        )


def action_sha(action: str, inputs: Inputs, *, run_id: str = "") -> str:
    """Return the identity of exactly this action: SHA-256 over its name and canonical inputs.

    With ``run_id`` it is the idempotency key of the write in that run.
    """
    text = json.dumps([run_id, action, dict(inputs)], sort_keys=True, default=str)
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()


def is_sensitive(action_type: object) -> bool:
    """Return whether an action's name says that it deletes, modifies, transfers or refunds."""
    apart = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", str(action_type or ""))
    words = re.findall(r"[^\W_]+", apart.casefold())
    return not _SENSITIVE.isdisjoint(words)


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
