"""Writes: each is done once in a run.

What is committed is told again, what is uncertain is looked up or asked, and so is what another
run began and never ended. An intent is on record before the body runs. The inputs of a call are
spelled one way: that is what an approval and an idempotency key are made of.
"""

import inspect
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any, TypeVar

from parsimony_kernel.core.cancellation import CancellationRequest
from parsimony_kernel.core.causes import LATE_UNCERTAIN, WRITE_UNRECORDED
from parsimony_kernel.core.choices import OUTCOME
from parsimony_kernel.core.effects import Effects, Standing, action_sha
from parsimony_kernel.core.kinds import EFFECT_KEY, Action, Effect, Failure
from parsimony_kernel.core.text import words_of
from parsimony_kernel.gate.body import goes_on
from parsimony_kernel.gate.envelope import plain
from parsimony_kernel.tools import Tool, ToolFunction, ToolResult, is_bool

T = TypeVar("T")
Inputs = Mapping[str, Any]
Stop = CancellationRequest | None

NOT_KNOWN = "it is not known whether it took effect"
_NOT_RUN = "was not run, for its record fails"
_ON_RECORD = "It was done before, and not again: this is its answer from the record."


# Runs a body under its deadline; everything but a stop is in the result.
Run = Callable[..., Awaitable[ToolResult]]


class Writes:
    """The writes of one run."""

    def __init__(self, effects: Effects, run_id: str, run: Run) -> None:
        self._effects = effects
        self._run_id = run_id
        self._run = run

    def key(self, tool: Tool, inputs: Inputs) -> str:
        """The idempotency key of this write in this run."""
        return self._identity(tool, inputs)[0]

    def standing(self, tool: Tool, inputs: Inputs) -> Standing | None:
        """Where the write stands; ``None`` too when the record fails, as ``run`` will say."""
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
        """What a write that was begun before came to, without running it."""
        if standing.state == "committed":
            return replace(ToolResult.from_data(standing.answer), note=_ON_RECORD)
        # So that what becomes known of this run's write settles the other runs' as well.
        _, trouble = _tried(lambda: self._effects.intend(*self._identity(tool, inputs)))
        if trouble is not None:
            return _unrecorded(tool, _NOT_RUN, trouble)
        sentence = f"{tool.name}: an earlier attempt of it has no known end"
        begun = LATE_UNCERTAIN.failure(sentence, tool_name=tool.name)
        return await self._look_up(tool, inputs, stop, standing, begun)

    def _identity(self, tool: Tool, inputs: Inputs) -> tuple[str, str, dict[str, Any]]:
        """The key of the write, and what it is."""
        kept = inputs_of(tool, inputs)
        return action_sha(tool.name, kept, run_id=self._run_id), tool.name, kept

    def _begun(self, tool: Tool, inputs: Inputs) -> Standing | None:
        """Where the write stands if it was begun before. Else it is on record from now on."""
        write = self._identity(tool, inputs)
        if self._effects.intend(*write):
            return None
        return self._effects.standing(*write) or Standing("intended")

    async def _look_up(
        self, tool: Tool, inputs: Inputs, stop: Stop, standing: Standing, failure: Failure
    ) -> ToolResult:
        """Ask the source of truth whether the write happened, else the person."""
        key = self.key(tool, inputs)
        if tool.reconcile is None:
            return asked(failure, tool, key)
        look = replace(tool, function=tool.reconcile, effect="none", name=f"{tool.name}.reconcile")
        found = await self._run(look, inputs, stop)
        # A body that runs on may still do what cannot be found yet.
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
        """Put on record what is known now."""
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
    """What the record gives, and in words what it raised."""
    try:
        return step(), None
    except Exception as exc:  # boundary: tool - the record is a host's, on a disk that may fail
        return None, words_of(exc)


def _says_done(reconcile: ToolFunction, found: Any) -> bool:
    """Whether what was looked up says that the write happened."""
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
    """The failure, as a question to the person: nobody else can say what happened."""
    question = question or f"Did {tool.name} take effect?"
    asked = replace(
        failure,
        explanation=f"{failure.explanation.rstrip('.')}; {NOT_KNOWN}",
        suggested_action=Action.ask_user,
        metadata={**failure.metadata, EFFECT_KEY: key, "question": question, "choices": OUTCOME},
    )
    return ToolResult.from_failure(asked)


def inputs_of(tool: Tool, inputs: Inputs) -> dict[str, Any]:
    """``inputs`` as the body understands them, with its defaults, as JSON: ``"10"`` is 10 where a
    number is asked for.

    What does not come out the same each time, or says less as JSON, stays as it was sent, and so
    does all of what does not fit.
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
    """The number of JSON, the same with and without a fraction of nothing."""
    number = float(text)
    return int(number) if number.is_integer() else number
