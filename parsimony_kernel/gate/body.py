"""Tool bodies: run a body under its deadline and turn its outcome into a valid result.

A body that is stopped gets a short grace period to unwind; Python code is interrupted wherever it
is. A body that keeps running in a blocking call is abandoned, and its result is discarded. A body
may raise or return anything; the result is data, or one well-formed ``Failure`` that everything
behind the gate can rely on.
"""

import asyncio
from collections.abc import Callable, Mapping, Set
from concurrent.futures import Future
from dataclasses import replace
from types import AsyncGeneratorType, GeneratorType
from typing import Any

from parsimony_kernel.core import causes, error_table
from parsimony_kernel.core.cancellation import CancellationRequest, Cancelled
from parsimony_kernel.core.error_table import Evidence, chain_of, evidence_of, facts_of
from parsimony_kernel.core.kinds import Action, Effect, Failure, FailureType, Step
from parsimony_kernel.core.text import words_of
from parsimony_kernel.execution.inspection import attempt
from parsimony_kernel.execution.interrupt import CodeGuard
from parsimony_kernel.gate.envelope import plain
from parsimony_kernel.tools import AROUND, THREADS, Tool, ToolResult

_GRACE_S = 0.25
# Code and publishing stop their own work in less than this, and report its outcome.
_OWN_GRACE_S = 0.48
# Metadata key of a failure: facts of the exception beyond its text, and its row in the error table.
# An exception is inspected once, here.
FACTS = "facts"

_MAX_FACT = 200
_MAX_FACTS = 40

# Rows of the error table for requests that were rejected before they took effect.
_TURNED_AWAY = (error_table.ROWS["rate_limit"], error_table.ROWS["unreached"])
# Metadata types of a failure that everything behind the gate relies on.
_SHAPES: Any = {"envelope": dict, "question": str, "choices": list | tuple, "remedy": str}


# Abandoned bodies that still run, from all gates of this process.
_left: "list[_Body]" = []


def goes_on(key: str) -> bool:
    """Whether an abandoned body that ran under ``key`` is still running."""
    return any(body.key == key and body.goes_on for body in _left)


async def run_body(
    tool: Tool,
    inputs: Mapping[str, Any],
    seconds: float,
    cancellation: CancellationRequest | None,
    *,
    key: str = "",
) -> ToolResult:
    """Run the body of a tool for at most ``seconds``.

    Args:
        tool: the tool; its function is called on the event loop or in a thread.
        inputs: its arguments.
        seconds: the deadline.
        cancellation: stops the body when set.
        key: identifies the call for ``goes_on``.

    Returns:
        The result; every kind of failure is a ``failure`` in it.

    Raises:
        Cancelled: the run was stopped; the message says how the body ended.
        KeyboardInterrupt: raised by the body.
    """
    body = _Body(tool, inputs, key)
    waiting = asyncio.wait({body.task}, timeout=seconds)
    try:
        await (cancellation.race(waiting) if cancellation is not None else waiting)
    except Cancelled as stopped:
        await body.stop()
        note = f"; {tool.name} does not stop, and is cut off" if body.goes_on else body.note
        raise Cancelled(f"{stopped}{note}") from None
    finally:
        await body.stop()
    if body.is_stopped:
        return _failed(tool, _timed_out(tool, seconds, goes_on=body.goes_on))
    value, error = body.task.result()
    return _answered(tool, value) if error is None else _raised(tool, error)


class _Body:
    """One call of a tool's function."""

    def __init__(self, tool: Tool, inputs: Mapping[str, Any], key: str) -> None:
        self.key = key
        self.is_stopped = False
        # The executor's words on how stopped code ended.
        self.note = ""
        self._grace_s = _GRACE_S if tool.tool_type == "function" else _OWN_GRACE_S
        self._threads: list[Future[Any]] = []
        self._guards: list[CodeGuard] = []
        self.task = asyncio.ensure_future(self._run(tool, inputs))

    @property
    def goes_on(self) -> bool:
        """Whether its task or one of its threads is still running."""
        return not (self.task.done() and all(thread.done() for thread in self._threads))

    async def stop(self) -> None:
        """Stop the body, once, and wait for the grace period."""
        if self.is_stopped or self.task.done():
            return
        self.is_stopped = True
        self.task.cancel()
        for guard in self._guards:
            guard.interrupt("cancel")
        threads = [asyncio.wrap_future(thread) for thread in self._threads]
        try:
            await asyncio.wait({self.task, *threads}, timeout=self._grace_s)
        finally:
            for thread in threads:
                thread.cancel()
            _left[:] = [body for body in (*_left, self) if body.goes_on]

    async def _run(self, tool: Tool, inputs: Mapping[str, Any]) -> tuple[Any, BaseException | None]:
        """Return the function's value, or the exception it raised."""
        THREADS.set(self._threads)
        if tool.tool_type == "function":
            AROUND.set(self._guarded)
        try:
            return await _call(tool, inputs), None
        except KeyboardInterrupt:
            raise
        except asyncio.CancelledError as exc:
            current = asyncio.current_task()
            if self.is_stopped or (current is not None and current.cancelling()):
                if tool.tool_type == "code":
                    self.note = str(exc)
                raise
            return None, exc
        except BaseException as exc:  # boundary: tool - a body may raise anything
            return None, exc

    def _guarded(self, call: Callable[[], Any]) -> Any:
        guard = CodeGuard()
        self._guards.append(guard)
        with guard:
            guard.check()
            return guard.call(call)


async def _call(tool: Tool, inputs: Mapping[str, Any]) -> Any:
    parsed = tool.arguments.model_validate(dict(inputs))
    extra = parsed.model_extra or {}  # its names may clash with pydantic's own methods
    given = {name: extra.get(name, getattr(parsed, name)) for name in parsed.model_fields_set}
    return await tool.function(**given)


# -- results and failures


def _answered(tool: Tool, value: Any) -> ToolResult:
    # ``type()``, not ``isinstance``: an object can lie about its ``__class__``.
    if not issubclass(type(value), ToolResult):
        return _data(tool, value)
    result: ToolResult = value
    if result.failure is not None:
        return _known(tool, result.failure, result.partial_data)
    if result.exception_message is not None:
        text = str(plain(result.exception_message))
        name, _, words = text.partition(": ")
        return _broken(tool, f"failed: {text}", (name, words), data=result.partial_data)
    return _data(tool, result.data)


def _timed_out(tool: Tool, seconds: float, *, goes_on: bool) -> Failure:
    fate = " It could not be stopped and still runs, cut off." if goes_on else ""
    cause = causes.LATE if tool.is_repeatable else causes.LATE_UNCERTAIN
    return cause.failure(
        f"action {tool.name!r} exceeded its {seconds:g}s timeout.{fate}",
        tool_name=tool.name,
        envelope={"timeout_seconds": seconds},
        facts={"type": str(FailureType.TIMEOUT)},
    )


def refused_output(tool: Tool, reason: str, data: Any) -> ToolResult:
    """Return the failure of a body that completed but whose ``data`` a validator rejected."""
    cause = causes.RAISED_COMMITTED if tool.effect == "write" else causes.RAISED
    what = f"was done, but what it answered is refused: {reason}"
    error = ("OutputRefused", reason)
    return _broken(tool, what, error, cause, data=data, type=FailureType.SCHEMA_MISMATCH)


def step_of_end(failure: Failure, action: str, *, index: int = 0, inputs: Any = None) -> Step:
    """Build the step that ended with ``failure``, with everything a classifier can use."""
    fields = failure.metadata.get("envelope", {}).items()
    # A tool may have written these fields, so they can hold anything.
    texts = {name: str(plain(each)) for name, each in fields if isinstance(each, str)}
    known = {"type": failure.type, "refusal": failure.refusal}
    return Step(
        index,
        action,
        tool_called=action,
        tool_input=inputs,
        error=texts.get("error_message") or failure.explanation,
        exception_type=texts.get("error_type"),
        metadata={**known, **failure.metadata.get(FACTS, {})},
    )


def type_of_end(failure: Failure, action: str) -> FailureType:
    """Return the type of ``failure``: its own, or that of the error table if its own is unknown."""
    step = step_of_end(failure, action)
    row = error_table.of_step(step)
    known = FailureType(step.metadata["type"])
    return known if row is None or known is not FailureType.UNKNOWN else row.type


def _failed(
    tool: Tool, failure: Failure, partial_data: Any = None, *, named: Set[str] | None = None
) -> ToolResult:
    """Add the error table's row and a suitable suggested action to a failure.

    ``named`` are the class names of the exception, where the external effect is unknown.
    """
    metadata, action = dict(failure.metadata), failure.suggested_action
    if failure.type is FailureType.UNKNOWN:
        seen = evidence_of(step_of_end(failure, tool.name))
        row = error_table.of_tool(seen, of_program=tool.name in error_table.CODE_TOOLS)
        known = {error_table.KNOWN: "" if row is None else row.name}
        metadata[FACTS] = {**metadata.get(FACTS, {}), **known}
        # Writes only: if a tool doesn't declare writes, a broken fetch may be retried.
        if named is not None and tool.effect == "write" and _broke_off(row, seen, named):
            metadata["effect"] = Effect.uncertain
    if metadata.get("effect") == Effect.uncertain:
        if action in (Action.retry, Action.narrow_scope):
            action = Action.ask_user
    elif action is Action.retry and not tool.retryable_on_error:
        action = Action.handoff
    data = failure.partial_data if partial_data is None else partial_data
    return ToolResult.from_failure(
        replace(failure, suggested_action=action, partial_data=data, metadata=metadata)
    )


def _broke_off(row: error_table.Row | None, seen: Evidence, named: Set[str]) -> bool:
    """Whether the request may have taken effect although it ended in an error."""
    if error_table.IN_TRANSIT & (named | seen.names):
        return True
    if row is None or row.type is not FailureType.EXTERNAL_FAULT:
        return row is not None and row.type is FailureType.TIMEOUT
    if seen.any_status is not None:
        return seen.any_status != 429
    names = seen.names | seen.causes
    return not any(row is each or each.marks & names for each in _TURNED_AWAY)


def _data(tool: Tool, data: Any) -> ToolResult:
    if issubclass(type(data), GeneratorType | AsyncGeneratorType):
        what = "answered a generator, whose body has not run; return a list of what it yields"
        cause = causes.RAISED_UNCERTAIN if tool.effect == "write" else causes.RAISED
        return _broken(tool, what, cause=cause)
    is_seen = attempt(lambda: hasattr(data, "__class__"), lambda _: False)
    return ToolResult.from_data(data if is_seen else plain(data))


def _raised(tool: Tool, error: BaseException) -> ToolResult:
    named = {each.__name__ for link in chain_of(error) for each in type(link).__mro__}
    words = (type(error).__name__, words_of(error))
    # What publishing refuses is a sentence for the person, who needs no name of a class.
    told = words[1:] if tool.tool_type == "publish" and " " in words[1] else filter(None, words)
    return _broken(tool, f"failed: {': '.join(told)}", words, named=named, facts=_facts(error))


def _broken(
    tool: Tool,
    what: str,
    error: tuple[str, str] | None = None,
    cause: causes.Cause = causes.RAISED,
    *,
    data: Any = None,
    named: Set[str] = frozenset(),
    **metadata: Any,
) -> ToolResult:
    """Return the failure of a body that doesn't report its external effect.

    ``error`` is the exception's name and message; ``named`` are its class names.
    """
    failure = cause.failure(
        f"{tool.name} {what}",
        partial_data=data,
        tool_name=tool.name,
        envelope=dict(zip(("error_type", "error_message"), error or (), strict=False)),
        **metadata,
    )
    return _failed(tool, failure, named=named)


def _facts(error: BaseException) -> dict[str, Any]:
    """Return the facts of an exception as JSON, capped, without secrets; empty if it can't be
    inspected."""
    facts = attempt(lambda: facts_of(error), lambda _: {})
    shown: dict[str, Any] = plain(facts, max_text=_MAX_FACT, max_items=_MAX_FACTS)
    if not isinstance(shown.get("retry_after_s", 0.0), int | float):
        del shown["retry_after_s"]  # no finite number of seconds
    return shown


def _known(tool: Tool, failure: Any, partial_data: Any) -> ToolResult:
    """Return the result of a failure that a tool built itself.

    Its facts are dropped: facts are observed, and a tool's own knowledge is the failure's type. A
    malformed failure is replaced; if it named an effect, that effect counts as uncertain.
    """
    is_open, words = False, failure
    if issubclass(type(failure), Failure):
        metadata = {key: value for key, value in failure.metadata.items() if key != FACTS}
        sound: Failure = replace(failure, metadata=metadata)
        if attempt(lambda: _is_readable(sound), lambda _: False):
            return _failed(tool, sound, partial_data)
        is_open, words = "effect" in metadata and not tool.is_repeatable, failure.explanation
    cause = causes.RAISED_UNCERTAIN if is_open else causes.RAISED
    return _broken(tool, f"failed: {plain(words)}", cause=cause, data=partial_data)


def _is_readable(failure: Failure) -> bool:
    _ = failure.type, failure.refusal, failure.effect  # ``ValueError`` if invalid
    values = ((failure.metadata.get(key), kind) for key, kind in _SHAPES.items())
    return all(value is None or isinstance(value, kind) for value, kind in values)
