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

_OUTCOMES = {"done": "ok", "running": "unfinished", "answered": "waiting", "allowed": "waiting"}
_ENDS = {"result": "done", "handoff": "not done", "partial": "stopped"}


@dataclass(frozen=True)
class Line:
    """One line of a story.

    ``step`` is the number of a step and empty for everything else; ``what`` is an action, or
    ``request``, ``recovery``, ``question``, ``answer``, ``end``, ``variables`` or ``turn``.
    """

    step: str
    what: str
    outcome: str
    words: str = ""


def story(events: Iterable[ev.AgentEvent]) -> tuple[Line, ...]:
    """The lines of one turn. What nobody acts on, such as prose, has none."""
    known = tuple(events)
    view = replay(known)
    # Of several ends, the others are answers that were refused.
    lines = [
        _told(block)
        for block in view.closed
        if not isinstance(block, bl.EndBlock) or block is view.closed[-1]
    ]
    if view.status == "running":
        words = "It is running, or was cut off: its end is not on record."
        lines.append(Line("", "end", "open", words))
    lines += map(_afterwards, known)
    return tuple(line for line in lines if line is not None)


def _told(block: bl.Block) -> Line | None:
    match block:
        case bl.RequestBlock():
            return Line("", "request", "", cut(block.words))
        case bl.StepBlock():
            outcome = _OUTCOMES.get(block.state, block.state)
            given = ", ".join(f"{name}: {value}" for name, value in block.arguments)
            source = cut(block.code.strip() or given, ARGUMENT_CHARS)
            words = block.error or block.purpose or source
            return Line(str(block.number), block.tool, outcome, cut(words))
        case bl.RecoveryBlock():
            told = _joined(block.message, block.state, block.put_back)
            return Line("", "recovery", "failed" if block.message else "", told)
        case bl.QuestionBlock():
            choices = "; ".join(f"{at} {each}" for at, each in enumerate(block.choices, 1))
            return Line("", "question", "asked", _joined(block.question, block.context, choices))
        case bl.ReplyBlock():
            return Line("", "answer", "", block.reply)
        case bl.EndBlock():
            lists = (f"{label}: {'; '.join(texts)}" for label, texts in block.lists if texts)
            return Line("", "end", _ENDS.get(block.kind, block.kind), _joined(block.words, *lists))
    return None


def _afterwards(event: ev.AgentEvent) -> Line | None:
    """What was done to the turn behind its end."""
    if isinstance(event, ev.TurnForgotten):
        return Line("", "turn", "forgotten")
    if not isinstance(event, ev.TurnTakenBack):
        return None
    kept = f"changed since, so kept: {', '.join(event.kept)}" if event.kept else ""
    lost = f"perhaps changed, for there was no copy: {', '.join(event.lost)}" if event.lost else ""
    words = _joined(", ".join((*event.restored, *event.removed)), kept, lost)
    return Line("", "variables", "re-applied" if event.redone else "undone", words)


def _joined(*parts: str) -> str:
    return cut(" — ".join(filter(None, parts)))


def code_that_worked(events: Iterable[ev.AgentEvent]) -> tuple[bl.StepBlock, ...]:
    """The steps that the record calls done, in order, each with its code exactly as it ran."""
    steps = [each for each in replay(events).closed if isinstance(each, bl.StepBlock)]
    return tuple(each for each in steps if each.tool_type == "code" and each.state == "done")


def code_with_heading(step: bl.StepBlock) -> str:
    """The code of ``step`` under a comment that editors take for the beginning of a cell."""
    return f"# %% {inline(step.purpose) or f'step {step.number}'}\n{step.code.rstrip()}"
