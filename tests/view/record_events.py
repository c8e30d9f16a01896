"""Runs as events, for the tests of the record."""

from collections.abc import Sequence
from typing import Any

from parsimony_kernel.core import events as ev
from parsimony_kernel.core.kinds import Failure, FailureKind
from parsimony_kernel.core.state import SuspensionRecord
from parsimony_kernel.view.blocks import Block
from parsimony_kernel.view.outline import outline, segment_of
from parsimony_kernel.view.parts import Section

SPEC = {"mark": "line", "encoding": {"x": {"field": "year"}}, "title": "By year"}
# One red pixel.
PIXEL = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk"
    "+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
FRAME = {
    "type": "dataframe",
    "rows": 3,
    "columns": [{"name": "year", "dtype": "int64", "samples": ["2001"]}],
    "preview_columns": ["year"],
    "preview": [["2001"]],
}


def sections(blocks: Sequence[Block]) -> list[Section]:
    """All that is read of ``blocks``."""
    found = segment_of(blocks, echo=True)
    shown = [] if found.figure is None else [outline(found.figure)]
    return [*found.head, *shown, *found.work]


def started(words: str = "plot it", **fields: Any) -> ev.RunStarted:
    return ev.RunStarted(
        run_id="0123456789abcdef",
        request=words,
        model="scripted",
        max_iterations=50,
        max_execution_time_s=300,
        **fields,
    )


def asked_model(cost: float | None = 0.0) -> ev.LLMCallCompleted:
    return ev.LLMCallCompleted(
        model="scripted", prompt_tokens=1234, completion_tokens=56, cost_usd=cost, duration_s=1.5
    )


def code(source: str = "x = 1", call: str = "c1", **output: Any) -> list[ev.AgentEvent]:
    begun = ev.ToolEvent(
        tool_name="run_code",
        tool_call_id=call,
        tool_type="code",
        arguments={"code": source, "purpose": "Compute"},
    )
    ended = begun.model_copy(
        update={
            "completed": True,
            "ok": True,
            "result": {"requested": "run_code", "output": output},
            "duration_s": 0.25,
        }
    )
    return [begun, ended]


def failing(source: str = "x = 1", call: str = "c1", **result: Any) -> list[ev.AgentEvent]:
    """A step that fails, or is refused, with this result."""
    begun, ended = code(source, call)
    return [begun, ended.model_copy(update={"ok": False, "result": result})]


def figure(spec: dict[str, Any] = SPEC, png: str | None = None) -> dict[str, Any]:
    return {
        "type": "figure",
        "title": "By year",
        "description": "line chart of x by year",
        "spec": spec,
        "png_base64": png,
    }


def published(spec: dict[str, Any] = SPEC, png: str | None = PIXEL) -> ev.ArtifactPublished:
    return ev.ArtifactPublished(
        kind="chart",
        logical_id="a" * 64,
        content_sha="b" * 64,
        path=f".ockham/charts/{'a' * 64}/{'b' * 64}.vl.json",
        title="My chart",
        variable="chart",
        figure=figure(spec, png),
    )


def question(**fields: Any) -> ev.UserInputRequested:
    given: dict[str, Any] = {
        "question": "Which column of `df`?",
        "context": "Several fit.",
        "choices": ("temp_max", "temp_min"),
        **fields,
    }
    record = SuspensionRecord(
        run_id="0123456789abcdef", session_id="s", suspension_token="n.h", suspended_at=""
    )
    return ev.UserInputRequested(suspension_record=record, **given)


def trouble(kind: FailureKind = FailureKind.transient_provider, attempt: int = 1) -> ev.AgentError:
    return ev.AgentError(
        message="the provider is busy",
        failure=Failure(kind, "the provider is busy"),
        recoverable=True,
        action="retry",
        attempt=attempt,
        budget=3,
        delay_s=2.0,
    )


RUNS: dict[str, list[ev.AgentEvent]] = {
    "done": [
        started(),
        ev.TextDelta(content="I look "),
        ev.TextDelta(content="first."),
        asked_model(),
        *code(stdout="hello\n", outputs=[FRAME, figure()], changed=["x"]),
        ev.StateSnapshot(iteration=1, elapsed_s=2.0),
        published(),
        ev.RunCompleted(summary="Made `x`.", variables=("x",)),
    ],
    "suspended": [started(), asked_model(), question()],
    "answered": [
        started(),
        asked_model(),
        question(),
        started(reply="temp_min", choice="2", gone=("df",)),
        asked_model(),
        ev.RunCompleted(summary="Used temp_min."),
    ],
    "recovered": [
        started(),
        trouble(attempt=1),
        trouble(attempt=2),
        asked_model(None),
        ev.RunCompleted(summary="ok"),
    ],
    "rerouted": [
        started(max_tokens=5_000, max_cost_usd=0.5),
        trouble().model_copy(update={"fallback": "openai/b", "delay_s": 0.0}),
        asked_model(0.25),
        ev.BudgetWarning(guard="tokens", used=4_200, limit=5_000),
        ev.RunCompleted(summary="ok"),
    ],
    "handed_off": [
        started(),
        ev.Handoff(rationale="no data", blockers=("no file",), suggested_next_steps=("add one",)),
    ],
    "stopped": [started(), ev.PartialRunSummary(missing="the rest", learned_facts=("a fact",))],
    "cancelled": [
        started(),
        *failing(stopped=True, error="x"),
        ev.RunCancelled(reason="stopped by the user"),
    ],
}
