"""Events folded into a view of the run.

``fold`` is pure and total: the same events give the same view, whatever a tool or a model put in
them, and no event raises. A delta touches only the open prose, which has a cap, so a long stream
costs the same per piece from first to last.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Literal

from parsimony_kernel.core import events as ev
from parsimony_kernel.core.choices import ids_of
from parsimony_kernel.view import blocks as bl
from parsimony_kernel.view import steps
from parsimony_kernel.view.blocks import EMPTY, RunView
from parsimony_kernel.view.escape import ARGUMENT_CHARS, SENTENCE_CHARS, cut, cut_each, cut_steady
from parsimony_kernel.view.outline import recovery_state

PROSE_CHARS = 20_000
_LIMITS = ("max_iterations", "max_execution_time_s", "max_tokens", "max_cost_usd")


def replay(events: Iterable[ev.AgentEvent]) -> RunView:
    """The view after all of ``events``."""
    view = EMPTY
    for event in events:
        view = fold(view, event)
    return view


def fold(view: RunView, event: ev.AgentEvent) -> RunView:
    """``view`` after ``event``. A kind of event that says nothing to a person changes nothing."""
    view = replace(view)
    match event:
        case ev.TextDelta():
            view.activity = "Writing"
            view.prose = cut(view.prose + event.content, PROSE_CHARS)
        case ev.ReasoningDelta():
            view.activity = "Thinking"
        case ev.RunStarted():
            return _started(view, event)
        case ev.LLMCallCompleted():
            _answered(view, event)
        case ev.ToolEvent(completed=False):
            steps.begin(view, event)
        case ev.ToolEvent():
            steps.end(view, event)
        case ev.ArtifactPublished():
            steps.publish(view, event)
        case ev.StateSnapshot():
            view.use(elapsed_s=event.elapsed_s or view.used.elapsed_s)
            view.variables = cut_each(event.variables)
        case ev.Heartbeat():
            model = cut(event.model, ARGUMENT_CHARS)
            view.activity = f"Waiting for {model}, silent for {event.silent_s:.0f} s"
        case ev.BudgetWarning():
            view.activity = "Coming to the end"
            view.add(bl.BudgetBlock(cut(event.guard, ARGUMENT_CHARS)))
        case ev.AgentError():
            _recover(view, event)
        case ev.RunCompleted():
            view.settle()
            last = view.last(bl.Block)
            if isinstance(last, bl.ProseBlock) and last.text.strip() == event.summary.strip():
                # The closing words are the summary: say them once.
                view.closed = view.closed[:-1]
            view.variables = cut_each(event.variables)
            _finish(view, "done", "result", event.summary, {})
        case ev.UserInputRequested():
            asked = bl.QuestionBlock(
                cut(event.question),
                cut(event.context or ""),
                cut_each(event.choices, SENTENCE_CHARS),
                tuple(event.suspension_record.choice_ids or ids_of(event.choices)),
            )
            _end(view, "suspended", asked)
        case ev.Handoff():
            said = event.rationale.strip()
            blockers = [each for each in event.blockers if each.strip() != said]
            what_now = {"Why": blockers, "Try": event.suggested_next_steps}
            _finish(view, "handed_off", "handoff", event.rationale, what_now)
        case ev.PartialRunSummary():
            known = {"Known so far": event.learned_facts}
            _finish(view, "stopped", "partial", event.missing, known)
        case ev.RunCancelled():
            why = event.reason.strip().removeprefix("stopped ") or event.message.strip()
            _finish(view, "cancelled", "cancelled", why, {})
    return view


def _started(view: RunView, event: ev.RunStarted) -> RunView:
    if event.reply is None or view.status == "idle":
        view = RunView(run_id=event.run_id, activity="Reading the request")
        undone = f"Undid this cell's previous run first ({', '.join(event.replaced)})."
        notice = " ".join(filter(None, (event.notice, undone if event.replaced else "")))
        words = cut(event.request, PROSE_CHARS)
        view.add(bl.RequestBlock(words, cut_each(event.shared), cut(notice)))
    if event.reply is not None:
        view.settle()
        reply = cut(event.reply)
        asked = view.last(bl.QuestionBlock)
        if asked is not None and asked.reply is None:
            ids = asked.choice_ids
            chosen = ids.index(event.choice) if event.choice in ids else None
            view.put(asked, reply=reply, chosen=chosen)
        # What waited waits no more; it was allowed if its call begins again.
        view.mark("waiting", "answered")
        view.add(bl.ReplyBlock(reply, cut_each(event.gone)))
        view.activity = "Going on with your answer"
    view.status = "running"
    limits = {name: limit for name in _LIMITS if (limit := getattr(event, name))}
    view.use(model=cut(event.model, ARGUMENT_CHARS), **limits)
    return view


def _answered(view: RunView, event: ev.LLMCallCompleted) -> None:
    # What the person's answer did not begin again was not allowed.
    view.mark("answered", "refused")
    view.settle()
    view.activity = "Working"
    used = view.used
    view.use(
        elapsed_s=used.elapsed_s + event.duration_s,
        calls=used.calls + 1,
        unpriced_calls=used.unpriced_calls + (event.cost_usd is None),
        priced_usd=used.priced_usd + (event.cost_usd or 0.0),
        prompt_tokens=used.prompt_tokens + event.prompt_tokens,
        completion_tokens=used.completion_tokens + event.completion_tokens,
    )


def _recover(view: RunView, event: ev.AgentError) -> None:
    failure = event.failure
    action = event.action or (failure and failure.suggested_action) or ""
    block = bl.RecoveryBlock(
        cut_steady(failure.explanation if failure else event.message),
        failure.kind.value if failure else "",
        cut(recovery_state(event, action), ARGUMENT_CHARS),
        event.attempt if action == "retry" else 0,
        cut(event.fallback or ""),
        cut_steady(event.put_back),
    )
    pause = f"Waiting {event.delay_s:.0f} s before the next try"
    view.activity = pause if event.delay_s >= 1 else "Recovering"
    view.settle()
    last = view.last(bl.Block)
    again = {name: getattr(block, name) for name in ("message", "state", "retries")}
    if isinstance(last, bl.RecoveryBlock) and replace(last, **again, key="") == block:
        # The same trouble once more: one block that counts, not a column of them.
        view.put(last, **again)
    else:
        view.add(block)


def _finish(
    view: RunView,
    status: str,
    kind: Literal["result", "handoff", "partial", "cancelled"],
    words: str,
    lists: Mapping[str, Sequence[str]],
) -> None:
    """End a run that needs no answer."""
    told = tuple((label, cut_each(each, SENTENCE_CHARS)) for label, each in lists.items())
    not_found = view.not_found if kind == "result" else ()
    words = cut(words, PROSE_CHARS)
    _end(view, status, bl.EndBlock(kind, words, told, not_found, view.artifacts, view.variables))


def _end(view: RunView, status: str, end: bl.EndBlock | bl.QuestionBlock) -> None:
    view.mark("answered", "refused")
    view.mark("running", "stopped")
    if status != "suspended":  # then nobody was asked
        view.mark("waiting", "stopped")
        if view.withheld:
            view.add(bl.EndBlock("result", view.withheld, not_found=view.not_found))
            view.withheld = ""
    view.add(end)
    view.status, view.activity = status, ""
