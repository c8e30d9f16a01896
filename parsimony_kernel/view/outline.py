"""What each block says, once, for all texts.

``outline`` turns a block into a section of a few kinds of parts; the writers know only the
parts. So the texts hold the same information by construction. A string in a part may be foreign
and is escaped by the writer; a state is said in words.
"""

import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path

from parsimony_kernel.core.outputs import DataFrameObject, PrimitiveObject
from parsimony_kernel.core.text import counted
from parsimony_kernel.view import blocks as bl
from parsimony_kernel.view import parts as pt
from parsimony_kernel.view.tabulate import table_of

LISTED = 40
CODE_CHARS = 20_000
NAMED = 24

_WORDS = tomllib.loads(Path(__file__).with_name("words.toml").read_text(encoding="utf-8"))
KIND_WORDS: dict[str, str] = _WORDS["kinds"]
ACTION_WORDS: dict[str, str] = _WORDS["actions"]

_UNDESCRIBED = "A chart without a description"
# The arguments of a tool that publishes which say what it is about, the best first.
_NAMING = ("title", "name", "report", "notebook", "artifact")


def outline(block: bl.Block) -> pt.Section:
    """What ``block`` says."""
    match block:
        case bl.RequestBlock():
            return pt.Section("request", "Request", tuple(_request(block)))
        case bl.ProseBlock():
            return pt.Section("prose", "The agent", tuple(_prose(block)))
        case bl.StepBlock():
            label = f"Step {block.number}"
            return pt.Section("step", label, tuple(_step(block, label)), block.state)
        case bl.FigureBlock():
            return pt.Section("figure", f"Figure {block.number}", tuple(_figure(block)))
        case bl.RecoveryBlock():
            return pt.Section("recovery", "Recovery", tuple(_recovery(block)))
        case bl.QuestionBlock():
            state = "pending" if block.reply is None else "answered"
            return pt.Section("question", "Question", tuple(_question(block)), state)
        case bl.EndBlock():
            return _end(block)
        case bl.FooterBlock():
            used = pt.note(" · ".join(footer_facts(block)))
            return pt.Section("footer", "What the run used", (used,))
        case bl.ProgressBlock():
            told = pt.note(" · ".join(progress_facts(block)))
            return pt.Section("progress", "Progress", (told,))
        case _:
            raise TypeError(f"no outline for {type(block).__name__}")


def notes(*lines: str) -> pt.Section:
    """What changed the meaning or the course of a turn, a line each, as a model marks it up."""
    return pt.Section("notes", "Notes", tuple(pt.note(*pt.spans_of(line)) for line in lines))


def _request(block: bl.RequestBlock) -> Iterator[pt.Part]:
    if block.words:
        yield pt.Paragraph((block.words,), "words")
    if block.shared:
        yield pt.note("Read from your notebook: " + "; ".join(block.shared))


def _end(block: bl.EndBlock) -> pt.Section:
    label, parts = "Result", list[pt.Part](pt.written(block.words))
    match block.kind:
        case "result":
            parts += _labelled("Not found in a result", ", ".join(block.not_found))
        case "cancelled":
            label = "Stopped"
            parts = [pt.Title(label, block.words or "the run was stopped")]
        case "handoff":
            label = "I can't do this"
            parts = [pt.Title(label), *parts]
        case "partial":
            label = "Stopped early"
            parts = [pt.Title(label), *_labelled("Missing", block.words)]
    for name, texts in block.lists:
        parts += [pt.Paragraph((pt.Strong(name),)), _items(texts)] if texts else []
    return pt.Section(block.kind, label, (*parts, *_published(block.artifacts)))


def _published(artifacts: Sequence[bl.Artifact]) -> Iterator[pt.Part]:
    """What was published, by its titles, and the page of a report; ``%agent artifacts`` has the
    paths."""
    told: list[pt.Sentence] = []
    for each in artifacts:
        page = (" (open ", pt.Mono(each.page), ")") if each.page else ()
        unchanged = " (unchanged)" * each.reused
        told.append((f"{_kind(each)} ", pt.Strong(each.title), unchanged, *page))
    if told:
        yield pt.note("Published: ", *pt.enumerated(told, LISTED))


def _kind(artifact: bl.Artifact) -> str:
    return artifact.kind.replace("_", " ")


def _prose(block: bl.ProseBlock) -> Iterator[pt.Part]:
    if block.reasoning:
        yield pt.Folded("Reasoning", block.reasoning)
    yield from pt.written(block.text.head)
    if block.text.omitted:
        yield pt.note(f"… {block.text.omitted:,} more characters …")


def _purpose(step: bl.StepBlock) -> str:
    """What a step is for, in the model's words where it gave some."""
    if step.purpose:
        return step.purpose
    if step.tool_type == "code":
        return "Try code" if step.tool == "dry_execute_code" else "Run code"
    if step.tool_type == "publish":
        what = step.tool.replace("return_", "publish ").replace("_", " ").capitalize()
        given = dict(step.arguments)
        named = next((given[key] for key in _NAMING if given.get(key)), "")
        return f"{what}: {named}" if named else what
    return step.tool


def _step(step: bl.StepBlock, label: str) -> Iterator[pt.Part]:
    yield pt.Title(label, _purpose(step), "" if step.state == "done" else step.state)
    if step.code.strip():
        code = bl.Passage.of(step.code, CODE_CHARS)
        yield pt.Listing(code, f"Code of step {step.number}")
    elif step.tool_type in ("function", "plan") and step.arguments:
        yield pt.Items(tuple((f"{name}: ", pt.Mono(value)) for name, value in step.arguments))
    for stream, passage in (("Printed", step.stdout), ("Messages on stderr", step.stderr)):
        if passage:
            yield pt.Printed(stream, passage)
    for output in step.outputs:
        yield from _output(output)
    if step.more_outputs:
        yield pt.note(f"… {counted(step.more_outputs, 'more output')} …")
    yield from _names("Deleted: ", step.deleted)
    if not step.note:  # which says what became of them
        yield from _names("Changed, and yours: ", step.overwritten)
    if step.error is not None:
        yield from _error(step.error)
    yield from _labelled("Note", step.note, "note")
    for artifact in step.published:
        how = "Already published, unchanged" if artifact.reused else "Published"
        # Where it lies is told once, with the result.
        yield pt.note(f"{how}: {_kind(artifact)} ", pt.Strong(artifact.title))


def _output(output: DataFrameObject | PrimitiveObject | bl.FigureBlock) -> Iterator[pt.Part]:
    match output:
        case bl.FigureBlock():
            # An exporter may show the picture of a figure and none of its words.
            said = dict.fromkeys(each.strip() for each in (output.title, output.description))
            words = ", ".join(filter(None, said))
            shown = f"Shown as figure {output.number}"
            yield pt.note(f"{shown}: {words}" if words else shown)
        case PrimitiveObject():
            yield pt.Printed("Output", bl.Passage(output.text))
            if output.truncated:
                yield pt.note("… the rest of this output is left out …")
        case DataFrameObject():
            yield table_of(output)


def _error(error: bl.StepError) -> Iterator[pt.Part]:
    yield from _labelled("Error", error.sentence)
    if error.source_line.strip():
        yield pt.note(f"in line {error.line}: ", pt.Mono(error.source_line))
    elif error.line is not None:
        yield pt.note(f"in line {error.line}")


def alternative(figure: bl.FigureBlock) -> str:
    """The words that stand for the picture of a chart."""
    return figure.description.strip() or figure.title.strip() or _UNDESCRIBED


def _figure(block: bl.FigureBlock) -> Iterator[pt.Part]:
    title, described = block.title.strip(), block.description.strip()
    if title:
        yield pt.Title(title)
    yield pt.Picture(alternative(block), block)
    if described != title or not title:
        yield pt.note(described or _UNDESCRIBED)


def _recovery(block: bl.RecoveryBlock) -> Iterator[pt.Part]:
    is_retried = block.action in ("retry", "narrow_scope")
    state = ACTION_WORDS.get(block.action, "going on")
    if block.put_back:
        state = "going back"
    if not block.recoverable and (is_retried or not block.action):
        state = "this cannot be recovered"
    if block.fallback:
        state = f"going on with {block.fallback}"
    elif block.budget > 0 and is_retried:
        after = f" after {block.delay_s:,} s" if block.delay_s else ""
        state = f"{state}{after}, attempt {block.attempt} of {block.budget}"
    yield pt.Title(KIND_WORDS.get(block.kind, "Something went wrong"), state=state)
    if block.message.strip():
        yield pt.note(*pt.spans_of(block.message))
    if block.blockers:
        yield _items(block.blockers)
    yield from _labelled("Gone back", block.put_back)


def _question(block: bl.QuestionBlock) -> Iterator[pt.Part]:
    question = pt.spans_of(block.question)
    if block.reply is not None:
        is_own = block.chosen is None
        answer = block.reply if block.chosen is None else block.choices[block.chosen]
        who = " (your answer)" if is_own else " (you chose)"
        yield pt.note(*question, " → ", pt.Strong(answer), who)
        return
    yield pt.Paragraph(question, "words")
    if block.context.strip():
        yield pt.Paragraph(pt.spans_of(block.context))
    how = f"%agent answer {'NUMBER' if block.choices else 'YOUR WORDS'}"
    if block.has_buttons:
        if block.choices:
            choices = [f"{at}. {each}" for at, each in enumerate(block.choices, start=1)]
            yield pt.Folded("Answer without buttons", bl.Passage("\n".join((*choices, how))))
        yield pt.note(
            "If you ran all cells, Run All stopped here: answer, then run the cells below."
        )
        return
    if block.choices:
        yield pt.Items(tuple(map(pt.spans_of, block.choices)), is_ordered=True)
    yield pt.note("To answer, run ", pt.Mono(how), " in a cell.")


def _names(label: str, names: Sequence[str]) -> Iterator[pt.Part]:
    if names:
        yield pt.note(label, *pt.enumerated([(pt.Mono(name),) for name in names], NAMED))


def _items(texts: Sequence[str]) -> pt.Items:
    items: list[pt.Sentence] = list(map(pt.spans_of, texts[:LISTED]))
    if len(texts) > LISTED:
        items.append((f"and {len(texts) - LISTED:,} more",))
    return pt.Items(tuple(items))


def _labelled(label: str, text: str, tone: pt.Tone = "body") -> Iterator[pt.Part]:
    if text.strip():
        yield pt.Paragraph((pt.Strong(f"{label}: "), text), tone)


def footer_facts(block: bl.FooterBlock) -> tuple[str, ...]:
    """Model, steps, calls, tokens, cost and time, each against its limit where it has one."""
    facts = [block.model] if block.model else []
    facts.append(counted(block.steps, "step"))
    calls = counted(block.calls, "model call")
    facts.append(f"{calls} of {block.max_rounds:,}" if block.max_rounds else calls)
    tokens = block.prompt_tokens + block.completion_tokens
    if tokens:
        used = counted(tokens, "token")
        facts.append(f"{tokens:,} of {block.max_tokens:,} tokens" if block.max_tokens else used)
    cost = cost_words(block.cost_usd, partial=block.cost_partial)
    facts.append(f"{cost} of {cost_words(block.max_cost_usd)}" if block.max_cost_usd else cost)
    limit = f" of {block.max_elapsed_s:,.0f} s" if block.max_elapsed_s else ""
    return (*facts, f"{block.elapsed_s:.1f} s{limit}")


def progress_facts(block: bl.ProgressBlock) -> tuple[str, ...]:
    """What is going on, and the time as far as it has been told."""
    took = f"{block.elapsed_s:.0f} s" if block.elapsed_s >= 1 else ""
    return tuple(filter(None, (f"{block.activity or 'Working'} …", took, block.hint)))


def cost_words(cost_usd: float | None, *, partial: bool = False) -> str:
    """A cost in dollars in words: unknown is said, and zero is free."""
    if cost_usd is None:
        return "cost unknown"
    if cost_usd == 0:
        return "cost partly unknown" if partial else "free"
    amount = f"${cost_usd:,.2f}" if cost_usd >= 0.1 else f"${cost_usd:.4f}"
    return f"at least {amount}, some prices unknown" if partial else amount
