"""A stretch of a turn in one cell, the answer first.

From its run, or from an answer, to its end or the next question: what is read first, the chart
that answers, and the work behind it, which stands in one closed fold.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from parsimony_kernel.core.chat import OFFLINE
from parsimony_kernel.core.text import counted
from parsimony_kernel.view import blocks as bl
from parsimony_kernel.view.outline import notes, outline, progress_facts
from parsimony_kernel.view.parts import Mono, Section, Sentence, Table, enumerated

# How a stretch ends.
OUTCOMES = (bl.QuestionBlock, bl.EndBlock)
_WORK = (bl.ProseBlock, bl.FigureBlock, bl.RecoveryBlock, *OUTCOMES)
_COMMANDS = "While this is the newest turn: `%agent code` shows its code, `%agent undo` undoes it."
_TIMES = {1: "once", 2: "twice"}
_NAMED = 6
# A request of more lines, such as one to fix an error with its code, would push the answer away.
_REQUEST_LINES = 4
_NAME = re.compile(r"\w+")
# Failures that cost time or state, whatever came of them.
_FELT = frozenset({"transient_provider", "kernel_invalidated"})


@dataclass(frozen=True)
class Segment:
    """``head`` is read first, ``figure`` is the chart, ``work`` stands in a fold that is called
    ``summary``; without any there is no fold."""

    head: tuple[Section, ...] = ()
    figure: bl.FigureBlock | None = None
    work: tuple[Section, ...] = ()
    summary: Sentence = ()


def segment_of(
    blocks: Sequence[bl.Block], *, echo: bool = False, is_reply_told: bool = False
) -> Segment:
    """``blocks``, in the order in which things happened, as they are read.

    Args:
        echo: no cell above holds the request. It stands first, and a long one in the fold.
        is_reply_told: the answer that this goes on from stands just above.
    """
    steps, requests = _of(bl.StepBlock, blocks), _of(bl.RequestBlock, blocks)
    outcome = next((each for each in reversed(blocks) if isinstance(each, OUTCOMES)), None)
    figure = next(reversed(_of(bl.FigureBlock, blocks)), None)
    questions = _of(bl.QuestionBlock, blocks)
    answered = [each for each in questions if each is not outcome]
    told = [replace(each, shared=()) for each in requests if echo]
    long = [each for each in told if each.words.count("\n") >= _REQUEST_LINES]

    first: list[bl.Block] = [*_of(bl.ProgressBlock, blocks)]
    first += [each for each in told if each not in long]
    if outcome is not None:
        first += [outcome, *(each for each in steps if each.state == "waiting")]
    else:
        first += [each for each in blocks if isinstance(each, bl.StepBlock | bl.ProseBlock)][-1:]
    head = list(map(outline, first))
    is_answer = isinstance(outcome, bl.EndBlock) and outcome.kind == "result"
    table = _table(steps) if is_answer and figure is None else None
    if table is not None:
        head.append(Section("table", "Table", (replace(table, is_captioned=False),)))
    head += map(outline, answered)
    if changes := dict.fromkeys(_notes(blocks, is_reply_told or bool(answered))):
        head.append(notes(*changes))

    elsewhere = {each.key for each in (*first, *answered, figure) if each is not None}
    behind: list[bl.Block] = [*long]
    behind += [each for each in blocks if each.key not in elsewhere and _is_work(each)]
    work = [outline(_without(each, table)) for each in behind]
    if work:
        work += [notes(*lines) for each in questions if (lines := _asked(each))]
        work += [outline(replace(each, words="")) for each in requests if each.shared]
    is_over = isinstance(outcome, bl.EndBlock)
    if is_over and any(each.tool_type == "code" and each.state == "done" for each in steps):
        work.append(notes(_COMMANDS))
    work += [outline(each) for each in _of(bl.FooterBlock, blocks) if each.model != OFFLINE]
    return Segment(tuple(head), figure, tuple(work), _summary(steps, outcome) if work else ())


def _of(kind: type[bl.Kind], blocks: Sequence[bl.Block]) -> list[bl.Kind]:
    return [each for each in blocks if isinstance(each, kind)]


def progress_of(blocks: Sequence[bl.Block]) -> str:
    """What is going on now, in one line; empty where nothing is."""
    running = _of(bl.ProgressBlock, blocks)
    return " · ".join(fact for each in running for fact in progress_facts(each))


def _asked(question: bl.QuestionBlock) -> list[str]:
    """What stood in the card of an answered question and does not stand in its line."""
    if question.reply is None:
        return []
    others = [f"{at + 1}. {each}" for at, each in enumerate(question.choices)]
    if question.chosen is not None:
        del others[question.chosen]
    lines = [question.context, f"Not chosen: {'; '.join(others)}" if others else ""]
    return [line for line in lines if line.strip()]


def _is_work(block: bl.Block) -> bool:
    if isinstance(block, bl.StepBlock):
        # Of the agent's own housekeeping nobody reads when it worked; what was allowed goes on as
        # a step of the same number.
        idle = ("allowed", "done", "running") if block.tool_type == "plan" else ("allowed",)
        return block.state not in idle
    return isinstance(block, _WORK)


def _table(steps: Sequence[bl.StepBlock]) -> Table | None:
    """The last table of the last step that ran code."""
    for step in reversed(steps):
        if step.tool_type == "code" and step.state in ("done", "allowed"):
            return next((each for each in reversed(step.shown) if isinstance(each, Table)), None)
    return None


def _without(block: bl.Block, table: Table | None) -> bl.Block:
    if table is None or not isinstance(block, bl.StepBlock):
        return block
    return replace(block, shown=tuple(each for each in block.shown if each is not table))


def _notes(blocks: Sequence[bl.Block], is_reply_told: bool) -> Iterator[str]:
    """What changed the meaning of the turn, or its course."""
    settled = [each for each in blocks if not isinstance(each, bl.ProgressBlock | bl.FooterBlock)]
    for block in settled:
        match block:
            case bl.RequestBlock() if block.notice.strip():
                yield block.notice
            case bl.ReplyBlock():
                if not is_reply_told:
                    yield f"Your answer: {block.reply}"
                if block.gone:
                    gone = ", ".join(f"`{name}`" for name in block.gone)
                    yield f"No longer in the notebook since the question: {gone}"
            case bl.RecoveryBlock():
                yield from _recovered(block, is_under_way=block is settled[-1])
            case bl.BudgetBlock():
                name = "cost" if block.guard == "cost" else "token"
                yield f"Most of the {name} budget is used."


def _recovered(block: bl.RecoveryBlock, *, is_under_way: bool) -> Iterator[str]:
    """A recovery that is or was felt, in one line."""
    why = block.message.strip()
    if block.put_back:
        yield f"Gone back: {block.put_back}"
    if block.fallback:
        yield f"Went on with {block.fallback}: {why}"
    elif block.kind in _FELT:
        times = _TIMES.get(block.retries, f"{block.retries} times")
        done = "Trying again" if is_under_way else f"Retried {times}"
        yield f"{done}: {why}" if block.retries else why


def _summary(steps: Sequence[bl.StepBlock], outcome: bl.Block | None) -> Sentence:
    """How much work there was, and what it made, as far as the answer doesn't name it."""
    shown = {step.number for step in steps if _is_work(step)}
    told = counted(len(shown), "step") if shown else "Details"
    if not isinstance(outcome, bl.EndBlock):
        return (told,)
    if outcome.kind != "result":
        return (f"{told} tried" if shown and outcome.kind == "handoff" else told,)
    said = set(_NAME.findall(outcome.words))
    made = [(Mono(name),) for name in outcome.variables if name not in said]
    return (told, " · ", *enumerated(made, _NAMED)) if made else (told,)
