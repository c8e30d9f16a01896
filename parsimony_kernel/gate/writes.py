"""Idempotent writes: each write is done at most once in a run.

The intent is logged before the body runs (write-ahead). A committed write is answered from the
record; an uncertain one is reconciled, or the person is asked, and so is one that another run began
and never ended. Inputs are normalised to one spelling, from which approvals and idempotency keys
are made.
"""

import inspect
import json
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, TypeVar

from parsimony_kernel.core.cancellation import CancellationRequest
from parsimony_kernel.core.causes import LATE_UNCERTAIN, WRITE_UNRECORDED
from parsimony_kernel.core.choices import OUTCOME
from parsimony_kernel.core.effects import Effects, Inputs, Standing, action_sha
from parsimony_kernel.core.kinds import EFFECT_KEY, Action, Effect, Failure
from parsimony_kernel.core.text import words_of
from parsimony_kernel.gate.body import goes_on
from parsimony_kernel.gate.envelope import plain
from parsimony_kernel.tools import Tool, ToolFunction, ToolResult, is_bool

T = TypeVar("T")
Stop = CancellationRequest | None

NOT_KNOWN = "it is not known whether it took effect"
_NOT_RUN = "was not run, because it could not be recorded"
_ON_RECORD = "It was done before, and not again: this is its answer from the record."


# Runs a body under its deadline. Only a stop raises; failures are in the result.
Run = Callable[..., Awaitable[ToolResult]]


class Writes:
    """The writes of one run."""

    def __init__(self, effects: Effects, run_id: str, run: Run) -> None:
        self._effects = effects
        self._run_id = run_id
        self._run = run

    def key(self, tool: Tool, inputs: Inputs) -> str:
        """Return the idempotency key of this write in this run."""
        return self._identity(tool, inputs)[0]

    def standing(self, tool: Tool, inputs: Inputs) -> Standing | None:
        """Return the recorded state of the write, or ``None``.

        ``None`` also if the record can't be read; ``run`` then reports it.
        """
        return _tried(lambda: self._effects.standing(*self._identity(tool, inputs)))[0]

    async def run(self, tool: Tool, inputs: Inputs, stop: Stop) -> ToolResult:
        """Run a write unless it was begun before; a stop leaves it uncertain."""
        begun, trouble = _tried(lambda: self._begun(tool, inputs))
        if trouble is not None:
            return _unrecorded(tool, _NOT_RUN, trouble)
        if begun is not None:
            return await self.tell(tool, inputs, stop, begun)
        key = self.key(tool, inputs)
        result = await self._run(tool, inputs, stop, key=key)
        failure = result.failure
        if failure is None or failure.effect is not Effect.uncertain:
            return self._settle(tool, key, result)
        return await self._look_up(tool, inputs, stop, Standing("intended"), failure)

    async def tell(self, tool: Tool, inputs: Inputs, stop: Stop, standing: Standing) -> ToolResult:
        """Return the outcome of a write that was begun before, without running it."""
        if standing.state == "committed":
            return replace(ToolResult.from_data(standing.answer), note=_ON_RECORD)
        # An intent of this run, so that the outcome also settles the other runs' writes.
        _, trouble = _tried(lambda: self._effects.intend(*self._identity(tool, inputs)))
        if trouble is not None:
            return _unrecorded(tool, _NOT_RUN, trouble)
        sentence = f"{tool.name}: the outcome of an earlier attempt is unknown"
        begun = LATE_UNCERTAIN.failure(sentence, tool_name=tool.name)
        return await self._look_up(tool, inputs, stop, standing, begun)

    def _identity(self, tool: Tool, inputs: Inputs) -> tuple[str, str, dict[str, Any]]:
        """Return the write's idempotency key, tool name and normalised inputs."""
        kept = inputs_of(tool, inputs)
        return action_sha(tool.name, kept, run_id=self._run_id), tool.name, kept

    def _begun(self, tool: Tool, inputs: Inputs) -> Standing | None:
        """Return the state of a write that was begun before; else log its intent."""
        write = self._identity(tool, inputs)
        if self._effects.intend(*write):
            return None
        return self._effects.standing(*write) or Standing("intended")

    async def _look_up(
        self, tool: Tool, inputs: Inputs, stop: Stop, standing: Standing, failure: Failure
    ) -> ToolResult:
        """Ask the tool's ``reconcile`` function whether the write happened, else the person."""
        key = self.key(tool, inputs)
        if tool.reconcile is None:
            return asked(failure, tool, key)
        look = replace(tool, function=tool.reconcile, effect="none", name=f"{tool.name}.reconcile")
        found = await self._run(look, inputs, stop)
        # A body that is still running may yet do the write.
        is_open = standing.may_go_on or any(map(goes_on, (key, *standing.others)))
        happened = found.ok and _says_done(tool.reconcile, found.data)
        if not found.ok or (is_open and not happened):
            return asked(failure, tool, key)
        sentence = f"{failure.explanation.rstrip('.')}; looked up: it"
        if happened:
            note = f"{sentence} took effect, once."
            return self._settle(tool, key, replace(found, note=note))
        undone = replace(
            failure,
            explanation=f"{sentence} did not take effect",
            suggested_action=Action.retry if tool.retryable_on_error else Action.handoff,
            metadata={**failure.metadata, "effect": Effect.none, "tool_name": tool.name},
        )
        return self._settle(tool, key, ToolResult.from_failure(undone))

    def _settle(self, tool: Tool, key: str, result: ToolResult) -> ToolResult:
        """Record the outcome: commit a write that happened, withdraw any other."""
        failure, effects = result.failure, self._effects
        happened = failure is None or failure.effect is Effect.committed
        _, trouble = _tried(
            lambda: effects.commit(key, _answer(result)) if happened else effects.withdraw(key)
        )
        if trouble is None:
            return result
        what = "was done" if happened else "did not take effect"
        effect = Effect.committed if happened else Effect.none
        data = result.data if failure is None else failure.partial_data
        return _unrecorded(tool, f"{what}, which could not be put on record", trouble, effect, data)


def _tried(step: Callable[[], T]) -> tuple[T | None, str | None]:
    """Call the record; return its answer and the message of its exception, if any."""
    try:
        return step(), None
    except Exception as exc:  # boundary: tool - the record is a host's, on a disk that may fail
        return None, words_of(exc)


def _says_done(reconcile: ToolFunction, found: Any) -> bool:
    """Whether the answer of ``reconcile`` says that the write happened."""
    is_yes_or_no = inspect.signature(reconcile).return_annotation in (bool, "bool")
    return bool(found) if is_yes_or_no or is_bool(found) else found is not None


def _answer(result: ToolResult) -> Any:
    if result.failure is None:
        return plain(result.data)
    return {"done": plain(result.failure.explanation), "data": plain(result.failure.partial_data)}


def _unrecorded(
    tool: Tool, what: str, trouble: str | None, effect: Effect = Effect.none, data: Any = None
) -> ToolResult:
    sentence = f"{tool.name} {what}: {trouble}"
    failure = WRITE_UNRECORDED.failure(
        sentence, blockers=(sentence,), partial_data=data, effect=effect, tool_name=tool.name
    )
    return ToolResult.from_failure(failure)


def asked(failure: Failure, tool: Tool, key: str, question: str = "") -> ToolResult:
    """Turn a failure with an unknown outcome into a question to the person."""
    question = question or f"Did {tool.name} take effect?"
    asked = replace(
        failure,
        explanation=f"{failure.explanation.rstrip('.')}; {NOT_KNOWN}",
        suggested_action=Action.ask_user,
        metadata={**failure.metadata, EFFECT_KEY: key, "question": question, "choices": OUTCOME},
    )
    return ToolResult.from_failure(asked)


def inputs_of(tool: Tool, inputs: Inputs) -> dict[str, Any]:
    """Normalise ``inputs`` as the body parses them, with defaults, as JSON.

    For instance ``"10"`` becomes 10 for a number. A field that doesn't parse the same each time, or
    that JSON can't represent fully, stays as sent; if the inputs don't parse, all of them do.
    """
    try:
        model = tool.arguments
        parsed, again = model.model_validate(dict(inputs)), model.model_validate(dict(inputs))
        dumped = parsed.model_dump(mode="json", warnings=False)
        read = model.model_validate({name: dumped[name] for name in parsed.model_fields_set})
        same = [n for n in dumped if getattr(parsed, n) == getattr(again, n) == getattr(read, n)]
        plain_json = json.loads(json.dumps(dumped), parse_float=_number)
    except Exception:  # boundary: user object - with checks of its own
        return dict(inputs)
    return {**inputs, **{name: plain_json[name] for name in same}}


def _number(text: str) -> int | float:
    """Parse a JSON number so that 10.0 and 10 are the same."""
    number = float(text)
    return int(number) if number.is_integer() else number
