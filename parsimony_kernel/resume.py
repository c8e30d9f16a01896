"""Answering a question from a shell.

Where the notebook's kernel still lives, the answer is given there, so that the run goes on in the
person's own namespace; else it goes on in this process, in a private one.
"""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

from parsimony_kernel.journal.store import PendingRow, SqliteJournal
from parsimony_kernel.journal.workspace import find_workspace, journal_path
from parsimony_kernel.session import SessionError, open_session

Say = Callable[[str], None]

_ANSWERS_WITHIN_S = 5.0


def questions(folder: Path) -> tuple[PendingRow, ...]:
    """The questions that wait in the workspace of ``folder``, newest first.

    Raises ``SessionError`` when there is no journal there.
    """
    path = journal_path(find_workspace(folder))
    if not path.is_file():
        raise SessionError(
            f"There is no journal in {str(folder)!r} or a folder above it. "
            "Name the notebook's folder with --folder."
        )
    journal = SqliteJournal(path)
    try:
        return journal.pending()
    finally:
        journal.close()


def listing(rows: tuple[PendingRow, ...]) -> str:
    """The questions as text for a terminal."""
    if not rows:
        return "No question is waiting here."
    lines: list[str] = []
    for row in rows:
        lines += [
            f"{row.turn.run_id[:8]}  {row.turn.notebook}, turn {row.turn.ordinal}",
            f"  you asked: {row.turn.request}",
            f"  question:  {row.record.pending_question}",
        ]
        lines += [f"    {n}. {choice}" for n, choice in enumerate(row.record.choices, start=1)]
    lines.append("")
    lines.append("Answer with: jupyter parsimony resume --turn " + rows[0].turn.run_id[:8] + " 1")
    return "\n".join(lines)


def choose(rows: tuple[PendingRow, ...], turn: str | None) -> PendingRow:
    """The question of the turn whose id begins with ``turn``, or the only one.

    Raises ``SessionError`` when none or several are meant.
    """
    meant = [row for row in rows if turn is None or row.turn.run_id.startswith(turn)]
    if not meant:
        raise SessionError(
            "No question is waiting here." if turn is None else f"No question waits in {turn!r}."
        )
    if len(meant) > 1:
        raise SessionError(
            f"{len(meant)} questions are waiting; name one with --turn: "
            + ", ".join(row.turn.run_id[:8] for row in meant)
        )
    return meant[0]


def in_kernel(row: PendingRow, answer: str, say: Say) -> bool | None:
    """Answer in the notebook's own kernel.

    ``None`` when it does not live any more; else whether the run went on without an error.
    """
    if not row.turn.connection_file or not Path(row.turn.connection_file).is_file():
        return None
    from jupyter_client.blocking.client import BlockingKernelClient  # deferred: few need it

    client = BlockingKernelClient(connection_file=row.turn.connection_file)
    client.load_connection_file()
    client.start_channels()
    try:
        try:
            client.wait_for_ready(timeout=_ANSWERS_WITHIN_S)
        except RuntimeError:
            return None
        line = f"answer --turn {row.turn.run_id} --here {answer}"
        # The magic is a coroutine; IPython awaits a top-level expression.
        code = f"await get_ipython().run_line_magic('agent', {json.dumps(line)})"
        reply = client.execute_interactive(
            code, store_history=False, allow_stdin=False, output_hook=_teller(say)
        )
        return bool(reply["content"]["status"] == "ok")
    finally:
        client.stop_channels()


def _teller(say: Say) -> Callable[[dict[str, object]], None]:
    def tell(message: dict[str, object]) -> None:
        for text in _texts(message):
            say(text.rstrip("\n"))

    return tell


def _texts(message: dict[str, object]) -> Iterator[str]:
    content = message["content"]
    assert isinstance(content, dict)
    if "text" in content:
        yield str(content["text"])
    elif message["msg_type"] == "display_data":
        yield str(content.get("data", {}).get("text/plain", ""))
    elif "evalue" in content:
        yield str(content["evalue"])


async def in_this_process(row: PendingRow, answer: str, folder: Path, say: Say) -> bool:
    """Answer here, in a private namespace; whether the request was fulfilled.

    Raises ``SessionError`` before anything ran.
    """
    from parsimony_kernel.agent.events import RunCompleted
    from parsimony_kernel.execution.executor import CodeExecutor
    from parsimony_kernel.view.fold import EMPTY, fold
    from parsimony_kernel.view.text import text_of

    place = find_workspace(folder) / row.turn.notebook
    session = open_session(
        executor=CodeExecutor(cwd=str(place.parent)), notebook=place.name, folder=place.parent
    )
    view, done = EMPTY, False
    try:
        async for event in session.resume(answer, turn_id=row.turn.run_id):
            view = fold(view, event)
            done = isinstance(event, RunCompleted)
    finally:
        session.close()
        if view.blocks:
            say(text_of(view.blocks))
    return done
