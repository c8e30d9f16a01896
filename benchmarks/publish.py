"""What publishing a table costs, beside writing it with ``DataFrame.to_parquet``.

With its code, its line of the log, every digest and every sync to the disk, in a workspace that
was begun just before and in which nothing is published yet. A figure is the median of several
runs; the ratio is to the baseline of the same run. ``to_parquet`` doesn't wait for the disk: a
second baseline syncs its file and the file's folder.

    python -m benchmarks.publish [ROUNDS] [--json]
"""

import argparse
import os
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.lineage import milliseconds, table
from benchmarks.table import Row, show
from parsimony_kernel.artifacts.publish import Publisher
from parsimony_kernel.artifacts.store import ArtifactStore
from parsimony_kernel.lineage.ledger import VariableOrigin
from parsimony_kernel.storage.workspace import prepare

ROWS = (10**3, 10**5, 10**6, 5 * 10**6)
ORIGIN = VariableOrigin(
    name="df",
    version=1,
    actor="agent",
    notebook_path="work.ipynb",
    cell_id="cell",
    run_id="run",
    code="df = made()",
    code_sha="0",
)


def synced(value: Any, path: Path) -> None:
    """Write a table so that it survives a power cut."""
    value.to_parquet(path)
    for each in (path, path.parent):
        handle = os.open(each, os.O_RDONLY)
        os.fsync(handle)
        os.close(handle)


def published(rounds: int) -> Iterator[Row]:
    """Tables of several sizes, each of another content."""
    later = []
    for rows in ROWS:
        first, again = list[float](), list[float]()
        floors: dict[str, list[float]] = {"to_parquet": [], "to_parquet, synced": []}
        for number in range(rounds):
            with tempfile.TemporaryDirectory() as folder:
                store = ArtifactStore(Path(folder))
                prepare(store.root)  # as a session does when it opens its journal
                publisher = Publisher(store, notebook_path="work.ipynb")
                told: Any = {"variable": "df", "title": "T", "lineage": [ORIGIN], "run_id": "r"}
                value, other = table(rows, number), table(rows, rounds + number)
                for name, write in zip(floors, (type(value).to_parquet, synced), strict=True):
                    path = Path(folder) / f"{name}.parquet"
                    floors[name].append(milliseconds(partial(write, value, path)))
                first.append(milliseconds(partial(publisher.publish, "dataset", value, **told)))
                again.append(milliseconds(partial(publisher.publish, "dataset", other, **told)))
        for name, floor in floors.items():
            yield Row("publish a dataset", f"{rows:,} rows", "ms", first, name, floor, rows)
            later.append(Row("publish it anew", f"{rows:,} rows", "ms", again, name, floor, rows))
    yield from later


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("rounds", nargs="?", type=int, default=7, help="runs of each figure")
    parser.add_argument("--json", action="store_true", help="JSON in place of the table")
    given = parser.parse_args()
    show(published(given.rounds), rounds=given.rounds, as_json=given.json)


if __name__ == "__main__":
    main()
