"""A file that a turn wrote to comes back: a step fails or is declined, or the turn is undone."""

from pathlib import Path
from typing import Any

import pytest

from parsimony_kernel.core.events import RunCompleted, UserInputRequested
from parsimony_kernel.gate.approval import Approval
from parsimony_kernel.testing.scripted import call
from tests.session.session_steps import gather, turn

from .loops import DONE

OVERWRITE = "with open('data.csv', 'w') as f:\n    n = f.write('new')"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "data.csv"
    path.write_text("old")
    return path


@pytest.mark.parametrize("approve", Approval)
async def test_undo_restores_file_and_redo_rewrites_it(
    scripted: Any, data: Path, approve: Approval
) -> None:
    session = scripted(call("run_code", code=OVERWRITE), DONE)
    last = (await turn(session, approve=approve))[-1]
    if approve is Approval.ask:
        last = (await gather(session.resume("Run it")))[-1]
    assert isinstance(last, RunCompleted)
    assert data.read_text() == "new"
    *_, line = session.past.diff()[1].lines()
    assert line == "~ data.csv: file, 3 bytes → file, 3 bytes"
    back = session.past.undo()[1]
    assert "data.csv" in back.restored
    assert data.read_text() == "old"
    session.past.undo(redo=True)
    assert data.read_text() == "new"
    session.past.undo()
    assert data.read_text() == "old"


async def test_later_edited_file_is_left_alone(scripted: Any, data: Path) -> None:
    session = scripted(call("run_code", code=OVERWRITE), DONE)
    await turn(session)
    data.write_text("mine again")
    back = session.past.undo()[1]
    assert "data.csv" in back.kept
    assert data.read_text() == "mine again"


async def test_failed_step_restores_file(scripted: Any, data: Path) -> None:
    fails = "with open('data.csv', 'w') as f:\n    f.write('half')\n    1 / 0"
    session = scripted(call("run_code", code=OVERWRITE), call("run_code", code=fails), DONE)
    await turn(session)
    assert data.read_text() == "new"
    session.past.undo()
    assert data.read_text() == "old"


MOVES = (
    "import os\nos.rename('data.csv', 'theirs.csv')",
    "from pathlib import Path\nmoved = Path('data.csv').replace('theirs.csv')",
    "import shutil\nmoved = shutil.move('data.csv', 'theirs.csv')",
)


@pytest.mark.parametrize("code", MOVES)
@pytest.mark.parametrize("fails", [False, True])
async def test_both_files_of_a_move_come_back(
    scripted: Any, data: Path, code: str, fails: bool
) -> None:
    theirs = data.with_name("theirs.csv")
    theirs.write_text("theirs")
    code += "\n1 / 0" * fails
    session = scripted(call("run_code", code=code), DONE)
    question = (await turn(session))[-1]
    assert isinstance(question, UserInputRequested)
    assert "theirs.csv" in (question.context or "")
    assert isinstance((await gather(session.resume("Run it")))[-1], RunCompleted)
    if not fails:
        assert (data.exists(), theirs.read_text()) == (False, "old")
        assert {"data.csv", "theirs.csv"} <= {*session.past.undo()[1].restored}
    assert (data.read_text(), theirs.read_text()) == ("old", "theirs")


async def test_files_of_a_moved_folder_come_back(scripted: Any, tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "a.csv").write_text("a")
    session = scripted(call("run_code", code="import os\nos.rename('d', 'e')"), DONE)
    await turn(session)
    await gather(session.resume("Run it"))
    assert not (tmp_path / "d").exists()
    assert session.past.undo()[1].restored == ("a.csv",)
    assert (tmp_path / "d" / "a.csv").read_text() == "a"


async def test_declined_step_restores_file(scripted: Any, data: Path) -> None:
    code = f"{OVERWRITE}\nimport os\nprogram = ['ls'][0]\ndone = getattr(os, 'system')(program)"
    session = scripted(call("run_code", code=code), DONE)
    assert isinstance((await turn(session))[-1], UserInputRequested)
    assert data.read_text() == "new"
    await gather(session.resume("Don't"))
    assert data.read_text() == "old"


async def test_file_created_by_turn_stays(scripted: Any, tmp_path: Path) -> None:
    more = "with open('made.csv', 'a') as f:\n    n = f.write('more')"
    makes = more.replace("more", "made")
    session = scripted(call("run_code", code=makes), call("run_code", code=more), DONE)
    await turn(session)
    session.past.undo()
    assert (tmp_path / "made.csv").read_text() == "mademore"
