"""Answer a suspended turn's question from a shell.

If the notebook's kernel is alive, the turn resumes there, in the person's own namespace; else it
resumes in this process, in a private one. Rule: a question is answered once, so a busy kernel is
never taken for a dead one.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from parsimony_kernel.core import events as ev
from parsimony_kernel.session.maintenance import journal_of
from parsimony_kernel.session.session import NotebookSession
from parsimony_kernel.session.turn_values import SessionError, resolve_turn, short_id
from parsimony_kernel.storage.journal import PendingRow, is_alive
from parsimony_kernel.storage.workspace import find_workspace

Say = Callable[[str], None]

# Longer than the heartbeat needs to detect a dead kernel.
_ANSWERS_WITHIN_S = 5.0


def questions(folder: Path) -> tuple[PendingRow, ...]:
    """Return the pending questions in the workspace of ``folder``, newest first.

    Raises:
        SessionError: The workspace has no journal.
    """
    with journal_of(folder) as journal:
        return journal.pending()


def choose(rows: tuple[PendingRow, ...], turn: str | None) -> PendingRow:
    """Find the question of ``turn`` (see ``resolve_turn``), or the only one.

    Raises:
        SessionError: No question matches, or several do.
    """
    if not rows:
        raise SessionError("No question is waiting here.")
    waiting = ", ".join(short_id(row.turn.run_id) for row in rows)
    if turn is None and len(rows) > 1:
        raise SessionError(f"{len(rows)} questions are waiting; name one with --turn: {waiting}")
    meant = resolve_turn(
        [row.turn for row in rows],
        turn,
        where="with a waiting question",
        remedy=f"Those that wait are of: {waiting}",
    )
    return next(row for row in rows if row.turn == meant)


def in_kernel(row: PendingRow, answer: str, say: Say) -> bool | None:
    """Answer in the notebook's own kernel.

    Args:
        row: The question.
        answer: The person's answer.
        say: Prints output of the kernel.

    Returns:
        ``None`` if the kernel is dead; else whether the turn resumed without an error.

    Raises:
        SessionError: The kernel is alive but can't be reached; the question still waits.
    """
    turn = row.turn
    if not turn.connection_file:
        return None
    from jupyter_client.blocking.client import BlockingKernelClient  # deferred: few need it

    def tell(message: dict[str, Any]) -> None:
        content = message["content"]
        data = content.get("data", {}) if message["msg_type"] == "display_data" else {}
        text = data.get("text/plain") or content.get("text", content.get("evalue", ""))
        if text:
            say(str(text).rstrip("\n"))

    client = BlockingKernelClient(connection_file=turn.connection_file)
    try:
        try:
            client.load_connection_file()
            client.start_channels()
            client.wait_for_ready(timeout=_ANSWERS_WITHIN_S)
        except (OSError, ValueError, RuntimeError) as exc:
            # Without a usable connection file there is no heartbeat to ask.
            beats = isinstance(exc, RuntimeError) and client.is_alive()
            if beats or is_alive(turn.pid, turn.running_since):
                raise SessionError(
                    "The notebook's kernel is alive but busy or out of reach, so nothing was "
                    "answered and the question still waits. Answer when its cell has finished, in "
                    "the notebook, or end its kernel and answer here."
                ) from exc
            return None
        # The answer is an ASCII string literal, so it can't be run as a magic or as code.
        code = f"await __import__('parsimony_agent').answer_here({turn.run_id!a}, {answer!a})"
        reply = client.execute_interactive(
            code, store_history=False, allow_stdin=False, output_hook=tell
        )
        return bool(reply["content"]["status"] == "ok")
    finally:
        client.stop_channels()


async def in_this_process(row: PendingRow, answer: str, folder: Path, say: Say) -> bool:
    """Answer in this process, in a private namespace; return whether the run completed.

    Raises:
        SessionError: The turn can't be resumed; nothing has run.
    """
    from parsimony_kernel.execution.executor import CodeExecutor
    from parsimony_kernel.view.fold import replay
    from parsimony_kernel.view.plain_text import record_of

    place = find_workspace(folder) / row.turn.notebook
    session = NotebookSession(
        executor=CodeExecutor(cwd=str(place.parent)), notebook=place.name, folder=place.parent
    )
    events, names = list[ev.AgentEvent](), ""
    try:
        async for event in session.resume(answer, turn_id=row.turn.run_id):
            if made := getattr(event, "variables", ()):
                # The record would present them as the notebook's variables, which they aren't.
                names, event = ", ".join(made), event.model_copy(update={"variables": ()})
            events.append(event)
    finally:
        session.close()
        if events:
            say(record_of(replay(events).blocks))
            say(
                f"\nThe variables of this run{f' ({names})' if names else ''} lived in this "
                "process only, not in your notebook; what was published is in the workspace."
            )
    return isinstance(events[-1], ev.RunCompleted)
