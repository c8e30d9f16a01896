"""Turn commands: ``runs``, ``show`` and ``resume``."""

import argparse
import asyncio
from collections.abc import Sequence
from pathlib import PurePath
from typing import Any

from parsimony_agent.arguments import nearest
from parsimony_agent.pending import Misuse
from parsimony_kernel.cli import output
from parsimony_kernel.core.events import AgentEvent
from parsimony_kernel.session.maintenance import journal_of, turns_of
from parsimony_kernel.session.turn_values import SessionError, held_lines, resolve_turn, short_id
from parsimony_kernel.storage.journal import PendingRow, TurnRow

_REMEDY = "List them with: jupyter parsimony runs"
_TOLD = ("status", "request", "model", "started_at", "ended_at", "summary")


def runs(arguments: argparse.Namespace) -> int:
    """List turns, the newest last."""
    with journal_of(arguments.folder.resolve()) as journal:
        found = _of_notebook(turns_of(journal), arguments.notebook)
    shown = found[-arguments.limit :]
    more = len(found) - len(shown)
    facts = {"runs": [_described(turn) for turn in shown], "more": more}
    return output.give(arguments, facts, _listing(shown, more))


def show(arguments: argparse.Namespace) -> int:
    """Print the record of a turn as its cell shows it, from the journal alone."""
    from parsimony_kernel.view.fold import code_that_worked

    with journal_of(arguments.folder.resolve()) as journal:
        turns = _of_notebook(turns_of(journal), arguments.notebook)
        turn = resolve_turn(turns, arguments.turn, where="on record here", remedy=_REMEDY)
        events = journal.events(turn.run_id)
    if not events:
        why = "yet: it has just begun" if turn.request else "any more: it was purged"
        return output.fail(f"Nothing of turn {turn.ordinal} is on record {why}.")
    code = "\n\n".join(step.code for step in code_that_worked(events))
    if arguments.code and not code:
        return output.fail("No code of this turn worked: see it without --code.")
    facts = {**_described(turn), "code": code, "text": _record(events)}
    return output.give(arguments, facts, code if arguments.code else facts["text"])


def resume(arguments: argparse.Namespace) -> int:
    """List pending questions, or answer one."""
    from parsimony_kernel.session import resume

    folder = arguments.folder.resolve()
    answer = " ".join(arguments.answer)
    if answer and arguments.json:
        raise Misuse("--json lists what waits: leave it out to answer.")
    rows = resume.questions(folder)
    if not answer and arguments.turn is not None:
        rows = (resume.choose(rows, arguments.turn),)
    if not answer:
        facts = {"questions": [_question(row) for row in rows]}
        return output.give(arguments, facts, _waiting(rows))
    row = resume.choose(rows, arguments.turn)
    went_on = resume.in_kernel(row, answer, output.say)
    if went_on is None:
        output.say("The notebook's kernel is gone; the run goes on here, without its variables.")
        went_on = asyncio.run(resume.in_this_process(row, answer, folder, output.say))
    return output.DONE if went_on else output.FAILED


def _of_notebook(turns: Sequence[TurnRow], named: str | None) -> list[TurnRow]:
    """Filter the turns by notebook, named by its path in the workspace; ``None`` keeps all.

    Raises:
        SessionError: The notebook has no turns.
    """
    if named is None:
        return list(turns)
    path = PurePath(named).as_posix()
    found = [turn for turn in turns if turn.notebook == path]
    if not found:
        known = {turn.notebook for turn in turns}
        raise SessionError(
            f"No turn of a notebook {named!r} is on record here.{nearest(named, known)} {_REMEDY}"
        )
    return found


def _described(turn: TurnRow) -> dict[str, Any]:
    """Return a turn as JSON data. Times are ISO 8601 in UTC, empty while unknown."""
    text = {name: getattr(turn, name) for name in _TOLD}
    return {"turn_id": turn.run_id, "notebook": turn.notebook, "turn": turn.ordinal, **text}


def _listing(turns: list[TurnRow], more: int) -> str:
    from parsimony_agent.tables import table
    from parsimony_kernel.view.outline import WORDS

    rows = [
        (
            short_id(turn.run_id),
            turn.notebook,
            str(turn.ordinal),
            WORDS["states"].get(turn.status, turn.status),
            turn.started_at[:16].replace("T", " "),
            turn.request or "(purged)",
        )
        for turn in turns
    ]
    head = ("id", "notebook", "turn", "status", "started (UTC)", "request")
    text = str(table(head, rows, empty="No such turn is on record here.")["text/plain"])
    return f"{text}\n({more} older: --limit {more + len(turns)} shows them too)" if more else text


def _waiting(rows: Sequence[PendingRow]) -> str:
    """Render the questions as text for a terminal."""
    from parsimony_kernel.view.escape import inline, plain

    if not rows:
        return "No question is waiting here."
    lines: list[str] = []
    for row in rows:
        turn, asked = row.turn, row.record
        lines += [
            f"{short_id(turn.run_id)}  {inline(turn.notebook)}, turn {turn.ordinal}",
            f"  you asked: {inline(turn.request)}",
            f"  question:  {inline(asked.pending_question)}",
        ]
        if asked.pending_question_context:
            lines.append(f"             {inline(asked.pending_question_context)}")
        lines += [f"    | {plain(line)}" for line in held_lines(asked.pending_call)]
        lines += [f"    {n}. {inline(each)}" for n, each in enumerate(asked.choices, start=1)]
    how = f"Answer with: jupyter parsimony resume --turn {short_id(rows[0].turn.run_id)} 1"
    return "\n".join([*lines, "", how])


def _question(row: PendingRow) -> dict[str, Any]:
    """Return a question as JSON data; ``held`` is the code or call awaiting approval."""
    return {
        "turn_id": row.turn.run_id,
        "notebook": row.turn.notebook,
        "turn": row.turn.ordinal,
        "request": row.turn.request,
        "question": row.record.pending_question,
        "context": row.record.pending_question_context,
        "held": "\n".join(held_lines(row.record.pending_call)) or None,
        "choices": list(row.record.choices),
        "asked_at": row.record.suspended_at,
    }


def _record(events: Sequence[AgentEvent]) -> str:
    """Render the record of a turn and its usage, without its live progress."""
    from parsimony_kernel.view.blocks import ProgressBlock
    from parsimony_kernel.view.fold import replay
    from parsimony_kernel.view.plain_text import record_of

    blocks = replay(events).blocks
    return record_of([block for block in blocks if not isinstance(block, ProgressBlock)])
