"""What each block says, once, for both texts.

``outline`` turns a block into a section of a few kinds of parts; the writers know only the
parts. So the texts hold the same information by construction. A string in a part may be foreign
and is escaped by the writer; a state is said in words.
"""

from collections.abc import Sequence

from parsimony_kernel.core.outputs import DataFrameObject, PrimitiveObject
from parsimony_kernel.view.blocks import (
    Artifact,
    Block,
    BudgetBlock,
    EndBlock,
    FigureBlock,
    FigureMention,
    FooterBlock,
    NotesBlock,
    Passage,
    ProgressBlock,
    ProseBlock,
    QuestionBlock,
    RecoveryBlock,
    ReplyBlock,
    RequestBlock,
    StepBlock,
    TableBlock,
)
from parsimony_kernel.view.parts import (
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
    Strong,
    Title,
    enumerated,
    spans_of,
    written,
)
from parsimony_kernel.view.tabulate import counted, table_of

LISTED = 40
NAMED = 24

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

ENDS = {
    "result": "Result",
    "handoff": "I can't do this",
    "partial": "Stopped early",
    "cancelled": "Stopped",
}

_UNDESCRIBED = "A chart without a description"
# The arguments of a tool that publishes which say what it is about, the best first.
_NAMING = ("title", "name", "report", "notebook", "artifact")


def outline(block: Block) -> Section:
    """What ``block`` says."""
    match block:
        case RequestBlock():
            shared = "Read from your notebook: " + "; ".join(block.shared)
            parts: list[Part] = [Paragraph((block.words,), "words")] if block.words else []
            parts += [Paragraph((shared,), "note")] if block.shared else []
            return Section("request", "Request", tuple(parts))
        case ProseBlock():
            return _prose(block)
        case StepBlock():
            return _step(block)
        case FigureBlock():
            return _figure(block)
        case RecoveryBlock():
            return _recovery(block)
        case BudgetBlock():
            name = "cost" if block.guard == "cost" else "token"
            return Section("budget", "Budget", (Title(f"Most of the {name} budget is used"),))
        case QuestionBlock():
            return _question(block)
        case ReplyBlock():
            said = Paragraph(("Your answer: ", Strong(block.reply)), "note")
            gone = _names("No longer in the notebook since the question: ", block.gone)
            return Section("reply", "Your answer", (said, *gone))
        case EndBlock():
            return _end(block)
        case TableBlock():
            return Section("table", "Table", (table_of(block.table, is_captioned=False),))
        case NotesBlock():
            notes = tuple(Paragraph(spans_of(line), "note") for line in block.lines)
            return Section("notes", "Notes", notes)
        case FooterBlock():
            used = Paragraph((" · ".join(footer_facts(block)),), "note")
            return Section("footer", "What the run used", (used,))
        case ProgressBlock():
            told = (Paragraph((" · ".join(progress_facts(block)),), "note"),)
            return Section("progress", "Progress", told)
        case _:
            raise TypeError(f"no outline for {type(block).__name__}")


def _end(block: EndBlock) -> Section:
    title = ENDS[block.kind]
    parts: list[Part] = []
    match block.kind:
        case "result":
            parts += written(block.words)
            parts += _labelled("Not found in a result", ", ".join(block.not_found))
        case "cancelled":
            parts.append(Title(title, block.words or "the run was stopped"))
        case "handoff":
            parts += [Title(title), *written(block.words)]
        case "partial":
            parts += [Title(title), *_labelled("Missing", block.words)]
    for label, texts in block.lists:
        parts += _list(label, texts)
    return Section(block.kind, title, (*parts, *_published(block.artifacts)))


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
    state = "" if step.state == "done" else step.state
    parts: list[Part] = [Title(name, step_detail(step), state)]
    if step.code:
        parts.append(Listing(step.code, f"Code of step {step.number}"))
    elif step.tool_type in ("function", "plan") and step.arguments:
        parts.append(Items(tuple((f"{name}: ", Mono(value)) for name, value in step.arguments)))
    if step.stdout:
        parts.append(Printed("Printed", step.stdout))
    if step.stderr:
        parts.append(Printed("Messages on stderr", step.stderr))
    for output in step.outputs:
        parts.extend(_output(output))
    if step.more_outputs:
        parts.append(Paragraph((f"… {counted(step.more_outputs, 'more output')} …",), "note"))
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
    for artifact in step.published:
        how = "Already published, unchanged" if artifact.reused else "Published"
        # Where it lies is told once, with the result.
        told: Sentence = (f"{how}: {_kind(artifact)} ", Strong(artifact.title))
        parts.append(Paragraph(told, "note"))
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
            shown_whole: tuple[Part, ...] = (Printed("Output", Passage(output.text, 0)),)
            cut = (Paragraph(("… the rest of this output is left out …",), "note"),)
            return (*shown_whole, *cut) if output.truncated else shown_whole
        case DataFrameObject():
            return (table_of(output),)


def _figure(block: FigureBlock) -> Section:
    title, described = block.title.strip(), block.description.strip()
    parts: list[Part] = [Title(title)] if title else []
    parts.append(Picture(described or title or _UNDESCRIBED))
    if described != title or not title:
        parts.append(Paragraph((described or _UNDESCRIBED,), "note"))
    return Section("figure", f"Figure {block.number}", tuple(parts))


def _recovery(block: RecoveryBlock) -> Section:
    what = KIND_WORDS.get(block.kind, "Something went wrong")
    state = ACTION_WORDS.get(block.action, "going on")
    if block.put_back:
        state = "going back"
    if not block.recoverable and block.action in ("", "retry", "narrow_scope"):
        state = "this cannot be recovered"
    if block.fallback:
        state = f"going on with {block.fallback}"
    elif block.budget > 0 and block.action in ("retry", "narrow_scope"):
        after = f" after {block.delay_s:,} s" if block.delay_s else ""
        state = f"{state}{after}, attempt {block.attempt} of {block.budget}"
    parts: list[Part] = [Title(what, state=state)]
    if block.message.strip():
        parts.append(Paragraph(spans_of(block.message), "note"))
    if block.blockers:
        parts.append(_items(block.blockers))
    parts.extend(_labelled("Gone back", block.put_back))
    return Section("recovery", "Recovery", tuple(parts))


def _question(block: QuestionBlock) -> Section:
    if block.reply is not None:
        answer = block.reply if block.chosen is None else block.choices[block.chosen]
        who = "your answer" if block.chosen is None else "you chose"
        said: Sentence = (*spans_of(block.question), " → ", Strong(answer), f" ({who})")
        return Section("question", "Question", (Paragraph(said, "note"),), state="answered")
    parts: list[Part] = [Paragraph(spans_of(block.question), "words")]
    if block.context.strip():
        parts.append(Paragraph(spans_of(block.context)))
    how = "%agent answer YOUR WORDS"
    if block.choices:
        how = "%agent answer NUMBER"
        if block.has_buttons:
            choices = "\n".join(f"{at}. {each}" for at, each in enumerate(block.choices, start=1))
            parts.append(Folded("Answer without buttons", Passage(f"{choices}\n{how}")))
        else:
            parts.append(Items(tuple(map(spans_of, block.choices)), is_ordered=True))
    if block.has_buttons:
        stopped = "Run All stopped here: answer, then run the cells below."
        parts.append(Paragraph((stopped,), "note"))
    else:
        parts.append(Paragraph(("To answer, run ", Mono(how), " in a cell."), "note"))
    return Section("question", "Question", tuple(parts), state="pending")


def _names(label: str, names: Sequence[str]) -> tuple[Part, ...]:
    if not names:
        return ()
    return (Paragraph((label, *enumerated([(Mono(name),) for name in names], NAMED)), "note"),)


def _items(texts: Sequence[str]) -> Items:
    items: list[Sentence] = list(map(spans_of, texts[:LISTED]))
    if len(texts) > LISTED:
        items.append((f"and {len(texts) - LISTED:,} more",))
    return Items(tuple(items))


def _list(label: str, texts: Sequence[str]) -> tuple[Part, ...]:
    return (Paragraph((Strong(label),)), _items(texts)) if texts else ()


def _labelled(label: str, text: str) -> tuple[Part, ...]:
    return (Paragraph((Strong(f"{label}: "), text)),) if text.strip() else ()


def _published(artifacts: Sequence[Artifact]) -> tuple[Part, ...]:
    """What was published, by its titles; ``%agent artifacts`` has the paths."""
    if not artifacts:
        return ()
    told: list[Sentence] = [
        (f"{_kind(each)} ", Strong(each.title), " (unchanged)" * each.reused) for each in artifacts
    ]
    return (Paragraph(("Published: ", *enumerated(told, LISTED)), "note"),)


def _kind(artifact: Artifact) -> str:
    return artifact.kind.replace("_", " ")


def footer_facts(block: FooterBlock) -> tuple[str, ...]:
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
    """What is going on, and the time as far as it has been told."""
    facts = [f"{block.activity or 'Working'} …"]
    if block.elapsed_s >= 1:
        facts.append(f"{block.elapsed_s:.0f} s")
    return (*facts, block.hint) if block.hint else tuple(facts)


def cost_words(cost_usd: float | None, *, partial: bool = False) -> str:
    """A cost in dollars in words: unknown is said, and zero is free."""
    if cost_usd is None:
        return "cost unknown"
    if cost_usd == 0:
        return "cost partly unknown" if partial else "free"
    amount = f"${cost_usd:,.2f}" if cost_usd >= 0.1 else f"${cost_usd:.4f}"
    return f"at least {amount}, some prices unknown" if partial else amount
