"""What each block says, once, for both texts.

``outline`` turns a block into a section of a few kinds of parts; the writers know only the
parts. So the texts hold the same information by construction. A string in a part may be foreign
and is escaped by the writer; a state is said in words.
"""

from collections.abc import Sequence

from parsimony_kernel.core.outputs import DataFrameObject, PrimitiveObject
from parsimony_kernel.view import blocks as bl
from parsimony_kernel.view import parts as pt
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


def outline(block: bl.Block) -> pt.Section:
    """What ``block`` says."""
    match block:
        case bl.RequestBlock():
            shared = "Read from your notebook: " + "; ".join(block.shared)
            parts: list[pt.Part] = [pt.Paragraph((block.words,), "words")] if block.words else []
            parts += [pt.Paragraph((shared,), "note")] if block.shared else []
            return pt.Section("request", "Request", tuple(parts))
        case bl.ProseBlock():
            return _prose(block)
        case bl.StepBlock():
            return _step(block)
        case bl.FigureBlock():
            return _figure(block)
        case bl.RecoveryBlock():
            return _recovery(block)
        case bl.BudgetBlock():
            name = "cost" if block.guard == "cost" else "token"
            return pt.Section("budget", "Budget", (pt.Title(f"Most of the {name} budget is used"),))
        case bl.QuestionBlock():
            return _question(block)
        case bl.ReplyBlock():
            said = pt.Paragraph(("Your answer: ", pt.Strong(block.reply)), "note")
            gone = _names("No longer in the notebook since the question: ", block.gone)
            return pt.Section("reply", "Your answer", (said, *gone))
        case bl.EndBlock():
            return _end(block)
        case bl.TableBlock():
            return pt.Section("table", "Table", (table_of(block.table, is_captioned=False),))
        case bl.NotesBlock():
            notes = tuple(pt.Paragraph(pt.spans_of(line), "note") for line in block.lines)
            return pt.Section("notes", "Notes", notes)
        case bl.FooterBlock():
            used = pt.Paragraph((" · ".join(footer_facts(block)),), "note")
            return pt.Section("footer", "What the run used", (used,))
        case bl.ProgressBlock():
            told = (pt.Paragraph((" · ".join(progress_facts(block)),), "note"),)
            return pt.Section("progress", "Progress", told)
        case _:
            raise TypeError(f"no outline for {type(block).__name__}")


def _end(block: bl.EndBlock) -> pt.Section:
    title = ENDS[block.kind]
    parts: list[pt.Part] = []
    match block.kind:
        case "result":
            parts += pt.written(block.words)
            parts += _labelled("Not found in a result", ", ".join(block.not_found))
        case "cancelled":
            parts.append(pt.Title(title, block.words or "the run was stopped"))
        case "handoff":
            parts += [pt.Title(title), *pt.written(block.words)]
        case "partial":
            parts += [pt.Title(title), *_labelled("Missing", block.words)]
    for label, texts in block.lists:
        parts += _list(label, texts)
    return pt.Section(block.kind, title, (*parts, *_published(block.artifacts)))


def _prose(block: bl.ProseBlock) -> pt.Section:
    parts: list[pt.Part] = []
    if block.reasoning:
        parts.append(pt.Folded("Reasoning", block.reasoning))
    parts.extend(pt.written(block.text.head))
    if block.text.omitted:
        parts.append(pt.Paragraph((f"… {block.text.omitted:,} more characters …",), "note"))
    return pt.Section("prose", "The agent", tuple(parts))


def step_detail(step: bl.StepBlock) -> str:
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


def _step(step: bl.StepBlock) -> pt.Section:
    name = f"Step {step.number}"
    state = "" if step.state == "done" else step.state
    parts: list[pt.Part] = [pt.Title(name, step_detail(step), state)]
    if step.code:
        parts.append(pt.Listing(step.code, f"Code of step {step.number}"))
    elif step.tool_type in ("function", "plan") and step.arguments:
        parts.append(
            pt.Items(tuple((f"{name}: ", pt.Mono(value)) for name, value in step.arguments))
        )
    if step.stdout:
        parts.append(pt.Printed("Printed", step.stdout))
    if step.stderr:
        parts.append(pt.Printed("Messages on stderr", step.stderr))
    for output in step.outputs:
        parts.extend(_output(output))
    if step.more_outputs:
        parts.append(pt.Paragraph((f"… {counted(step.more_outputs, 'more output')} …",), "note"))
    parts.extend(_names("Deleted: ", step.deleted))
    if not step.note:  # which says what became of them
        parts.extend(_names("Changed, and yours: ", step.overwritten))
    if step.error is not None:
        error = step.error
        parts.append(pt.Paragraph((pt.Strong("Error: "), error.sentence)))
        if error.line is not None:
            place: pt.Sentence = (f"in line {error.line}",)
            if error.source_line.strip():
                place = (f"in line {error.line}: ", pt.Mono(error.source_line))
            parts.append(pt.Paragraph(place, "note"))
    if step.note:
        parts.append(pt.Paragraph((pt.Strong("Note: "), step.note), "note"))
    for artifact in step.published:
        how = "Already published, unchanged" if artifact.reused else "Published"
        # Where it lies is told once, with the result.
        told: pt.Sentence = (f"{how}: {_kind(artifact)} ", pt.Strong(artifact.title))
        parts.append(pt.Paragraph(told, "note"))
    return pt.Section("step", name, tuple(parts), state=step.state)


def _output(output: DataFrameObject | PrimitiveObject | bl.FigureBlock) -> tuple[pt.Part, ...]:
    match output:
        case bl.FigureBlock():
            # An exporter may show the picture of a figure and none of its words.
            said = dict.fromkeys(each.strip() for each in (output.title, output.description))
            words = ", ".join(filter(None, said))
            shown = f"Shown as figure {output.number}"
            return (pt.Paragraph((f"{shown}: {words}" if words else shown,), "note"),)
        case PrimitiveObject():
            shown_whole: tuple[pt.Part, ...] = (pt.Printed("Output", bl.Passage(output.text, 0)),)
            cut = (pt.Paragraph(("… the rest of this output is left out …",), "note"),)
            return (*shown_whole, *cut) if output.truncated else shown_whole
        case DataFrameObject():
            return (table_of(output),)


def _figure(block: bl.FigureBlock) -> pt.Section:
    title, described = block.title.strip(), block.description.strip()
    parts: list[pt.Part] = [pt.Title(title)] if title else []
    parts.append(pt.Picture(described or title or _UNDESCRIBED))
    if described != title or not title:
        parts.append(pt.Paragraph((described or _UNDESCRIBED,), "note"))
    return pt.Section("figure", f"Figure {block.number}", tuple(parts))


def _recovery(block: bl.RecoveryBlock) -> pt.Section:
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
    parts: list[pt.Part] = [pt.Title(what, state=state)]
    if block.message.strip():
        parts.append(pt.Paragraph(pt.spans_of(block.message), "note"))
    if block.blockers:
        parts.append(_items(block.blockers))
    parts.extend(_labelled("Gone back", block.put_back))
    return pt.Section("recovery", "Recovery", tuple(parts))


def _question(block: bl.QuestionBlock) -> pt.Section:
    if block.reply is not None:
        answer = block.reply if block.chosen is None else block.choices[block.chosen]
        who = "your answer" if block.chosen is None else "you chose"
        said: pt.Sentence = (*pt.spans_of(block.question), " → ", pt.Strong(answer), f" ({who})")
        return pt.Section("question", "Question", (pt.Paragraph(said, "note"),), state="answered")
    parts: list[pt.Part] = [pt.Paragraph(pt.spans_of(block.question), "words")]
    if block.context.strip():
        parts.append(pt.Paragraph(pt.spans_of(block.context)))
    how = "%agent answer YOUR WORDS"
    if block.choices:
        how = "%agent answer NUMBER"
        if block.has_buttons:
            choices = "\n".join(f"{at}. {each}" for at, each in enumerate(block.choices, start=1))
            parts.append(pt.Folded("Answer without buttons", bl.Passage(f"{choices}\n{how}")))
        else:
            parts.append(pt.Items(tuple(map(pt.spans_of, block.choices)), is_ordered=True))
    if block.has_buttons:
        stopped = "Run All stopped here: answer, then run the cells below."
        parts.append(pt.Paragraph((stopped,), "note"))
    else:
        parts.append(pt.Paragraph(("To answer, run ", pt.Mono(how), " in a cell."), "note"))
    return pt.Section("question", "Question", tuple(parts), state="pending")


def _names(label: str, names: Sequence[str]) -> tuple[pt.Part, ...]:
    if not names:
        return ()
    return (
        pt.Paragraph((label, *pt.enumerated([(pt.Mono(name),) for name in names], NAMED)), "note"),
    )


def _items(texts: Sequence[str]) -> pt.Items:
    items: list[pt.Sentence] = list(map(pt.spans_of, texts[:LISTED]))
    if len(texts) > LISTED:
        items.append((f"and {len(texts) - LISTED:,} more",))
    return pt.Items(tuple(items))


def _list(label: str, texts: Sequence[str]) -> tuple[pt.Part, ...]:
    return (pt.Paragraph((pt.Strong(label),)), _items(texts)) if texts else ()


def _labelled(label: str, text: str) -> tuple[pt.Part, ...]:
    return (pt.Paragraph((pt.Strong(f"{label}: "), text)),) if text.strip() else ()


def _published(artifacts: Sequence[bl.Artifact]) -> tuple[pt.Part, ...]:
    """What was published, by its titles, and the page of a report; ``%agent artifacts`` has the
    paths."""
    if not artifacts:
        return ()
    told: list[pt.Sentence] = []
    for each in artifacts:
        page = (" (open ", pt.Mono(each.page), ")") if each.page else ()
        unchanged = " (unchanged)" * each.reused
        told.append((f"{_kind(each)} ", pt.Strong(each.title), unchanged, *page))
    return (pt.Paragraph(("Published: ", *pt.enumerated(told, LISTED)), "note"),)


def _kind(artifact: bl.Artifact) -> str:
    return artifact.kind.replace("_", " ")


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
    took = f"{block.elapsed_s:.1f} s"
    if block.max_elapsed_s:
        took += f" of {block.max_elapsed_s:,.0f} s"
    facts.append(took)
    return tuple(facts)


def progress_facts(block: bl.ProgressBlock) -> tuple[str, ...]:
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
