"""A turn's story in lines: what was done in order, what came of it, how it was recovered.

From the events of the turn alone, so that it reads the same in every process. A step has the
number that the record gives it. Texts are foreign and are escaped by whoever writes them.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from parsimony_kernel.core import events as ev
from parsimony_kernel.core.kinds import Failure
from parsimony_kernel.core.refusals import GUIDANCE
from parsimony_kernel.core.taxonomy import FailureType
from parsimony_kernel.view.blocks import StepBlock
from parsimony_kernel.view.escape import inline, steady
from parsimony_kernel.view.fold import replay
from parsimony_kernel.view.run_view import ARGUMENT_CHARS, cut

OK, REFUSED, FAILED, WAITING, UNFINISHED = "ok", "refused", "failed", "waiting", "unfinished"

# What was done about a failure that did not end the run.
RECOVERIES = {"narrow_scope": "narrowed", "ROLLBACK": "rolled back", "RESUME": "resumed"}


@dataclass(frozen=True)
class Line:
    """One line of a story.

    ``step`` is the number of a step and empty for everything else; ``what`` is an action, the
    kind of a failure, or ``request``, ``question``, ``answer``, ``budget``, ``run``, ``end`` or
    ``variables``.
    """

    step: str
    what: str
    outcome: str
    words: str = ""


def story(events: Iterable[ev.AgentEvent]) -> tuple[Line, ...]:
    """The lines of one turn. Events of which nothing is to be said have none."""
    told = _Story()
    last: ev.AgentEvent | None = None
    for event in events:
        told.hear(event)
        if not isinstance(event, ev.TurnTakenBack | ev.TurnForgotten):
            last = event
    if last is not None and not ev.is_terminal(last):
        told.say("end", "open", "It is running, or was cut off: its end is not on record.")
    return tuple(told.lines)


def troubles(lines: Iterable[Line]) -> tuple[int, int]:
    """How many actions were refused, and how much failed."""
    outcomes = [line.outcome for line in lines]
    return outcomes.count(REFUSED), outcomes.count(FAILED)


class _Story:
    def __init__(self) -> None:
        self.lines: list[Line] = []
        self._steps = 0
        self._running: dict[str, int] = {}
        # The numbers of steps that wait for a person, by their calls.
        self._waiting: dict[str, str] = {}
        # The trouble that the newest line told.
        self._trouble: Failure | None = None
        # Whether the model has ended the run itself, which the line of the end tells.
        self._is_ended = False

    def say(self, what: str, outcome: str, words: str = "", step: str = "") -> None:
        self._trouble = None
        self.lines.append(Line(step, what, outcome, cut(steady(words))))

    def hear(self, event: ev.AgentEvent) -> None:
        match event:
            case ev.RunStarted(reply=None):
                self.say("request", "", event.request)
            case ev.RunStarted():
                gone = f" (gone since: {', '.join(event.gone)})" if event.gone else ""
                self.say("answer", "", f"{event.reply}{gone}")
            case ev.ToolEvent(completed=False):
                # What a terminating tool says is told by the line of the end.
                if event.tool_type != "termination":
                    self._begin(event)
            case ev.ToolEvent():
                self._end(event)
            case ev.BudgetWarning():
                spent = f"{event.used:g} of {event.limit:g}"
                self.say("budget", "warned", f"{event.guard}: {spent} used")
            case ev.AgentError():
                self._recover(event)
            case ev.UserInputRequested():
                self._ask(event)
            case ev.RunCompleted():
                self.say("end", "done", event.summary)
            case ev.Handoff():
                if event.failure is not None and not self._is_ended:
                    self._fail(event.failure)
                self.say("end", "handed off", _handed_off(event))
            case ev.PartialRunSummary():
                self.say("end", "stopped", event.missing)
            case ev.RunCancelled():
                self.say("end", "cancelled", event.reason or event.message)
            case ev.TurnTakenBack():
                self._take_back(event)
            case ev.TurnForgotten():
                self.say("turn", "forgotten")

    def _begin(self, event: ev.ToolEvent) -> None:
        number = self._waiting.pop(event.tool_call_id, "")
        if not number:
            self._steps += 1
            number = str(self._steps)
        self._running[event.tool_call_id] = len(self.lines)
        self.say(event.tool_name, UNFINISHED, _asked_for(event.arguments), number)

    def _end(self, event: ev.ToolEvent) -> None:
        result = event.result or {}
        troubled = event.ok is False or "error" in result
        if event.tool_type == "termination" and not troubled:
            self._is_ended = True
            return
        place = self._running.pop(event.tool_call_id, None)
        if place is None:
            self._begin(event)
            place = self._running.pop(event.tool_call_id)
        begun = self.lines[place]
        outcome, words = _outcome(event, result, troubled)
        if outcome == WAITING:
            self._waiting[event.tool_call_id] = begun.step
        self.lines[place] = replace(begun, outcome=outcome, words=cut(steady(words)) or begun.words)
        self._trouble = event.failure if outcome in (REFUSED, FAILED) else None

    def _recover(self, event: ev.AgentError) -> None:
        failure = event.failure
        what = "run" if failure is None else failure.kind.value
        if failure is not None:
            self._fail(failure)
        else:
            self.say(what, FAILED, event.message)
        action = event.action or ""
        if event.fallback:
            self.say(what, "fallback", f"going on with {event.fallback}")
        elif not event.recoverable:
            self.say(what, "not recovered")
        elif action == "retry":
            self.say(what, f"retry {event.attempt} of {event.budget}")
        else:
            how = RECOVERIES.get(event.strategy) or RECOVERIES.get(action, action or "went on")
            self.say(what, how, event.put_back)

    def _take_back(self, event: ev.TurnTakenBack) -> None:
        again = "set again" if event.redone else "restored"
        gone = "deleted" if event.redone else "removed"
        parts = (
            (event.restored, again),
            (event.removed, gone),
            (event.kept, "changed since, so kept"),
            (event.lost, "perhaps changed, for there was no copy"),
        )
        words = "; ".join(f"{', '.join(names)}: {what}" for names, what in parts if names)
        self.say("variables", "re-applied" if event.redone else "undone", words)

    def _ask(self, event: ev.UserInputRequested) -> None:
        context, kind = event.context or "", event.originating_failure_kind
        # What waits for a person has not failed.
        waits = bool(self.lines) and self.lines[-1].outcome == WAITING
        if kind is not None and not waits:
            if not self._is_told(context):
                self.say(kind, FAILED, context)
            context = ""
        choices = "; ".join(f"{at} {each}" for at, each in enumerate(event.choices, 1))
        self.say("question", "asked", _joined(event.question, context, choices))

    def _fail(self, failure: Failure) -> None:
        """Tell ``failure``; where the line before has told it, only its type if that is new."""
        trouble = self._trouble
        if trouble is None or not self._is_told(failure.explanation):
            self.say(failure.kind, FAILED, _typed(failure, failure.explanation))
        elif self.lines[-1].outcome == FAILED and trouble.type is FailureType.UNKNOWN:
            told = self.lines[-1]
            self.lines[-1] = replace(told, words=cut(_typed(failure, told.words)))

    def _is_told(self, explanation: str) -> bool:
        return self._trouble is not None and self._trouble.explanation == explanation


def _asked_for(arguments: dict[str, Any]) -> str:
    """What a step is for: the model's words for it, or else the code or the arguments."""
    for name in ("purpose", "code"):
        given = arguments.get(name)
        if isinstance(given, str) and given.strip():
            return cut(given, ARGUMENT_CHARS)
    if not arguments:
        return ""
    return cut(json.dumps(arguments, ensure_ascii=False, default=str), ARGUMENT_CHARS)


def _outcome(event: ev.ToolEvent, result: dict[str, Any], troubled: bool) -> tuple[str, str]:
    if result.get("stopped"):
        return "stopped", ""
    if "waiting" in result:
        return WAITING, ""
    if not troubled:
        return OK, ""
    error = str(result.get("error", "action_error"))
    sentence = str(result.get("message") or error)
    if error in GUIDANCE:
        return REFUSED, f"{error}: {sentence}"
    return FAILED, sentence if event.failure is None else _typed(event.failure, sentence)


def _typed(failure: Failure, sentence: str) -> str:
    """``sentence`` behind the failure's type, where that is known."""
    is_known = failure.type is not FailureType.UNKNOWN
    return f"{failure.type.value}: {sentence}" if is_known else sentence


def _handed_off(event: ev.Handoff) -> str:
    blockers = "; ".join(each for each in event.blockers if each != event.rationale)
    steps = "; ".join(event.suggested_next_steps)
    return _joined(
        event.rationale,
        f"in the way: {blockers}" if blockers else "",
        f"you can: {steps}" if steps else "",
    )


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


def code_that_worked(events: Sequence[ev.AgentEvent]) -> tuple[CodeStep, ...]:
    """The steps that the record calls done, in order, each with its code exactly as it ran."""
    begun: dict[str, list[str]] = {}
    for event in events:
        if isinstance(event, ev.ToolEvent) and event.tool_type == "code" and not event.completed:
            begun.setdefault(event.tool_call_id, []).append(str(event.arguments.get("code", "")))
    steps = []
    for block in replay(events).blocks:
        if isinstance(block, StepBlock) and block.tool_type == "code":
            whole = begun.get(block.call_id)
            code = whole.pop(0) if whole else block.code.head
            if block.state == "done":
                steps.append(CodeStep(block.number, block.purpose, code))
    return tuple(steps)
