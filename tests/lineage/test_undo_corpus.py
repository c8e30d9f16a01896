"""What code changes in the objects of libraries and of the notebook comes back, or is named."""

import importlib.util
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from lineage_desk import Desk

from parsimony_kernel.execution.run_scope import RunScope, run_scope
from parsimony_kernel.lineage.checkpoint import PutBack
from parsimony_kernel.lineage.diff import Diff
from parsimony_kernel.session.past import Changes
from tests.tiers import sampled

CORPUS = Path(__file__).parents[1] / "corpora" / "undo.toml"
Row = dict[str, Any]
ROWS: dict[str, Row] = {row["id"]: row for row in tomllib.loads(CORPUS.read_text())["object"]}
# Each takes half a second.
FIGURES = [each for each in ROWS if each.startswith("matplotlib")]
USER, TURN = RunScope("", "n.ipynb", "mine", actor="user"), RunScope("t", "n.ipynb", "t")


@dataclass(frozen=True)
class Outcome:
    """What was seen of a row: before the turn, after a step of it that failed, after it, undone,
    and done again; and what was said when the code ran."""

    before: str
    failed: PutBack
    put_back: str
    said: str
    after: str
    diff: Diff
    undo: PutBack
    undone: str
    same_objects: bool
    redo: PutBack
    redone: str


def wanted(name: str) -> Row:
    """A row, where its packages are installed."""
    row = ROWS[name]
    for package in row.get("needs", ()):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"{package} is not installed")
    return row


async def played(row: Row, later: str = "") -> Outcome:
    """Run a row as a person's cell and a turn, and ``later`` as another cell of the person's, then
    undo and redo the turn."""
    desk, changes = Desk(), Changes()
    executor = desk.executor

    async def run(code: str, scope: RunScope, error: str = "None") -> str:
        with run_scope(scope):
            output = await executor.execute(code)
        assert getattr(output.error, "name", "None") == error, output.error
        return output.stderr

    await run(row["make"], USER)
    before, objects = desk.ask(row["shows"]), dict(executor.variables())
    checkpoints = executor.checkpoints()
    number = checkpoints.take()
    said = await run(f"{row['change']}\n1 / 0", TURN, "ZeroDivisionError")
    failed, put_back = checkpoints.put_back(number, keep_new=True), desk.ask(row["shows"])
    if not failed.lost:
        said = await run(row["change"], TURN)
    change, after = checkpoints.close(), desk.ask(row["shows"])
    assert change is not None, "no change was seen"
    changes.add("t", change)
    if later:
        await run(later, USER)
    diff, undo = changes.diff("t"), changes.undo("t", executor)
    undone, now = desk.ask(row["shows"]), executor.variables()
    same = all(now.get(name) is value for name, value in objects.items())
    redo = changes.undo("t", executor, redo=True) if changes.runs(undone=True) else PutBack()
    return Outcome(
        before,
        failed,
        put_back,
        said,
        after,
        diff,
        undo,
        undone,
        same,
        redo,
        desk.ask(row["shows"]),
    )


@pytest.mark.filterwarnings("ignore", "error::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize(
    "name", [*sampled(FIGURES, 3), *(each for each in ROWS if each not in FIGURES)]
)
async def test_changed_object_is_restored_or_named(name: str) -> None:
    row = wanted(name)
    seen = await played(row)
    assert seen.after != seen.before
    assert bool(seen.failed.lost) == bool(row.get("named"))
    assert not set(seen.failed.lost) & set(seen.failed.restored)
    if row.get("named"):
        assert seen.undo.lost
        assert ("Undo can't restore" in seen.said) == (row["named"] != "late")
        return
    assert (seen.undo.lost, seen.said.count("Undo")) == ((), 0)
    assert seen.put_back == seen.undone == seen.before
    assert seen.same_objects
    if row.get("private"):
        return
    assert seen.diff
    assert not seen.redo.lost
    assert seen.redone == seen.after


# What a person ran since, of a row, and whether that changed the object.
SINCE = (
    ("matplotlib: plot", "fig", False),
    ("matplotlib: a figure that was drawn", "fig", False),
    ("matplotlib: plot", "ax.set_xlabel('mine')", True),
    ("networkx: add_edge", "nx.shortest_path(G, 'a', 'c'), list(G.adj)", False),
    ("networkx: add_edge", "list(G.edges), G.degree", False),
    ("networkx: add_edge", "G.add_node('mine')", True),
    ("sklearn: fit", "model.predict([[3.0]])", False),
    ("sklearn: set_params", "model.fit([[0.0], [1.0]], [0, 1])", True),
    ("pandas: a style", "style.to_html()", False),
    ("random: seed", "rng.random()", True),
)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("name", "later", "changed"), SINCE)
async def test_users_change_is_kept_and_reading_is_no_change(
    name: str, later: str, changed: bool
) -> None:
    seen = await played(wanted(name), later)
    assert bool(seen.undo.kept) == changed
    assert bool(seen.undo.restored) != changed
    assert (seen.undone == seen.before) != changed
