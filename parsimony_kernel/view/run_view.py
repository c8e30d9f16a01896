"""A run as far as its events have told it.

The value that the fold carries, and the few moves that every kind of event makes on it.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from parsimony_kernel.core.text import encodable
from parsimony_kernel.view.blocks import (
    Artifact,
    Block,
    FooterBlock,
    ProgressBlock,
    ProseBlock,
    StepBlock,
    StepState,
)
from parsimony_kernel.view.escape import steady

SENTENCE_CHARS = 2_000
ARGUMENT_CHARS = 400
# How much of a long text is looked at, for all of which there is no room anyway.
READ_CHARS = 64_000


@dataclass
class RunView:
    """A run so far. ``blocks`` are its record; the rest is what the next event builds on.

    ``status`` is idle, running, done, suspended, handed_off, stopped or cancelled. The moves are
    for the fold, which makes them on a copy; to everybody else a view is a value.
    """

    status: str = "idle"
    run_id: str = ""
    used: FooterBlock = field(default_factory=partial(FooterBlock, key="footer"))
    closed: tuple[Block, ...] = ()
    prose: ProseBlock | None = None
    activity: str = ""
    artifacts: tuple[Artifact, ...] = ()
    variables: tuple[str, ...] = ()
    rounds: int = 0
    # What the last answer says and no result supports; the answer itself, where it was refused.
    not_found: tuple[str, ...] = ()
    withheld: str = ""

    @property
    def blocks(self) -> tuple[Block, ...]:
        """The record in order: what is settled, then what moves (prose, footer, progress)."""
        if self.status == "idle":
            return self.closed
        moving: list[Block] = [self.prose] if self.prose else []
        moving.append(self.used)
        if self.status == "running":
            moving.append(ProgressBlock(self.activity, self.used.elapsed_s, key="progress"))
        return (*self.closed, *moving)

    def settle(self) -> None:
        """Close the open prose; of white space alone nothing is left."""
        self.closed += (self.prose,) if self.prose else ()
        self.prose = None

    def add(self, block: Block) -> int:
        """Put ``block`` behind all others, and return its place."""
        self.settle()
        self.closed += (replace(block, key=f"{type(block).__name__}-{len(self.closed)}"),)
        return len(self.closed) - 1

    def put(self, place: int, **facts: Any) -> Block:
        """Give the block at ``place`` other ``facts``."""
        block = replace(self.closed[place], **facts)
        self.closed = (*self.closed[:place], block, *self.closed[place + 1 :])
        return block

    def last(self, kind: type[Block], **facts: Any) -> int | None:
        """The place of the newest block of this kind with these ``facts``."""
        for place in reversed(range(len(self.closed))):
            block = self.closed[place]
            if isinstance(block, kind) and facts.items() <= vars(block).items():
                return place
        return None

    def mark(self, old: StepState, new: StepState, **facts: Any) -> None:
        """Let the steps with these ``facts`` that stand as ``old`` stand as ``new``."""
        while (place := self.last(StepBlock, state=old, **facts)) is not None:
            self.put(place, state=new)

    def use(self, **used: Any) -> None:
        """Set figures of what the run has used."""
        self.used = replace(self.used, **used)


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


def cut_steady(text: str) -> str:
    """``text`` as a sentence, without what differs from process to process."""
    return cut(steady(text[:READ_CHARS]))


def cut_each(texts: Iterable[str], limit: int = ARGUMENT_CHARS) -> tuple[str, ...]:
    """Each of ``texts`` within ``limit`` characters."""
    return tuple(cut(text, limit) for text in texts)
