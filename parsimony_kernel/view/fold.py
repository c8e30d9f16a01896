"""Fold events into a view of the run.

``fold`` is pure and total: the same events give the same view, whatever a tool or a model put in
them, and no event raises. A delta touches only the open prose, which is capped, so a long stream
costs the same per chunk from start to end.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import reduce
from itertools import accumulate, pairwise, zip_longest
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from parsimony_kernel.core import events as ev
from parsimony_kernel.core import outputs as out
from parsimony_kernel.core.choices import ids_of
from parsimony_kernel.core.kinds import GUIDANCE
from parsimony_kernel.core.redaction import REDACTED
from parsimony_kernel.core.result_text import as_text
from parsimony_kernel.core.text import encodable
from parsimony_kernel.view import blocks as bl
from parsimony_kernel.view import escape as esc
from parsimony_kernel.view import parts as pt
from parsimony_kernel.view.blocks import EMPTY, RunView
from parsimony_kernel.view.escape import ARGUMENT_CHARS, SENTENCE_CHARS, cut, cut_each, cut_steady
from parsimony_kernel.view.outline import published, recovery_state

PROSE_CHARS = 20_000
STREAM_CHARS = 4_000

Value = TypeVar("Value", bound=BaseModel)

# The note in an answer that says how a word of the request was read.
_NOTE = re.compile(
    r" ?\bRead (?P<word>'[^'\n]{1,200}'|\"[^\"\n]{1,200}\") as (?P<choice>[^\n]{1,400}?)\.(?=\s|$)"
)

# What the model is told of a declined step.
_DENIED = re.compile(r"This was not allowed\. (?:Nothing was run\.)?")

# The location at the end of an error.
_AT_LINE = re.compile(r" at line \d+: [^\n]*$")


def replay(events: Iterable[ev.AgentEvent]) -> RunView:
    """Return the view after all of ``events``."""
    return reduce(fold, events, EMPTY)


def code_that_worked(events: Iterable[ev.AgentEvent]) -> tuple[bl.StepBlock, ...]:
    """Return the successful code steps in order, each with its code exactly as it ran."""
    steps = (each for each in replay(events).closed if isinstance(each, bl.StepBlock))
    return tuple(each for each in steps if each.tool_type == "code" and each.state == "done")


def fold(view: RunView, event: ev.AgentEvent) -> RunView:
    """Return ``view`` after ``event``; events that tell a person nothing change nothing."""
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
            _begin(view, event)
        case ev.ToolEvent():
            _end_step(view, event)
        case ev.ArtifactPublished():
            _publish(view, event)
        case ev.StateSnapshot():
            view.use(elapsed_s=event.elapsed_s or view.used.elapsed_s)
            view.variables = _in_order(view, event.variables)
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
                # The last prose is the summary itself: show it once.
                view.closed = view.closed[:-1]
            view.variables = _in_order(view, event.variables)
            _close(view, "done", "result", _without_choices(view, cut(event.summary, PROSE_CHARS)))
        case ev.UserInputRequested():
            choices = cut_each(event.choices, SENTENCE_CHARS)
            ids = tuple(event.suspension_record.choice_ids or ids_of(event.choices))
            asked = bl.QuestionBlock(cut(event.question), cut(event.context or ""), choices, ids)
            _end(view, "suspended", asked)
        case ev.Handoff():
            rationale = event.rationale.strip()
            blockers = [each for each in event.blockers if each.strip() != rationale]
            kind, words = _why_not(view, esc.MISSING_FILE.sub("There is no file ", event.rationale))
            _close(view, "handed_off", kind, words, Why=blockers, Try=event.suggested_next_steps)
        case ev.PartialRunSummary():
            known = {"Known so far": event.learned_facts}
            _close(view, "stopped", "partial", event.missing, **known)
        case ev.RunCancelled():
            why = event.reason.strip().removeprefix("stopped ") or event.message.strip()
            _close(view, "cancelled", "cancelled", why)
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
        view.add(bl.ReplyBlock(reply, cut_each(event.gone), view.variables))
        view.activity = "Going on with your answer"
    view.status = "running"
    view.use(model=cut(event.model, ARGUMENT_CHARS))
    return view


def _answered(view: RunView, event: ev.LLMCallCompleted) -> None:
    # A step that the person's answer did not restart was not allowed.
    view.mark("answered", "declined")
    view.settle()
    view.activity = "Working"
    view.count(calls=1, elapsed_s=event.duration_s, priced_usd=event.cost_usd or 0.0)
    view.count(unpriced_calls=int(event.cost_usd is None))
    view.count(prompt_tokens=event.prompt_tokens, completion_tokens=event.completion_tokens)


def _recover(view: RunView, event: ev.AgentError) -> None:
    failure = event.failure
    action = event.action or (failure and failure.suggested_action) or ""
    view.settle()
    last = view.last(bl.Block)
    explanation = cut_steady(failure.explanation if failure else event.message)
    # A step that failed says why itself. What was felt, or went to another model, has its own line.
    is_of_step = failure is not None and failure.kind.value == "tool_error" and not event.fallback
    error = last.error if isinstance(last, bl.StepBlock) else ""
    is_said = is_of_step and error.startswith(_AT_LINE.sub("", explanation)) and explanation != ""
    block = bl.RecoveryBlock(
        "" if is_said else explanation,
        failure.kind.value if failure else "",
        cut(recovery_state(event, action), ARGUMENT_CHARS),
        event.attempt if action == "retry" else 0,
        cut(event.fallback or ""),
        cut_steady(event.put_back),
    )
    pause = f"Waiting {event.delay_s:.0f} s before the next try"
    view.activity = pause if event.delay_s >= 1 else "Recovering"
    again = {name: getattr(block, name) for name in ("message", "state", "retries")}
    # Only a retry repeats a retry.
    is_like = isinstance(last, bl.RecoveryBlock) and bool(last.retries) == bool(block.retries)
    if isinstance(last, bl.RecoveryBlock) and is_like and replace(last, **again, key="") == block:
        # The same failure again: update the count of one block instead of adding another.
        view.put(last, **again)
    else:
        view.add(block)


def _why_not(view: RunView, rationale: str) -> tuple[bl.EndKind, str]:
    """Return the kind of a handoff and its words; after a declined step, with what stands."""
    attempts = [e for e in view.closed if isinstance(e, bl.StepBlock | bl.RecoveryBlock)]
    step = view.last(bl.StepBlock, state="declined")
    if step is None or step is not attempts[-1]:
        return "handoff", rationale
    what = step.purpose or f"step {step.number}"
    why = _DENIED.sub("", rationale.removeprefix(f"{what}: "))
    told = why if what in why else f"Not run: {what.rstrip('.')}. {why}".strip()
    stands = "" if view.variables else "No variables were made before that. "
    return "declined", f"{told}\n\n{stands}Run the cell again to be asked again."


def _close(view: RunView, status: str, kind: bl.EndKind, text: str, **lists: Sequence[str]) -> None:
    """End a run that needs no answer, with labelled ``lists`` below its words."""
    cut_lists = tuple((label, cut_each(each, SENTENCE_CHARS)) for label, each in lists.items())
    not_found = view.not_found if kind == "result" else ()
    made = tuple(view.published.values())
    words = _without_publications(made, cut(text, PROSE_CHARS))
    _end(view, status, bl.EndBlock(kind, words, cut_lists, not_found, made, view.variables))


def _without_choices(view: RunView, text: str) -> str:
    """Return ``text`` without notes on choices, which the lines of answered questions show."""
    asked = [each for each in view.closed if isinstance(each, bl.QuestionBlock)]
    chosen = [
        (each.question, each.choices[each.chosen]) for each in asked if each.chosen is not None
    ]

    def kept(note: re.Match[str]) -> str:
        is_line = any(note["word"] in about and note["choice"] == to for about, to in chosen)
        return "" if is_line else note[0]

    return _NOTE.sub(kept, text).strip() or text


def _without_publications(published: Sequence[pt.Sentence], text: str) -> str:
    """Return ``text`` without the sentences that name a publication, which has a line below."""
    for publication in published:
        title = next(span.text for span in publication if isinstance(span, pt.Strong))
        named = re.escape(f"Published the {publication[0]}{title!r}")
        text = re.sub(rf" ?{named}(?:: \S+\.html)?(?: \(unchanged\))?\.", "", text)
    return text.strip()


def _end(view: RunView, status: str, end: bl.EndBlock | bl.QuestionBlock) -> None:
    view.mark("answered", "declined")
    view.mark("running", "stopped")
    if status != "suspended":  # a suspended run's steps still wait
        view.mark("waiting", "stopped")
        if view.withheld:
            view.add(bl.EndBlock("result", view.withheld, not_found=view.not_found))
            view.withheld = ""
    view.add(end)
    view.status, view.activity = status, ""


# -- steps: the start and the end of a tool call


def _begin(view: RunView, event: ev.ToolEvent) -> None:
    """Start a tool call; a terminating tool gets no step, since its outcome has a block."""
    if event.tool_type == "termination":
        _settle_without_call(view, event)
        view.activity = "Finishing"
        return
    waited = view.last(bl.StepBlock, state="answered", call_id=event.tool_call_id)
    view.mark("answered", "allowed", call_id=event.tool_call_id)
    # A step that had to wait keeps its number.
    _add_step(view, event, waited.number if waited is not None else 0)


def _add_step(view: RunView, event: ev.ToolEvent, number: int = 0) -> bl.StepBlock:
    """Add a step with the next number, unless one is given."""
    _settle_without_call(view, event)
    number = number or view.used.steps + 1
    given = event.arguments
    purpose = cut(str(given.get("purpose") or ""), ARGUMENT_CHARS)
    code = given["code"] if isinstance(given.get("code"), str) else ""
    # Code and purpose are displayed elsewhere.
    others = [each for each in given.items() if each[0] not in ("code", "purpose")][:12]
    arguments = [(cut(str(name), 80), cut(_as_text(each), ARGUMENT_CHARS)) for name, each in others]
    tool = cut(event.tool_name, ARGUMENT_CHARS)
    view.use(steps=max(view.used.steps, number))
    view.activity = f"Step {number} is running" + (f": {purpose}" if purpose else "")
    step = bl.StepBlock(number, tool, event.tool_call_id, event.tool_type, purpose, code)
    note = "The model wrote this call into its words." if event.around is not None else ""
    return view.add(replace(step, arguments=tuple(arguments), note=note))


def _settle_without_call(view: RunView, event: ev.ToolEvent) -> None:
    """Close the open prose, without a tool call that the model wrote into it."""
    view.settle()
    if event.around is not None and isinstance(view.last(bl.Block), bl.ProseBlock):
        view.closed = view.closed[:-1]
        view.prose = cut(event.around, esc.READ_CHARS)
        view.settle()


def _as_text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return _json(value, ensure_ascii=False) or type(value).__name__


def _json(value: Any, **form: Any) -> str:
    """Return ``value`` as JSON; empty if it has none."""
    try:
        return json.dumps(value, default=str, **form)
    except (TypeError, ValueError, RecursionError):
        return ""


def _end_step(view: RunView, event: ev.ToolEvent) -> None:
    """End a tool call."""
    envelope = event.result or {}
    output = _valid(out.KernelOutput, envelope.get("output"))
    raised = output.error if output is not None else None
    failed = event.ok is False or "error" in envelope or raised is not None
    not_found = cut_each(envelope.get("not_found") or ())
    if event.tool_name == "return_done":
        summary = cut(str(event.arguments.get("summary", "")), PROSE_CHARS)
        view.not_found, view.withheld = not_found, summary if failed and not_found else ""
    if event.tool_type == "termination" and not failed:
        return
    running = view.last(bl.StepBlock, state="running", call_id=event.tool_call_id)
    step = running or _add_step(view, event)
    state = _state(envelope, failed=failed)
    note = cut_steady(str(envelope.get("variables" if failed else "note", "")))
    if not_found and not failed:
        note = note or f"Not found in a result: {', '.join(not_found)}"
    view.count(elapsed_s=event.duration_s or 0.0)
    error = _error_of(envelope, raised) if failed and state != "stopped" else ""
    step = view.put(step, state=state, error=error, note=f"{step.note} {note}".strip())
    view.activity = "Thinking"
    answer = envelope.get("result")
    if output is not None:
        theirs = () if step.note else cut_each(output.overwritten)
        view.known = {**view.known, **{str(each.name): _look(each) for each in output.variables}}
        shown = tuple(_shown(view, output))
        view.put(step, shown=shown, made=_in_order(view, output.changed), theirs=theirs)
    elif event.tool_type == "function" and answer not in (None, {}, []):
        told = _as_text(answer)
        if event.tool_name == "inspect_variable":
            with suppress(AttributeError, LookupError, TypeError, ValueError, RecursionError):
                told = as_text({"result": answer}, (), set())  # unless another's tool is called so
        view.put(step, shown=(*step.shown, *stream_parts("Output", told)))


# Types of small values, which are often left over from a loop.
_SMALL = ("str", "int", "float", "bool", "NoneType", "list", "dict", "tuple", "set")


def _in_order(view: RunView, names: Sequence[str]) -> tuple[str, ...]:
    """Return ``names`` with tables, charts and models first."""
    return cut_each(sorted(names, key=lambda name: view.known.get(name, ("",))[0] in _SMALL))


def _look(output: out.KernelOutputType) -> tuple[Any, ...]:
    """Return what an output has in common with the summary of the variable that it shows."""
    facts = (getattr(output, name, "") for name in ("rows", "title", "description"))
    columns = (each.name for each in getattr(output, "columns", ()))
    return (getattr(output, "python_type", output.type), *facts, *columns)


def _names_of(view: RunView, shown: out.KernelOutputType) -> frozenset[str]:
    """Return the variables of the run that ``shown`` may be."""
    look = _look(shown)
    return frozenset(name for name, known in view.known.items() if known == look and any(look[1:]))


def _shown(view: RunView, output: out.KernelOutput) -> Iterator[pt.Part]:
    """Yield the printed and displayed parts in order, and the names that the code deleted."""
    before, *behind = _printed(output)
    yield from (*before, *stream_parts("Messages on stderr", output.stderr))
    for each, printed in zip_longest(output.shown, behind, fillvalue=()):
        match each:
            case out.FigureObject():
                yield _mention(_draw(view, each))
            case out.PrimitiveObject():
                yield from stream_parts("Output", each.text)
            case out.DataFrameObject():
                yield replace(pt.table_of(each), names=_names_of(view, each))
        yield from printed
    yield from pt.names_note("Deleted: ", cut_each(output.deleted))


def _printed(output: out.KernelOutput) -> list[tuple[pt.Verbatim, ...]]:
    """Split the printed text at the displays: the part before the first, then the one after each.

    If the positions are unknown, all of it comes first.
    """
    # The counts don't apply to redacted text.
    is_counted = not output.truncated and REDACTED not in output.stdout
    ends = output.printed_before[: len(output.shown)] if is_counted else ()
    marks = [0, *accumulate(ends, max), len(output.stdout)]
    pieces = [output.stdout[begin:end] for begin, end in pairwise(marks)]
    shares = sum(map(bool, pieces)) if len(output.stdout) > STREAM_CHARS else 1
    most = STREAM_CHARS // max(1, shares)
    return [stream_parts("Printed", each, most) for each in pieces]


def stream_parts(label: str, text: str, most: int = STREAM_CHARS) -> tuple[pt.Verbatim, ...]:
    """Return both ends of ``text``; nothing if it is only white space."""
    kept = esc.both_ends(esc.steady(text), most, tail=most // 2)
    return (pt.Verbatim(label, kept),) if text.strip() else ()


def _state(envelope: dict[str, Any], *, failed: bool) -> bl.StepState:
    if envelope.get("stopped"):
        return "stopped"
    if "waiting" in envelope:
        return "waiting"
    if not failed:
        return "done"
    # Refused: nothing ran.
    return "refused" if envelope.get("error") in GUIDANCE else "failed"


def _valid(kind: type[Value], data: Any) -> Value | None:
    """Parse ``data`` as this ``kind``; ``None`` if it is not ours."""
    try:
        return kind.model_validate(data) if isinstance(data, dict) else None
    except ValidationError:
        return None


def _error_of(envelope: dict[str, Any], raised: out.ExceptionObject | None) -> str:
    """Return why a step failed, in one sentence, and below it the place in its code, if known."""
    if raised is not None:
        sentence = cut_steady(f"{raised.name}: {raised.message.strip()}".removesuffix(": "))
        place = "" if raised.line is None else f"\nin line {raised.line}"
        source = cut(raised.source_line.strip(), ARGUMENT_CHARS)
        return f"{sentence}{place}: {source}" if source else f"{sentence}{place}"
    messages = (envelope.get(name) for name in ("message", "reason", "error_message", "error"))
    message = next((each for each in messages if isinstance(each, str) and each.strip()), None)
    return cut_steady(message or "It did not work, and the tool did not say why.")


def _publish(view: RunView, event: ev.ArtifactPublished) -> None:
    """Record a publication, made by the step that runs or has just ended."""
    kind, title, path, page = cut_each((event.kind, event.title, event.path, event.page))
    view.settle()
    others = {other: told for other, told in view.published.items() if other != path}
    view.published = others | {path: published(kind, title, page, is_unchanged=event.reused)}
    step = view.last(bl.StepBlock, state="running") or view.last(bl.Block)
    if event.figure:  # as a figure, or a bare specification
        bare = out.FigureObject(spec=event.figure)
        drawn = _draw(view, _valid(out.FigureObject, event.figure) or bare, title)
        if isinstance(step, bl.StepBlock):
            view.put(step, shown=(*step.shown, _mention(drawn)))


# -- charts: each shown once, and only what draws without loading anything

SPEC_CHARS = 1 << 20
PICTURE_CHARS = 2 << 20


def _draw(view: RunView, figure: out.FigureObject, title: str = "") -> bl.FigureBlock:
    """Add ``figure`` to the blocks once; drawing it again only adds what it lacked.

    ``title`` is used if it has none.
    """
    canonical = _canonical(figure.spec)
    drawn = canonical or figure.png_base64 or figure.svg or f"{figure.title}\n{figure.description}"
    identity = hashlib.sha256(drawn.encode("utf-8", "surrogatepass")).hexdigest()
    pictures = {"png_base64": figure.png_base64, "svg": figure.svg}
    facts = {name: each for name, each in pictures.items() if len(each or "") <= PICTURE_CHARS}
    facts["title"] = cut((figure.title or title).strip(), ARGUMENT_CHARS)
    facts["description"] = cut(figure.description.strip())
    block = view.last(bl.FigureBlock, identity=identity)
    if block is None:
        figures = sum(isinstance(each, bl.FigureBlock) for each in view.closed)
        is_drawn = 0 < len(canonical) <= SPEC_CHARS and self_contained(figure.spec)
        # Without lone surrogates and NaN, which no message can carry.
        spec = json.loads(canonical if is_drawn else "null", parse_constant=lambda _: None)
        block = bl.FigureBlock(figures + 1, spec=encodable(spec), identity=identity)
        block = view.add(replace(block, names=_names_of(view, figure)))
    return view.put(block, **{name: getattr(block, name) or told for name, told in facts.items()})


def _mention(figure: bl.FigureBlock) -> pt.Paragraph:
    """Refer to a figure in words, since an exporter may show its picture alone."""
    words = figure.description or figure.title
    return pt.note(f"Shown as figure {figure.number}", f": {words}" if words else "")


def _canonical(spec: dict[str, Any] | None) -> str:
    """Return the canonical bytes by which drawings are compared; empty if there is no ``spec``.

    The schema's address and the embedding options are left out: they don't affect the drawing, and
    the options could make a viewer load something.
    """
    drawn = {k: v for k, v in (spec or {}).items() if k not in ("$schema", "usermeta")}
    return _json(drawn, sort_keys=True) if drawn else ""


# Members of a specification whose keys come from the data, not from the grammar.
_DATA = frozenset({"values", "datasets"})
_REACHING_OUT = frozenset({"url", "href"})


def self_contained(spec: dict[str, Any] | None) -> bool:
    """Return whether ``spec`` draws without loading anything and has no link to click."""
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
