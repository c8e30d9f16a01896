"""``verify``: whether the journal and everything published are as they were written."""

import argparse
import sys
from dataclasses import asdict

from parsimony_kernel.cli import output
from parsimony_kernel.cli.parser import Commands, Examples, add_command, add_folder, add_json

EXAMPLES: Examples = (
    ("verify", "look, and move what is broken aside"),
    ("verify --folder work --leave", "only look, in another folder"),
    ("verify --json", "for a program"),
)
KEYS = {
    "ok": "whether nothing is wrong",
    "journal_entry": "the first bad entry of the journal, or null",
    "journal_problem": "what is wrong with it, or null",
    "snapshots": "how many were looked at",
    "lines": "how many lines of logs were",
    "findings": "what is wrong: path, problem, moved_to",
    "unnamed": "paths of sound snapshots that no log names",
    "notes": "what is no fault, in the form of findings",
}


def add(commands: Commands) -> None:
    command = add_command(
        commands,
        "verify",
        run,
        "check that the journal and everything published are as they were written",
        examples=EXAMPLES,
        keys=KEYS,
    )
    add_folder(command)
    command.add_argument(
        "--leave",
        action="store_true",
        help="leave broken snapshots where they are, instead of moving them to .ockham/quarantine",
    )
    add_json(command)


def run(arguments: argparse.Namespace) -> int:
    from parsimony_kernel.session.audit import first_bad_entry, report_of
    from parsimony_kernel.session.upkeep import store_of, verify_in
    from parsimony_kernel.storage.database import JournalError
    from parsimony_kernel.storage.durable import StorageError

    folder = arguments.folder.resolve()
    try:
        has_artifacts = store_of(folder).folder.is_dir()
        bad = first_bad_entry(folder, required=not has_artifacts)
        found = verify_in(folder, quarantine=not arguments.leave)
    except (JournalError, StorageError) as problem:
        return output.fail(problem)
    is_well = bad is None and found.ok
    if arguments.json:
        entry, problem_there = bad or (None, None)
        head = {"ok": is_well, "journal_entry": entry, "journal_problem": problem_there}
        output.as_json({**head, **asdict(found)})
    elif is_well:
        output.say("\n".join(report_of(bad, found)))
    else:
        print("\n".join(report_of(bad, found)), file=sys.stderr)
    return output.DONE if is_well else output.FAILED
