"""``resume``: the questions that wait, and answering one."""

import argparse
import asyncio

from parsimony_kernel.cli import output
from parsimony_kernel.cli.parser import (
    Commands,
    Examples,
    add_command,
    add_folder,
    add_json,
    seconds,
)

EXAMPLES: Examples = (
    ("resume", "list the questions that wait"),
    ("resume 2", "answer with the second choice"),
    ("resume --turn 3f2a91 temp_max", "answer one of several, with words"),
    ("resume -- -1 or less", "with words that begin with a dash"),
    ("resume --json", "the list for a program"),
)
KEYS = {
    "questions": "those that wait, newest first: turn_id, notebook, turn, request, question, "
    "context, held, choices, asked_at",
}


def add(commands: Commands) -> None:
    command = add_command(
        commands,
        "resume",
        run,
        "list waiting questions, or answer one",
        examples=EXAMPLES,
        keys=KEYS,
    )
    command.add_argument("answer", nargs="*", help="a choice's number, or words; nothing lists")
    command.add_argument(
        "--wait",
        type=seconds,
        default=0.0,
        metavar="SECONDS",
        help="how long to wait for a busy kernel",
    )
    command.add_argument("--turn", help="the turn's number, or six characters of its id")
    add_folder(command)
    add_json(command)


def run(arguments: argparse.Namespace) -> int:
    from parsimony_kernel.session import resume
    from parsimony_kernel.session.turns import SessionError
    from parsimony_kernel.storage.database import JournalError

    folder = arguments.folder.resolve()
    answer = " ".join(arguments.answer)
    if answer and arguments.json:
        return output.misuse("--json lists what waits: leave it out to answer.")
    try:
        rows = resume.questions(folder)
        if not answer and arguments.turn is not None:
            rows = (resume.choose(rows, arguments.turn),)
        if arguments.json:
            output.as_json({"questions": [resume.described(row) for row in rows]})
            return output.DONE
        if not answer:
            output.say(resume.listing(rows))
            return output.DONE
        row = resume.choose(rows, arguments.turn)
        went_on = resume.in_kernel(row, answer, output.say, wait_s=arguments.wait)
        if went_on is None:
            output.say(
                "The notebook's kernel is gone; the run goes on here, without its variables."
            )
            went_on = asyncio.run(resume.in_this_process(row, answer, folder, output.say))
    except (SessionError, JournalError) as problem:
        return output.fail(problem)
    return output.DONE if went_on else output.FAILED
