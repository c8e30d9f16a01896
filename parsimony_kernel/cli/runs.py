"""``runs``: the turns of a workspace, the newest last."""

import argparse
from typing import Any

from parsimony_kernel.cli import output
from parsimony_kernel.cli.parser import (
    Commands,
    Examples,
    add_command,
    add_folder,
    add_json,
    count,
)
from parsimony_kernel.storage.store import STATUSES, TurnRow

EXAMPLES: Examples = (
    ("runs", "list the newest turns here"),
    ("runs --notebook sales.ipynb --limit 5", "of one notebook only"),
    ("runs --status suspended --json", "those that wait, for a program"),
)
KEYS = {
    "runs": "the turns, oldest first: turn_id, notebook, turn, status, request, model, "
    "started_at, ended_at, summary",
    "more": "how many older ones the limit has left out",
}
_LIMIT = 20


def add(commands: Commands) -> None:
    command = add_command(
        commands,
        "runs",
        run,
        "list the turns of the notebooks here, the newest last",
        examples=EXAMPLES,
        keys=KEYS,
    )
    add_folder(command)
    command.add_argument("--notebook", help="of this notebook only")
    command.add_argument(
        "--status",
        choices=sorted(STATUSES),
        metavar="STATUS",
        help=f"only those that are {', '.join(sorted(STATUSES))}",
    )
    command.add_argument(
        "--limit", type=count, default=_LIMIT, metavar="N", help=f"the newest N (default: {_LIMIT})"
    )
    add_json(command)


def run(arguments: argparse.Namespace) -> int:
    from parsimony_kernel.cli.turns import of_notebook
    from parsimony_kernel.session.audit import journal_of
    from parsimony_kernel.session.turns import SessionError
    from parsimony_kernel.storage.database import JournalError

    try:
        with journal_of(arguments.folder.resolve()) as journal:
            found = of_notebook(journal.turns(), arguments.notebook)
    except (JournalError, SessionError) as problem:
        return output.fail(problem)
    if arguments.status is not None:
        found = [turn for turn in found if turn.status == arguments.status]
    shown = found[-arguments.limit :]
    more = len(found) - len(shown)
    if arguments.json:
        output.as_json({"runs": [described(turn) for turn in shown], "more": more})
    else:
        output.say(_listing(shown, more))
    return output.DONE


def described(turn: TurnRow) -> dict[str, Any]:
    """A turn for a program. Times are ISO 8601 in UTC, empty while unknown."""
    return {
        "turn_id": turn.run_id,
        "notebook": turn.notebook,
        "turn": turn.ordinal,
        "status": turn.status,
        "request": turn.request,
        "model": turn.model,
        "started_at": turn.started_at,
        "ended_at": turn.ended_at,
        "summary": turn.summary,
    }


def _listing(turns: list[TurnRow], more: int) -> str:
    from parsimony_agent.tables import table
    from parsimony_kernel.session.identity import called
    from parsimony_kernel.session.turns import short_id

    rows = [
        (
            short_id(turn.run_id),
            called(turn.notebook),
            str(turn.ordinal),
            turn.status,
            turn.started_at[:16].replace("T", " "),
            turn.request or "(purged)",
        )
        for turn in turns
    ]
    head = ("id", "notebook", "turn", "status", "started (UTC)", "request")
    told = str(table(head, rows, empty="No such turn is on record here.")["text/plain"])
    return f"{told}\n({more} older: --limit {more + len(turns)} shows them too)" if more else told
