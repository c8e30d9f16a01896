"""A turn's story in lines: what was done in order, what came of it, how it was recovered.

From the blocks of its record, so that both tell the same, with the numbers of the record's steps.
Texts are foreign and are escaped by whoever writes them.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from parsimony_kernel.core import events as ev
from parsimony_kernel.view import blocks as bl
from parsimony_kernel.view.escape import inline
from parsimony_kernel.view.fold import replay
from parsimony_kernel.view.run_view import ARGUMENT_CHARS, cut

_OUTCOMES = {"done": "ok", "running": "unfinished", "answered": "waiting", "allowed": "waiting"}
_ENDS = {"result": "done", "handoff": "handed off", "partial": "stopped"}


@dataclass(frozen=True)
class Line:
    """One line of a story.

    ``step`` is the number of a step and empty for everything else; ``what`` is an action, the
    kind of a failure, or ``request``, ``question``, ``answer``, ``budget``, ``run``, ``end``,
    ``variables`` or ``turn``.
    """

    step: str
    what: str
    outcome: str
    words: str = ""


def story(events: Iterable[ev.AgentEvent]) -> tuple[Line, ...]:
    """The lines of one turn. What nobody acts on, such as prose, has none."""
    known = tuple(events)
    afterwards = [e for e in known if isinstance(e, ev.TurnTakenBack | ev.TurnForgotten)]
    blocks = replay(known).closed
    ends = [block for block in blocks if isinstance(block, bl.EndBlock)]
    lines: list[Line] = []
    before: bl.Block | None = None
    for block in blocks:
        # Of several ends, the others are answers that were refused.
        if not isinstance(block, bl.EndBlock) or block is ends[-1]:
            lines += _told(block, before)
        before = block
    last = next((each for each in reversed(known) if each not in afterwards), None)
    if last is not None and not ev.is_terminal(last):
        lines.append(
            Line("", "end", "open", "It is running, or was cut off: its end is not on record.")
        )
    return (*lines, *map(_afterwards, afterwards))


def _told(block: bl.Block, before: bl.Block | None) -> Iterator[Line]:
    match block:
        case bl.RequestBlock():
            yield Line("", "request", "", cut(block.words))
        case bl.StepBlock():
            outcome = _OUTCOMES.get(block.state, block.state)
            yield Line(str(block.number), block.tool, outcome, cut(_step_words(block)))
        case bl.RecoveryBlock():
            what = block.kind or "run"
            error = before.error if isinstance(before, bl.StepBlock) else None
            if error is None or block.kind == "transient_provider":
                yield Line("", what, "failed", _typed(block.type, block.message))
                error = None
            # A classifier may have found the type of a step's failure only after the step.
            found = block.type if error is not None and not error.reason else ""
            outcome, words = _recovered(block)
            yield Line("", what, outcome, words or found)
        case bl.BudgetBlock():
            yield Line("", "budget", "warned", f"most of the {block.guard} are used")
        case bl.QuestionBlock():
            choices = "; ".join(f"{at} {each}" for at, each in enumerate(block.choices, 1))
            yield Line("", "question", "asked", _joined(block.question, block.context, choices))
        case bl.ReplyBlock():
            gone = f" (gone since: {', '.join(block.gone)})" if block.gone else ""
            yield Line("", "answer", "", f"{block.reply}{gone}")
        case bl.EndBlock():
            lists = (f"{label}: {'; '.join(texts)}" for label, texts in block.lists if texts)
            outcome = _ENDS.get(block.kind, block.kind)
            yield Line("", "end", outcome, cut(_joined(block.words, *lists)))


def _step_words(step: bl.StepBlock) -> str:
    """Why it failed, or what it is for: the model's words, or else the code or the arguments."""
    if step.error is not None:
        error = step.error
        place = "" if error.line is None else f" at line {error.line}: {error.source_line.strip()}"
        return _typed(error.reason, f"{error.sentence}{place}")
    given = ", ".join(f"{name}: {value}" for name, value in step.arguments)
    return step.purpose or cut(step.code.strip() or given, ARGUMENT_CHARS)


def _recovered(block: bl.RecoveryBlock) -> tuple[str, str]:
    """What was done about a failure, and what came of that."""
    if block.fallback:
        return "fallback", f"going on with {block.fallback}"
    if not block.recoverable:
        return "not recovered", ""
    if block.put_back:
        return "rolled back", block.put_back
    if block.action == "retry":
        return f"retry {block.attempt} of {block.budget}", ""
    return "narrowed" if block.action == "narrow_scope" else block.action or "went on", ""


def _afterwards(event: ev.AgentEvent) -> Line:
    """What was done to the turn behind its end."""
    if not isinstance(event, ev.TurnTakenBack):
        return Line("", "turn", "forgotten")
    parts = (
        (event.restored, "set again" if event.redone else "restored"),
        (event.removed, "deleted" if event.redone else "removed"),
        (event.kept, "changed since, so kept"),
        (event.lost, "perhaps changed, for there was no copy"),
    )
    words = "; ".join(f"{', '.join(names)}: {what}" for names, what in parts if names)
    return Line("", "variables", "re-applied" if event.redone else "undone", cut(words))


def _typed(reason: str, sentence: str) -> str:
    return f"{reason}: {sentence}" if reason else sentence


def _joined(*parts: str) -> str:
    return " — ".join(filter(None, parts))


# -- the code of a turn that worked, to be read, kept and run again


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
