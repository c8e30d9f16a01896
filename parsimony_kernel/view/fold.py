"""Events folded into a view of the run.

``fold`` is pure and total: the same events give the same view, whatever a tool or a model put in
them, and no event raises. A delta touches only the open prose, which has a cap, so a long stream
costs the same per piece from first to last.
"""

import hashlib
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

from pydantic import ValidationError

from parsimony_kernel.agent import events as ev
from parsimony_kernel.execution.outputs import (
    DataFrameObject,
    ExceptionObject,
    FigureObject,
    KernelOutput,
    KernelOutputType,
    PrimitiveObject,
)
from parsimony_kernel.view.blocks import (
    Artifact,
    Block,
    CancelledBlock,
    FigureBlock,
    FigureMention,
    FooterBlock,
    HandoffBlock,
    PartialBlock,
    Passage,
    ProgressBlock,
    ProseBlock,
    QuestionBlock,
    RecoveryBlock,
    ReplyBlock,
    RequestBlock,
    ResultBlock,
    StepBlock,
    StepError,
)
from parsimony_kernel.view.escape import steady

CODE_CHARS = 20_000
PROSE_CHARS = 20_000
REASONING_CHARS = 4_000
STREAM_CHARS = 4_000
VALUE_CHARS = 4_000
SENTENCE_CHARS = 2_000
ARGUMENT_CHARS = 400
OUTPUTS = 20
SPEC_CHARS = 1 << 20
PICTURE_CHARS = 2 << 20

# What the arguments of the publishing tools say beside the title.
_CODE_ARGUMENTS = frozenset({"code", "purpose"})


@dataclass(frozen=True)
class RunView:
    """A run so far. ``blocks`` are its record; the rest is what the next event builds on.

    ``status`` is idle, running, done, suspended, handed_off, stopped or cancelled.
    ``segment_starts`` are the indices in ``blocks`` at which the run was taken up again.
    """

    status: str = "idle"
    run_id: str = ""
    model: str = ""
    closed: tuple[Block, ...] = ()
    prose: ProseBlock | None = None
    activity: str = ""
    segment_starts: tuple[int, ...] = ()
    artifacts: tuple[Artifact, ...] = ()
    steps: int = 0
    figures: int = 0
    rounds: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost_usd: float = 0.0
    calls: int = 0
    unpriced_calls: int = 0
    elapsed_s: float = 0.0
    max_rounds: int = 0
    max_elapsed_s: float = 0.0

    @cached_property
    def blocks(self) -> tuple[Block, ...]:
        """The record in order: what is settled, then what moves (prose, footer, progress)."""
        if self.status == "idle":
            return self.closed
        moving: list[Block] = []
        if self.prose is not None and (self.prose.text or self.prose.reasoning):
            moving.append(self.prose)
        moving.append(_footer(self))
        if self.status == "running":
            moving.append(ProgressBlock(key="progress", activity=self.activity))
        return (*self.closed, *moving)


EMPTY = RunView()


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
            return _step_begun(view, event)
        case ev.ToolEvent():
            return _step_ended(view, event)
        case ev.ArtifactPublished():
            return _published(view, event)
        case ev.StateSnapshot():
            return replace(
                view,
                rounds=max(view.rounds, event.iteration),
                elapsed_s=max(view.elapsed_s, event.elapsed_s),
            )
        case ev.AgentError():
            return _recovering(view, event)
        case ev.RunCompleted():
            return _completed(view, event)
        case ev.UserInputRequested():
            return _ended(
                view,
                "suspended",
                lambda key: QuestionBlock(
                    key=key,
                    question=_cut(event.question),
                    context=_cut(event.context or ""),
                    choices=tuple(_cut(choice) for choice in event.choices),
                ),
            )
        case ev.Handoff():
            return _ended(
                view,
                "handed_off",
                lambda key: HandoffBlock(
                    key=key,
                    rationale=_cut(event.rationale),
                    blockers=tuple(_cut(each) for each in event.blockers),
                    next_steps=tuple(_cut(each) for each in event.suggested_next_steps),
                    artifacts=view.artifacts,
                ),
            )
        case ev.PartialRunSummary():
            return _ended(
                view,
                "stopped",
                lambda key: PartialBlock(
                    key=key,
                    missing=_cut(event.missing),
                    learned=tuple(_cut(each) for each in event.learned_facts),
                    plan=_cut(event.next_step_plan or ""),
                    artifacts=view.artifacts,
                ),
            )
        case ev.RunCancelled():
            return _ended(
                view,
                "cancelled",
                lambda key: CancelledBlock(
                    key=key,
                    message=_cut(event.message),
                    reason=_cut(event.reason),
                    artifacts=view.artifacts,
                ),
            )
        case _:
            return view


def segments(view: RunView) -> tuple[tuple[Block, ...], ...]:
    """The blocks by segment: each answer begins another, displayed where it was given.

    Footer and progress stand in the newest segment.
    """
    bounds = (0, *view.segment_starts, len(view.blocks))
    return tuple(view.blocks[start:end] for start, end in pairwise(bounds))


def metadata_of(view: RunView) -> dict[str, Any]:
    """The facts that differ from run to run, for the metadata of a display."""
    return {
        "parsimony": {
            "run_id": view.run_id,
            "status": view.status,
            "model": view.model,
            "rounds": view.rounds,
            "steps": view.steps,
            "prompt_tokens": view.prompt_tokens,
            "completion_tokens": view.completion_tokens,
            "cost_usd": _cost(view),
            "elapsed_s": round(view.elapsed_s, 3),
        }
    }


def _cost(view: RunView) -> float | None:
    return None if view.calls and view.unpriced_calls == view.calls else view.cost_usd


def _footer(view: RunView) -> FooterBlock:
    return FooterBlock(
        key="footer",
        model=view.model,
        calls=view.calls,
        max_rounds=view.max_rounds,
        prompt_tokens=view.prompt_tokens,
        completion_tokens=view.completion_tokens,
        cost_usd=_cost(view),
        cost_partial=0 < view.unpriced_calls < view.calls,
        elapsed_s=view.elapsed_s,
        max_elapsed_s=view.max_elapsed_s,
    )


def _cut(text: str, limit: int = SENTENCE_CHARS) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"


def _streamed(view: RunView, *, text: str = "", reasoning: str = "") -> RunView:
    prose = view.prose or ProseBlock(key=f"prose-{len(view.closed)}")
    return replace(
        view,
        activity="Writing" if text else "Thinking",
        prose=replace(
            prose,
            text=prose.text.grown(text, PROSE_CHARS),
            reasoning=prose.reasoning.grown(reasoning, REASONING_CHARS),
        ),
    )


def _settled(view: RunView) -> RunView:
    """With the open prose closed; prose of white space alone leaves nothing."""
    prose = view.prose
    if prose is None:
        return view
    closed = (*view.closed, prose) if prose.text or prose.reasoning else view.closed
    return replace(view, prose=None, closed=closed)


def _with(view: RunView, index: int, block: Block) -> RunView:
    return replace(view, closed=(*view.closed[:index], block, *view.closed[index + 1 :]))


def _started(view: RunView, event: ev.RunStarted) -> RunView:
    begun = RunView(
        status="running",
        activity="Reading the request",
        run_id=event.run_id,
        model=event.model,
        max_rounds=event.max_iterations,
        max_elapsed_s=event.max_execution_time_s,
        closed=(
            RequestBlock(
                key="request-0",
                words=_cut(event.request, PROSE_CHARS),
                model=event.model,
                shared=event.shared,
            ),
        ),
    )
    if event.reply is None:
        return begun
    reply = _cut(event.reply)
    earlier = begun if view.status == "idle" else _settled(view)
    for index in range(len(earlier.closed) - 1, -1, -1):
        asked = earlier.closed[index]
        if isinstance(asked, QuestionBlock):
            if asked.reply is None:
                earlier = _with(earlier, index, replace(asked, reply=reply))
            break
    start = len(earlier.closed)
    return replace(
        earlier,
        status="running",
        activity="Going on with your answer",
        model=event.model,
        max_rounds=event.max_iterations or earlier.max_rounds,
        max_elapsed_s=event.max_execution_time_s or earlier.max_elapsed_s,
        segment_starts=(*earlier.segment_starts, start),
        closed=(*earlier.closed, ReplyBlock(key=f"reply-{start}", reply=reply, gone=event.gone)),
    )


def _answered(view: RunView, event: ev.LLMCallCompleted) -> RunView:
    return replace(
        _settled(view),
        activity="Working",
        calls=view.calls + 1,
        unpriced_calls=view.unpriced_calls + (event.cost_usd is None),
        cost_usd=view.cost_usd + (event.cost_usd or 0.0),
        prompt_tokens=view.prompt_tokens + event.prompt_tokens,
        completion_tokens=view.completion_tokens + event.completion_tokens,
    )


def _new_step(view: RunView, event: ev.ToolEvent) -> RunView:
    view = _settled(view)
    number = view.steps + 1
    given = event.arguments
    code = given.get("code")
    step = StepBlock(
        key=f"step-{len(view.closed)}",
        number=number,
        tool=event.tool_name,
        call_id=event.tool_call_id,
        tool_type=event.tool_type,
        purpose=_cut(str(given.get("purpose") or ""), ARGUMENT_CHARS),
        code=Passage.of(code, CODE_CHARS) if isinstance(code, str) else Passage(),
        arguments=tuple(
            (_cut(str(name), 80), _cut(_as_text(value), ARGUMENT_CHARS))
            for name, value in given.items()
            if name not in _CODE_ARGUMENTS
        )[:12],
    )
    about = f": {step.purpose}" if step.purpose else ""
    return replace(
        view,
        steps=number,
        activity=f"Step {number} is running{about}",
        closed=(*view.closed, step),
    )


def _as_text(value: Any) -> str:
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value, ensure_ascii=False, default=str)
    except (TypeError, ValueError, RecursionError):
        return type(value).__name__


def _step_begun(view: RunView, event: ev.ToolEvent) -> RunView:
    # What a terminating tool says is told by the block of its outcome.
    if event.tool_type == "termination":
        return replace(_settled(view), activity="Finishing")
    return _new_step(view, event)


def _running_step(view: RunView, call_id: str | None = None) -> int | None:
    for index in range(len(view.closed) - 1, -1, -1):
        block = view.closed[index]
        if (
            isinstance(block, StepBlock)
            and block.state == "running"
            and call_id in (None, block.call_id)
        ):
            return index
    return None


def _step_ended(view: RunView, event: ev.ToolEvent) -> RunView:
    envelope = event.result or {}
    output = _output_of(envelope)
    failed = (
        event.ok is False
        or "error" in envelope
        or (output is not None and output.error is not None)
    )
    if event.tool_type == "termination" and not failed:
        return view
    stopped = bool(envelope.get("stopped"))
    index = _running_step(view, event.tool_call_id)
    if index is None:
        view = _new_step(view, event)
        index = len(view.closed) - 1
    step = view.closed[index]
    assert isinstance(step, StepBlock)
    step = replace(
        step,
        state="stopped" if stopped else "failed" if failed else "done",
        error=_error_of(envelope, output) if failed and not stopped else None,
    )
    view = replace(view, activity="Thinking")
    if output is None:
        return _with(view, index, step)
    step = replace(
        step,
        stdout=Passage.of(steady(output.stdout), STREAM_CHARS, tail=STREAM_CHARS // 2),
        stderr=Passage.of(steady(output.stderr), STREAM_CHARS, tail=STREAM_CHARS // 2),
        deleted=output.deleted,
        more_outputs=max(0, len(output.outputs) - OUTPUTS),
    )
    shown: list[DataFrameObject | PrimitiveObject | FigureMention] = []
    for each in output.outputs[:OUTPUTS]:
        if isinstance(each, FigureObject):
            view, mention = _drawn(view, each)
            shown.append(mention)
        elif not isinstance(each, ExceptionObject):
            shown.append(_bounded(each))
    return _with(view, index, replace(step, outputs=tuple(shown)))


def _bounded(output: DataFrameObject | PrimitiveObject) -> DataFrameObject | PrimitiveObject:
    if isinstance(output, DataFrameObject):
        return output
    text = steady(output.text)
    return output.model_copy(
        update={
            "text": text[:VALUE_CHARS],
            "truncated": output.truncated or len(text) > VALUE_CHARS,
        }
    )


def _output_of(envelope: dict[str, Any]) -> KernelOutput | None:
    data = envelope.get("output")
    if not isinstance(data, dict):
        return None
    try:
        return KernelOutput.model_validate(data)
    except ValidationError:
        # A record of another version: what can still be read is the streams.
        known = {
            name: data[name] for name in ("stdout", "stderr") if isinstance(data.get(name), str)
        }
        return KernelOutput(**known) if known else None


def _error_of(envelope: dict[str, Any], output: KernelOutput | None) -> StepError:
    raised: KernelOutputType | None = output.error if output is not None else None
    if isinstance(raised, ExceptionObject):
        message = raised.message.strip()
        sentence = f"{raised.name}: {message}" if message else raised.name
        return StepError(_cut(steady(sentence)), raised.line, _cut(raised.source_line, 400))
    for name in ("message", "reason", "error_message", "error"):
        told = envelope.get(name)
        if isinstance(told, str) and told.strip():
            return StepError(_cut(steady(told)))
    return StepError("It did not work, and the tool did not say why.")


def _published(view: RunView, event: ev.ArtifactPublished) -> RunView:
    artifact = Artifact(
        kind=event.kind,
        title=_cut(event.title, ARGUMENT_CHARS),
        path=_cut(event.path, ARGUMENT_CHARS),
        variable=event.variable,
        reused=event.reused,
    )
    view = _settled(view)
    kept = tuple(each for each in view.artifacts if each.path != artifact.path)
    view = replace(view, artifacts=(*kept, artifact))
    index = _running_step(view)
    if index is None and view.closed and isinstance(view.closed[-1], StepBlock):
        index = len(view.closed) - 1
    mentions: tuple[FigureMention, ...] = ()
    if event.figure:
        view, mention = _drawn(view, _figure_of(event.figure, artifact.title), artifact)
        mentions = (mention,)
    if index is not None:
        step = view.closed[index]
        assert isinstance(step, StepBlock)
        view = _with(
            view,
            index,
            replace(
                step,
                published=(*step.published, artifact),
                outputs=(*step.outputs, *mentions),
            ),
        )
    return view


def _figure_of(data: dict[str, Any], title: str) -> FigureObject:
    """``data`` as a figure: one as JSON, or a bare specification."""
    try:
        figure = FigureObject.model_validate(data)
    except ValidationError:
        return FigureObject(title=title, spec=data)
    return figure if figure.title else figure.model_copy(update={"title": title})


def _drawn(
    view: RunView, figure: FigureObject, artifact: Artifact | None = None
) -> tuple[RunView, FigureMention]:
    """With ``figure`` among the blocks, once: drawing it again only adds what it lacked."""
    canonical = _canonical(figure.spec)
    told = canonical or figure.png_base64 or figure.svg or f"{figure.title}\n{figure.description}"
    identity = hashlib.sha256(told.encode("utf-8", "surrogatepass")).hexdigest()
    drawn = FigureBlock(
        key=f"figure-{len(view.closed)}",
        number=view.figures + 1,
        title=_cut(figure.title, ARGUMENT_CHARS),
        description=_cut(figure.description),
        png_base64=figure.png_base64 if _fits(figure.png_base64) else None,
        svg=figure.svg if _fits(figure.svg) else None,
        published=artifact,
        identity=identity,
    )
    for index, block in enumerate(view.closed):
        if isinstance(block, FigureBlock) and block.identity == identity:
            merged = replace(
                block,
                title=block.title or drawn.title,
                description=block.description or drawn.description,
                png_base64=block.png_base64 or drawn.png_base64,
                svg=block.svg or drawn.svg,
                published=artifact or block.published,
            )
            return _with(view, index, merged), FigureMention(merged.number, merged.title)
    if canonical and len(canonical) <= SPEC_CHARS and self_contained(figure.spec):
        spec = json.loads(canonical, parse_constant=lambda _: None)
        drawn = replace(drawn, spec=spec)
    view = replace(view, figures=drawn.number, closed=(*view.closed, drawn))
    return view, FigureMention(drawn.number, drawn.title)


def _fits(picture: str | None) -> bool:
    return bool(picture) and len(picture or "") <= PICTURE_CHARS


def _canonical(spec: dict[str, Any] | None) -> str:
    """The bytes by which two drawings are the same; empty when there are none.

    The schema's address and the embedding options say nothing about the drawing, and the latter
    could make a viewer load something.
    """
    if not spec:
        return ""
    drawn = {key: value for key, value in spec.items() if key not in ("$schema", "usermeta")}
    try:
        return json.dumps(drawn, sort_keys=True, default=str)
    except (TypeError, ValueError, RecursionError):
        return ""


# Members of a specification whose keys are names of the data, not of the grammar.
_DATA = frozenset({"values", "datasets"})
_REACHING_OUT = frozenset({"url", "href"})


def self_contained(spec: dict[str, Any] | None) -> bool:
    """Whether ``spec`` draws without loading anything and holds no link to click."""
    pending: list[Any] = [spec]
    while pending:
        each = pending.pop()
        if isinstance(each, dict):
            if not _REACHING_OUT.isdisjoint(each):
                return False
            pending.extend(value for key, value in each.items() if key not in _DATA)
        elif isinstance(each, list | tuple):
            pending.extend(each)
    return True


def _recovering(view: RunView, event: ev.AgentError) -> RunView:
    view = _settled(view)
    failure = event.failure
    block = RecoveryBlock(
        key=f"recovery-{len(view.closed)}",
        message=_cut(steady(failure.explanation if failure else event.message)),
        kind=failure.kind.value if failure else "",
        action=str(event.action or (failure and failure.suggested_action) or ""),
        attempt=event.attempt,
        budget=event.budget,
        recoverable=event.recoverable,
        blockers=tuple(_cut(each) for each in failure.blockers) if failure else (),
    )
    if event.delay_s >= 1:
        view = replace(view, activity=f"Waiting {event.delay_s:.0f} s before the next try")
    else:
        view = replace(view, activity="Recovering")
    last = view.closed[-1] if view.closed else None
    if (
        isinstance(last, RecoveryBlock)
        and replace(last, key=block.key, attempt=block.attempt, message=block.message) == block
    ):
        # The same trouble once more: one block that counts, not a column of them.
        return _with(view, len(view.closed) - 1, replace(block, key=last.key))
    return replace(view, closed=(*view.closed, block))


def _completed(view: RunView, event: ev.RunCompleted) -> RunView:
    view = _settled(view)
    last = view.closed[-1] if view.closed else None
    if isinstance(last, ProseBlock) and last.text.head.strip() == event.summary.strip():
        # The closing words are the summary: say them once.
        kept = (replace(last, text=Passage()),) if last.reasoning else ()
        view = replace(view, closed=(*view.closed[:-1], *kept))
    return _ended(
        view,
        "done",
        lambda key: ResultBlock(
            key=key,
            summary=_cut(event.summary, PROSE_CHARS),
            artifacts=view.artifacts,
            variables=event.variables,
        ),
    )


def _ended(view: RunView, status: str, block_at: Callable[[str], Block]) -> RunView:
    view = _settled(view)
    closed = tuple(
        replace(block, state="stopped")
        if isinstance(block, StepBlock) and block.state == "running"
        else block
        for block in view.closed
    )
    key = f"{status}-{len(closed)}"
    return replace(view, status=status, activity="", closed=(*closed, block_at(key)))
