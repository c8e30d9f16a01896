"""``metrics``: how the recent turns went."""

import argparse

from parsimony_kernel.cli import output
from parsimony_kernel.cli.parser import Commands, Examples, add_command, add_folder, add_json

EXAMPLES: Examples = (
    ("metrics", "tell how the recent turns went"),
    ("metrics --json", "the figures for a program"),
    ("metrics --prometheus --folder work", "text for Prometheus, of another folder"),
)


def add(commands: Commands) -> None:
    command = add_command(
        commands, "metrics", run, "show how the recent turns went", examples=EXAMPLES
    )
    add_folder(command)
    form = command.add_mutually_exclusive_group()
    add_json(form)
    form.add_argument("--prometheus", action="store_true", help="as text for Prometheus")


def run(arguments: argparse.Namespace) -> int:
    from parsimony_kernel.metrics import alerts, figures, prometheus
    from parsimony_kernel.session.audit import RECENT_TURNS, figures_of, journal_of
    from parsimony_kernel.storage.database import JournalError

    try:
        with journal_of(arguments.folder.resolve()) as journal:
            if arguments.prometheus:
                recent = journal.turns()[-RECENT_TURNS:]
                counters = prometheus.of_runs(journal.events(turn.run_id) for turn in recent)
                output.say(counters.exposition().rstrip("\n"))
                return output.DONE
            counted = figures_of(journal)
    except JournalError as problem:
        return output.fail(problem)
    if arguments.json:
        output.as_json(figures.to_json(counted))
        return output.DONE
    output.say(figures.to_text(counted))
    if fired := alerts.fired(counted):
        output.say(f"\n{alerts.to_text(fired)}")
    return output.DONE
