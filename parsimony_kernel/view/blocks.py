"""The parts of a record, as values, and a run as far as its events have told it.

A block holds what was said and seen, capped but otherwise as it came; whoever writes it escapes
it."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeVar

from parsimony_kernel.core.text import encodable
from parsimony_kernel.view.parts import Part, Sentence

StepState = Literal[
    "running", "done", "waiting", "answered", "allowed", "refused", "failed", "stopped"
]


EndKind = Literal["result", "handoff", "partial", "cancelled"]


@dataclass(frozen=True)
class Block:
    """The base of all blocks. ``key`` is stable and unique in the run."""

    key: str = field(default="", kw_only=True)


@dataclass(frozen=True)
class RequestBlock(Block):
    """What the person asked for, and what of the notebook went along.

    ``notice`` says what leaves the machine, where the notebook has not said so before."""

    words: str
    shared: tuple[str, ...] = ()
    notice: str = ""


@dataclass(frozen=True)
class ProseBlock(Block):
    """What the model said between its steps."""

    text: str


@dataclass(frozen=True)
class FigureBlock(Block):
    """One chart, shown once: ``spec`` is Vega-Lite and draws without loading anything."""

    number: int
    title: str = ""
    description: str = ""
    spec: dict[str, Any] | None = field(default=None, hash=False)
    png_base64: str | None = field(default=None, repr=False)
    svg: str | None = field(default=None, repr=False)
    identity: str = ""


@dataclass(frozen=True)
class StepBlock(Block):
    """One tool at work: what it was given, what came of it, and how it stands.

    ``code`` is whole, as it ran. ``shown`` is what it printed and displayed, and what became of
    variables; a chart stands in a block of its own, and here by its number. ``error`` is
    why it failed, and where, ``made`` the variables that it made or changed, ``theirs`` those of
    the changed that the person had bound or changed last.
    """

    number: int
    tool: str
    call_id: str = ""
    tool_type: str = "function"
    purpose: str = ""
    code: str = ""
    arguments: tuple[tuple[str, str], ...] = ()
    state: StepState = "running"
    shown: tuple[Part, ...] = ()
    made: tuple[str, ...] = ()
    theirs: tuple[str, ...] = ()
    note: str = ""
    error: str = ""


@dataclass(frozen=True)
class RecoveryBlock(Block):
    """A failure, and in ``state`` what is done about it, in words.

    ``kind`` is a wire name or empty, ``retries`` how often it was tried again, ``fallback`` the
    model that takes over, and ``put_back`` what going back did, in words.
    """

    message: str
    kind: str = ""
    state: str = ""
    retries: int = 0
    fallback: str = ""
    put_back: str = ""


@dataclass(frozen=True)
class BudgetBlock(Block):
    """Most of a budget is used. ``guard`` is ``tokens`` or ``cost``."""

    guard: str


@dataclass(frozen=True)
class QuestionBlock(Block):
    """What the run needs to know. ``reply`` is ``None`` while nobody answered, ``chosen`` the place
    of the choice that it picked. ``has_buttons`` says that it can be clicked where it is shown."""

    question: str
    context: str = ""
    choices: tuple[str, ...] = ()
    choice_ids: tuple[str, ...] = ()
    reply: str | None = None
    chosen: int | None = None
    has_buttons: bool = False


@dataclass(frozen=True)
class ReplyBlock(Block):
    """Where a run goes on after an answer. ``gone`` are variables that no longer exist, ``made``
    those that the run had made before."""

    reply: str
    gone: tuple[str, ...] = ()
    made: tuple[str, ...] = ()


@dataclass(frozen=True)
class EndBlock(Block):
    """The end of a run: it did what was asked, cannot go on, stopped early on its own, or was
    stopped from outside.

    ``words`` are the answer or the reason, ``lists`` what stands below them under a label each,
    ``not_found`` what the answer says and no result supports, ``published`` a sentence each.
    """

    kind: EndKind
    words: str
    lists: tuple[tuple[str, tuple[str, ...]], ...] = ()
    not_found: tuple[str, ...] = ()
    published: tuple[Sentence, ...] = ()
    variables: tuple[str, ...] = ()


@dataclass(frozen=True)
class FooterBlock(Block):
    """What the run has used so far. Zero limits mean no limit.

    ``priced_usd`` is what the answers with a known price cost; ``unpriced_calls`` had none.
    """

    model: str = ""
    steps: int = 0
    calls: int = 0
    max_iterations: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    priced_usd: float = 0.0
    unpriced_calls: int = 0
    elapsed_s: float = 0.0
    max_execution_time_s: float = 0.0
    max_tokens: int = 0
    max_cost_usd: float = 0.0

    @property
    def cost_usd(self) -> float | None:
        """The cost in US dollars; ``None`` when no price is known."""
        return None if self.calls and self.unpriced_calls == self.calls else self.priced_usd


@dataclass(frozen=True)
class ProgressBlock(Block):
    """What the run is doing now, for how long, and what to do meanwhile: ``hint``."""

    activity: str
    elapsed_s: float = 0.0
    hint: str = ""


# What differs from run to run: times, tokens, cost.
VOLATILE = (FooterBlock, ProgressBlock)


def lasting(blocks: Iterable[Block]) -> tuple[Block, ...]:
    """``blocks`` without the volatile ones: what a static display shows."""
    return tuple(block for block in blocks if not isinstance(block, VOLATILE))


Kind = TypeVar("Kind", bound=Block)


@dataclass
class RunView:
    """A run so far. ``blocks`` are its record; the rest is what the next event builds on.

    ``status`` is idle, running, done, suspended, handed_off, stopped or cancelled. The moves are
    for the fold, which makes them on a copy; to everybody else a view is a value.
    """

    status: str = "idle"
    run_id: str = ""
    used: FooterBlock = FooterBlock(key="footer")
    closed: tuple[Block, ...] = ()
    prose: str = ""
    activity: str = ""
    # What was published, by its path.
    published: Mapping[str, Sentence] = field(default_factory=dict)
    variables: tuple[str, ...] = ()
    # What the last answer says and no result supports; the answer itself, where it was refused.
    not_found: tuple[str, ...] = ()
    withheld: str = ""

    @property
    def blocks(self) -> tuple[Block, ...]:
        """The record in order: what is settled, then what moves (prose, footer, progress)."""
        if self.status == "idle":
            return self.closed
        progress = ProgressBlock(self.activity, self.used.elapsed_s, key="progress")
        is_running = self.status == "running"
        return (*self.closed, *self._said(), self.used, *([progress] if is_running else []))

    def _said(self) -> tuple[ProseBlock, ...]:
        """The open prose; of white space alone nothing is left."""
        key = f"ProseBlock-{len(self.closed)}"
        return (ProseBlock(self.prose, key=key),) if self.prose.strip() else ()

    def settle(self) -> None:
        """Close the open prose."""
        self.closed += self._said()
        self.prose = ""

    def add(self, block: Kind) -> Kind:
        """Put ``block`` behind all others; it gets its key."""
        self.settle()
        added = replace(block, key=f"{type(block).__name__}-{len(self.closed)}")
        self.closed += (added,)
        return added

    def put(self, block: Kind, **facts: Any) -> Kind:
        """Give ``block``, one of the settled, other ``facts``."""
        changed = replace(block, **facts)
        self.closed = tuple(changed if each.key == block.key else each for each in self.closed)
        return changed

    def last(self, kind: type[Kind], **facts: Any) -> Kind | None:
        """The newest settled block of this kind with these ``facts``."""
        for block in reversed(self.closed):
            if isinstance(block, kind) and facts.items() <= vars(block).items():
                return block
        return None

    def mark(self, old: StepState, new: StepState, **facts: Any) -> None:
        """Let the steps with these ``facts`` that stand as ``old`` stand as ``new``."""
        while step := self.last(StepBlock, state=old, **facts):
            self.put(step, state=new)

    def count(self, **more: float) -> None:
        """Add to figures of what the run has used."""
        self.use(**{name: getattr(self.used, name) + number for name, number in more.items()})

    def use(self, **used: Any) -> None:
        """Set figures of what the run has used."""
        self.used = replace(self.used, **used)


EMPTY = RunView()


def metadata_of(view: RunView) -> dict[str, Any]:
    """The facts that differ from run to run, for the metadata of a display. A number that JSON
    has no word for is null: a display with it is not sent at all."""
    facts: dict[str, Any] = {"run_id": view.run_id, "status": view.status}
    for name in ("model", "steps", "prompt_tokens", "completion_tokens", "cost_usd", "elapsed_s"):
        fact = getattr(view.used, name)
        if isinstance(fact, float):
            fact = round(fact, 6 if name == "cost_usd" else 3) if math.isfinite(fact) else None
        facts[name] = encodable(fact)
    return {"parsimony": facts}
