"""What code changes in the objects of libraries and of the notebook comes back, or is named."""

import importlib.util
import tomllib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from lineage_desk import Desk

from parsimony_kernel.execution.run_scope import RunScope, run_scope
from parsimony_kernel.lineage.checkpoint import PutBack
from parsimony_kernel.session.past import Changes
from tests.tiers import sampled

CORPUS = Path(__file__).parents[1] / "corpora" / "undo.toml"
Row = dict[str, Any]
ROWS: dict[str, Row] = {row["id"]: row for row in tomllib.loads(CORPUS.read_text())["object"]}
# Each takes half a second.
FIGURES = [each for each in ROWS if each.startswith("matplotlib")]
USER, TURN = RunScope("", "n.ipynb", "mine", actor="user"), RunScope("t", "n.ipynb", "t")


def wanted(name: str) -> Row:
    """A row, where its packages are installed."""
    row = ROWS[name]
    for package in row.get("needs", ()):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"{package} is not installed")
    return row


async def played(row: Row, later: str = "") -> SimpleNamespace:
    """Run a row as a person's cell and a turn, and ``later`` as another cell of the person's, then
    undo and redo the turn.

    What was seen: before the turn, after a step of it that failed, after it, undone, and done
    again; and what was said when the code ran.
    """
    desk, changes, seen = Desk(), Changes(), SimpleNamespace()
    executor = desk.executor

    async def run(code: str, scope: RunScope, error: str = "None") -> str:
        with run_scope(scope):
            output = await executor.execute(code)
        assert getattr(output.error, "name", "None") == error, output.error
        return output.stderr

    await run(row["make"], USER)
    seen.before, objects = desk.ask(row["shows"]), dict(executor.variables())
    checkpoints = executor.checkpoints()
    number = checkpoints.take()
    seen.said = await run(f"{row['change']}\n1 / 0", TURN, "ZeroDivisionError")
    seen.failed = checkpoints.put_back(number, keep_new=True)
    seen.put_back = desk.ask(row["shows"])
    if not seen.failed.lost:
        seen.said = await run(row["change"], TURN)
    change, seen.after = checkpoints.close(), desk.ask(row["shows"])
    assert change is not None, "no change was seen"
    changes.add("t", change)
    if later:
        await run(later, USER)
    seen.diff, seen.undo = changes.diff("t"), changes.undo("t", executor)
    seen.undone, now = desk.ask(row["shows"]), executor.variables()
    seen.same_objects = all(now.get(name) is value for name, value in objects.items())
    seen.redo = changes.undo("t", executor, redo=True) if changes.runs(undone=True) else PutBack()
    seen.redone = desk.ask(row["shows"])
    return seen


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
async def test_users_change_is_kept_unlike_a_reading(name: str, later: str, changed: bool) -> None:
    seen = await played(wanted(name), later)
    assert bool(seen.undo.kept) == changed
    assert bool(seen.undo.restored) != changed
    assert (seen.undone == seen.before) != changed
