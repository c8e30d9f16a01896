"""What each block says, once, for all three texts.

``outline`` turns a block into a section of a few kinds of parts; the writers know only the
parts. So the texts hold the same information by construction. A string in a part may be foreign
and is escaped by the writer; a state is said in words.
"""

from collections.abc import Iterable, Sequence

from parsimony_kernel.core.outputs import DataFrameObject, PrimitiveObject
from parsimony_kernel.view.blocks import (
    Artifact,
    Block,
    BudgetBlock,
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
)
from parsimony_kernel.view.parts import (
    Facts,
    Folded,
    Items,
    Listing,
    Mono,
    Paragraph,
    Part,
    Picture,
    Printed,
    Section,
    Sentence,
    Span,
    Strong,
    Table,
    Title,
)
from parsimony_kernel.view.prose import spans_of, written

LISTED = 40
NAMED = 24
TABLE_ROWS = 20
TABLE_COLUMNS = 40


KIND_WORDS = {
    "transient_provider": "The model could not be reached",
    "output_truncated": "The model's answer was cut off",
    "output_refused": "The model declined to answer",
    "ambiguous_input": "The request can be read in several ways",
    "scope_too_large": "The task is too large to do at once",
    "capability_gap": "Something that is needed is missing",
    "no_progress": "The run made no progress",
    "loop_detected": "The same action brought nothing new",
    "tool_error": "A step failed",
    "policy_violation": "A rule does not allow this",
    "kernel_invalidated": "The kernel lost its state",
    "iteration_limit": "The limit of rounds is reached",
    "time_limit": "The time limit is reached",
}

ACTION_WORDS = {
    "retry": "trying again",
    "narrow_scope": "going on with a smaller task",
    "ask_user": "asking you",
    "handoff": "handing over to you",
    "stop": "stopping",
}

SHORT_LISTING_LINES = 16
_UNDESCRIBED = "A chart without a description"
# The arguments of a tool that publishes which say what it is about, the best first.
_NAMING = ("title", "name", "report", "notebook", "artifact")


def outline(block: Block) -> Section:
    """What ``block`` says."""
    match block:
        case RequestBlock():
            return _request(block)
        case ProseBlock():
            return _prose(block)
        case StepBlock():
            return _step(block)
        case FigureBlock():
            return _figure(block)
        case RecoveryBlock():
            return _recovery(block)
        case BudgetBlock():
            return _budget(block)
        case QuestionBlock():
            return _question(block)
        case ReplyBlock():
            title = Title("Your answer")
            return Section(
                "reply",
                "Your answer",
                (title, Paragraph((block.reply,), "words"), *_gone(block.gone)),
            )
        case ResultBlock():
            return Section(
                "result",
                "Result",
                (
                    Title("Result"),
                    *written(block.summary),
                    *_labelled("Not found in a result", ", ".join(block.not_found)),
                    *_artifacts(block.artifacts),
                    *_bound(block.variables),
                ),
            )
        case HandoffBlock():
            return Section(
                "handoff",
                "Handed over to you",
                (
                    Title("Handed over to you"),
                    *written(block.rationale),
                    *_list("What stands in the way", _beside(block.blockers, block.rationale)),
                    *_list("What you can do", block.next_steps),
                    *_artifacts(block.artifacts),
                    *_bound(block.variables),
                ),
            )
        case PartialBlock():
            return Section(
                "partial",
                "Stopped early",
                (
                    Title("Stopped early"),
                    *_labelled("Missing", block.missing),
                    *_list("What is known so far", block.learned),
                    *_labelled("Next", block.plan),
                    *_artifacts(block.artifacts),
                    *_bound(block.variables),
                ),
            )
        case CancelledBlock():
            return _cancelled(block)
        case FooterBlock():
            return Section("footer", "What the run used", (Facts(footer_facts(block)),))
        case ProgressBlock():
            return Section("progress", "Progress", (Facts(progress_facts(block)),))
        case _:
            raise TypeError(f"{type(block).__name__} is no block of a record; give it an outline")


def _request(block: RequestBlock) -> Section:
    title = Title("Request", state=f"to {block.model}" if block.model else "")
    return Section(
        "request",
        "Request",
        (
            title,
            Paragraph((block.words,), "words"),
            *_shared(block),
            *((Paragraph(spans_of(block.notice), "note"),) if block.notice.strip() else ()),
        ),
    )


def _shared(block: RequestBlock) -> tuple[Part, ...]:
    if not block.shared:
        return ()
    # The embedded model runs in this process, so nothing leaves it.
    label = "Read from the notebook: " if block.model == "offline" else "Shared with the model: "
    return (Paragraph((label + "; ".join(block.shared),), "note"),)


def _prose(block: ProseBlock) -> Section:
    parts: list[Part] = []
    if block.reasoning:
        parts.append(Folded("Reasoning", block.reasoning))
    parts.extend(written(block.text.head))
    if block.text.omitted:
        parts.append(Paragraph((f"… {block.text.omitted:,} more characters …",), "note"))
    return Section("prose", "The agent", tuple(parts))


def step_detail(step: StepBlock) -> str:
    """What a step is for, in the model's words where it gave some."""
    if step.purpose:
        return step.purpose
    if step.tool_type == "code":
        return "Try code" if step.tool == "dry_execute_code" else "Run code"
    if step.tool_type == "publish":
        what = step.tool.replace("return_", "publish ").replace("_", " ")
        given = dict(step.arguments)
        named = next((given[key] for key in _NAMING if given.get(key)), "")
        return f"{what.capitalize()}: {named}" if named else what.capitalize()
    return step.tool


def _step(step: StepBlock) -> Section:
    name = f"Step {step.number}"
    parts: list[Part] = [Title(name, step_detail(step), step.state)]
    if step.code:
        long = step.code.head.strip().count("\n") >= SHORT_LISTING_LINES
        is_over = step.state in ("done", "allowed")
        parts.append(Listing(step.code, f"Code of step {step.number}", long and is_over))
    elif step.tool_type in ("function", "plan") and step.arguments:
        parts.append(
            Items(tuple((f"{name}: ", Mono(value)) for name, value in step.arguments)),
        )
    if step.stdout:
        parts.append(Printed("Printed", step.stdout))
    if step.stderr:
        parts.append(Printed("Messages on stderr", step.stderr))
    for output in step.outputs:
        parts.extend(_output(output))
    if step.more_outputs:
        parts.append(Paragraph((f"… {_count(step.more_outputs, 'more output')} …",), "note"))
    parts.extend(_names("Deleted: ", step.deleted))
    if not step.note:  # which says what became of them
        parts.extend(_names("Changed, and yours: ", step.overwritten))
    if step.error is not None:
        error = step.error
        parts.append(Paragraph((Strong("Error: "), error.sentence)))
        if error.line is not None:
            place: Sentence = (f"in line {error.line}",)
            if error.source_line.strip():
                place = (f"in line {error.line}: ", Mono(error.source_line))
            parts.append(Paragraph(place, "note"))
    if step.note:
        parts.append(Paragraph((Strong("Note: "), step.note), "note"))
    parts.extend(
        Paragraph(
            (
                "Already published, unchanged: " if artifact.reused else "Published: ",
                # Where it lies is told once, with the result.
                f"{_kind(artifact)} ",
                Strong(artifact.title),
            ),
            "note",
        )
        for artifact in step.published
    )
    return Section("step", name, tuple(parts), state=step.state)


def _output(output: DataFrameObject | PrimitiveObject | FigureMention) -> tuple[Part, ...]:
    match output:
        case FigureMention():
            # An exporter may show the picture of a figure and none of its words.
            said = dict.fromkeys(each.strip() for each in (output.title, output.description))
            words = ", ".join(filter(None, said))
            shown = f"Shown as figure {output.number}"
            return (Paragraph((f"{shown}: {words}" if words else shown,), "note"),)
        case PrimitiveObject():
            return (Printed("Output", Passage(output.text, 0)),) + (
                (Paragraph(("… the rest of this output is left out …",), "note"),)
                if output.truncated
                else ()
            )
        case DataFrameObject():
            return (_table(output),)


def _table(frame: DataFrameObject) -> Table:
    size = _count(frame.column_count, "column")
    if frame.rows is not None:
        size = f"{_count(frame.rows, 'row')} × {size}"
    else:
        size = f"{size}, rows not counted"
    caption: Sentence = (Mono(frame.name), f": {size}") if frame.name else (size,)
    if frame.preview_columns:
        columns = frame.preview_columns[:TABLE_COLUMNS]
        rows = tuple(row[: len(columns)] for row in frame.preview[:TABLE_ROWS])
        unseen = frame.column_count - len(columns)
        notes = []
        if frame.rows is not None and frame.rows > len(rows):
            notes.append(f"the first {_count(len(rows), 'row')}")
        if unseen > 0:
            notes.append(f"{_count(unseen, 'more column')} not shown")
        return Table(caption, columns, rows, "; ".join(notes))
    rows = tuple((c.name, c.dtype, ", ".join(c.samples)) for c in frame.columns[:TABLE_COLUMNS])
    more = frame.column_count - len(rows)
    note = f"{_count(more, 'more column')} not shown" if more > 0 else ""
    return Table(caption, ("column", "type", "for example"), rows, note)


def _figure(block: FigureBlock) -> Section:
    name = f"Figure {block.number}"
    described = block.description.strip()
    parts: list[Part] = [
        Title(name, block.title),
        Picture(block, described or block.title or _UNDESCRIBED),
    ]
    if described and described != block.title.strip():
        parts.append(Paragraph((described,), "note"))
    elif not described and not block.title.strip():
        parts.append(Paragraph((_UNDESCRIBED,), "note"))
    if block.published is not None:
        parts.append(Paragraph(("Published",), "note"))
    return Section("figure", name, tuple(parts))


def _recovery(block: RecoveryBlock) -> Section:
    what = KIND_WORDS.get(block.kind, "Something went wrong")
    next_step = ACTION_WORDS.get(block.action, "going on")
    if block.put_back:
        next_step = "going back"
    if not block.recoverable and block.action in ("", "retry", "narrow_scope"):
        next_step = "this cannot be recovered"
    state = next_step
    if block.fallback:
        state = f"going on with {block.fallback}"
    elif block.budget > 0 and block.action in ("retry", "narrow_scope"):
        after = f" after {block.delay_s:,} s" if block.delay_s else ""
        state = f"{next_step}{after}, attempt {block.attempt} of {block.budget}"
    parts: list[Part] = [Title(what, state=state)]
    if block.message.strip():
        parts.append(Paragraph(spans_of(block.message), "note"))
    if block.blockers:
        parts.append(_items(block.blockers))
    if block.put_back:
        parts.append(Paragraph((Strong("Gone back: "), block.put_back)))
    return Section("recovery", "Recovery", tuple(parts))


def _beside(blockers: tuple[str, ...], rationale: str) -> tuple[str, ...]:
    """The blockers that the rationale has not said."""
    return tuple(each for each in blockers if each.strip() != rationale.strip())


def _budget(block: BudgetBlock) -> Section:
    name = "cost" if block.guard == "cost" else "token"
    title = Title(f"Most of the {name} budget is used", state="coming to the end")
    return Section("budget", "Budget", (title,))


def _question(block: QuestionBlock) -> Section:
    reply = block.reply
    parts: list[Part] = [
        Title(
            "Question",
            f"about step {block.step}" if block.step else "",
            "waiting for your answer" if reply is None else "answered",
        ),
        Paragraph(spans_of(block.question), "words"),
    ]
    if block.context.strip():
        parts.append(Paragraph(spans_of(block.context)))
    if block.choices:
        parts.append(Items(tuple(map(spans_of, block.choices)), True, block.chosen))
    if reply is None:
        words = Mono("%agent answer your words")
        if block.choices:
            number = Mono(f"%agent answer {min(2, len(block.choices))}")
            how: Sentence = ("To answer, run ", number, " or ", words, " in a cell.")
        else:
            how = ("To answer, run ", words, " in a cell.")
        parts.append(Paragraph(how, "note"))
    elif block.chosen is None:
        parts.append(Paragraph((Strong("Answer: "), reply)))
    return Section(
        "question", "Question", tuple(parts), state="pending" if reply is None else "answered"
    )


def _cancelled(block: CancelledBlock) -> Section:
    why = block.reason.strip() or block.message.strip() or "the run was stopped"
    why = why.removeprefix("stopped ").strip() if block.reason.strip() else why
    parts: list[Part] = [
        Title("Stopped", detail=why),
        *_artifacts(block.artifacts),
        *_bound(block.variables),
    ]
    return Section("cancelled", "Stopped", tuple(parts))


def _bound(names: Sequence[str]) -> tuple[Part, ...]:
    return _names("Variables in your notebook: ", names)


def _gone(names: Sequence[str]) -> tuple[Part, ...]:
    return _names("No longer in the notebook since the question: ", names)


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def _names(label: str, names: Sequence[str]) -> tuple[Part, ...]:
    if not names:
        return ()
    spans: list[Span] = [label]
    for position, name in enumerate(names[:NAMED]):
        spans.extend((", ", Mono(name)) if position else (Mono(name),))
    if len(names) > NAMED:
        spans.append(f" and {len(names) - NAMED:,} more")
    return (Paragraph(tuple(spans), "note"),)


def _items(texts: Iterable[str]) -> Items:
    given = tuple(texts)
    items: tuple[Sentence, ...] = tuple(map(spans_of, given[:LISTED]))
    if len(given) > LISTED:
        items += ((f"and {len(given) - LISTED:,} more",),)
    return Items(items)


def _list(label: str, texts: Sequence[str]) -> tuple[Part, ...]:
    if not texts:
        return ()
    return (Paragraph((Strong(label),)), _items(texts))


def _labelled(label: str, text: str) -> tuple[Part, ...]:
    return (Paragraph((Strong(f"{label}: "), text)),) if text.strip() else ()


def _artifacts(artifacts: Sequence[Artifact]) -> tuple[Part, ...]:
    if not artifacts:
        return ()
    items: list[Sentence] = []
    for artifact in artifacts[:LISTED]:
        again = " (unchanged)" if artifact.reused else ""
        kind = _kind(artifact).capitalize()
        items.append((f"{kind} ", Strong(artifact.title), f"{again}: ", Mono(artifact.place)))
    if len(artifacts) > LISTED:
        items.append((f"and {len(artifacts) - LISTED:,} more",))
    return (Paragraph((Strong("Published"),)), Items(tuple(items)))


def _kind(artifact: Artifact) -> str:
    return artifact.kind.replace("_", " ")


def footer_facts(block: FooterBlock) -> tuple[str, ...]:
    """Model, steps, calls, tokens, cost and time, each against its limit where it has one."""
    facts = [block.model] if block.model else []
    facts.append(_count(block.steps, "step"))
    calls = _count(block.calls, "model call")
    facts.append(f"{calls} of {block.max_rounds:,}" if block.max_rounds else calls)
    tokens = block.prompt_tokens + block.completion_tokens
    if tokens:
        used = _count(tokens, "token")
        facts.append(f"{tokens:,} of {block.max_tokens:,} tokens" if block.max_tokens else used)
    cost = cost_words(block.cost_usd, partial=block.cost_partial)
    most = (
        f"${block.max_cost_usd:,.2f}"
        if block.max_cost_usd >= 0.1
        else cost_words(block.max_cost_usd)
    )
    facts.append(f"{cost} of {most}" if block.max_cost_usd else cost)
    took = f"{block.elapsed_s:.1f} s"
    if block.max_elapsed_s:
        took += f" of {block.max_elapsed_s:,.0f} s"
    facts.append(took)
    return tuple(facts)


def progress_facts(block: ProgressBlock) -> tuple[str, ...]:
    """What is going on, after how many steps, and the time as far as it has been told."""
    facts = [f"{block.activity or 'Working'} …"]
    if block.steps:
        facts.append(f"after {_count(block.steps, 'step')}")
    if block.elapsed_s >= 1:
        facts.append(f"{block.elapsed_s:.0f} s")
    return tuple(facts)


def cost_words(cost_usd: float | None, *, partial: bool = False) -> str:
    """A cost in dollars in words: unknown is said, and zero is free."""
    if cost_usd is None:
        return "cost unknown"
    if cost_usd == 0:
        return "cost partly unknown" if partial else "free"
    amount = f"${cost_usd:,.2f}" if cost_usd >= 0.1 else f"${cost_usd:.4f}"
    return f"at least {amount}, some prices unknown" if partial else amount
