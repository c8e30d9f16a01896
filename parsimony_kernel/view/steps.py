"""Steps and charts among the blocks: a tool begins, and ends with what came of it."""

import hashlib
import json
from dataclasses import replace
from typing import Any

from pydantic import ValidationError

from parsimony_kernel.core import events as ev
from parsimony_kernel.core.kinds import Failure
from parsimony_kernel.core.outputs import (
    DataFrameObject,
    ExceptionObject,
    FigureObject,
    KernelOutput,
    KernelOutputType,
    PrimitiveObject,
)
from parsimony_kernel.core.refusals import GUIDANCE
from parsimony_kernel.core.taxonomy import FailureType
from parsimony_kernel.view import blocks as bl
from parsimony_kernel.view.escape import steady
from parsimony_kernel.view.run_view import (
    ARGUMENT_CHARS,
    READ_CHARS,
    RunView,
    cut,
    cut_each,
    cut_steady,
    settled,
    using,
    with_block,
)

CODE_CHARS = 20_000
STREAM_CHARS = 4_000
VALUE_CHARS = 4_000
OUTPUTS = 20

# What is shown in a place of its own, not in the list of arguments.
_CODE_ARGUMENTS = frozenset({"code", "purpose"})


_WRITTEN = "The model wrote this call into its words."


def _new_step(view: RunView, event: ev.ToolEvent, number: int = 0) -> RunView:
    """With one step more: ``number`` where it is one that had to wait, which keeps its own."""
    view = _without_call(view, event)
    number = number or view.used.steps + 1
    given = event.arguments
    code = given.get("code")
    step = bl.StepBlock(
        key=f"step-{len(view.closed)}",
        number=number,
        tool=cut(event.tool_name, ARGUMENT_CHARS),
        call_id=event.tool_call_id,
        tool_type=event.tool_type,
        purpose=cut(str(given.get("purpose") or ""), ARGUMENT_CHARS),
        code=bl.Passage.of(code, CODE_CHARS) if isinstance(code, str) else bl.Passage(),
        arguments=tuple(
            (cut(str(name), 80), cut(_as_text(value), ARGUMENT_CHARS))
            for name, value in given.items()
            if name not in _CODE_ARGUMENTS
        )[:12],
        note="" if event.around is None else _WRITTEN,
    )
    about = f": {step.purpose}" if step.purpose else ""
    view = using(view, steps=max(view.used.steps, number))
    return replace(view, activity=f"Step {number} is running{about}", closed=(*view.closed, step))


def _without_call(view: RunView, event: ev.ToolEvent) -> RunView:
    view = settled(view)
    last = view.closed[-1] if view.closed else None
    if event.around is None or not isinstance(last, bl.ProseBlock):
        return view
    said = replace(last, text=bl.Passage.of(event.around, READ_CHARS))
    kept = (said,) if said.text or said.reasoning else ()
    return replace(view, closed=(*view.closed[:-1], *kept))


def _as_text(value: Any) -> str:
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value, ensure_ascii=False, default=str)
    except (TypeError, ValueError, RecursionError):
        return type(value).__name__


def step_begun(view: RunView, event: ev.ToolEvent) -> RunView:
    # What a terminating tool says is told by the block of its outcome.
    if event.tool_type == "termination":
        return replace(_without_call(view, event), activity="Finishing")
    waited = (
        block.number
        for block in reversed(view.closed)
        if isinstance(block, bl.StepBlock)
        and (block.state, block.call_id) == ("answered", event.tool_call_id)
    )
    number = next(waited, 0)
    return _new_step(with_state(view, "answered", "allowed", event.tool_call_id), event, number)


def with_state(view: RunView, old: bl.StepState, new: bl.StepState, call_id: str = "") -> RunView:
    """With the steps that stood as ``old``, of ``call_id`` if given, standing as ``new``."""
    for index, block in enumerate(view.closed):
        if (
            isinstance(block, bl.StepBlock)
            and block.state == old
            and call_id in ("", block.call_id)
        ):
            view = with_block(view, index, replace(block, state=new))
    return view


def running_step(view: RunView, call_id: str | None = None) -> int | None:
    for index in range(len(view.closed) - 1, -1, -1):
        block = view.closed[index]
        if (
            isinstance(block, bl.StepBlock)
            and block.state == "running"
            and call_id in (None, block.call_id)
        ):
            return index
    return None


def step_ended(view: RunView, event: ev.ToolEvent) -> RunView:
    envelope = event.result or {}
    output = _output_of(envelope)
    failed = (
        event.ok is False
        or "error" in envelope
        or (output is not None and output.error is not None)
    )
    not_found = cut_each(envelope.get("not_found") or ())
    if event.tool_name == "return_done":
        said = cut(str(event.arguments.get("summary", "")), CODE_CHARS)
        view = replace(view, not_found=not_found, withheld=said if failed and not_found else "")
    if event.tool_type == "termination" and not failed:
        return view
    stopped = bool(envelope.get("stopped"))
    index = running_step(view, event.tool_call_id)
    if index is None:
        view = _new_step(view, event)
        index = len(view.closed) - 1
    step = view.closed[index]
    assert isinstance(step, bl.StepBlock)
    said = cut_steady(str(envelope.get("variables" if failed else "note", ""))) or (
        "" if failed else "Not found in a result: " * bool(not_found) + ", ".join(not_found)
    )
    step = replace(
        step,
        state=_state(envelope, failed=failed, stopped=stopped),
        error=_error_of(event, envelope, output) if failed and not stopped else None,
        note=f"{step.note} {said}".strip(),
    )
    view = using(view, elapsed_s=view.used.elapsed_s + (event.duration_s or 0.0))
    view = replace(view, activity="Thinking")
    if output is None:
        outputs = (*step.outputs, *_answer_of(event, envelope))
        return with_block(view, index, replace(step, outputs=outputs))
    step = replace(
        step,
        stdout=_printed(output.stdout),
        stderr=_printed(output.stderr),
        deleted=cut_each(output.deleted),
        overwritten=cut_each(output.overwritten),
        more_outputs=max(0, len(output.shown) - OUTPUTS),
    )
    shown: list[DataFrameObject | PrimitiveObject | bl.FigureMention] = []
    for each in output.shown[:OUTPUTS]:
        if isinstance(each, FigureObject):
            view, mention = drawn(view, each)
            shown.append(mention)
        elif not isinstance(each, ExceptionObject):
            shown.append(_bounded(each))
    return with_block(view, index, replace(step, outputs=tuple(shown)))


def _printed(text: str) -> bl.Passage:
    """Both ends of ``text``; what is far from them is only counted."""
    unread = len(text) - 2 * READ_CHARS
    if unread > 0:
        text = text[:READ_CHARS] + text[-READ_CHARS:]
    ends = bl.Passage.of(steady(text), STREAM_CHARS, tail=STREAM_CHARS // 2)
    return replace(ends, omitted=ends.omitted + max(0, unread))


def _answer_of(event: ev.ToolEvent, envelope: dict[str, Any]) -> tuple[PrimitiveObject, ...]:
    """What a tool that runs no code has answered."""
    result = envelope.get("result")
    if event.tool_type != "function" or result in (None, {}, []):
        return ()
    text = (
        result if isinstance(result, str) else json.dumps(result, ensure_ascii=False, default=str)
    )
    return (_bounded_value(PrimitiveObject(python_type=type(result).__name__, text=text)),)


def _state(envelope: dict[str, Any], *, failed: bool, stopped: bool) -> bl.StepState:
    if stopped:
        return "stopped"
    if "waiting" in envelope:
        return "waiting"
    if not failed:
        return "done"
    # Refused: nothing ran.
    return "refused" if envelope.get("error") in GUIDANCE else "failed"


def _bounded(output: DataFrameObject | PrimitiveObject) -> DataFrameObject | PrimitiveObject:
    if isinstance(output, PrimitiveObject):
        return _bounded_value(output)
    return DataFrameObject.model_validate(_cut_within(output.model_dump()))


def _cut_within(value: Any) -> Any:
    """``value`` with every text in it within the limit of an argument."""
    if isinstance(value, str):
        return cut(value, ARGUMENT_CHARS)
    if isinstance(value, dict):
        return {key: _cut_within(each) for key, each in value.items()}
    return tuple(map(_cut_within, value)) if isinstance(value, list | tuple) else value


def _bounded_value(output: PrimitiveObject) -> PrimitiveObject:
    text = steady(output.text[:READ_CHARS])
    return output.model_copy(
        update={
            "text": text[:VALUE_CHARS],
            "truncated": output.truncated
            or len(output.text) > READ_CHARS
            or len(text) > VALUE_CHARS,
        }
    )


def _output_of(envelope: dict[str, Any]) -> KernelOutput | None:
    data = envelope.get("output")
    if not isinstance(data, dict):
        return None
    try:
        return KernelOutput.model_validate(data)
    except ValidationError:  # what nothing of ours has written
        return None


def type_of(failure: Failure | None) -> str:
    """The type of ``failure``; empty where it is unknown."""
    is_known = failure is not None and failure.type is not FailureType.UNKNOWN
    return failure.type.value if failure and is_known else ""


def _error_of(
    event: ev.ToolEvent, envelope: dict[str, Any], output: KernelOutput | None
) -> bl.StepError:
    reason = str(envelope.get("error", ""))
    reason = reason if reason in GUIDANCE else type_of(event.failure)
    raised: KernelOutputType | None = output.error if output is not None else None
    if isinstance(raised, ExceptionObject):
        sentence = f"{raised.name}: {raised.message.strip()}".removesuffix(": ")
        return bl.StepError(cut_steady(sentence), raised.line, cut(raised.source_line, 400), reason)
    for name in ("message", "reason", "error_message", "error"):
        told = envelope.get(name)
        if isinstance(told, str) and told.strip():
            return bl.StepError(cut_steady(told), reason=reason)
    return bl.StepError("It did not work, and the tool did not say why.", reason=reason)


# -- charts: each shown once, and only what draws without loading anything

SPEC_CHARS = 1 << 20
PICTURE_CHARS = 2 << 20


def figure_of(data: dict[str, Any], title: str) -> FigureObject:
    """``data`` as a figure: one as JSON, or a bare specification."""
    try:
        figure = FigureObject.model_validate(data)
    except ValidationError:
        return FigureObject(title=title, spec=data)
    return figure if figure.title else figure.model_copy(update={"title": title})


def drawn(view: RunView, figure: FigureObject) -> tuple[RunView, bl.FigureMention]:
    """With ``figure`` among the blocks, once: drawing it again only adds what it lacked."""
    canonical = _canonical(figure.spec)
    told = canonical or figure.png_base64 or figure.svg or f"{figure.title}\n{figure.description}"
    identity = hashlib.sha256(told.encode("utf-8", "surrogatepass")).hexdigest()
    drawn = bl.FigureBlock(
        key=f"figure-{len(view.closed)}",
        number=view.figures + 1,
        title=cut(figure.title, ARGUMENT_CHARS),
        description=cut(figure.description),
        png_base64=figure.png_base64 if _fits(figure.png_base64) else None,
        svg=figure.svg if _fits(figure.svg) else None,
        identity=identity,
    )
    for index, block in enumerate(view.closed):
        if isinstance(block, bl.FigureBlock) and block.identity == identity:
            merged = replace(
                block,
                title=block.title or drawn.title,
                description=block.description or drawn.description,
                png_base64=block.png_base64 or drawn.png_base64,
                svg=block.svg or drawn.svg,
            )
            return with_block(view, index, merged), bl.FigureMention(
                merged.number, merged.title, merged.description
            )
    if canonical and len(canonical) <= SPEC_CHARS and self_contained(figure.spec):
        drawn = replace(drawn, spec=_plain_json(canonical))
    view = replace(view, figures=drawn.number, closed=(*view.closed, drawn))
    return view, bl.FigureMention(drawn.number, drawn.title, drawn.description)


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


def _plain_json(canonical: str) -> Any:
    """``canonical`` read, without what no message can carry: lone surrogates and NaN."""
    spec = json.loads(canonical, parse_constant=lambda _: None)
    written = json.dumps(spec, ensure_ascii=False)
    return json.loads(written.encode("utf-8", "replace"))


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
