"""The parts of a record, as values.

A block holds what was said and seen, capped but otherwise as it came; whoever writes it escapes
it. ``volatile`` blocks differ from run to run (times, tokens, cost).
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from parsimony_kernel.core.outputs import DataFrameObject, PrimitiveObject

StepState = Literal[
    "running", "done", "waiting", "answered", "allowed", "refused", "failed", "stopped"
]


@dataclass(frozen=True)
class Passage:
    """Foreign text within a cap: its head, how many characters are missing, its tail."""

    head: str = ""
    omitted: int = 0
    tail: str = ""

    @classmethod
    def of(cls, text: str, limit: int, *, tail: int = 0) -> "Passage":
        """``text`` in at most ``limit`` characters, of which the last ``tail`` are its end."""
        if len(text) <= limit:
            return cls(text)
        end = len(text) - tail
        return cls(text[: limit - tail], len(text) - limit, text[end:])

    def grown(self, piece: str, limit: int) -> "Passage":
        """With ``piece`` appended; beyond ``limit`` characters it is only counted."""
        room = max(0, limit - len(self.head))
        return Passage(self.head + piece[:room], self.omitted + max(0, len(piece) - room))

    @property
    def joined(self) -> str:
        """What is there, and between its ends how much is not."""
        if not self.omitted:
            return self.head
        gap = f"\n… {self.omitted:,} characters left out …\n"
        return self.head.rstrip("\n") + gap + self.tail.lstrip("\n")

    def __bool__(self) -> bool:
        return bool(self.head.strip() or self.tail.strip())


@dataclass(frozen=True)
class Artifact:
    """A published snapshot; ``path`` is relative to the workspace, ``page`` a report's to open."""

    kind: str
    title: str
    path: str
    reused: bool = False
    page: str = ""


@dataclass(frozen=True)
class StepError:
    """Why a step failed: one sentence, and the place in its code when it has one.

    ``reason`` is the wire name of a refusal or the type of a failure; empty where it is unknown.
    """

    sentence: str
    line: int | None = None
    source_line: str = ""
    reason: str = ""


@dataclass(frozen=True)
class Block:
    """The base of all blocks. ``key`` is stable and unique in the run."""

    volatile: ClassVar[bool] = False

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
    """What the model said between its steps, and its reasoning where the provider shows it."""

    text: Passage = field(default_factory=Passage)
    reasoning: Passage = field(default_factory=Passage)

    def __bool__(self) -> bool:
        return bool(self.text or self.reasoning)


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

    ``code`` is whole, as it ran. A chart among its ``outputs`` is shown in a block of its own, and
    here by its number.
    """

    number: int
    tool: str
    call_id: str = ""
    tool_type: str = "function"
    purpose: str = ""
    code: str = ""
    arguments: tuple[tuple[str, str], ...] = ()
    state: StepState = "running"
    stdout: Passage = field(default_factory=Passage)
    stderr: Passage = field(default_factory=Passage)
    outputs: tuple[DataFrameObject | PrimitiveObject | FigureBlock, ...] = ()
    more_outputs: int = 0
    deleted: tuple[str, ...] = ()
    overwritten: tuple[str, ...] = ()
    note: str = ""
    error: StepError | None = None
    published: tuple[Artifact, ...] = ()


@dataclass(frozen=True)
class RecoveryBlock(Block):
    """A failure and what is done about it. ``kind``, ``type`` and ``action`` are wire names or
    empty; ``fallback`` is the model that takes over, ``put_back`` what going back did, in words,
    ``delay_s`` the whole seconds before the next try."""

    message: str
    kind: str = ""
    type: str = ""
    action: str = ""
    attempt: int = 0
    budget: int = 0
    recoverable: bool = True
    fallback: str = ""
    blockers: tuple[str, ...] = ()
    put_back: str = ""
    delay_s: int = 0


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
    """Where a run goes on after an answer. ``gone`` are variables that no longer exist."""

    reply: str
    gone: tuple[str, ...] = ()


@dataclass(frozen=True)
class EndBlock(Block):
    """The end of a run: it did what was asked, cannot go on, stopped early on its own, or was
    stopped from outside.

    ``words`` are the answer or the reason, ``lists`` what stands below them under a label each,
    ``not_found`` what the answer says and no result supports.
    """

    kind: Literal["result", "handoff", "partial", "cancelled"]
    words: str
    lists: tuple[tuple[str, tuple[str, ...]], ...] = ()
    not_found: tuple[str, ...] = ()
    artifacts: tuple[Artifact, ...] = ()
    variables: tuple[str, ...] = ()


@dataclass(frozen=True)
class FooterBlock(Block):
    """What the run has used so far. Zero limits mean no limit.

    ``priced_usd`` is what the answers with a known price cost; ``unpriced_calls`` had none.
    """

    volatile: ClassVar[bool] = True

    model: str = ""
    steps: int = 0
    calls: int = 0
    max_rounds: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    priced_usd: float = 0.0
    unpriced_calls: int = 0
    elapsed_s: float = 0.0
    max_elapsed_s: float = 0.0
    max_tokens: int = 0
    max_cost_usd: float = 0.0

    @property
    def cost_usd(self) -> float | None:
        """The cost in US dollars; ``None`` when no price is known."""
        return None if self.calls and self.unpriced_calls == self.calls else self.priced_usd

    @property
    def cost_partial(self) -> bool:
        """Whether some answers have no known price, and others have one."""
        return 0 < self.unpriced_calls < self.calls


@dataclass(frozen=True)
class ProgressBlock(Block):
    """What the run is doing now, for how long, and what to do meanwhile: ``hint``."""

    volatile: ClassVar[bool] = True

    activity: str
    elapsed_s: float = 0.0
    hint: str = ""


def lasting(blocks: Iterable[Block]) -> tuple[Block, ...]:
    """``blocks`` without the volatile ones: what a static display shows."""
    return tuple(block for block in blocks if not block.volatile)
