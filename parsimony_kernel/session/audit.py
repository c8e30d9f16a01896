"""What a workspace's journal tells as a whole: whether it is intact, and how the runs went."""

import os
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from pathlib import Path
from shutil import copyfile
from tempfile import TemporaryDirectory

from parsimony_kernel.artifacts.verify import Verification
from parsimony_kernel.metrics import figures
from parsimony_kernel.metrics.figures import Figures
from parsimony_kernel.session.turn_log import is_alive
from parsimony_kernel.storage.database import JournalError
from parsimony_kernel.storage.store import SqliteJournal, TurnRow
from parsimony_kernel.storage.workspace import find_workspace, journal_path

# What is told of how runs go is told of recent ones.
RECENT_TURNS = 200


@contextmanager
def journal_of(folder: Path, *, writes: bool = False) -> Iterator[SqliteJournal]:
    """The journal of the workspace that ``folder`` is in.

    On a medium that cannot be written a copy is read, unless the caller ``writes``.

    Raises:
        JournalError: there is none, or it was an older version's and has just been set aside.
    """
    path = journal_path(find_workspace(folder))
    if not path.is_file():
        raise JournalError(
            f"There is no journal in {str(folder)!r} or a folder above it. "
            "Name the notebook's folder with --folder."
        )
    with ExitStack() as stack:
        if not writes and not os.access(path.parent, os.W_OK):
            place = Path(stack.enter_context(TemporaryDirectory(prefix="parsimony-")))
            for each in path.parent.glob(f"{path.name}*"):
                copyfile(each, place / each.name)
            path = place / path.name
        journal = stack.enter_context(closing(SqliteJournal(path)))
        if news := journal.news():
            raise JournalError(news)
        yield journal


def turns_of(journal: SqliteJournal) -> tuple[TurnRow, ...]:
    """All turns, oldest first; one that says it runs, and whose process is gone, is cancelled."""
    return tuple(
        replace(turn, status="cancelled")
        if turn.status == "running" and not is_alive(turn.pid, turn.running_since)
        else turn
        for turn in journal.turns()
    )


def first_bad_entry(folder: Path, *, required: bool = True) -> tuple[int, str] | None:
    """The first entry of the journal that was changed or is missing, and what is wrong with it.

    Without a journal that is a ``JournalError``, unless it is not ``required``.
    """
    if not required and not journal_path(find_workspace(folder)).is_file():
        return None
    with journal_of(folder) as journal:
        elsewhere = journal.database.sealed_elsewhere()
        return journal.verify() or ((0, elsewhere) if elsewhere else None)


def report_of(bad: tuple[int, str] | None, found: Verification) -> list[str]:
    """What a verification has found, a line each: first what is well, last what is no fault."""
    well, wrong = list[str](), list[str]()
    if bad is None:
        well.append(
            "The journal is as it was written: turns, events, questions, writes and requests, by "
            "their chain and its seal."
        )
    elif not bad[0]:
        wrong.append(f"The journal cannot be vouched for: {bad[1]}.")
    else:
        wrong.append(f"Entry {bad[0]} of the journal is the first bad one: {bad[1]}.")
    if found.ok:
        well.append(
            f"Everything published is as it was written: snapshots {found.snapshots}, "
            f"lines of logs {found.lines}."
        )
    told = [each.sentence for each in (*found.findings, *found.notes)]
    return [*well, *wrong, *told]


def figures_of(journal: SqliteJournal, notebook: str | None = None) -> Figures:
    """How the recent turns went, of one notebook or of all."""
    recent = journal.turns(notebook)[-RECENT_TURNS:]
    return figures.of_runs(journal.events(turn.run_id) for turn in recent)
