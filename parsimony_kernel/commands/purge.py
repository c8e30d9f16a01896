"""``purge``: forget what is old in the journal; what is published stays."""

import argparse
from datetime import timedelta

from parsimony_kernel.clock import SYSTEM_CLOCK
from parsimony_kernel.commands import output
from parsimony_kernel.commands.parser import (
    Commands,
    Examples,
    add_command,
    add_folder,
    add_json,
    age,
)

EXAMPLES: Examples = (
    ("purge --older-than 30d --dry-run", "count what would go, and leave it"),
    ("purge --older-than 30d", "forget it"),
    ("purge --older-than 12w --json", "for a program"),
)
KEYS = {
    "dry_run": "whether all of it is still there",
    "before": "what is older than this goes: ISO 8601 in UTC",
    "turns": "how many turns are forgotten",
    "events": "how many entries of the journal",
    "bytes": "how much that was",
    "kept": "how many old turns stay because somebody may still need them",
    "unfinished": "what is still to be done, which fails, or empty",
}


def add(commands: Commands) -> None:
    command = add_command(
        commands,
        "purge",
        run,
        "forget old turns in the journal; published artifacts stay",
        examples=EXAMPLES,
        keys=KEYS,
    )
    command.add_argument(
        "--older-than",
        type=age,
        required=True,
        metavar="AGE",
        help="hours, days or weeks: 36h, 30d, 12w",
    )
    command.add_argument("--dry-run", action="store_true", help="only count")
    add_folder(command)
    add_json(command)


def run(arguments: argparse.Namespace) -> int:
    from parsimony_kernel.audit import journal_of
    from parsimony_kernel.journal.database import JournalError
    from parsimony_kernel.journal.purge import purge
    from parsimony_kernel.session import MAX_QUESTION_AGE_S

    before = SYSTEM_CLOCK.now() - timedelta(seconds=arguments.older_than)
    try:
        with journal_of(arguments.folder.resolve()) as journal:
            gone = purge(
                journal, before, dry_run=arguments.dry_run, answerable_s=MAX_QUESTION_AGE_S
            )
    except JournalError as problem:
        return output.fail(problem)
    if arguments.json:
        output.as_json(
            {
                "dry_run": arguments.dry_run,
                "before": before.isoformat(),
                "turns": gone.turns,
                "events": gone.events,
                "bytes": gone.bytes,
                "kept": gone.kept,
                "unfinished": gone.unfinished,
            }
        )
        return output.FAILED if gone.unfinished else output.DONE
    verb = "Would be forgotten" if arguments.dry_run else "Forgotten"
    output.say(
        f"{verb}, from before {before:%Y-%m-%d %H:%M} UTC: turns {gone.turns:,}, entries "
        f"{gone.events:,}, bytes {gone.bytes:,}."
    )
    if gone.kept:
        output.say(f"Old turns that somebody may still need stay: {gone.kept:,}.")
    if gone.unfinished:
        return output.fail(gone.unfinished)
    return output.DONE
