"""A run as far as its events have told it.

The value that the fold carries, and the few moves that every kind of event makes on it.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

from parsimony_kernel.core.text import encodable
from parsimony_kernel.view.blocks import Artifact, Block, FooterBlock, ProgressBlock, ProseBlock
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
    used: FooterBlock = field(default_factory=partial(FooterBlock, "footer"))
    closed: tuple[Block, ...] = ()
    prose: ProseBlock | None = None
    activity: str = ""
    artifacts: tuple[Artifact, ...] = ()
    variables: tuple[str, ...] = ()
    figures: int = 0
    rounds: int = 0
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
        moving.append(self.used)
        if self.status == "running":
            moving.append(ProgressBlock("progress", self.activity, self.used.elapsed_s))
        return (*self.closed, *moving)


EMPTY = RunView()


def metadata_of(view: RunView) -> dict[str, Any]:
    """The facts that differ from run to run, for the metadata of a display. A number that JSON
    has no word for is null: a display with it is not sent at all."""
    told = ("model", "steps", "prompt_tokens", "completion_tokens", "cost_usd")
    facts = {
        "run_id": view.run_id,
        "status": view.status,
        "rounds": view.rounds,
        **{name: getattr(view.used, name) for name in told},
        "elapsed_s": round(view.used.elapsed_s, 3),
    }
    finite = {
        name: None if isinstance(fact, float) and not math.isfinite(fact) else encodable(fact)
        for name, fact in facts.items()
    }
    return {"parsimony": finite}


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


def using(view: RunView, **used: Any) -> RunView:
    """With other figures of what the run has used."""
    return replace(view, used=replace(view.used, **used))


def with_block(view: RunView, index: int, block: Block) -> RunView:
    """With ``block`` in the place of the settled one at ``index``."""
    return replace(view, closed=(*view.closed[:index], block, *view.closed[index + 1 :]))
