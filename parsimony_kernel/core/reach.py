"""What a code cell would do outside the notebook. Values only."""

from dataclasses import dataclass
from enum import StrEnum


class ReachKind(StrEnum):
    """Where a cell reaches."""

    shell = "shell"
    network = "network"
    deletion = "deletion"
    outside_write = "outside_write"
    installation = "installation"
    secret = "secret"
    process = "process"
    dynamic_code = "dynamic_code"
    forgetting = "forgetting"


# Whatever does more than read outside the notebook.
ACTING = frozenset(ReachKind) - {ReachKind.secret, ReachKind.forgetting}

_SAID = {
    ReachKind.shell: "starts another program",
    ReachKind.network: "talks to the network",
    ReachKind.deletion: "deletes or moves files",
    ReachKind.outside_write: "writes outside the workspace",
    ReachKind.installation: "changes the installed packages",
    ReachKind.secret: "reads keys or passwords",
    ReachKind.process: "interferes with running processes",
    ReachKind.dynamic_code: "runs code that cannot be read beforehand",
    ReachKind.forgetting: "forgets every variable, the person's own too",
}


# What was found while a cell was read: where it reaches, what, and in which line.
Finding = tuple[ReachKind, str, int]


@dataclass(frozen=True)
class Reach:
    """One place of a cell that reaches outside. ``line`` counts from 1."""

    kind: ReachKind
    what: str
    line: int
    source_line: str

    @property
    def sentence(self) -> str:
        """For a person."""
        return f"Line {self.line} {_SAID[self.kind]}: {self.what}."
