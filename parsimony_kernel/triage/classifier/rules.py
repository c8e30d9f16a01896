"""Why a trajectory failed, from what is known without asking a model.

A ladder: what the gate knew, what a provider says of the request itself, structured codes, the
words of the terminal error, and what the run's records prove. A wrong label sends a wrong hint, so
what cannot be told is ``UNKNOWN``.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass

from parsimony_kernel.gate.refusal import RefusalError
from parsimony_kernel.triage.classifier import phrases
from parsimony_kernel.triage.classifier.codes import STRONG, WEAK, first_met
from parsimony_kernel.triage.classifier.constraints import Constraint, broken
from parsimony_kernel.triage.classifier.run_evidence import proved
from parsimony_kernel.triage.evidence import Evidence, evidence_of
from parsimony_kernel.triage.taxonomy import FailureType, Step, TriageContext

# Tools whose input is a program: a wrong argument in it is a mistake in the program.
CODE_TOOLS = frozenset({"run_code", "python", "execute", "execute_code", "shell", "bash"})

_TRANSIENT = (FailureType.EXTERNAL_FAULT, FailureType.TIMEOUT)
_BY_REFUSAL = {
    RefusalError.unknown_action: FailureType.WRONG_TOOL_CALLED,
    RefusalError.invalid_transition: FailureType.WRONG_TOOL_CALLED,
    RefusalError.action_timeout: FailureType.TIMEOUT,
}


@dataclass(frozen=True)
class Verdict:
    """A type, and the rung of the ladder that gave it; empty when none did."""

    type: FailureType = FailureType.UNKNOWN
    rung: str = ""


class RulesClassifier:
    """Rules, no model.

    Args:
        constraints: what the task forbids, see ``classifier.constraints``; without them
            ``CONSTRAINT_IGNORED`` is only what a gate or a provider reports.
        loop_window: how many steps in a row with the same call and the same outcome are a loop,
            at least 2. ``ValueError`` when it is less.
    """

    def __init__(self, constraints: Sequence[Constraint] = (), loop_window: int = 3) -> None:
        if loop_window < 2:
            raise ValueError(f"a loop takes at least 2 steps, not loop_window={loop_window!r}")
        self.constraints = tuple(constraints)
        self.loop_window = loop_window

    async def classify(
        self, trajectory: Sequence[Step], task: str = "", *, run: TriageContext | None = None
    ) -> FailureType:
        """The type of the failure that ``trajectory`` ended with."""
        return self.judge(trajectory, task, run=run).type

    def judge(
        self, trajectory: Sequence[Step], task: str = "", *, run: TriageContext | None = None
    ) -> Verdict:
        """The same with the rung that decided; nothing waits."""
        known = run or TriageContext()
        steps = list(trajectory)
        if not steps:
            kind = proved(steps, known)
            return Verdict(kind, "run") if kind else Verdict()
        last = steps[-1]
        if (kind := _known_to_the_gate(last)) is not None:
            return Verdict(kind, "gate")
        told = of_error(last)
        if told.type in _TRANSIENT:
            return told
        if self._is_loop(steps):
            return Verdict(FailureType.LOOP_DETECTED, "loop")
        if told.type is FailureType.UNKNOWN:
            if _is_outside(last, known.tools):
                return Verdict(FailureType.WRONG_TOOL_CALLED, "run")
            if broken((*self.constraints, *known.constraints), steps) is not None:
                return Verdict(FailureType.CONSTRAINT_IGNORED, "constraint")
            if (kind := proved(steps, known)) is not None:
                return Verdict(kind, "run")
        return told

    def _is_loop(self, steps: Sequence[Step]) -> bool:
        recent = [_occurrence(step) for step in steps[-self.loop_window :]]
        return (
            len(recent) == self.loop_window
            and steps[-1].tool_called is not None
            and len(set(recent)) == 1
        )


def of_error(step: Step) -> Verdict:
    """What the error of ``step`` says by itself."""
    if step.error is None and step.exception_type is None:
        return Verdict()
    seen = evidence_of(step)
    if (kind := phrases.sharp_meaning(seen)) is not None:
        return Verdict(kind, "text")
    if _is_expired_deadline(seen):
        return Verdict(FailureType.TIMEOUT, "code")
    if (row := first_met(STRONG, seen)) is not None:
        return Verdict(row.type, "code")
    if (kind := phrases.meaning(seen, of_program=step.tool_called in CODE_TOOLS)) is not None:
        return Verdict(kind, "text")
    if (row := first_met(WEAK, seen)) is not None:
        return Verdict(row.type, "code")
    return Verdict()


def _known_to_the_gate(step: Step) -> FailureType | None:
    kind, refusal = step.metadata.get("type"), step.metadata.get("refusal")
    if kind in list(FailureType) and kind != FailureType.UNKNOWN:
        return FailureType(kind)
    return _BY_REFUSAL[RefusalError(refusal)] if refusal in list(_BY_REFUSAL) else None


def _is_outside(step: Step, tools: Sequence[str]) -> bool:
    """Whether a step that failed called what is not among the run's tools."""
    has_failed = step.error is not None or step.exception_type is not None
    return has_failed and bool(tools) and step.tool_called not in (None, *tools)


def _is_expired_deadline(seen: Evidence) -> bool:
    """Whether it is the ``TimeoutError`` of a deadline in the tool: the built-in one, bare, as no
    library says so little of its own, or in the words of a deadline."""
    is_builtin = "TimeoutError" in seen.names <= {"TimeoutError", "OSError"} and not seen.errno
    return is_builtin and (not seen.words or phrases.DEADLINE.says(seen))


def _occurrence(step: Step) -> str:
    """A call with its outcome: polling whose answer changes is no loop."""
    parts = (step.tool_called, step.tool_input, step.tool_output, step.error)
    return json.dumps(parts, sort_keys=True, ensure_ascii=False, default=str)
