"""``show``: the record of a turn as its cell shows it, from the journal alone."""

import argparse
from collections.abc import Sequence
from operator import attrgetter

from parsimony_kernel.cli import output
from parsimony_kernel.cli.parser import Commands, Examples, add_command, add_folder, add_json
from parsimony_kernel.core.events import AgentEvent

EXAMPLES: Examples = (
    ("show", "show the newest turn"),
    ("show 2 --notebook sales.ipynb", "the second turn of one notebook"),
    ("show 3f2a91 --steps", "what was done, a line a step"),
    ("show 3f2a91 --code", "the code that worked, to put into a file"),
    ("show 3f2a91 --json", "all of it, for a program"),
)
KEYS = {
    "turn_id": "the whole id",
    "notebook": "its path in the workspace",
    "turn": "its number in the notebook",
    "status": "as runs lists it",
    "request": "what was asked for",
    "model": "the model's name",
    "started_at": "ISO 8601 in UTC",
    "ended_at": "the same, empty while unknown",
    "summary": "how it ended, in words",
    "steps": "its story: step, what, outcome, words",
    "code": "the code that worked",
    "text": "the record, as without --json",
}
_STORY_WORDS = 600


def add(commands: Commands) -> None:
    command = add_command(
        commands,
        "show",
        run,
        "show the record of a turn; no kernel is needed",
        examples=EXAMPLES,
        keys=KEYS,
    )
    command.add_argument(
        "turn", nargs="?", help="its number, or six characters of its id (default: the newest)"
    )
    command.add_argument("--notebook", help="of this notebook")
    add_folder(command)
    form = command.add_mutually_exclusive_group()
    form.add_argument("--steps", action="store_true", help="what was done, a line a step")
    form.add_argument("--code", action="store_true", help="the code that worked and nothing else")
    add_json(form)


def run(arguments: argparse.Namespace) -> int:
    from parsimony_agent.tables import table
    from parsimony_kernel.cli.runs import described
    from parsimony_kernel.cli.turns import REMEDY, of_notebook
    from parsimony_kernel.session.audit import journal_of
    from parsimony_kernel.session.turns import SessionError, resolve_turn
    from parsimony_kernel.storage.database import JournalError
    from parsimony_kernel.view.history import code_that_worked, story

    try:
        with journal_of(arguments.folder.resolve()) as journal:
            turns = of_notebook(journal.turns(), arguments.notebook)
            key = attrgetter("ordinal", "run_id", "notebook")
            turn = resolve_turn(turns, arguments.turn, key, where="on record here", remedy=REMEDY)
            events = journal.events(turn.run_id)
    except (JournalError, SessionError) as problem:
        return output.fail(problem)
    if not events:
        why = "yet: it has just begun" if turn.request else "any more: it was purged"
        return output.fail(f"Nothing of turn {turn.ordinal} is on record {why}.")
    steps = story(events)
    code = "\n\n".join(step.source for step in code_that_worked(events))
    if arguments.json:
        rest = {"steps": [vars(line) for line in steps], "code": code, "text": record(events)}
        output.as_json({**described(turn), **rest})
    elif arguments.code:
        if not code:
            return output.fail("No code of this turn worked: see it without --code.")
        output.say(code)
    elif arguments.steps:
        told = [(line.step, line.what, line.outcome, line.words) for line in steps]
        head = ("step", "what", "outcome", "in words")
        empty = "Nothing of this turn is on record."
        output.say(str(table(head, told, empty=empty, widest=_STORY_WORDS)["text/plain"]))
    else:
        output.say(record(events))
    return output.DONE


def record(events: Sequence[AgentEvent]) -> str:
    """The record of a turn and what it has used. What it does just now is not on record."""
    from parsimony_kernel.view.blocks import ProgressBlock
    from parsimony_kernel.view.fold import replay
    from parsimony_kernel.view.text import record_of

    blocks = replay(events).blocks
    return record_of([block for block in blocks if not isinstance(block, ProgressBlock)])
