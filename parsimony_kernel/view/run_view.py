"""A run as far as its events have told it.

The value that the fold carries, and the few moves that every kind of event makes on it.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from parsimony_kernel.core.text import encodable
from parsimony_kernel.view.blocks import (
    Artifact,
    Block,
    FooterBlock,
    ProgressBlock,
    ProseBlock,
)
from parsimony_kernel.view.escape import steady

SENTENCE_CHARS = 2_000
ARGUMENT_CHARS = 400
# How much of a long text is looked at, for all of which there is no room anyway.
READ_CHARS = 64_000


@dataclass(frozen=True)
class RunView:
    """A run so far. ``blocks`` are its record; the rest is what the next event builds on.

    ``status`` is idle, running, done, suspended, handed_off, stopped or cancelled.
    """

    status: str = "idle"
    run_id: str = ""
    model: str = ""
    closed: tuple[Block, ...] = ()
    prose: ProseBlock | None = None
    activity: str = ""
    artifacts: tuple[Artifact, ...] = ()
    variables: tuple[str, ...] = ()
    steps: int = 0
    figures: int = 0
    rounds: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost_usd: float = 0.0
    calls: int = 0
    unpriced_calls: int = 0
    elapsed_s: float = 0.0
    max_rounds: int = 0
    max_elapsed_s: float = 0.0
    max_tokens: int = 0
    max_cost_usd: float = 0.0
    # What the last answer says and no result supports; the answer itself, where it was refused.
    not_found: tuple[str, ...] = ()
    withheld: str = ""

    @cached_property
    def blocks(self) -> tuple[Block, ...]:
        """The record in order: what is settled, then what moves (prose, footer, progress)."""
        if self.status == "idle":
            return self.closed
        moving: list[Block] = []
        if self.prose is not None and (self.prose.text or self.prose.reasoning):
            moving.append(self.prose)
        moving.append(_footer(self))
        if self.status == "running":
            moving.append(ProgressBlock("progress", self.activity, self.elapsed_s))
        return (*self.closed, *moving)


EMPTY = RunView()


def metadata_of(view: RunView) -> dict[str, Any]:
    """The facts that differ from run to run, for the metadata of a display. A number that JSON
    has no word for is null: a display with it is not sent at all."""
    facts = {
        "run_id": view.run_id,
        "status": view.status,
        "model": view.model,
        "rounds": view.rounds,
        "steps": view.steps,
        "prompt_tokens": view.prompt_tokens,
        "completion_tokens": view.completion_tokens,
        "cost_usd": _cost(view),
        "elapsed_s": round(view.elapsed_s, 3),
    }
    finite = {
        name: None if isinstance(fact, float) and not math.isfinite(fact) else encodable(fact)
        for name, fact in facts.items()
    }
    return {"parsimony": finite}


def _cost(view: RunView) -> float | None:
    return None if view.calls and view.unpriced_calls == view.calls else view.cost_usd


def _footer(view: RunView) -> FooterBlock:
    return FooterBlock(
        key="footer",
        model=view.model,
        steps=view.steps,
        calls=view.calls,
        max_rounds=view.max_rounds,
        prompt_tokens=view.prompt_tokens,
        completion_tokens=view.completion_tokens,
        cost_usd=_cost(view),
        cost_partial=0 < view.unpriced_calls < view.calls,
        elapsed_s=view.elapsed_s,
        max_elapsed_s=view.max_elapsed_s,
        max_tokens=view.max_tokens,
        max_cost_usd=view.max_cost_usd,
    )


def cut(text: str, limit: int = SENTENCE_CHARS) -> str:
    """``text`` within ``limit`` characters."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


def cut_steady(text: str, limit: int = SENTENCE_CHARS) -> str:
    """``text`` within ``limit`` characters, without what differs from process to process."""
    return cut(steady(text[:READ_CHARS]), limit)


def cut_each(texts: Iterable[str], limit: int = ARGUMENT_CHARS) -> tuple[str, ...]:
    """Each of ``texts`` within ``limit`` characters."""
    return tuple(cut(text, limit) for text in texts)


def settled(view: RunView) -> RunView:
    """With the open prose closed; prose of white space alone leaves nothing."""
    prose = view.prose
    if prose is None:
        return view
    closed = (*view.closed, prose) if prose.text or prose.reasoning else view.closed
    return replace(view, prose=None, closed=closed)


def with_block(view: RunView, index: int, block: Block) -> RunView:
    """With ``block`` in the place of the settled one at ``index``."""
    return replace(view, closed=(*view.closed[:index], block, *view.closed[index + 1 :]))
