"""Turns as values: what a cell may set, what is told of a turn, and why one cannot be had."""

from dataclasses import dataclass
from typing import Any

from parsimony_kernel.agent.config import AgentGuardrails
from parsimony_kernel.agent.state import RunState
from parsimony_kernel.gate.approval import Approval
from parsimony_kernel.llm.cassette_mode import CassetteMode
from parsimony_kernel.notebook.share import Share

# The limits of a turn, by the name that guardrails and events give them.
LIMITS = ("max_iterations", "max_execution_time_s", "max_tokens", "max_cost_usd")

# How a request begins that hands over an error, with what the error says.
MENDING = "A cell of this notebook failed."


class SessionError(Exception):
    """Why a turn cannot be had, in one sentence with the remedy."""


@dataclass(frozen=True)
class TurnOptions:
    """What one cell may set. Times are in seconds; ``max_cost_usd`` in US dollars.

    ``approve`` says when a person is asked before an action runs: never, where it reaches outside
    the notebook, or always. ``procedure`` is a YAML file, relative to the notebook, whose edges
    are all that the agent may walk.

    ``model`` may name several with commas between: the next takes over where one fails.
    ``cassette`` records or replays what the model answers.

    ``share`` says how much of the notebook the model is told, and ``context`` of what: of
    everything (``None``), or only of the variables, data files and titles named.
    ``notebook_cost_usd`` is what all turns of the notebook together may cost.
    """

    model: str | None = None
    max_iterations: int | None = None
    max_time_s: float | None = None
    max_tokens: int | None = None
    max_cost_usd: float | None = None
    approve: Approval = Approval.guarded
    procedure: str | None = None
    cassette: CassetteMode | None = None
    share: Share = Share.samples
    context: tuple[str, ...] | None = None
    notebook_cost_usd: float | None = None

    def guardrails(self) -> AgentGuardrails:
        """The limits of the turn."""
        given = {
            "max_iterations": self.max_iterations,
            "max_execution_time_s": self.max_time_s,
            "max_tokens": self.max_tokens,
            "max_cost_usd": self.max_cost_usd,
        }
        return AgentGuardrails(**{k: v for k, v in given.items() if v is not None})


@dataclass(frozen=True)
class PendingQuestion:
    """A turn that waits for an answer."""

    turn_id: str
    ordinal: int
    request: str
    question: str
    context: str | None
    choices: tuple[str, ...]
    asked_at: str
    nonce: str


@dataclass(frozen=True)
class TurnSummary:
    """One turn, for lists.

    ``status``: running, done, suspended, handed_off, stopped, cancelled, replaced
    or forgotten.
    """

    turn_id: str
    ordinal: int
    request: str
    status: str
    model: str
    started_at: str
    summary: str


@dataclass(frozen=True)
class PublishedArtifact:
    """The newest snapshot of one artifact. ``path`` is relative to the workspace."""

    kind: str
    logical_id: str
    content_sha: str
    path: str
    title: str
    published_at: str


def shown_limits(guardrails: AgentGuardrails, state: RunState | None = None) -> dict[str, Any]:
    """The limits, with what the person has allowed beyond them in ``state``."""
    shown = {name: getattr(guardrails, name) for name in LIMITS}
    if state is not None and guardrails.max_tokens is not None:
        shown["max_tokens"] = guardrails.max_tokens + state.budget_from_tokens
    if state is not None and guardrails.max_cost_usd is not None:
        shown["max_cost_usd"] = guardrails.max_cost_usd + state.budget_from_cost_usd
    return shown
