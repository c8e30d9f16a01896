"""What tracking and undo cost: per cell, per turn, and in memory.

One Markdown table in the manner of ``loop.py``: a figure is the median of several runs, beside it
the fastest and the slowest, a baseline from the same run with the ratio to it, and the growth per
item in proportion to the first of its section.

A user's cell is run in two shells that hold equal objects, one of which has the extension; the
figure is the difference within each pair. Every cell has text that was not seen before. It should
be under 1 ms with 1,000 variables and a frame of 1 GB among them.

    python -m benchmarks.lineage [all|cell|undo|outputs|slice|memory] [ROUNDS] [--json]
"""

import argparse
import ast
import copy
import gc
import time
import tracemalloc
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
from IPython.core.interactiveshell import InteractiveShell

from benchmarks.table import Row, show
from parsimony_agent.extension import install, uninstall
from parsimony_kernel.execution.factory import OutputFactory
from parsimony_kernel.execution.run_scope import RunScope
from parsimony_kernel.lineage.checkpoint import Change, Checkpoints
from parsimony_kernel.lineage.ledger import OriginLedger, stamp_effect
from parsimony_kernel.lineage.observe import Looked, before_cell, observe_cell
from parsimony_kernel.lineage.script import slice_of
from parsimony_kernel.lineage.snapshot import visible
from parsimony_kernel.lineage.why import why
from parsimony_kernel.session.past import Changes

NAMES = (10, 100, 1_000)
LARGE_BYTES = 10**9
CHANGED_BYTES = (10**6, 10**8, 10**9)
SHOWN_ROWS = (10**4, 10**6, 10**7)
LEDGER_CELLS = (100, 300, 1_000, 3_000)
KEPT_CELLS = 1_000
TURNS = 10
# Cells of one configuration in one round; a cell is short and the machine is not quiet.
PAIRS = 10

USER = RunScope("", "work.ipynb", "cell", actor="user")
HELPER = 'def helper(frame):\n    frame.loc[0, "v"] = 2.0'
CELLS = {
    "x = 1": "x = 1",
    "df2 = df.groupby(…)": 'df2 = df.groupby("g")["v"].mean().reset_index()',
    'df["c"] = 1': 'df["c"] = 1',
    "helper(df)": "helper(df)",
    'v3["b"].append(1)': 'v3["b"].append(1)',
}
IN_LARGE = {"large.iloc[0, 0] = 2.0": "large.iloc[0, 0] = 2.0", "helper(large)": "helper(large)"}
TURNS_OF = {
    "rebinds a name": "number = 2",
    "adds a column": "frame['new'] = 1.0",
    "changes a cell": "frame.iloc[0, 0] = 2.0",
    "replaces the frame": "frame = frame * 2",
}


def frame_of(size: int) -> pd.DataFrame:
    """A frame of 8 columns of floats and ``size`` bytes; its first two are ``v`` and ``w``."""
    numbers = np.ones((max(size // 64, 1), 8))
    return pd.DataFrame(numbers, columns=["v", "w", *(f"c{n}" for n in range(6))])


def stamp(
    ledger: OriginLedger,
    before: Mapping[str, Any],
    after: Mapping[str, Any],
    code: str,
    looked: Looked | None = None,
) -> None:
    """Stamp what a person's cell did."""
    effect = observe_cell(before, after, code, Path(), looked=looked)
    stamp_effect(ledger, effect, code, USER, "")


def milliseconds(work: Callable[..., object], *given: object) -> float:
    """How long ``work`` takes."""
    gc.collect()
    begun = time.perf_counter()
    work(*given)
    return (time.perf_counter() - begun) * 1_000


# A user's cell


def variables(names: int, large: int) -> dict[str, Any]:
    """As many variables of a notebook, of usual kinds; one has ``large`` bytes, unless it is 0."""
    small = pd.DataFrame({"g": list("ab") * 50, "v": np.arange(100.0)})
    bound: dict[str, Any] = {"df": small} | ({"large": frame_of(large)} if large else {})
    makers: tuple[Callable[[int], Any], ...] = (
        lambda n: n,
        lambda n: f"text {n}",
        lambda n: [n, n + 1, str(n)],
        lambda n: {"a": n, "b": [n]},
        lambda n: np.arange(n + 10.0),
        lambda n: small.head(n + 1).copy(),
        lambda n: small["v"] + n,
        lambda n: (n, [n]),
        lambda n: {n},
        lambda n: [{"a": each} for each in range(5)],
    )
    for n in range(names - len(bound)):
        bound[f"v{n}"] = makers[n % len(makers)](n)
    return bound


class Pair:
    """Two shells with equal variables, of which ``tracked`` has the extension."""

    def __init__(self, fill: Callable[[], Mapping[str, Any]] = dict, *, in_session: bool) -> None:
        self.plain, self.tracked = InteractiveShell(), InteractiveShell()
        for shell in (self.plain, self.tracked):
            shell.user_ns.update(fill())
            shell.run_cell(HELPER)
        extension = install(self.tracked)
        if in_session:
            extension.user_cells.stamp_into(OriginLedger())
        self._ran = 0

    def close(self) -> None:
        uninstall(self.tracked)
        for shell in (self.plain, self.tracked):
            shell.history_manager.end_session()
            shell.user_ns.clear()

    def ran(self, code: str) -> tuple[float, float]:
        """Milliseconds of ``code``, as text that is new, in each."""
        self._ran += 1
        text = f"{code}  # {self._ran}"
        took = {}
        shells = (self.plain, self.tracked)
        for shell in shells if self._ran % 2 else reversed(shells):
            begun = time.perf_counter()
            result = shell.run_cell(text)
            took[shell] = (time.perf_counter() - begun) * 1_000
            result.raise_error()
        return took[self.plain], took[self.tracked]


def user_cells(rounds: int) -> Iterator[Row]:
    """What tracking adds to a cell of the user's."""
    for large in (0, LARGE_BYTES):
        beside = ", 1 GB frame" if large else ""
        for in_session in (False, True):
            state = "with a session" if in_session else "before a session"
            for names in NAMES:
                pair = Pair(partial(variables, names, large), in_session=in_session)
                codes = CELLS | IN_LARGE if large else CELLS
                for label, code in codes.items():
                    pair.ran(code)
                    gc.collect()
                    took = [pair.ran(code) for _ in range(rounds * PAIRS)]
                    yield Row(
                        f"extra of a user's cell, {state}{beside}",
                        f"`{label}`, {names:,} names",
                        "ms",
                        [ours - plain for plain, ours in took],
                        "whole cell untracked",
                        [plain for plain, _ in took],
                    )
                pair.close()


# Undo


@dataclass
class Namespace:
    """A namespace of 100 names and a frame, with its checkpoints."""

    bound: dict[str, Any]

    def __post_init__(self) -> None:
        self.ledger = OriginLedger()
        self.checkpoints = Checkpoints(lambda: self.bound, self.visible, self.ledger)

    def visible(self) -> dict[str, Any]:
        return visible(self.bound, {})

    def turn(self, code: str) -> tuple[Change, float, float]:
        """What a turn that runs ``code`` changed, the milliseconds of the code, and the others."""
        begun = time.perf_counter()
        self.checkpoints.take()
        self.checkpoints.protect(code)
        ready = time.perf_counter()
        before = self.visible()
        looked = before_cell(code, self.bound)
        running = time.perf_counter()
        exec(code, self.bound)
        ran = time.perf_counter()
        stamp(self.ledger, before, self.visible(), code, looked)
        stamped = time.perf_counter()
        change = self.checkpoints.close()
        if change is None:
            raise RuntimeError(f"{code!r} changed nothing")
        others = time.perf_counter() - stamped + ready - begun
        return change, (ran - running) * 1_000, others * 1_000


def undo(rounds: int) -> Iterator[Row]:
    """What it costs to be able to go back, and to go back."""
    sections: dict[str, list[Row]] = {name: [] for name in ("undo", "checkpoint", "the code")}
    for size in CHANGED_BYTES:
        for label, code in TURNS_OF.items():
            back, ready, code_took, deep, plain = [], [], [], [], []
            for _ in range(rounds):
                frame = frame_of(size)
                others = {f"v{n}": [n] for n in range(100)}
                own = Namespace(others | {"number": 1, "frame": frame})
                begun = time.perf_counter()
                unprotected = {"frame": copy.deepcopy(frame)}
                deep.append((time.perf_counter() - begun) * 1_000)
                plain.append(milliseconds(exec, code, unprotected))
                del unprotected, frame
                change, took, beside = own.turn(code)
                code_took.append(took)
                ready.append(beside)
                begun = time.perf_counter()
                done, *_ = own.checkpoints.undo(change)
                back.append((time.perf_counter() - begun) * 1_000)
                frame = own.bound["frame"]
                if done.lost or frame.shape[1] != 8 or frame.iloc[0, 0] != 1.0:
                    raise RuntimeError(f"{code!r} on {size:,} bytes was not taken back")
                del change, frame, own, _
            at = f"{label}, {size / 1e6:,.0f} MB"
            sections["undo"].append(Row("undo of a turn", at, "ms", back, "deepcopy", deep))
            sections["checkpoint"].append(
                Row("checkpoint and copies, per turn", at, "ms", ready, "deepcopy", deep)
            )
            sections["the code"].append(
                Row("the turn's code, protected", at, "ms", code_took, "unprotected", plain)
            )
    for rows in sections.values():
        yield from rows


# Tables


def table(rows: int, seed: int) -> pd.DataFrame:
    """A table of four columns that no other ``seed`` gives."""
    drawn = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "at": pd.date_range("2020-01-01", periods=rows, freq="s"),
            "count": drawn.integers(0, 1_000, rows),
            "price": drawn.normal(size=rows),
            "place": drawn.choice(["north", "south", "east", "west"], rows),
        }
    )


# Outputs


def shown(rows: int) -> dict[str, Callable[[], Any]]:
    """Tables of every library, and an array, by what they are."""
    numbers = np.arange(rows * 3.0).reshape(rows, 3)
    names = ["a", "b", "c"]
    return {
        "pandas": lambda: pd.DataFrame(numbers, columns=names),
        "pandas, with text": lambda: table(rows, 0),
        "polars": lambda: pl.DataFrame(numbers, schema=names),
        "pyarrow": lambda: pa.table({name: numbers[:, n] for n, name in enumerate(names)}),
        "numpy": lambda: numbers,
    }


def outputs(rounds: int) -> Iterator[Row]:
    """Turning a value into an output, which should not ask how many rows there are."""
    factory = OutputFactory()
    for kind in shown(1):
        smallest: list[float] = []
        for rows in SHOWN_ROWS:
            value = shown(rows)[kind]()
            factory.convert(value)
            took = [milliseconds(factory.convert, value) for _ in range(3 * rounds)]
            smallest = smallest or took
            at = f"{kind}, {rows:,} rows"
            yield Row("output of a value", at, "ms", took, f"{SHOWN_ROWS[0]:,} rows", smallest)
            del value
            gc.collect()


# Slice and why


def recorded(count: int, seed: int) -> tuple[OriginLedger, list[str]]:
    """A ledger of ``count`` cells that ran, each of which uses the one before, and their code."""
    ledger, bound = OriginLedger(), dict[str, Any]()
    codes = [f"v0 = [{seed}]"]
    codes += [
        f"scale = {seed + n}\nv{n} = [each + scale for each in v{n - 1}]\nlen(v{n})"
        for n in range(1, count)
    ]
    for code in codes:
        before = visible(bound, {})
        looked = before_cell(code, bound)
        exec(code, bound)
        stamp(ledger, before, visible(bound, {}), code, looked)
    return ledger, codes


def slices(rounds: int) -> Iterator[Row]:
    """What it takes to tell where a variable comes from, when every cell went into it."""
    sections: dict[str, list[Row]] = {"slice": [], "why": []}
    for count in LEDGER_CELLS:
        sliced, told, floor = [], [], []
        for number in range(rounds):
            ledger, codes = recorded(count, number * 10_000)
            name = f"v{count - 1}"
            floor.append(milliseconds(lambda codes=codes: [ast.parse(each) for each in codes]))
            sliced.append(milliseconds(slice_of, ledger, name))
            told.append(milliseconds(why, ledger, name))
        for section, samples in zip(sections, (sliced, told), strict=True):
            row = Row(section, f"{count:,} cells", "ms", samples, "ast.parse", floor, count)
            sections[section].append(row)
    for rows in sections.values():
        yield from rows


# Memory


def held(work: Callable[[], object]) -> float:
    """Megabytes that stay allocated for what ``work`` gives."""
    gc.collect()
    tracemalloc.start()
    kept = work()
    gc.collect()
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    del kept
    return size / 1e6


def texts(seed: int) -> list[str]:
    """The cells whose record is weighed, of 1 KB each."""
    return [f"v{n % 100} = {seed + n}\n".ljust(1_000, "#") + "\n" for n in range(KEPT_CELLS)]


def run_all(seed: int, *, in_session: bool, tracked: bool = True) -> Pair:
    """A pair of shells, one of which ran all cells."""
    pair = Pair(in_session=in_session)
    shell = pair.tracked if tracked else pair.plain
    for text in texts(seed):
        shell.run_cell(text).raise_error()
    return pair


def turns(size: int) -> Changes:
    """The changes of turns of which each replaced a frame of ``size`` bytes."""
    own, changes = Namespace({"frame": frame_of(size)}), Changes()
    for number in range(TURNS):
        changes.add(f"r{number}", own.turn(f"frame = frame + {number + 1}")[0])
    return changes


def memory(rounds: int) -> Iterator[Row]:
    """What stays in memory."""
    run_all(-KEPT_CELLS, in_session=True).close()
    for in_session in (False, True):
        ours, floor = [], []
        for number in range(rounds):
            seed = number * KEPT_CELLS
            floor.append(held(partial(run_all, seed, in_session=in_session, tracked=False)))
            ours.append(held(partial(run_all, seed, in_session=in_session)))
        yield Row(
            f"memory, {KEPT_CELLS:,} cells of 1 KB",
            "with a session" if in_session else "before a session",
            "MB",
            ours,
            "untracked",
            floor,
        )
    for size in (10**6, 10**7, 10**8):
        ours = [held(partial(turns, size)) for _ in range(rounds)]
        floor = [held(partial(frame_of, size)) for _ in range(rounds)]
        at = f"each replaced {size / 1e6:,.0f} MB"
        yield Row(f"memory of {TURNS} turns", at, "MB", ours, "one frame", floor)


SECTIONS: dict[str, Callable[[int], Iterator[Row]]] = {
    "cell": user_cells,
    "undo": undo,
    "outputs": outputs,
    "slice": slices,
    "memory": memory,
}


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("section", nargs="?", choices=("all", *SECTIONS), default="all")
    parser.add_argument("rounds", nargs="?", type=int, default=7, help="runs of each figure")
    parser.add_argument("--json", action="store_true", help="JSON in place of the table")
    given = parser.parse_args()
    chosen = [name for name in SECTIONS if given.section in ("all", name)]
    rows = chain.from_iterable(SECTIONS[name](given.rounds) for name in chosen)
    show(rows, rounds=given.rounds, as_json=given.json)


if __name__ == "__main__":
    main()
