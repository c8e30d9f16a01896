"""Events folded into a view of the run.

``fold`` is pure and total: the same events give the same view, whatever a tool or a model put in
them, and no event raises. A delta touches only the open prose, which has a cap, so a long stream
costs the same per piece from first to last.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Literal

from parsimony_kernel.core import events as ev
from parsimony_kernel.core.choices import ids_of
from parsimony_kernel.view import blocks as bl
from parsimony_kernel.view import steps
from parsimony_kernel.view.run_view import (
    ARGUMENT_CHARS,
    EMPTY,
    SENTENCE_CHARS,
    RunView,
    cut,
    cut_each,
    cut_steady,
    settled,
    using,
    with_block,
)

PROSE_CHARS = 20_000
REASONING_CHARS = 4_000


def replay(events: Iterable[ev.AgentEvent]) -> RunView:
    """The view after all of ``events``."""
    view = EMPTY
    for event in events:
        view = fold(view, event)
    return view


def fold(view: RunView, event: ev.AgentEvent) -> RunView:
    """``view`` after ``event``. A kind of event that says nothing to a person changes nothing."""
    match event:
        case ev.TextDelta():
            return _streamed(view, text=event.content)
        case ev.ReasoningDelta():
            return _streamed(view, reasoning=event.content)
        case ev.RunStarted():
            return _started(view, event)
        case ev.LLMCallCompleted():
            return _answered(view, event)
        case ev.ToolEvent(completed=False):
            return steps.step_begun(view, event)
        case ev.ToolEvent():
            return steps.step_ended(view, event)
        case ev.ArtifactPublished():
            return _published(view, event)
        case ev.StateSnapshot():
            rounds = max(view.rounds, event.iteration)
            view = using(view, elapsed_s=event.elapsed_s or view.used.elapsed_s)
            return replace(view, rounds=rounds, variables=cut_each(event.variables))
        case ev.Heartbeat():
            silent = f"{event.silent_s:.0f} s"
            return replace(
                view,
                activity=f"Waiting for {cut(event.model, ARGUMENT_CHARS)}, silent for {silent}",
            )
        case ev.BudgetWarning():
            view = settled(view)
            block = bl.BudgetBlock(
                key=f"budget-{len(view.closed)}", guard=cut(event.guard, ARGUMENT_CHARS)
            )
            return replace(view, activity="Coming to the end", closed=(*view.closed, block))
        case ev.AgentError():
            return _recovering(view, event)
        case ev.RunCompleted():
            return _completed(view, event)
        case ev.UserInputRequested():
            asked = bl.QuestionBlock(
                "",
                question=cut(event.question),
                context=cut(event.context or ""),
                choices=cut_each(event.choices, SENTENCE_CHARS),
                choice_ids=tuple(event.suspension_record.choice_ids or ids_of(event.choices)),
            )
            return _ended(view, "suspended", asked)
        case ev.Handoff():
            said = event.rationale.strip()
            blockers = [each for each in event.blockers if each.strip() != said]
            what_now = [("Why", blockers), ("Try", event.suggested_next_steps)]
            return _at_end(view, "handed_off", "handoff", event.rationale, what_now)
        case ev.PartialRunSummary():
            known = [("Known so far", event.learned_facts)]
            return _at_end(view, "stopped", "partial", event.missing, known)
        case ev.RunCancelled():
            why = event.reason.strip().removeprefix("stopped ") or event.message.strip()
            return _at_end(view, "cancelled", "cancelled", why)
        case _:
            return view


def _streamed(view: RunView, *, text: str = "", reasoning: str = "") -> RunView:
    prose = view.prose or bl.ProseBlock(key=f"prose-{len(view.closed)}")
    return replace(
        view,
        activity="Writing" if text else "Thinking",
        prose=replace(
            prose,
            text=prose.text.grown(text, PROSE_CHARS),
            reasoning=prose.reasoning.grown(reasoning, REASONING_CHARS),
        ),
    )


def _started(view: RunView, event: ev.RunStarted) -> RunView:
    if event.reply is None or view.status == "idle":
        request = bl.RequestBlock(
            key="request-0",
            words=cut(event.request, PROSE_CHARS),
            shared=cut_each(event.shared),
            notice=cut(" ".join(filter(None, (event.notice, _replaced(event.replaced))))),
        )
        view = RunView(run_id=event.run_id, activity="Reading the request", closed=(request,))
    if event.reply is not None:
        view = _replied(settled(view), event, cut(event.reply))
    limits = {
        "max_rounds": event.max_iterations,
        "max_elapsed_s": event.max_execution_time_s,
        "max_tokens": event.max_tokens,
        "max_cost_usd": event.max_cost_usd,
    }
    given = {name: limit for name, limit in limits.items() if limit}
    return using(replace(view, status="running"), model=cut(event.model, ARGUMENT_CHARS), **given)


def _replied(view: RunView, event: ev.RunStarted, reply: str) -> RunView:
    """``view`` going on with the answer to its newest question."""
    questions = (at for at, each in enumerate(view.closed) if isinstance(each, bl.QuestionBlock))
    index = max(questions, default=None)
    asked = None if index is None else view.closed[index]
    if index is not None and isinstance(asked, bl.QuestionBlock) and asked.reply is None:
        ids = asked.choice_ids
        chosen = ids.index(event.choice) if event.choice in ids else None
        view = with_block(view, index, replace(asked, reply=reply, chosen=chosen))
    # What waited waits no more; it was allowed if its call begins again.
    view = steps.with_state(view, "waiting", "answered")
    said = bl.ReplyBlock(f"reply-{len(view.closed)}", reply, cut_each(event.gone))
    return replace(view, activity="Going on with your answer", closed=(*view.closed, said))


def _replaced(names: Sequence[str]) -> str:
    """What was undone of the cell's earlier turn, in one sentence."""
    return f"Undid this cell's previous run first ({', '.join(names)})." if names else ""


def _answered(view: RunView, event: ev.LLMCallCompleted) -> RunView:
    used = view.used
    # What the person's answer did not begin again was not allowed.
    view = steps.with_state(view, "answered", "refused")
    view = replace(settled(view), activity="Working")
    return using(
        view,
        elapsed_s=used.elapsed_s + event.duration_s,
        calls=used.calls + 1,
        unpriced_calls=used.unpriced_calls + (event.cost_usd is None),
        priced_usd=used.priced_usd + (event.cost_usd or 0.0),
        prompt_tokens=used.prompt_tokens + event.prompt_tokens,
        completion_tokens=used.completion_tokens + event.completion_tokens,
    )


def _published(view: RunView, event: ev.ArtifactPublished) -> RunView:
    artifact = bl.Artifact(
        kind=cut(event.kind, ARGUMENT_CHARS),
        title=cut(event.title, ARGUMENT_CHARS),
        path=cut(event.path, ARGUMENT_CHARS),
        reused=event.reused,
        page=cut("/".join(event.page.split("/")[-2:]), ARGUMENT_CHARS),
    )
    view = settled(view)
    kept = tuple(each for each in view.artifacts if each.path != artifact.path)
    view = replace(view, artifacts=(*kept, artifact))
    index = steps.running_step(view)
    if index is None and view.closed and isinstance(view.closed[-1], bl.StepBlock):
        index = len(view.closed) - 1
    mentions: tuple[bl.FigureMention, ...] = ()
    if event.figure:
        view, mention = steps.drawn(view, steps.figure_of(event.figure, artifact.title))
        mentions = (mention,)
    if index is not None:
        step = view.closed[index]
        assert isinstance(step, bl.StepBlock)
        view = with_block(
            view,
            index,
            replace(
                step, published=(*step.published, artifact), outputs=(*step.outputs, *mentions)
            ),
        )
    return view


def _recovering(view: RunView, event: ev.AgentError) -> RunView:
    view = settled(view)
    failure = event.failure
    block = bl.RecoveryBlock(
        key=f"recovery-{len(view.closed)}",
        message=cut_steady(failure.explanation if failure else event.message),
        kind=failure.kind.value if failure else "",
        type=steps.type_of(failure),
        action=cut(
            str(event.action or (failure and failure.suggested_action) or ""), ARGUMENT_CHARS
        ),
        attempt=event.attempt,
        budget=event.budget,
        recoverable=event.recoverable,
        fallback=cut(event.fallback or ""),
        blockers=cut_each(failure.blockers, SENTENCE_CHARS) if failure else (),
        put_back=cut_steady(event.put_back),
        delay_s=round(event.delay_s),
    )
    if event.delay_s >= 1:
        view = replace(view, activity=f"Waiting {event.delay_s:.0f} s before the next try")
    else:
        view = replace(view, activity="Recovering")
    last = view.closed[-1] if view.closed else None
    counted = ("key", "attempt", "message", "delay_s")
    if (
        isinstance(last, bl.RecoveryBlock)
        and replace(last, **{name: getattr(block, name) for name in counted}) == block
    ):
        # The same trouble once more: one block that counts, not a column of them.
        return with_block(view, len(view.closed) - 1, replace(block, key=last.key))
    return replace(view, closed=(*view.closed, block))


def _completed(view: RunView, event: ev.RunCompleted) -> RunView:
    view = settled(view)
    last = view.closed[-1] if view.closed else None
    if isinstance(last, bl.ProseBlock) and last.text.head.strip() == event.summary.strip():
        # The closing words are the summary: say them once.
        kept = (replace(last, text=bl.Passage()),) if last.reasoning else ()
        view = replace(view, closed=(*view.closed[:-1], *kept))
    end = bl.EndBlock(
        "",
        "result",
        cut(event.summary, PROSE_CHARS),
        not_found=view.not_found,
        artifacts=view.artifacts,
        variables=cut_each(event.variables),
    )
    return _ended(view, "done", end)


def _at_end(
    view: RunView,
    status: str,
    kind: Literal["handoff", "partial", "cancelled"],
    words: str,
    lists: Sequence[tuple[str, Sequence[str]]] = (),
) -> RunView:
    """The view of a run that did not do what was asked."""
    told = tuple((label, cut_each(each, SENTENCE_CHARS)) for label, each in lists)
    end = bl.EndBlock(
        "", kind, cut(words), told, artifacts=view.artifacts, variables=view.variables
    )
    return _ended(view, status, end)


def _ended(view: RunView, status: str, end: bl.EndBlock | bl.QuestionBlock) -> RunView:
    view = settled(view)
    view = steps.with_state(steps.with_state(view, "answered", "refused"), "running", "stopped")
    if status != "suspended":  # then nobody was asked
        view = steps.with_state(view, "waiting", "stopped")
    if status != "suspended" and view.withheld:
        key = f"result-{len(view.closed)}"
        shown = bl.EndBlock(key, "result", view.withheld, not_found=view.not_found)
        view = replace(view, closed=(*view.closed, shown), withheld="")
    ended = replace(end, key=f"{status}-{len(view.closed)}")
    return replace(view, status=status, activity="", closed=(*view.closed, ended))
