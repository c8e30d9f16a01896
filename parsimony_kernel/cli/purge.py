"""``purge``: forget what is old in the workspace; what is published stays."""

import argparse
from datetime import timedelta

from parsimony_kernel.cli import output
from parsimony_kernel.cli.parser import (
    Commands,
    Examples,
    add_command,
    add_folder,
    add_json,
    age,
)
from parsimony_kernel.core.clock import SYSTEM_CLOCK

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
    "copies": "how many replaced and quarantined files are deleted",
    "copied_bytes": "how much those files were",
    "kept": "how many old turns stay because somebody may still need them",
    "unfinished": "what is still to be done, which fails, or empty",
}


def add(commands: Commands) -> None:
    command = add_command(
        commands,
        "purge",
        run,
        "forget old turns and replaced files; published artifacts stay",
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
    from parsimony_kernel.session.upkeep import forget_in
    from parsimony_kernel.storage.database import JournalError
    from parsimony_kernel.storage.durable import StorageError

    before = SYSTEM_CLOCK.now() - timedelta(seconds=arguments.older_than)
    try:
        forgotten = forget_in(arguments.folder.resolve(), before, dry_run=arguments.dry_run)
    except (JournalError, StorageError) as problem:
        return output.fail(problem)
    gone = forgotten.purged
    if arguments.json:
        output.as_json(
            {
                "dry_run": arguments.dry_run,
                "before": before.isoformat(),
                "turns": gone.turns,
                "events": gone.events,
                "bytes": gone.bytes,
                "copies": forgotten.copies,
                "copied_bytes": forgotten.copied_bytes,
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
    if forgotten.copies:
        verb = "Would be deleted" if arguments.dry_run else "Deleted"
        output.say(
            f"{verb}, replaced and quarantined files: {forgotten.copies:,}, bytes "
            f"{forgotten.copied_bytes:,}."
        )
    if gone.kept:
        output.say(f"Old turns that somebody may still need stay: {gone.kept:,}.")
    if gone.unfinished:
        return output.fail(gone.unfinished)
    return output.DONE
