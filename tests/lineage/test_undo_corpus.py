"""What code changes in the objects of libraries and of the notebook comes back, or is named."""

import importlib.util
import tomllib
from dataclasses import dataclass
from pathlib import Path

import pytest

from parsimony_kernel.execution.private import CodeExecutor
from parsimony_kernel.execution.run_scope import RunScope, run_scope
from parsimony_kernel.lineage.checkpoint import PutBack
from parsimony_kernel.lineage.diff import Diff
from parsimony_kernel.session.changes import Changes

CORPUS = Path(__file__).parents[1] / "corpora" / "undo.toml"
ROWS = {row["id"]: row for row in tomllib.loads(CORPUS.read_text())["object"]}
USER, TURN = RunScope("", "n.ipynb", "mine", actor="user"), RunScope("t", "n.ipynb", "t")


@dataclass(frozen=True)
class Outcome:
    """What was seen of a row: before the turn, after it, undone, and done again; and what was said
    when the code ran."""

    before: str
    said: str
    after: str
    diff: Diff
    undo: PutBack
    undone: str
    same_objects: bool
    redo: PutBack
    redone: str


async def played(row: dict[str, str]) -> Outcome:
    """Run a row as a person's cell and a turn, then undo and redo the turn."""
    executor, changes = CodeExecutor(), Changes()

    async def run(code: str, scope: RunScope) -> str:
        with run_scope(scope):
            output = await executor.execute(code)
        assert output.error is None, output.error
        return output.stderr

    async def shown() -> str:
        output = await executor.eval(f"repr({row['shows']})")
        assert output.error is None, output.error
        return str(output.outputs[0].for_model())

    await run(row["make"], USER)
    before, objects = await shown(), dict(executor.variables())
    checkpoints = executor.checkpoints()
    checkpoints.take()
    said = await run(row["change"], TURN)
    change, after = checkpoints.close(), await shown()
    assert change is not None, "no change was seen"
    changes.add("t", change)
    diff, undo = changes.diff("t"), changes.undo("t", executor)
    undone, now = await shown(), executor.variables()
    same = all(now.get(name) is value for name, value in objects.items())
    redo = changes.redo("t", executor)
    return Outcome(before, said, after, diff, undo, undone, same, redo, await shown())


@pytest.mark.filterwarnings("ignore", "error::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("name", ROWS)
async def test_an_object_that_a_turn_changed_comes_back_or_is_named(name: str) -> None:
    row = ROWS[name]
    for package in row.get("needs", ()):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"{package} is not installed")
    seen = await played(row)
    assert seen.after != seen.before
    if row.get("named"):
        assert seen.undo.lost
        assert "Undo can't restore" in seen.said
        return
    assert (seen.undo.lost, seen.said.count("Undo")) == ((), 0)
    assert seen.undone == seen.before
    assert seen.same_objects
    assert seen.diff
    assert not seen.redo.lost
    assert seen.redone == seen.after
