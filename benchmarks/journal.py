"""What a turn costs in a journal that has many turns: does it grow with what is there already?

One notebook of several in a workspace runs turns (one that runs code, one that asks and is
answered, one that publishes) with a scripted model, so that the time is ours. A figure is the
median CPU of the process; the baseline is the same turn in the smallest journal.

    python -m benchmarks.journal [ROUNDS] [--json]
"""

import argparse
import asyncio
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.kernels import CELLS, Scripted
from benchmarks.table import Row, show
from parsimony_kernel.core import events as ev
from parsimony_kernel.execution.executor import CodeExecutor
from parsimony_kernel.session.session import NotebookSession
from parsimony_kernel.session.turn_values import TurnOptions
from parsimony_kernel.storage.journal import SqliteJournal
from parsimony_kernel.storage.seal import link
from parsimony_kernel.storage.workspace import journal_path, prepare

Meter = Callable[[NotebookSession], Callable[[], float]]
TURNS = (100, 1_000, 10_000)
EVENTS, AT = 12, "2026-01-01T00:00:00+00:00"


def fill(folder: Path, turns: int, notebooks: int = 16) -> None:
    """Write a journal of finished turns, as so many notebooks would."""
    prepare(folder)
    journal = SqliteJournal(journal_path(folder))
    body = ev.TextDelta(content="x" * 400).model_dump_json()
    record = '{"state":"' + "x" * 6_000 + '"}'
    with journal.transaction() as db:
        for number in range(turns):
            run_id, notebook = f"run{number:06}", f"n{number % notebooks:02}.ipynb"
            status = "replaced" if number % 3 == 0 else "done"
            db.execute(
                "INSERT INTO turns (run_id, notebook, cell_key, ordinal, request, model, status, "
                "started_at, ended_at) VALUES (?, ?, ?, ?, 'do it', 'm', ?, ?, ?)",
                (run_id, notebook, f"c{number}", number // notebooks + 1, status, AT, AT),
            )
            for _ in range(EVENTS):
                link(db, run_id, AT, body)
            db.execute(
                "INSERT INTO effects VALUES (?, ?, 'run_code', ?, 'committed', 'null')",
                (f"k{number}", run_id, "x" * 300),
            )
            db.execute(
                "INSERT INTO sent VALUES (?, 1, ?, 'm', ?)", (run_id, AT, '"' + "x" * 8_000 + '"')
            )
            db.execute(
                "INSERT INTO suspensions VALUES (?, ?, ?, 'consumed')",
                (f"n{number}", run_id, record),
            )
    journal.close()


async def rounds_of(
    folder: Path, rounds: int, meter: Meter = lambda session: time.process_time
) -> dict[str, list[float]]:
    """Return what each kind of cell takes by the ``meter``, by default seconds of CPU."""
    took: dict[str, list[float]] = {kind: [] for kind, _, _ in CELLS}
    session = NotebookSession(
        executor=CodeExecutor(cwd=str(folder)),
        notebook="n00.ipynb",
        folder=folder,
        model=Scripted(),
    )
    read = meter(session)
    for number in range(rounds + 1):
        for kind, source, _ in CELLS:
            begun = read()
            if kind == "answer":
                stream = session.resume("1")
            else:
                request = source.partition("\n")[2]
                stream = session.turn(request, cell_key=f"{number}-{kind}", options=TurnOptions())
            async for _event in stream:
                pass
            if number:  # the first round imports
                took[kind].append(read() - begun)
    session.close()
    return took


def measured(rounds: int) -> Iterator[Row]:
    """Each kind of cell in journals of several sizes."""
    floors: dict[str, list[float]] = {}
    for turns in TURNS:
        with tempfile.TemporaryDirectory() as place:
            os.environ["JUPYTER_DATA_DIR"] = str(Path(place) / "data")
            folder = Path(place) / "work"
            folder.mkdir()
            fill(folder, turns)
            for kind, took in asyncio.run(rounds_of(folder, rounds)).items():
                took = [1000 * seconds for seconds in took]
                floor = floors.setdefault(kind, took)
                yield Row(kind, f"{turns:,} turns", "ms", took, f"{TURNS[0]} turns", floor)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("rounds", nargs="?", type=int, default=7, help="runs of each figure")
    parser.add_argument("--json", action="store_true", help="JSON in place of the table")
    given = parser.parse_args()
    show(measured(given.rounds), rounds=given.rounds, as_json=given.json)


if __name__ == "__main__":
    main()
