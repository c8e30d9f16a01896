"""Events folded into blocks."""

from typing import Any

import pytest
from record_events import (
    RUNS,
    SPEC,
    asked_model,
    code,
    failing,
    figure,
    published,
    question,
    started,
    trouble,
)

from parsimony_kernel.core import events as ev
from parsimony_kernel.core.kinds import FailureKind
from parsimony_kernel.view import blocks as bl
from parsimony_kernel.view.blocks import EMPTY, RunView
from parsimony_kernel.view.fold import fold, replay
from parsimony_kernel.view.outline import footer_facts, outline, progress_words, segment_of
from parsimony_kernel.view.parts import words_of
from parsimony_kernel.view.plain_text import record_of, text_of

ENDED_WELL = {"answered", "recovered", "rerouted"}
KINDS = {
    "done": ["Request", "Prose", "Figure", "Step", "End"],
    "suspended": ["Request", "Question"],
    "answered": ["Request", "Question", "Reply", "End"],
    "recovered": ["Request", "Recovery", "End"],
    "rerouted": ["Request", "Recovery", "Budget", "End"],
    "handed_off": ["Request", "End"],
    "stopped": ["Request", "End"],
    "cancelled": ["Request", "Step", "End"],
}


def only(view: RunView, kind: type[bl.Block]) -> Any:
    (block,) = [block for block in view.blocks if isinstance(block, kind)]
    return block


@pytest.mark.parametrize("name", RUNS)
def test_run_yields_blocks_and_status_and_the_same_from_json(name: str) -> None:
    view = replay(RUNS[name])
    kinds = [type(block).__name__.removesuffix("Block") for block in bl.lasting(view.blocks)]
    assert sorted(kinds) == sorted(KINDS[name])
    assert view.status == ("done" if name in ENDED_WELL else name)
    written = [event.model_dump(mode="json") for event in RUNS[name]]
    assert replay([ev.parse_event(each) for each in written]) == view


@pytest.mark.parametrize("name", RUNS)
def test_keys_are_unique_and_stable(name: str) -> None:
    view, seen = EMPTY, dict[str, type[bl.Block]]()
    for event in RUNS[name]:
        view = fold(view, event)
        keys = [block.key for block in view.blocks]
        assert len(set(keys)) == len(keys)
        for block in view.blocks:
            assert seen.setdefault(block.key, type(block)) is type(block)


def test_shown_then_published_chart_is_one_figure() -> None:
    shown = only(replay(RUNS["done"]), bl.FigureBlock)
    assert shown.png_base64
    assert shown.spec == SPEC


def test_different_charts_are_two_figures() -> None:
    other = {**SPEC, "mark": "bar"}
    view = replay([started(), *code(outputs=[figure(), figure(other)])])
    figures = [block for block in view.blocks if isinstance(block, bl.FigureBlock)]
    assert [each.number for each in figures] == [1, 2]


def test_remote_chart_is_described_not_drawn() -> None:
    reaching = {"data": {"url": "https://example.com/x.csv"}, "mark": "line"}
    assert only(replay([started(), published(reaching, None)]), bl.FigureBlock).spec is None


def test_stopped_step_shows_no_error() -> None:
    step = only(replay(RUNS["cancelled"]), bl.StepBlock)
    assert (step.state, step.error) == ("stopped", "")
    assert only(replay(RUNS["cancelled"]), bl.EndBlock).words == "by the user"


def test_repeated_error_is_one_counted_block() -> None:
    longer = trouble(attempt=2).model_copy(update={"delay_s": 4.0})
    view = replay([started(), trouble(), longer])
    assert only(view, bl.RecoveryBlock).retries == 2
    assert "trying again after 4 s, attempt 2 of 3" in record_of(view.blocks)


def test_failed_step_has_sentence_and_place() -> None:
    error = {
        "type": "exception",
        "name": "KeyError",
        "message": "'yaer'",
        "line": 2,
        "source_line": "df['yaer']",
        "traceback": "Traceback…",
    }
    step = only(replay([started(), *code(outputs=[error])]), bl.StepBlock)
    assert step.state == "failed"
    assert step.error == "KeyError: 'yaer'\nin line 2: df['yaer']"


@pytest.mark.parametrize(
    ("error", "state"),
    [
        *((each, "refused") for each in ("validation_failed", "unknown_action")),
        *((each, "failed") for each in ("action_error", "action_timeout")),
    ],
)
def test_step_that_did_not_run_is_refused(error: str, state: str) -> None:
    view = replay([started(), *failing("df['tmep']", error=error, message="no")])
    assert only(view, bl.StepBlock).state == state


def test_published_figure_stays_mentioned() -> None:
    begun = ev.ToolEvent(tool_name="return_chart", tool_call_id="p1", tool_type="publish")
    shown = published({"mark": "bar"})
    ended = begun.model_copy(update={"completed": True, "ok": True, "result": {"result": {}}})
    step = only(replay([started(), begun, shown, ended]), bl.StepBlock)
    assert "Shown as figure 1" in text_of([outline(step)])


def test_what_was_changed_of_the_persons_is_one_note_and_how_to_get_it_back() -> None:
    work = code(changed=["sales", "x"], overwritten=["sales"])
    text = record_of(replay([started(), *work, ev.RunCompleted(summary="ok")]).blocks)
    assert text.count("sales") == 1
    assert "Changed your sales; %agent undo takes back what it can." in text


def test_own_tools_answer_is_shown() -> None:
    begun = ev.ToolEvent(tool_name="area", tool_call_id="a1")
    ended = begun.model_copy(update={"completed": True, "ok": True, "result": {"result": 12.5}})
    assert "| 12.5" in record_of(replay([started(), begun, ended]).blocks)


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (
            {
                "type": "dataframe",
                "rows": 2,
                "columns": [{"name": "a"}],
                "text": "a\n1",
                "origin": "x",
            },
            "table, 2 rows: a (None) | a | 1 | origin: x",
        ),
        # Of a server that answers like us, and not quite.
        ({"type": "dataframe", "rows": "many"}, '{"type": "dataframe", "rows": "many"}'),
    ],
)
def test_answer_of_a_tool_is_text(answer: dict[str, Any], told: str) -> None:
    begun = ev.ToolEvent(tool_name="inspect_variable", tool_call_id="c")
    ended = begun.model_copy(update={"completed": True, "ok": True, "result": {"result": answer}})
    record = record_of(replay([started(), begun, ended]).blocks)
    assert f"Output: | {told}" in " ".join(record.split())


def test_footer_counts_and_admits_unknown_prices() -> None:
    view = replay([started(), asked_model(0.5), asked_model(None)])
    footer = only(view, bl.FooterBlock)
    assert (footer.calls, footer.prompt_tokens, footer.cost_usd) == (2, 2468, 0.5)
    assert footer_facts(footer)[-2] == "at least $0.50, some prices unknown"


def test_footer_shows_usage() -> None:
    facts = footer_facts(only(replay(RUNS["rerouted"]), bl.FooterBlock))
    assert " · ".join(facts) == "scripted · 0 steps · 1 model call · 1,290 tokens · $0.25 · 1.5 s"


def test_time_is_measured() -> None:
    view = replay([started(), asked_model(), *code()])
    assert view.used.elapsed_s == 1.75
    view = fold(view, ev.StateSnapshot(iteration=1, elapsed_s=2.0))
    assert view.used.elapsed_s == 2.0
    assert fold(view, asked_model()).used.elapsed_s == 3.5


def test_progress_says_activity_and_extent() -> None:
    view = replay([started(), asked_model(), *code(), code("y = 2", "c2")[0]])
    told = progress_words(only(view, bl.ProgressBlock))
    assert told == "Step 2 is running: Compute … · 2 s"


@pytest.mark.parametrize(
    "end",
    [ev.Handoff(rationale="no"), ev.PartialRunSummary(missing="no"), ev.RunCancelled()],
    ids=lambda end: str(end.type),
)
def test_every_ending_names_new_variables(end: ev.AgentEvent) -> None:
    view = replay([started(), ev.StateSnapshot(iteration=1, variables=("x", "y")), end])
    assert view.closed[-1].variables == ("x", "y")  # type: ignore[attr-defined]


def held() -> list[ev.AgentEvent]:
    begun, ended = code("df.drop(0, inplace=True)")
    waits = ended.model_copy(update={"ok": None, "result": {"waiting": "approval"}})
    return [started(), begun, waits, question(question="May it run?", choices=("yes", "no"))]


def test_approved_step_keeps_its_number() -> None:
    view = replay([*held(), started(reply="yes"), *code("df.drop(0, inplace=True)")])
    steps = [block for block in view.blocks if isinstance(block, bl.StepBlock)]
    assert [(step.number, step.state) for step in steps] == [(1, "allowed"), (1, "done")]


@pytest.mark.parametrize("then", [asked_model(), ev.PartialRunSummary(missing="it")])
def test_step_that_does_not_begin_again_is_declined(then: ev.AgentEvent) -> None:
    assert only(replay([*held(), started(reply="no")]), bl.StepBlock).state == "answered"
    assert only(replay([*held(), started(reply="no"), then]), bl.StepBlock).state == "declined"


@pytest.mark.parametrize(
    ("variables", "stands"),
    [
        ((), "No variables were made before that. Run the cell again to be asked again."),
        (("sales",), "Made before that, and kept: sales"),
    ],
)
def test_end_after_declined_step_says_what_was_not_run_and_what_stands(
    variables: tuple[str, ...], stands: str
) -> None:
    made = ev.StateSnapshot(iteration=1, variables=variables)
    told = ev.Handoff(rationale="No other way is known.")
    view = replay([*held(), made, started(reply="Don't"), asked_model(), told])
    words = text_of(segment_of(view.blocks).head)
    assert "You declined this" in words
    assert "Not run: " in words
    assert "No other way is known." in words
    assert stands in words
    assert "Don't" not in words  # the end says it
    assert "can't do this" not in words


@pytest.mark.parametrize(
    "events",
    [[started(), code()[0], ev.RunCancelled()], [*held()[:-1], ev.Handoff(rationale="Nobody.")]],
    ids=["running", "waiting"],
)
def test_open_step_is_stopped_with_run(events: list[ev.AgentEvent]) -> None:
    assert only(replay(events), bl.StepBlock).state == "stopped"


def test_long_output_keeps_both_ends() -> None:
    step = only(replay([started(), *code(stdout="a" * 300_000 + "b")]), bl.StepBlock)
    head, gap, tail = step.shown[0].text.split("\n")
    assert gap == "… 296,001 characters left out …"
    assert len(head) + len(tail) == 4_000
    assert tail.endswith("ab")


def test_artifacts_are_listed_once() -> None:
    second = published().model_copy(update={"path": "other", "title": "Other"})
    again = published().model_copy(update={"title": "Mine, again", "reused": True})
    view = replay([started(), published(), second, again, ev.RunCompleted(summary="ok")])
    told = [words_of(each) for each in only(view, bl.EndBlock).published]
    assert told == ["chart Other", "chart Mine, again (unchanged)"]


@pytest.mark.parametrize(
    ("facts", "words", "left"),
    [
        ({}, "Published the chart 'My chart'.", ""),
        ({}, "It rains. Published the chart 'My chart'. Used df.", "It rains. Used df."),
        ({}, "I have not published My chart.", None),
        ({}, "Published the dataset 'My chart'.", None),
        ({"reused": True}, "Published the chart 'My chart' (unchanged).", ""),
        ({"page": "x/a/b.html"}, "Published the chart 'My chart': x/a/b.html.", ""),
    ],
)
def test_publication_is_told_once(facts: dict[str, Any], words: str, left: str | None) -> None:
    event = published().model_copy(update=facts)
    end = only(replay([started(), event, ev.RunCompleted(summary=words)]), bl.EndBlock)
    assert end.words == (words if left is None else left)
    told = text_of([outline(end)])
    assert told.count("Published") - (left is None) * words.count("Published") == 1


@pytest.mark.parametrize(
    ("event", "activity"),
    [
        (ev.Heartbeat(model="openai/a", silent_s=40), "Waiting for openai/a, silent for 40 s"),
        (trouble(), "Waiting 2 s before the next try"),
    ],
)
def test_waiting_is_in_progress_line(event: ev.AgentEvent, activity: str) -> None:
    assert replay([started(), event]).activity == activity


def test_unordered_events_never_raise() -> None:
    every = [event for run in RUNS.values() for event in run]
    for first in every:
        replay([first, *reversed(every)])


def test_streaming_cost_is_constant_per_chunk() -> None:
    """What a delta copies is bounded: the open prose has a cap, and the closed part is shared."""
    view = fold(EMPTY, started())
    closed = view.closed
    for _ in range(2_000):
        view = fold(view, ev.TextDelta(content="word " * 4))
    assert view.closed is closed
    assert len(view.prose) == 20_000
    assert view.prose.endswith("…")


@pytest.mark.parametrize(
    ("told", "state"),
    [
        ({"action": "retry", "budget": 2}, "trying again after 2 s, attempt 1 of 2"),
        ({"action": "narrow_scope", "budget": 0}, "asking the model for its next step"),
        ({"action": "narrow_scope", "put_back": "As before: x.", "budget": 0}, "going back"),
        ({"fallback": "second"}, "going on with second"),
        ({"recoverable": False, "budget": 0}, "this cannot be recovered"),
    ],
)
def test_recovery_says_what_is_done(told: dict[str, Any], state: str) -> None:
    event = trouble(FailureKind.tool_error).model_copy(update=told)
    assert only(replay([started(), event]), bl.RecoveryBlock).state == state


@pytest.mark.parametrize("is_redone", [True, False])
def test_undone_turn_keeps_its_record(is_redone: bool) -> None:
    event = ev.TurnTakenBack(restored=("a",), removed=("c",), kept=("d",), redone=is_redone)
    assert replay([*RUNS["done"], event]) == replay(RUNS["done"])
    assert ev.parse_event(event.model_dump(mode="json")) == event
    assert not ev.is_terminal(event)
