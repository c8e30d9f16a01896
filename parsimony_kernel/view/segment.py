"""A stretch of a turn in one cell, the answer first.

From its run, or from an answer, to its end or the next question: what is read first, the chart
that answers, and the work behind it, which stands in one closed fold.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from parsimony_kernel.core.chat import OFFLINE
from parsimony_kernel.core.outputs import DataFrameObject
from parsimony_kernel.view import blocks as bl
from parsimony_kernel.view.parts import Mono, Sentence, enumerated
from parsimony_kernel.view.tabulate import counted

# How a stretch ends.
OUTCOMES = (bl.QuestionBlock, bl.EndBlock)
# Steps of the agent's own housekeeping, of which nobody reads when they worked.
_INTERNAL = frozenset({"plan"})
_COMMANDS = "While this is the newest turn: `%agent code` shows its code, `%agent undo` undoes it."
_TIMES = {1: "once", 2: "twice"}
_NAMED = 6
# A request of more lines, such as one to fix an error with its code, would push the answer away.
_REQUEST_LINES = 4
# Failures that cost time or state, whatever came of them.
_FELT = frozenset({"transient_provider", "kernel_invalidated"})


@dataclass(frozen=True)
class Segment:
    """``head`` is read first, ``figure`` is the chart, ``work`` stands in a fold that is called
    ``summary``; without any there is no fold."""

    head: tuple[bl.Block, ...] = ()
    figure: bl.FigureBlock | None = None
    work: tuple[bl.Block, ...] = ()
    summary: Sentence = ()


def segment_of(
    blocks: Sequence[bl.Block], *, echo: bool = False, is_reply_told: bool = False
) -> Segment:
    """``blocks``, in the order in which things happened, as they are read.

    Args:
        echo: no cell above holds the request. It stands first, and a long one in the fold.
        is_reply_told: the answer that this goes on from stands just above.
    """
    steps = [each for each in blocks if isinstance(each, bl.StepBlock)]
    settled = [each for each in blocks if not isinstance(each, bl.ProgressBlock | bl.FooterBlock)]
    requests = [each for each in blocks if isinstance(each, bl.RequestBlock)]
    outcome = next((each for each in reversed(blocks) if isinstance(each, OUTCOMES)), None)
    figure = next((each for each in reversed(blocks) if isinstance(each, bl.FigureBlock)), None)
    head: list[bl.Block] = [each for each in blocks if isinstance(each, bl.ProgressBlock)]
    told = [replace(each, shared=()) for each in requests if echo]
    head += [each for each in told if not _is_long(each)]
    if outcome is not None:
        head.append(outcome)
        head += [each for each in steps if each.state == "waiting"]
    else:
        head += [each for each in blocks if isinstance(each, bl.StepBlock | bl.ProseBlock)][-1:]
    is_end = isinstance(outcome, bl.EndBlock)
    is_answer = isinstance(outcome, bl.EndBlock) and outcome.kind == "result"
    table = _table(steps) if is_answer and figure is None else None
    if table is not None:
        head.append(bl.TableBlock(table))
    answered = [each for each in blocks if isinstance(each, bl.QuestionBlock) and each != outcome]
    head += answered
    if lines := tuple(dict.fromkeys(_notes(settled, is_reply_told or bool(answered)))):
        head.append(bl.NotesBlock(lines))
    first = {each.key for each in head} | ({figure.key} if figure is not None else set())
    work: list[bl.Block] = [each for each in told if _is_long(each)]
    work += [_without(each, table) for each in blocks if each.key not in first and _is_work(each)]
    if work:
        asked = [_asked(each) for each in blocks if isinstance(each, bl.QuestionBlock)]
        work += [each for each in asked if each.lines]
        work += [replace(each, words="") for each in requests if each.shared]
    if any(each.tool_type == "code" and each.state == "done" for each in steps) and is_end:
        work.append(bl.NotesBlock((_COMMANDS,)))
    work += [each for each in blocks if isinstance(each, bl.FooterBlock) and each.model != OFFLINE]
    if not work:
        return Segment(tuple(head), figure)
    return Segment(tuple(head), figure, tuple(work), _summary(steps, outcome))


def _is_long(request: bl.RequestBlock) -> bool:
    return request.words.count("\n") >= _REQUEST_LINES


def _asked(question: bl.QuestionBlock) -> bl.NotesBlock:
    """What stood in the card of an answered question and does not stand in its line."""
    if question.reply is None:
        return bl.NotesBlock(())
    others = [f"{at + 1}. {each}" for at, each in enumerate(question.choices)]
    if question.chosen is not None:
        del others[question.chosen]
    lines = [question.context, *([f"Not chosen: {'; '.join(others)}"] if others else [])]
    return bl.NotesBlock(tuple(filter(str.strip, lines)))


def _is_work(block: bl.Block) -> bool:
    if isinstance(block, bl.StepBlock):
        # What was allowed goes on as a step of the same number.
        is_told = block.tool_type in _INTERNAL and block.state in ("done", "running")
        return not is_told and block.state != "allowed"
    told_elsewhere = (bl.RequestBlock, bl.ReplyBlock, bl.BudgetBlock, bl.FooterBlock)
    return not isinstance(block, told_elsewhere)


def _table(steps: Sequence[bl.StepBlock]) -> DataFrameObject | None:
    """The last table of the last step that ran code."""
    for step in reversed(steps):
        if step.tool_type == "code" and step.state in ("done", "allowed"):
            tables = [each for each in step.outputs if isinstance(each, DataFrameObject)]
            return tables[-1] if tables else None
    return None


def _without(block: bl.Block, table: DataFrameObject | None) -> bl.Block:
    if table is None or not isinstance(block, bl.StepBlock):
        return block
    return replace(block, outputs=tuple(each for each in block.outputs if each is not table))


def _notes(blocks: Sequence[bl.Block], is_reply_told: bool) -> Iterator[str]:
    """What changed the meaning of the turn, or its course."""
    for block in blocks:
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
                yield from _recovered(block, is_under_way=block is blocks[-1])
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
        times = _TIMES.get(block.attempt, f"{block.attempt} times")
        done = "Trying again" if is_under_way else f"Retried {times}"
        yield f"{done}: {why}" if block.action == "retry" and block.attempt else why


def _summary(steps: Sequence[bl.StepBlock], outcome: bl.Block | None) -> Sentence:
    taken = len({step.number for step in steps})
    told = counted(taken, "step") if taken else "Details"
    names = getattr(outcome, "variables", ())
    return (told, " · " * bool(names), *enumerated([(Mono(name),) for name in names], _NAMED))
