"""Turn options, turn lookup by number or id, pending calls, and the digest of permissions."""

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

from parsimony_kernel.core.chat import arguments_of
from parsimony_kernel.core.config import AgentGuardrails
from parsimony_kernel.core.errors import SessionError as SessionError
from parsimony_kernel.core.events import RunStarted
from parsimony_kernel.core.state import HeldCall, RunState, SuspensionRecord
from parsimony_kernel.gate.approval import EVERY_STEP, Approval
from parsimony_kernel.llm.cassette_mode import CassetteMode
from parsimony_kernel.session.share import Share
from parsimony_kernel.storage.journal import TurnRow

# Options that survive a suspension unchanged; same name in options and events.
KEPT = ("approve", "procedure", "share", "share_figures", "effort")

# First words of a fix request; the error's message follows.
MENDING = "A cell of this notebook failed."

# A shorter prefix of an id would match by chance.
_ID_CHARS = 6
_LISTED = 5


def sentence(text: str) -> str:
    """Capitalize ``text`` and end it with a full stop if needed."""
    clean = text.strip()
    return clean[:1].upper() + clean[1:] + ("" if clean.endswith((".", "!", "?")) else ".")


@dataclass(frozen=True)
class TurnOptions:
    """Options of one cell. Times are in seconds; ``max_cost_usd`` in US dollars.

    Attributes:
        model: One model, or several separated by commas: each is the fallback of the one before.
        effort: Reasoning effort: low, medium or high; empty for the model's default.
        llm_timeout_s: Longest silence of a model before its request times out.
        approve: When a person is asked before an action runs: never (``auto``), if it reaches
            outside the notebook (``guarded``), or always (``ask``).
        procedure: A YAML state machine, path relative to the notebook; the agent may only follow
            its edges. Empty for none.
        cassette: Record or replay the model's answers.
        share: How much of the notebook is sent to the model.
        share_figures: Send charts to vision models, as ``full`` always does.
        tells: Whether the first message describes the notebook at all.
        claims: With ``strict`` the model is asked once about numbers that no result supports.
        asked_by: The program that makes the request for the person, if any.
    """

    model: str | None = None
    effort: str = ""
    llm_timeout_s: float = 120.0
    max_iterations: int | None = None
    max_execution_time_s: float = 1_800.0
    max_tokens: int | None = None
    max_cost_usd: float | None = None
    approve: Approval = Approval.guarded
    procedure: str = ""
    cassette: CassetteMode | None = None
    share: Share = Share.samples
    share_figures: bool = False
    tells: bool = True
    claims: str = "mark"
    asked_by: str = ""

    def guardrails(self) -> AgentGuardrails:
        """Return the turn's limits."""
        given = {name: getattr(self, name) for name in _LIMITS}
        return AgentGuardrails(**{k: v for k, v in given.items() if v is not None})

    @classmethod
    def of(cls, begun: RunStarted) -> Self:
        """Return the options of the turn that started with ``begun``.

        Raises:
            ValueError: The approval or share mode doesn't exist.
        """
        kept = {name: getattr(begun, name) for name in (*KEPT, *_LIMITS)}
        return cls(**{**kept, "approve": Approval(begun.approve), "share": Share(begun.share)})

    def on_record(self, state: RunState) -> dict[str, Any]:
        """Return what a start event keeps, with the limits as extended in ``state``."""
        given = {**vars(self), **self.guardrails().model_dump()}
        kept = {name: given[name] for name in (*KEPT, *_LIMITS)}
        more = {"max_tokens": state.budget_from_tokens, "max_cost_usd": state.budget_from_cost_usd}
        return kept | {name: kept[name] + more[name] for name in more if kept[name] is not None}

    @property
    def shows_figures(self) -> bool:
        """Whether vision models get images of charts."""
        return self.share is Share.full or (self.share_figures and self.share is Share.samples)


# Limits of a turn; same name in options, guardrails and events.
_LIMITS = TurnOptions.__dataclass_fields__.keys() & AgentGuardrails.model_fields.keys()


def short_id(run_id: str) -> str:
    """Shorten a run id for typing; the result never looks like a turn number."""
    found = re.match(r"\d{8,}\D|.{1,8}", run_id)
    return found[0] if found else run_id


def resolve_turn(
    turns: Sequence[TurnRow],
    named: str | None,
    *,
    where: str = "in this notebook",
    remedy: str = "See %agent history.",
) -> TurnRow:
    """Find the turn that ``named`` means.

    Args:
        turns: Oldest first.
        named: Digits for a turn's number; six characters or more for the beginning of an id;
            ``None`` for the newest.
        where: Which turns these are, for an error.
        remedy: What to do about it, one sentence.

    Raises:
        SessionError: No turn is meant, or several are.
    """
    if not turns:
        raise SessionError(f"There are no turns {where} yet.")
    if named is None:
        return turns[-1]
    found = [turn for turn in turns if named in (str(turn.ordinal), turn.run_id)]
    if not found and not named.isdigit() and len(named) >= _ID_CHARS:
        found = [turn for turn in turns if turn.run_id.startswith(named)]
    if len(found) == 1:
        return found[0]
    if found:
        told = ", ".join(f"{each.run_id} of {each.notebook!r}" for each in found[-_LISTED:])
        raise SessionError(f"{named!r} means {len(found)} turns: {told}. Name one by its id.")
    raise SessionError(f"There is no turn {named} {where}. {remedy}")


# -- questions


def held_lines(call: HeldCall | None) -> list[str]:
    """Return the exact call awaiting approval: lines of code, or the call with its arguments."""
    if call is None:
        return []
    code = arguments_of(call.call).get("code")
    return (code if isinstance(code, str) else f"{call.name}({call.arguments})").splitlines()


def reaches_outside(record: SuspensionRecord) -> bool:
    """Whether the question asks for approval of an action outside the notebook."""
    call, why = record.pending_call, record.pending_question_context or ""
    return call is not None and why.casefold() != EVERY_STEP


# -- how a turn began


def digest_of(begun: RunStarted) -> str:
    """Hash a turn's start event: approval, share, budgets, procedure.

    Suspension records seal it, so a change of permissions in the journal is detected on resume.
    """
    canonical = json.dumps(begun.model_dump(mode="json"), sort_keys=True)
    return hashlib.sha256(canonical.encode()).hexdigest()
