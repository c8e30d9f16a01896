"""Writes: each is done once in a run.

What is committed is told again, what is uncertain is looked up or asked. An intent is on record
before the body runs.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Protocol

from parsimony_kernel.agent.cancellation import CancellationRequest
from parsimony_kernel.agent.failure.kinds import Action, Effect, Failure, FailureKind
from parsimony_kernel.agent.failure.recovery import EFFECT_KEY
from parsimony_kernel.gate.effects import Effects, action_sha
from parsimony_kernel.gate.refusal import RefusalError
from parsimony_kernel.gate.rendition import plain
from parsimony_kernel.gate.running import goes_on
from parsimony_kernel.tools import Tool, ToolResult, words_of
from parsimony_kernel.triage.taxonomy import FailureType

NOT_KNOWN = "it is not known whether it took effect"
EFFECT_CHOICES = ("It did", "It did not", "Stop here")


def took_effect(reply: str) -> bool | None:
    """What a person said of a write; ``None`` when the words do not say it plainly."""
    said = reply.strip().casefold().rstrip(".! ")
    if said in ("it did not", "it didn't", "no"):
        return False
    return True if said in ("it did", "yes") else None


class Run(Protocol):
    """Runs a body under its deadline; everything but a stop is in the result."""

    async def __call__(
        self,
        tool: Tool,
        inputs: Mapping[str, Any],
        cancellation: CancellationRequest | None,
        *,
        key: str = "",
    ) -> ToolResult: ...


class Writes:
    """The writes of one run."""

    def __init__(self, effects: Effects, run_id: str, run: Run) -> None:
        self._effects = effects
        self._run_id = run_id
        self._run = run

    async def run(
        self, tool: Tool, inputs: Mapping[str, Any], cancellation: CancellationRequest | None
    ) -> ToolResult:
        """Run a write unless it was done; a stop leaves it uncertain."""
        try:
            key = action_sha(tool.name, inputs, run_id=self._run_id)
            standing = self._effects.standing(key)
            if standing is None:
                self._effects.intend(key, tool.name, inputs)
        except Exception as exc:  # the record is the host's, on a disk that may fail
            return _unrecorded(tool, f"was not run, for its record fails: {words_of(exc)}")
        if standing is None:
            result = await self._run(tool, inputs, cancellation, key=key)
            failure = result.failure
            if failure is None or failure.effect is not Effect.uncertain:
                return self._settle(tool, key, result)
        elif standing.state == "committed":
            return ToolResult.from_data(standing.answer)
        else:
            failure = _begun_before(tool)
        return await self._look_up(tool, inputs, cancellation, key, failure)

    async def _look_up(
        self,
        tool: Tool,
        inputs: Mapping[str, Any],
        cancellation: CancellationRequest | None,
        key: str,
        failure: Failure,
    ) -> ToolResult:
        """Ask the source of truth whether the write happened, else the person."""
        if tool.reconcile is None:
            return _asked(failure, tool, key)
        asking = replace(
            tool, function=tool.reconcile, effect="none", name=f"{tool.name}.reconcile"
        )
        found = await self._run(asking, inputs, cancellation)
        # A body that runs on may still do what cannot be found yet.
        if not found.ok or (found.data is None and goes_on(key)):
            return _asked(failure, tool, key)
        return self._settle(
            tool,
            key,
            found
            if found.data is not None
            else ToolResult.from_failure(_did_not_happen(failure, tool)),
        )

    def _settle(self, tool: Tool, key: str, result: ToolResult) -> ToolResult:
        """Put on record what is known now."""
        failure = result.failure
        happened = failure is None or failure.effect is Effect.committed
        try:
            if happened:
                self._effects.commit(key, _answer(result))
            else:
                self._effects.withdraw(key)
        except Exception as exc:  # as above
            what = "was done" if happened else "did not take effect"
            return _unrecorded(
                tool,
                f"{what}, which could not be put on record: {words_of(exc)}",
                effect=Effect.committed if happened else Effect.none,
                partial_data=result.data if failure is None else failure.partial_data,
            )
        return result


def _answer(result: ToolResult) -> Any:
    if result.failure is None:
        return plain(result.data)
    return {"done": plain(result.failure.explanation), "data": plain(result.failure.partial_data)}


def _unrecorded(
    tool: Tool, what: str, *, effect: Effect = Effect.none, partial_data: Any = None
) -> ToolResult:
    sentence = f"{tool.name} {what}"
    failure = Failure(
        FailureKind.capability_gap,
        sentence,
        (sentence,),
        Action.handoff,
        partial_data,
        {"tool_name": tool.name, "refusal": RefusalError.action_error, "effect": effect},
    )
    return ToolResult.from_failure(failure)


def _begun_before(tool: Tool) -> Failure:
    return Failure(
        FailureKind.tool_error,
        f"{tool.name}: an earlier attempt of it has no known end",
        metadata={
            "tool_name": tool.name,
            "refusal": RefusalError.action_timeout,
            "type": FailureType.TIMEOUT,
            "effect": Effect.uncertain,
        },
    )


def _asked(failure: Failure, tool: Tool, key: str) -> ToolResult:
    """The failure, as a question to the person: nobody else can say what happened."""
    asked = replace(
        failure,
        explanation=f"{failure.explanation.rstrip('.')}; {NOT_KNOWN}",
        suggested_action=Action.ask_user,
        metadata={
            **failure.metadata,
            EFFECT_KEY: key,
            "question": f"Did {tool.name} take effect?",
            "choices": list(EFFECT_CHOICES),
        },
    )
    return ToolResult.from_failure(asked)


def _did_not_happen(failure: Failure, tool: Tool) -> Failure:
    return replace(
        failure,
        explanation=f"{failure.explanation.rstrip('.')}; looked up: it did not take effect",
        suggested_action=Action.retry if tool.retryable_on_error else Action.handoff,
        metadata={**failure.metadata, "effect": Effect.none, "tool_name": tool.name},
    )
