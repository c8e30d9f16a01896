"""Many kernels in one workspace at once: is anything lost, and do they get slower?

    python -m benchmarks.kernels [--kernels 16] [--minutes 10] [--pause 15]

Each kernel has a notebook of its own in the same folder, and goes round: a turn that runs code, a
turn that asks, the answer, a turn that publishes a table, then a pause. The model is a script, so
that the time is ours. Beside them a process forgets what is older than two minutes. The table says
what the front ends waited in each minute. At the end every turn and every table that a kernel said
was done is looked for in the journal and on the disk: if one is missing, the exit code is 1.
"""

import argparse
import itertools
import multiprocessing
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psutil

from parsimony_kernel.artifacts.store import ArtifactStore
from parsimony_kernel.core.chat import Completion, ModelRequest
from parsimony_kernel.session.maintenance import forget_in, journal_of, turns_of, verify_in
from parsimony_kernel.testing.kernel_process import LiveKernel, live_kernel
from parsimony_kernel.testing.scripted import call, numbered

ROOT = Path(__file__).parents[1]
MADE = "import pandas as pd\nturn = globals().get('turn', 0) + 1\n"
MADE += "rows = pd.DataFrame({'turn': range(turn, turn + 50)})\nint(rows.turn.sum())"
# What the model says to a request, one answer after the other.
SCRIPT = {
    "make the rows": (
        call("run_code", code=MADE),
        call("return_done", summary="The rows are made."),
    ),
    "put them together": (
        call("ask_user", question="Sum or product?", choices=["the sum", "the product"]),
        call("run_code", code="together = int(rows.turn.sum())\ntogether"),
        call("return_done", summary="They are added."),
    ),
    "publish the rows": (
        call("return_dataset", variable="rows", title="Rows", description="The rows of a turn."),
        call("return_done", summary="The rows are published."),
    ),
}
# The cells of a round: what it is, the cell, and what must be shown when it is done.
CELLS = (
    ("turn", "%%agent\nmake the rows", "The rows are made."),
    ("question", "%%agent\nput them together", "Sum or product?"),
    ("answer", "%agent answer 1", "They are added."),
    ("publish", "%%agent\npublish the rows", "The rows are published."),
)
KINDS = tuple(kind for kind, _, _ in CELLS)
ENDS = ("turn", "answer", "publish")  # the cells that end a turn
TRIES = 5  # a cell that is refused is run again, as a person does
FORGET_EVERY_S, OLD = 15.0, timedelta(minutes=2)


class Scripted:
    """A model that says what the script says to the newest request, whatever went before."""

    name = "scripted"

    async def stream(self, request: ModelRequest) -> AsyncIterator[Completion]:
        """The answer whose turn it is."""
        said = 0
        for message in reversed(request.messages):
            said += message["role"] == "assistant"
            for words, answers in SCRIPT.items():
                if message["role"] == "user" and words in str(message["content"]):
                    yield numbered(answers[said], said)
                    return


@dataclass(frozen=True)
class Waited:
    """How long a front end waited for a cell, its kernel's CPU, and how it refused, if it did."""

    notebook: str
    kind: str
    ended_s: float
    took_s: float
    cpu_s: float = 0.0
    refusal: str = ""


def started(folder: Path, number: int, stack: ExitStack) -> tuple[str, LiveKernel]:
    """Notebook ``number`` and its kernel, ready for cells."""
    notebook = f"n{number:02}.ipynb"
    environ = {"JPY_SESSION_NAME": str(folder / notebook), "PYTHONPATH": str(ROOT)}
    kernel = stack.enter_context(live_kernel(folder, environ=environ))
    for cell in (
        "from benchmarks.kernels import Scripted\nscripted = Scripted()",
        "%agent model scripted",
    ):
        answer = kernel.run(cell)
        if answer.status != "ok":
            raise SystemExit(answer.text)
    return notebook, kernel


def work(
    notebook: str, kernel: LiveKernel, begun: float, until: float, pause_s: float, share: float
) -> list[Waited]:
    """Go round until the time is over, the first time after a ``share`` of the pause."""
    waited: list[Waited] = []
    process = psutil.Process(int(kernel.run("import os\nos.getpid()").text))
    time.sleep(share * pause_s)
    for number in itertools.count():
        if time.monotonic() > until:
            break
        for kind, source, shown in CELLS:
            for _ in range(TRIES):
                start, spent = time.monotonic(), sum(process.cpu_times()[:2])
                cell = kernel.run(source, cell_id=f"{number}-{kind}")
                end, took = time.monotonic(), sum(process.cpu_times()[:2]) - spent
                refusal = "" if shown in cell.text else cell.text
                waited.append(Waited(notebook, kind, end - begun, end - start, took, refusal))
                if not refusal:
                    break
        time.sleep(pause_s)
    return waited


def forget_beside(folder: Path, is_over: Any, forgotten: Any) -> None:
    """Forget what is old again and again, in a process of its own."""
    while not is_over.wait(FORGET_EVERY_S):
        purged, _, _ = forget_in(folder, datetime.now(UTC) - OLD)
        forgotten.value += purged.turns


def lost(folder: Path, waited: Sequence[Waited]) -> list[str]:
    """What was said to be done and is not there, and what is broken."""
    wrong = []
    said = Counter((each.notebook, each.kind) for each in waited if not each.refusal)
    with journal_of(folder) as journal:
        done = Counter(turn.notebook for turn in turns_of(journal) if turn.status == "done")
    store = ArtifactStore(folder)
    published = Counter(
        entry.notebook
        for newest in store.list()
        for entry in store.history(newest.kind, newest.logical_id)
        if entry.kind == "dataset"
    )
    for notebook in sorted({each.notebook for each in waited}):
        turns, tables = sum(said[notebook, kind] for kind in ENDS), said[notebook, "publish"]
        if (done[notebook], published[notebook]) != (turns, tables):
            wrong.append(
                f"{notebook}: it said {turns} turns and {tables} tables; there are "
                f"{done[notebook]} and {published[notebook]}"
            )
    bad, found = verify_in(folder)
    if bad:
        wrong.append(f"the journal, entry {bad[0]}: {bad[1]}")
    return [*wrong, *(each.sentence for each in found.findings)]


def wait_told(took: Sequence[float]) -> str:
    """The median and the 95th percentile, in seconds."""
    if len(took) < 2:
        return "–"
    return f"{statistics.median(took):.2f} / {statistics.quantiles(took, n=20)[-1]:.2f}"


def table(waited: Sequence[Waited]) -> Iterator[str]:
    """What each minute was like, as Markdown."""
    heads = ("minute", "cells", "CPU of a cell, s", *(f"{kind}, p50 / p95 s" for kind in KINDS))
    yield f"| {' | '.join(heads)} |"
    yield "|" + " ---: |" * len(heads)
    for minute in range(int(max(each.ended_s for each in waited) // 60) + 1):
        those = [each for each in waited if each.ended_s // 60 == minute]
        told = (wait_told([each.took_s for each in those if each.kind == kind]) for kind in KINDS)
        cpu = statistics.median(each.cpu_s for each in those) if those else 0
        yield f"| {minute + 1} | {len(those)} | {cpu:.3f} | " + " | ".join(told) + " |"


def main() -> int:
    """Run the kernels and print the table; the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--kernels", type=int, default=16)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--pause", type=float, default=15, help="seconds between two rounds")
    given = parser.parse_args()
    apart = multiprocessing.get_context("spawn")
    is_over, forgotten = apart.Event(), apart.Value("i", 0)
    with tempfile.TemporaryDirectory() as place, ExitStack() as stack:
        folder = Path(place)
        ran = [started(folder, number, stack) for number in range(given.kernels)]
        beside = apart.Process(target=forget_beside, args=(folder, is_over, forgotten))
        begun = time.monotonic()
        beside.start()
        until = begun + 60 * given.minutes
        with ThreadPoolExecutor(given.kernels) as pool:
            # Not all in step: each begins its round at another moment of the first pause.
            rounds = [
                pool.submit(work, *each, begun, until, given.pause, number / given.kernels)
                for number, each in enumerate(ran)
            ]
            waited = [each for one in rounds for each in one.result()]
        is_over.set()
        beside.join()
        wrong = lost(folder, waited)
        if beside.exitcode:
            wrong.append(f"who forgets ended with exit code {beside.exitcode}")
    print("\n".join(table(waited)))
    refusals = [" ".join(each.refusal.split())[-160:] for each in waited if each.refusal]
    print(
        f"\n{given.kernels} kernels, {len(waited)} cells; {forgotten.value} turns were forgotten "
        f"beside them. Refused: {len(refusals)}. Lost or broken: {len(wrong)}."
    )
    for said, times in Counter(refusals).most_common(5):
        print(f"Refused {times} times: {said}")
    print("\n".join(wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
