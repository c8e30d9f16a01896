"""The wording of each block, once for all formats, and the reading order of a turn.

``outline`` turns a block into a section made of a few kinds of parts; the writers know only the
parts, so all formats hold the same information. A string in a part may be foreign and is escaped by
the writer; states are put into words. ``segment_of`` puts the answer first, then its chart, then
the work, which is in one closed fold.
"""

import base64
import math
import re
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TypeVar

from parsimony_kernel.core.chat import OFFLINE
from parsimony_kernel.core.choices import Choice
from parsimony_kernel.core.events import AgentError
from parsimony_kernel.core.text import counted
from parsimony_kernel.view import blocks as bl
from parsimony_kernel.view import parts as pt
from parsimony_kernel.view.escape import both_ends

Kind = TypeVar("Kind")

LISTED = 40
CODE_CHARS = 20_000

# Words for states of a turn, kinds of failures, actions, and the ends of a run.
WORDS = tomllib.loads(Path(__file__).with_name("words.toml").read_text(encoding="utf-8"))

_PNG = re.compile(r"iVBORw0KGgo[A-Za-z0-9+/]*={0,2}\Z")
# What a saved record of a turn under way says; our Lab extension hides it while updates come.
_CUT_OFF = "If the kernel restarted, the turn was cut off here: run it and the cells above again."
_UNDESCRIBED = "A chart without a description"
# A page of the workspace, in which the notebook lies.
_PAGE = re.compile(r"(?:\.\./)*reports/[\w-]+\.html\Z")
# What a question of ours is about: "Which column do you mean by 'heat'?"
_ABOUT = re.compile(r"(?s)Which\b[^']*\bdo you mean\b[^']*'([^']{1,80})'\?")
# The arguments of a publishing tool that describe it, best first.
_NAMING = ("title", "name", "report", "notebook", "artifact")


def outline(block: bl.Block) -> pt.Section:
    """Return the section for ``block``."""
    kind, label, state = type(block).__name__.removesuffix("Block").lower(), "", ""
    match block:
        case bl.RequestBlock():
            parts = _request(block)
        case bl.ProseBlock():
            label, parts = "The agent", iter(pt.written(block.text))
        case bl.StepBlock():
            label, parts, state = f"Step {block.number}", _step(block), block.state
        case bl.FigureBlock():
            label, parts = f"Figure {block.number}", _figure(block)
        case bl.RecoveryBlock():
            parts = _recovery(block)
        case bl.QuestionBlock():
            parts, state = _question(block), "pending" if block.reply is None else "answered"
        case bl.EndBlock():
            kind, label, parts = block.kind, WORDS["ends"][block.kind], _end(block)
        case bl.FooterBlock():
            label, parts = "What the run used", iter([pt.note(" · ".join(footer_facts(block)))])
        case bl.ProgressBlock():
            parts = iter([pt.note(progress_words(block)), pt.Paragraph((_CUT_OFF,), "note pk-cut")])
        case _:
            raise TypeError(f"no outline for {type(block).__name__}")
    return pt.Section(kind, label or kind.capitalize(), tuple(parts), state)


def notes(*lines: str) -> pt.Section:
    """Return a section of notes, one per line, in the model's Markdown.

    They say what changed the meaning or the course of a turn.
    """
    return pt.Section("notes", "Notes", tuple(pt.note(*pt.spans_of(line)) for line in lines))


def _request(block: bl.RequestBlock) -> Iterator[pt.Part]:
    if block.words:
        yield pt.note(block.words)
    if block.shared:
        yield pt.note("Read from your notebook: " + "; ".join(block.shared))


def _end(block: bl.EndBlock) -> Iterator[pt.Part]:
    if block.kind != "result":
        why = block.words or "the run was stopped"
        yield pt.Title(WORDS["ends"][block.kind], why if block.kind == "cancelled" else "")
    if block.kind == "partial":
        yield from _labelled("Missing", block.words)
    elif block.kind != "cancelled":
        yield from pt.written(block.words)
    if block.not_found:
        yield pt.note(f"Not found in a result: {', '.join(block.not_found)}")
    for name, texts in block.lists:
        if texts:
            yield pt.Paragraph((pt.Strong(name),))
            more = [f"and {len(texts) - LISTED:,} more"] if len(texts) > LISTED else []
            yield pt.Items(tuple(map(pt.spans_of, (*texts[:LISTED], *more))))
    if block.kind != "result":
        yield from pt.names_note("Made before that, and kept: ", block.variables)
    if block.published:
        told = ("Published: ", *pt.enumerated(block.published, LISTED))
        yield pt.Paragraph(told, "note" if block.words else "body")


def published(kind: str, title: str, page: str = "", *, is_unchanged: bool = False) -> pt.Sentence:
    """Return the sentence for a publication: its title, and the page of a report to open.

    `%agent artifacts` lists the paths.
    """
    unchanged = " (unchanged)" if is_unchanged else ""
    opened = (" (open ", (pt.Link if _PAGE.match(page) else pt.Mono)(page), ")") if page else ()
    return (f"{kind.replace('_', ' ')} ", pt.Strong(title), unchanged, *opened)


def _purpose(step: bl.StepBlock) -> str:
    """Return the purpose of a step, in the model's words if it gave any."""
    if step.purpose:
        return step.purpose
    if step.tool_type == "code":
        return "Run code"
    if step.tool_type == "publish":
        what = step.tool.replace("return_", "publish ").replace("_", " ").capitalize()
        given = dict(step.arguments)
        named = next((given[key] for key in _NAMING if given.get(key)), "")
        return f"{what}: {named}" if named else what
    return step.tool


def _step(step: bl.StepBlock) -> Iterator[pt.Part]:
    state = "" if step.state == "done" else step.state
    yield pt.Title(f"Step {step.number}", _purpose(step), state)
    if step.code.strip():
        yield pt.Verbatim(f"Code of step {step.number}", both_ends(step.code, CODE_CHARS), "python")
    elif step.tool_type in ("function", "plan") and step.arguments:
        yield pt.Items(tuple((f"{name}: ", pt.Mono(value)) for name, value in step.arguments))
    yield from step.shown
    yield from _labelled("Error", step.error)
    yield from _labelled("Note", step.note, "note")


def alternative(figure: bl.FigureBlock) -> str:
    """Return the alternative text of a chart."""
    return figure.description or figure.title or _UNDESCRIBED


def png_of(figure: bl.FigureBlock) -> str | None:
    """Return the figure's PNG as base64 on one line; ``None`` without a valid one."""
    picture = "".join((figure.png_base64 or "").split())
    return picture if _PNG.match(picture) else None


def picture_source(figure: bl.FigureBlock) -> str:
    """Return a data URL of the figure's pixels, or of its SVG as an image, which runs nothing."""
    if png := png_of(figure):
        return f"data:image/png;base64,{png}"
    if figure.svg and "<svg" in figure.svg:
        encoded = base64.b64encode(figure.svg.encode("utf-8", "replace")).decode("ascii")
        return f"data:image/svg+xml;base64,{encoded}"
    return ""


def _figure(block: bl.FigureBlock) -> Iterator[pt.Part]:
    if block.title:
        yield pt.Title(block.title)
    yield pt.Picture(alternative(block), picture_source(block))
    if block.description != block.title or not block.title:
        yield pt.note(block.description or _UNDESCRIBED)


def recovery_state(event: AgentError, action: str) -> str:
    """Return the words for the response to a failure."""
    if event.fallback:
        return f"going on with {event.fallback}"
    is_retried = action in ("retry", "narrow_scope")
    state: str = "going back" if event.put_back else WORDS["actions"].get(action, "going on")
    if not event.recoverable and (is_retried or not action):
        state = "this cannot be recovered"
    if event.budget == 0 or not is_retried:
        return state
    after = f" after {event.delay_s:,.0f} s" if round(event.delay_s) else ""
    return f"{state}{after}, attempt {event.attempt} of {event.budget}"


def _recovery(block: bl.RecoveryBlock) -> Iterator[pt.Part]:
    yield pt.Title(WORDS["kinds"].get(block.kind, "Something went wrong"), state=block.state)
    # Notes above the fold say what was felt.
    if block.message.strip() and block.kind not in _FELT and not block.fallback:
        yield pt.note(*pt.spans_of(block.message))


def _question(block: bl.QuestionBlock) -> Iterator[pt.Part]:
    question = pt.spans_of(block.question)
    if block.reply is not None:
        about = _ABOUT.fullmatch(block.question)
        question = (about[1],) if about else question
        answer, who = block.reply, " (your answer)"
        if block.chosen is not None:
            answer, who = block.choices[block.chosen], " (you chose)"
            who += ": it was not run" if answer == Choice.do_not_run_it.words else ""
        yield pt.note(*question, " → ", pt.Strong(answer), who)
        return
    yield pt.Paragraph(question, "words")
    if block.context.strip():
        yield pt.Paragraph(pt.spans_of(block.context))
    if block.choices:
        yield pt.Items(tuple(map(pt.spans_of, block.choices)), is_ordered=True)
    which = f"--turn {block.turn} " if block.turn else ""
    how = pt.Mono(f"%agent answer {which}{'NUMBER' if block.choices else 'YOUR WORDS'}")
    # While there are buttons, the style sheet hides the list and this.
    yield pt.Paragraph(("To answer, run ", how, " in a cell."), "note pk-how")
    if block.turn:
        again = "Kernel restarted? Run the cells above and this one again. Already answered? "
        shown = pt.Mono(f"%agent show {block.turn}")
        yield pt.Paragraph((again, shown, " draws the answer."), "note pk-how")
        yield pt.note("Run All stops here: answer, then run the cells below.")


def _labelled(label: str, text: str, tone: pt.Tone = "body") -> Iterator[pt.Part]:
    if text.strip():
        yield pt.Paragraph((pt.Strong(f"{label}: "), text), tone)


def footer_facts(block: bl.FooterBlock) -> tuple[str, ...]:
    """Return model, steps, calls, tokens, cost and time."""
    facts = [block.model] if block.model else []
    facts += [counted(block.steps, "step"), counted(block.calls, "model call")]
    if tokens := block.prompt_tokens + block.completion_tokens:
        facts.append(counted(tokens, "token"))
    facts.append(cost_words(block.cost_usd, partial=0 < block.unpriced_calls < block.calls))
    return (*facts, f"{block.elapsed_s:.1f} s")


def progress_words(block: bl.ProgressBlock) -> str:
    """Return the current activity and the elapsed time reported so far."""
    took = f"{block.elapsed_s:.0f} s" if block.elapsed_s >= 1 else ""
    return " · ".join(filter(None, (f"{block.activity or 'Working'} …", took, block.hint)))


def cost_words(cost_usd: float | None, *, partial: bool = False) -> str:
    """Format a cost in dollars; ``None`` is unknown, and zero is free."""
    if cost_usd is None:
        return "cost unknown"
    if cost_usd == 0:
        return "cost partly unknown" if partial else "free"
    amount = f"${cost_usd:,.2f}" if cost_usd >= 0.1 else f"${cost_usd:.4f}"
    return f"at least {amount}, some prices unknown" if partial else amount


# -- a segment: part of a turn in one cell, from its start or an answer to its end or a question

# The blocks that end a segment.
OUTCOMES = (bl.QuestionBlock, bl.EndBlock)
_WORK = (bl.ProseBlock, bl.FigureBlock, bl.RecoveryBlock, *OUTCOMES)
_COMMANDS = "`%agent code` shows the code of the newest turn, `%agent undo` undoes it."
_NAMED = 6
# A longer request, such as one to fix an error with its code, would push the answer away.
_REQUEST_LINES = 4
_NAME = re.compile(r"`(\w+)`")
_CODE = re.compile(r"`[^`\n]{1,200}`")
_WORD = re.compile(r"\w+")
# A table of at most so many rows leaves the chart below it in view.
_BESIDE_ROWS = 12
# The line of code in a sentence that says what it does outside.
_LINE_NUMBER = re.compile(r"(?:^|[.;:] )Line (\d+) ")
# Failures that cost time or state, whatever their outcome.
_FELT = frozenset({"transient_provider", "kernel_invalidated"})


@dataclass(frozen=True)
class Segment:
    """A segment of a turn: ``head`` comes first, then ``figure``, then ``work``.

    ``work`` is in a fold titled ``summary``; without a summary there is no fold.
    """

    head: tuple[pt.Section, ...] = ()
    figure: bl.FigureBlock | None = None
    work: tuple[pt.Section, ...] = ()
    summary: pt.Sentence = ()


def segment_of(blocks: Sequence[bl.Block], *, echo: bool = False) -> Segment:
    """Arrange ``blocks``, which are in order of time, in reading order.

    Args:
        blocks: the blocks of the segment.
        echo: no cell above shows the request. It comes first, or in the fold if it is long.
    """
    steps, requests = _of(bl.StepBlock, blocks), _of(bl.RequestBlock, blocks)
    outcome = next((each for each in reversed(blocks) if isinstance(each, OUTCOMES)), None)
    words, figures = getattr(outcome, "words", ""), _of(bl.FigureBlock, blocks)
    figure = min(reversed(figures), key=partial(_told_at, words), default=None)
    labels = dict.fromkeys(map(_label, figures))
    further = [each for each in labels if figure is not None and each != _label(figure)]
    if figure is not None and _is_said(figure, words):
        spec = {name: each for name, each in (figure.spec or {}).items() if name != "title"}
        figure = replace(figure, title="", spec=spec or None)
    questions = _of(bl.QuestionBlock, blocks)
    is_answered = isinstance(outcome, bl.QuestionBlock) and outcome.reply is not None
    answered = [each for each in questions if each is not outcome or is_answered]
    requests_shown = [replace(each, shared=()) for each in requests if echo]
    long = [each for each in requests_shown if each.words.count("\n") >= _REQUEST_LINES]

    first: list[bl.Block] = [*_of(bl.ProgressBlock, blocks)]
    first += [each for each in requests_shown if each not in long]
    if outcome is not None and not is_answered:
        first += [outcome, *_waiting(steps, getattr(outcome, "context", ""))]
    else:  # it is under way, perhaps since an answer
        newest = blocks[blocks.index(outcome) + 1 :] if outcome is not None else blocks
        first += [each for each in newest if isinstance(each, bl.StepBlock | bl.ProseBlock)][-1:]
    head = list(map(outline, first))
    is_asking = isinstance(outcome, bl.QuestionBlock) and outcome.reply is None
    is_answer = isinstance(outcome, bl.EndBlock) and outcome.kind == "result"
    table = _table(steps, words, is_beside=figure is not None) if is_answer else None
    if table is not None:
        head.append(pt.Section("table", "Table", (replace(table, is_captioned=False),)))
    # Nothing stands between a question, its code and its buttons.
    end = 0 if is_asking else len(head)
    changes = dict.fromkeys(_notes(blocks, is_reply_told=bool(answered)))
    if is_answer and further:
        changes[f"Also drawn, in the steps below: {', '.join(further)}"] = None
    if isinstance(outcome, bl.EndBlock) and outcome.kind == "declined":  # it says so itself
        answered = [each for each in answered if each.reply != Choice.do_not_run_it.words]
        changes.pop(f"Your answer: {Choice.do_not_run_it.words}", None)
    told = [*dict.fromkeys(map(outline, answered))]
    head[end:end] = [*told, notes(*changes)] if changes else told

    elsewhere = {each.key for each in (*first, *answered, figure) if each is not None}
    behind = [*long, *(each for each in blocks if each.key not in elsewhere and _is_work(each))]
    work = [_without(table, outline(each)) for each in behind]
    contexts = [each.context for each in questions if each.reply and each.context.strip()]
    work += map(notes, dict.fromkeys(contexts))
    if work or outcome is not None:
        work += [outline(replace(each, words="")) for each in requests if each.shared]
    # A refusal has only looked something up, and the commands pass it over.
    is_over = isinstance(outcome, bl.EndBlock) and outcome.kind not in ("handoff", "declined")
    if is_over and any(each.tool_type == "code" and each.state == "done" for each in steps):
        work.append(notes(_COMMANDS))
    work += [outline(each) for each in _of(bl.FooterBlock, blocks) if each.model != OFFLINE]
    summary = _summary(blocks, behind, outcome) if work else ()
    return Segment(tuple(head), figure, tuple(work), summary)


def _of(kind: type[Kind], blocks: Sequence[object]) -> list[Kind]:
    return [each for each in blocks if isinstance(each, kind)]


def _told_at(words: str, output: bl.FigureBlock | pt.Table) -> float:
    """Return where ``words`` first name ``output``, by a variable in code or by its title.

    Infinity if they don't. Of several outputs the first named comes first.
    """
    codes = _CODE.finditer(words)
    places = [each.start() for each in codes if output.names & {*_WORD.findall(each[0])}]
    title = getattr(output, "title", "").casefold()
    at = words.casefold().find(title) if title else -1
    return min(places if at < 0 else [*places, at], default=math.inf)


def _label(figure: bl.FigureBlock) -> str:
    """Return how a note calls a chart: by its variable, its title, or its number."""
    names = [f"`{name}`" for name in figure.names]
    return names[0] if len(names) == 1 else figure.title or f"figure {figure.number}"


def _is_said(figure: bl.FigureBlock, words: str) -> bool:
    """Return whether ``words`` contain the title of a described chart, which needs none then."""
    is_phrase = " " in figure.title and figure.description != ""
    return is_phrase and figure.title.casefold() in words.casefold()


def progress_of(blocks: Sequence[bl.Block]) -> str:
    """Return the current activity in one line; empty if there is none."""
    return " · ".join(map(progress_words, _of(bl.ProgressBlock, blocks)))


def _waiting(steps: Sequence[bl.StepBlock], context: str) -> Iterator[bl.StepBlock]:
    """Yield the steps that wait, without a purpose that repeats the target in ``context``.

    The lines of code that ``context`` names by their numbers are marked.
    """
    told, lines = context.rstrip(".").split(), set(_LINE_NUMBER.findall(context))
    for each in steps:
        if each.state == "waiting":
            targets = [word for word in each.purpose.split() if {".", "/"} & {*word}]
            numbered = enumerate(each.code.rstrip().split("\n"), start=1)
            marked = [f"{'▸' if str(at) in lines else ' '} {line}" for at, line in numbered]
            held = replace(each, code="\n".join(marked)) if lines else each
            yield held if set(told).isdisjoint(targets) else replace(held, purpose="")


def _is_work(block: bl.Block) -> bool:
    if isinstance(block, bl.StepBlock):
        # Leave out the agent's own housekeeping that worked, and allowed steps, which continue as a
        # step of the same number.
        idle = ("allowed", "done", "running") if block.tool_type == "plan" else ("allowed",)
        return block.state not in idle
    return isinstance(block, _WORK)


def _table(steps: Sequence[bl.StepBlock], words: str, *, is_beside: bool) -> pt.Table | None:
    """Return the table that ``words`` name first, of the newest step with a named one.

    Else the last table of the last step whose code showed something, as an export does not. Beside
    a chart, only a small one that is named.
    """
    place, ended = partial(_told_at, words), ("done", "allowed")
    ran = [e for e in reversed(steps) if e.tool_type == "code" and e.state in ended and e.shown]
    best = [min(_of(pt.Table, each.shown[::-1]), key=place, default=None) for each in ran]
    named = next((each for each in best if each and place(each) < math.inf), None)
    if not is_beside:
        return named or next(iter(best), None)
    is_small = named and len(named.rows) <= _BESIDE_ROWS and "more row" not in named.note
    return named if is_small else None


def _without(table: pt.Table | None, section: pt.Section) -> pt.Section:
    return replace(section, parts=tuple(each for each in section.parts if each is not table))


def _notes(blocks: Sequence[bl.Block], *, is_reply_told: bool) -> Iterator[str]:
    """Yield what changed the meaning or the course of the turn."""
    settled = bl.lasting(blocks)
    for at, block in enumerate(settled):
        match block:
            case bl.RequestBlock() if block.notice.strip():
                yield block.notice
            case bl.ReplyBlock():
                if not is_reply_told:
                    yield f"Your answer: {block.reply}"
                made = {name for each in _of(bl.StepBlock, settled[at:]) for name in each.made}
                if gone := [name for name in block.gone if name not in made]:
                    yield f"No longer in the notebook since the question: {_listed(gone)}"
            case bl.StepBlock() if block.theirs:
                yield f"Changed your {_listed(block.theirs)}; `%agent undo` takes back what it can."
            case bl.RecoveryBlock():
                yield from _recovered(block, is_under_way=block is settled[-1])
            case bl.BudgetBlock():
                yield f"Most of the {block.guard.removesuffix('s')} budget is used."


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - pt.NAMED:,} more" if len(names) > pt.NAMED else ""
    return ", ".join(f"`{name}`" for name in names[: pt.NAMED]) + more


def _recovered(block: bl.RecoveryBlock, *, is_under_way: bool) -> Iterator[str]:
    """Yield one line on a recovery that has, or had, a noticeable effect."""
    why = block.message.strip()
    if block.put_back:
        yield f"Gone back: {block.put_back}"
    if block.fallback:
        yield f"Went on with {block.fallback}: {why}"
    elif block.kind in _FELT:
        times = {1: "once", 2: "twice"}.get(block.retries, f"{block.retries} times")
        done = "Trying again" if is_under_way else f"Retried {times}"
        yield f"{done}: {why}" if block.retries else why


def _summary(
    blocks: Sequence[bl.Block], behind: Sequence[bl.Block], outcome: bl.Block | None
) -> pt.Sentence:
    """Summarise the folded work: how much, and what it made.

    Names that the answer mentions are left out.
    """
    steps = _of(bl.StepBlock, blocks)
    shown = {step.number for step in _of(bl.StepBlock, behind)}
    label = counted(len(shown), "step") if shown else "Details"
    made = list(dict.fromkeys(name for step in steps for name in step.made))
    if isinstance(outcome, bl.EndBlock):
        if outcome.kind != "result":
            return (label,)
        named = set(_NAME.findall(outcome.words))
        # Results of the steps before an answer are in the fold of those steps.
        older = {name for each in _of(bl.ReplyBlock, blocks) for name in each.made} - {*made}
        made = [name for name in outcome.variables if name not in named | older]
    names = [(pt.Mono(name),) for name in made] if outcome is not None else []
    return (label, " · ", *pt.enumerated(names, _NAMED)) if names else (label,)
