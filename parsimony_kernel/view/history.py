"""A turn in lines, from the blocks of its record and with the numbers of its steps: what was done
in order, what came of it, how it was recovered. And the code of it that worked.

Texts are foreign and are escaped by whoever writes them.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from parsimony_kernel.core import events as ev
from parsimony_kernel.view import blocks as bl
from parsimony_kernel.view.escape import ARGUMENT_CHARS, cut, inline
from parsimony_kernel.view.fold import replay
from parsimony_kernel.view.outline import recovery_state

_OUTCOMES = {"done": "ok", "running": "unfinished", "answered": "waiting", "allowed": "waiting"}
ENDS = {"result": "done", "handoff": "not done", "partial": "stopped"}


@dataclass(frozen=True)
class Line:
    """One line of a story.

    ``step`` is the number of a step and empty for everything else; ``what`` is an action, or
    ``request``, ``recovery``, ``budget``, ``question``, ``answer``, ``end``, ``variables`` or
    ``turn``.
    """

    step: str
    what: str
    outcome: str
    words: str = ""


def story(events: Iterable[ev.AgentEvent]) -> tuple[Line, ...]:
    """The lines of one turn. What nobody acts on, such as prose, has none."""
    known = tuple(events)
    view = replay(known)
    pairs = zip((None, *view.closed), view.closed, strict=False)
    lines = [_told(block, before, is_last=block is view.newest) for before, block in pairs]
    if view.status == "running":
        words = "It is running, or was cut off: its end is not on record."
        lines.append(Line("", "end", "open", words))
    lines += map(_afterwards, known)
    return tuple(line for line in lines if line is not None)


def _told(block: bl.Block, before: bl.Block | None, *, is_last: bool) -> Line | None:
    match block:
        case bl.RequestBlock():
            return Line("", "request", "", cut(block.words))
        case bl.StepBlock():
            outcome = _OUTCOMES.get(block.state, block.state)
            return Line(str(block.number), block.tool, outcome, cut(_step_words(block)))
        case bl.RecoveryBlock():
            of_step = isinstance(before, bl.StepBlock) and before.error is not None
            if of_step and block.kind != "transient_provider":
                return Line("", "recovery", "", _joined(recovery_state(block), block.put_back))
            words = _joined(block.message, recovery_state(block), block.put_back)
            return Line("", "recovery", "failed", words)
        case bl.BudgetBlock():
            return Line("", "budget", "warned", f"most of the {block.guard} are used")
        case bl.QuestionBlock():
            choices = "; ".join(f"{at} {each}" for at, each in enumerate(block.choices, 1))
            words = _joined(block.question, block.context, choices)
            return Line("", "question", "asked", words)
        case bl.ReplyBlock():
            gone = f" (gone since: {', '.join(block.gone)})" if block.gone else ""
            return Line("", "answer", "", f"{block.reply}{gone}")
        case bl.EndBlock() if is_last:  # another one is an answer that was refused
            lists = (f"{label}: {'; '.join(texts)}" for label, texts in block.lists if texts)
            return Line("", "end", ENDS.get(block.kind, block.kind), _joined(block.words, *lists))
    return None


def _step_words(step: bl.StepBlock) -> str:
    """Why it failed, or what it is for: the model's words, or else the code or the arguments."""
    if step.error is not None:
        error = step.error
        place = "" if error.line is None else f" at line {error.line}: {error.source_line.strip()}"
        return f"{error.sentence}{place}"
    given = ", ".join(f"{name}: {value}" for name, value in step.arguments)
    return step.purpose or cut(step.code.strip() or given, ARGUMENT_CHARS)


def _afterwards(event: ev.AgentEvent) -> Line | None:
    """What was done to the turn behind its end."""
    if isinstance(event, ev.TurnForgotten):
        return Line("", "turn", "forgotten")
    if not isinstance(event, ev.TurnTakenBack):
        return None
    parts = (
        (event.restored, "set again" if event.redone else "restored"),
        (event.removed, "deleted" if event.redone else "removed"),
        (event.kept, "changed since, so kept"),
        (event.lost, "perhaps changed, for there was no copy"),
    )
    words = "; ".join(f"{', '.join(names)}: {what}" for names, what in parts if names)
    return Line("", "variables", "re-applied" if event.redone else "undone", cut(words))


def _joined(*parts: str) -> str:
    return cut(" — ".join(filter(None, parts)))


@dataclass(frozen=True)
class CodeStep:
    """One step of a turn: its number in the record, what it was for, and its code as it ran."""

    number: int
    purpose: str
    source: str

    def with_heading(self) -> str:
        """The code under a comment that editors take for the beginning of a cell."""
        return f"# %% {inline(self.purpose) or f'step {self.number}'}\n{self.source.rstrip()}"


def code_that_worked(events: Iterable[ev.AgentEvent]) -> tuple[CodeStep, ...]:
    """The steps that the record calls done, in order, each with its code exactly as it ran."""
    steps = [each for each in replay(events).closed if isinstance(each, bl.StepBlock)]
    return tuple(
        CodeStep(step.number, step.purpose, step.code)
        for step in steps
        if step.tool_type == "code" and step.state == "done"
    )
