"""The blocks of a record, as values, and the view of a run so far.

A block holds text as it came, only capped; the writer of each format escapes it.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeVar

from parsimony_kernel.core.text import encodable
from parsimony_kernel.view.parts import Part, Sentence

StepState = Literal[
    "running", "done", "waiting", "answered", "allowed", "declined", "refused", "failed", "stopped"
]


EndKind = Literal["result", "handoff", "declined", "partial", "cancelled"]


@dataclass(frozen=True)
class Block:
    """The base class of all blocks. ``key`` is stable and unique in the run."""

    key: str = field(default="", kw_only=True)


@dataclass(frozen=True)
class RequestBlock(Block):
    """The request, and the parts of the notebook that were sent with it.

    ``notice`` says what leaves the machine, the first time in a notebook.
    """

    words: str
    shared: tuple[str, ...] = ()
    notice: str = ""


@dataclass(frozen=True)
class ProseBlock(Block):
    """The model's prose between steps."""

    text: str


@dataclass(frozen=True)
class FigureBlock(Block):
    """One chart, shown once: ``spec`` is Vega-Lite and draws without loading anything.

    ``names`` are the variables that it may be.
    """

    number: int
    title: str = ""
    description: str = ""
    spec: dict[str, Any] | None = field(default=None, hash=False)
    png_base64: str | None = field(default=None, repr=False)
    svg: str | None = field(default=None, repr=False)
    identity: str = ""
    names: frozenset[str] = frozenset()


@dataclass(frozen=True)
class StepBlock(Block):
    """One tool call: its arguments, its results, and its state.

    ``code`` is complete, as it ran. ``shown`` is what it printed and displayed, and its changes to
    variables; a chart has a block of its own and is referred to by number. ``error`` is the reason
    it failed, and where. ``made`` are the variables that it created or changed, ``theirs`` those
    among the changed that the person had bound or changed last.
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
    """A failure and, in ``state``, the response to it in words.

    ``kind`` is a wire name or empty, ``retries`` the number of retries, ``fallback`` the model that
    takes over, and ``put_back`` what a rollback did, in words.
    """

    message: str
    kind: str = ""
    state: str = ""
    retries: int = 0
    fallback: str = ""
    put_back: str = ""


@dataclass(frozen=True)
class BudgetBlock(Block):
    """Most of a budget is spent. ``guard`` is ``tokens`` or ``cost``."""

    guard: str


@dataclass(frozen=True)
class QuestionBlock(Block):
    """A question of the run.

    ``reply`` is ``None`` until it is answered, ``chosen`` the index of the choice that was picked.
    ``turn`` is the number of its turn where it has, or had, buttons.
    """

    question: str
    context: str = ""
    choices: tuple[str, ...] = ()
    choice_ids: tuple[str, ...] = ()
    reply: str | None = None
    chosen: int | None = None
    turn: int = 0


@dataclass(frozen=True)
class ReplyBlock(Block):
    """An answer, from which the run continues.

    ``gone`` are variables that no longer exist, ``made`` those that the run had created before.
    """

    reply: str
    gone: tuple[str, ...] = ()
    made: tuple[str, ...] = ()


@dataclass(frozen=True)
class EndBlock(Block):
    """The end of a run: done, unable to continue, declined by the person, stopped early by itself,
    or stopped from outside.

    ``words`` are the answer or the reason, ``lists`` the labelled lists below it, ``not_found``
    claims in the answer that no result supports, ``published`` one sentence for each publication.
    """

    kind: EndKind
    words: str
    lists: tuple[tuple[str, tuple[str, ...]], ...] = ()
    not_found: tuple[str, ...] = ()
    published: tuple[Sentence, ...] = ()
    variables: tuple[str, ...] = ()


@dataclass(frozen=True)
class FooterBlock(Block):
    """The run's usage so far.

    ``priced_usd`` is the cost of the answers with a known price; ``unpriced_calls`` counts the
    others.
    """

    model: str = ""
    steps: int = 0
    calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    priced_usd: float = 0.0
    unpriced_calls: int = 0
    elapsed_s: float = 0.0

    @property
    def cost_usd(self) -> float | None:
        """The cost in US dollars; ``None`` if no price is known."""
        return None if self.calls and self.unpriced_calls == self.calls else self.priced_usd


@dataclass(frozen=True)
class ProgressBlock(Block):
    """The current activity, its elapsed time, and a ``hint`` on what to do meanwhile."""

    activity: str
    elapsed_s: float = 0.0
    hint: str = ""


# These differ from run to run: times, tokens, cost.
VOLATILE = (FooterBlock, ProgressBlock)


def lasting(blocks: Iterable[Block]) -> tuple[Block, ...]:
    """Return ``blocks`` without the volatile ones, as in a static display."""
    return tuple(block for block in blocks if not isinstance(block, VOLATILE))


Kind = TypeVar("Kind", bound=Block)


@dataclass
class RunView:
    """A run so far. ``blocks`` are its record; the other fields are the state of the fold.

    ``status`` is idle, running, done, suspended, handed_off, stopped or cancelled. The methods that
    change it are for the fold, which works on a copy; everybody else treats a view as a value.
    """

    status: str = "idle"
    run_id: str = ""
    used: FooterBlock = FooterBlock(key="footer")
    closed: tuple[Block, ...] = ()
    prose: str = ""
    activity: str = ""
    # Publications by path.
    published: Mapping[str, Sentence] = field(default_factory=dict)
    variables: tuple[str, ...] = ()
    # What describes each variable that the run made.
    known: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    # Claims in the last answer that no result supports, and the answer itself if it was refused.
    not_found: tuple[str, ...] = ()
    withheld: str = ""

    @property
    def blocks(self) -> tuple[Block, ...]:
        """The record in order: settled blocks, then the volatile ones (prose, footer, progress)."""
        if self.status == "idle":
            return self.closed
        progress = ProgressBlock(self.activity, self.used.elapsed_s, key="progress")
        is_running = self.status == "running"
        return (*self.closed, *self._said(), self.used, *([progress] if is_running else []))

    def _said(self) -> tuple[ProseBlock, ...]:
        """The open prose; empty if it is only white space."""
        key = f"ProseBlock-{len(self.closed)}"
        return (ProseBlock(self.prose, key=key),) if self.prose.strip() else ()

    def settle(self) -> None:
        """Close the open prose."""
        self.closed += self._said()
        self.prose = ""

    def add(self, block: Kind) -> Kind:
        """Append ``block`` and give it its key."""
        self.settle()
        added = replace(block, key=f"{type(block).__name__}-{len(self.closed)}")
        self.closed += (added,)
        return added

    def put(self, block: Kind, **facts: Any) -> Kind:
        """Replace the settled ``block`` by one with other ``facts``."""
        changed = replace(block, **facts)
        self.closed = tuple(changed if each.key == block.key else each for each in self.closed)
        return changed

    def last(self, kind: type[Kind], **facts: Any) -> Kind | None:
        """Return the newest settled block of this kind with these ``facts``."""
        for block in reversed(self.closed):
            if isinstance(block, kind) and facts.items() <= vars(block).items():
                return block
        return None

    def mark(self, old: StepState, new: StepState, **facts: Any) -> None:
        """Move the steps with these ``facts`` from state ``old`` to ``new``."""
        while step := self.last(StepBlock, state=old, **facts):
            self.put(step, state=new)

    def count(self, **more: float) -> None:
        """Add to the usage figures of the run."""
        self.use(**{name: getattr(self.used, name) + number for name, number in more.items()})

    def use(self, **used: Any) -> None:
        """Set usage figures of the run."""
        self.used = replace(self.used, **used)


EMPTY = RunView()


def metadata_of(view: RunView) -> dict[str, Any]:
    """Return the facts that differ from run to run, for the metadata of a display.

    A number that JSON cannot express is null, since a display with one would not be sent at all.
    """
    facts: dict[str, Any] = {"run_id": view.run_id, "status": view.status}
    for name in ("model", "steps", "prompt_tokens", "completion_tokens", "cost_usd", "elapsed_s"):
        fact = getattr(view.used, name)
        if isinstance(fact, float):
            fact = round(fact, 6 if name == "cost_usd" else 3) if math.isfinite(fact) else None
        facts[name] = encodable(fact)
    return {"parsimony": facts}
