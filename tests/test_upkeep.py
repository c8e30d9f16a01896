"""The commands that look after what a workspace has published."""

import json
import os
import shutil
import sqlite3
from contextlib import closing, redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path

import altair as alt
import pandas as pd
import pytest

from parsimony_kernel import execution
from parsimony_kernel.artifacts.publish import Publisher
from parsimony_kernel.artifacts.store import ArtifactStore
from parsimony_kernel.cli.main import main
from parsimony_kernel.core.events import RunCompleted
from parsimony_kernel.lineage.file_access import source_state
from parsimony_kernel.lineage.ledger import InputRef, VariableOrigin
from parsimony_kernel.session.maintenance import journal_of
from parsimony_kernel.storage.journal import SqliteJournal
from parsimony_kernel.storage.workspace import journal_path
from tests.artifacts.report_cases import clean, origin, publish

CODE = "import pandas as pd\nt = pd.read_csv('a.csv')"
DRAW = "import altair as alt\nt_chart = alt.Chart(t).mark_bar().encode(x='v:Q')"


def made(name: str, code: str, folder: Path, *inputs: str) -> VariableOrigin:
    refs = tuple(InputRef(name=each, version=1) for each in inputs)
    read = {"sources": ("a.csv",), "source_states": (source_state("a.csv", folder),)}
    return origin(name, code, inputs=refs, **read)


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """A workspace with a dataset and a chart of one title, and a report that shows both."""
    (tmp_path / "a.csv").write_text("v\n1\n2\n")
    (tmp_path / "a.ipynb").write_text("{}")
    publisher = Publisher(ArtifactStore(tmp_path), notebook_path="a.ipynb")
    frame = pd.read_csv(tmp_path / "a.csv")
    table, chart = made("t", CODE, tmp_path), made("t_chart", DRAW, tmp_path, "t")
    publish(publisher, "dataset", frame, "t", title="Same", lineage=[table])
    drawn = alt.Chart(frame).mark_bar().encode(x="v:Q")
    publish(publisher, "chart", drawn, "t_chart", title="Same", lineage=[chart, table])
    body = "![T](artifact:t)\n\n![C](artifact:t_chart)"
    publisher.publish("report", body, title="R", run_id="r1")
    return tmp_path


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Code runs in a fresh namespace of this process, where no kernel has to start."""
    monkeypatch.setattr(execution, "RemoteExecutor", clean)


def refresh(folder: Path, *arguments: str) -> tuple[int, str, str]:
    """The command's exit code, and what it says on both streams."""
    named = any(not each.startswith("-") for each in arguments)
    words = ["refresh", *arguments, *([] if named else ["--all"]), "--folder", str(folder)]
    with redirect_stdout(StringIO()) as out, redirect_stderr(StringIO()) as err:
        code = main(words)
    return code, out.getvalue(), err.getvalue()


def logs(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in (folder / ".ockham").rglob("log.jsonl")}


@pytest.mark.usefixtures("at_once")
def test_change_fails_until_accepted(work: Path) -> None:
    before = logs(work)
    (work / "a.csv").write_text("v\n7\n")
    code, _, err = refresh(work)
    assert (code, err.count("'a.csv': changed since")) == (1, 2)
    assert logs(work) == before
    code, out, _ = refresh(work, "--accept")
    assert (code, out.count("changed ('a.csv' changed)")) == (0, 2)
    assert refresh(work)[0] == 0


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize(
    ("fields", "names", "said"),
    [
        ({}, ["nothing like it", "t_chart"], "There is no artifact 'nothing like it'"),
        ({"code_path": f".ockham/notebooks/a/{'0' * 64}.py"}, [], "is missing"),
        ({"folder": "nowhere"}, [], "is gone"),
        ({"variable": "u"}, [], "no longer defines 'u'"),
    ],
)
def test_what_cannot_be_made_fails_and_others_continue(
    work: Path, fields: dict[str, object], names: list[str], said: str
) -> None:
    (log,) = (work / ".ockham/datasets").glob("*/log.jsonl")
    log.write_text(json.dumps(json.loads(log.read_text()) | fields) + "\n")
    code, out, err = refresh(work, *names)
    assert code == 1
    assert said in err
    assert "The chart 'Same' is unchanged" in out


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize(
    "starts",
    [
        "subprocess.run(['touch', 'made'])\n",
        "try: subprocess.run(['touch', 'made'])\nexcept BaseException: pass\n",
    ],
)
def test_reaching_code_is_stopped_beforehand(work: Path, starts: str) -> None:
    code = f"import pandas as pd, subprocess\n{starts}u = pd.DataFrame({{'v': [5]}})"
    publisher = Publisher(ArtifactStore(work), notebook_path="a.ipynb")
    publish(publisher, "dataset", pd.DataFrame({"v": [5]}), "u", lineage=[made("u", code, work)])
    failed, _, err = refresh(work, "u")
    assert failed == 1
    assert "Line 3 starts another program: touch made." in err
    assert "If you trust the code, add --allow." in err
    assert not (work / "made").exists()
    assert refresh(work, "u", "--allow")[0] == 0
    assert (work / "made").exists()


@pytest.mark.parametrize("words", [[], ["t", "--all"]])
def test_all_is_asked_for(work: Path, words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["refresh", *words, "--folder", str(work)]) == 2
    assert "name what to make again, or give --all" in capsys.readouterr().err


@pytest.mark.usefixtures("at_once")
def test_cloned_artifacts_run_once_trusted(
    work: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = tmp_path_factory.mktemp("elsewhere") / "copy"
    shutil.copytree(work, copy)
    code, _, err = refresh(copy)
    assert code == 1
    assert "was not begun here, and its code would run as you" in err
    assert main(["verify", "--folder", str(copy)]) == 0  # looking runs nothing
    assert "'jupyter parsimony trust', or for one run with --trust or PARSIMONY_TRUST=1" in err
    monkeypatch.setenv("PARSIMONY_TRUST", "1")
    assert refresh(copy)[0] == 0
    monkeypatch.delenv("PARSIMONY_TRUST")
    assert refresh(copy, "--trust")[0] == 0
    assert refresh(copy)[0] == 1
    assert main(["trust", "--folder", str(copy)]) == 0
    assert refresh(copy)[0] == 0


def test_trusting_says_what_was_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / ".ockham" / "journal.sqlite"
    with closing(SqliteJournal(path)) as journal:
        journal.begin_turn("a", notebook="n", cell_key="c", request="add", model="m")
    with closing(sqlite3.connect(path)) as db:
        db.executescript("UPDATE turns SET request = 'subtract'")
    assert main(["verify", "--folder", str(tmp_path)]) == 1
    assert "The journal cannot be vouched for: the rows of 'turns'" in capsys.readouterr().err
    assert main(["trust", "--folder", str(tmp_path)]) == 0
    told = capsys.readouterr().out
    assert "What was found before: the rows of 'turns'" in told
    assert "'jupyter parsimony trust'" not in told
    assert main(["verify", "--folder", str(tmp_path)]) == 0
    assert "its seal" in capsys.readouterr().out


# A workspace's journal as a whole.


def test_read_only_journal_is_readable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = journal_path(tmp_path)
    writing = SqliteJournal(path)
    writing.begin_turn("r0", notebook="a.ipynb", cell_key="c", request="x", model="m")
    writing.append("r0", RunCompleted(summary="only in the log"))
    before = {each.name: each.read_bytes() for each in path.parent.iterdir()}
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.W_OK)
    with journal_of(tmp_path) as journal:
        assert journal.events("r0")[-1] == RunCompleted(summary="only in the log")
    assert main(["runs", "--folder", str(tmp_path)]) == 0
    assert {each.name: each.read_bytes() for each in path.parent.iterdir()} == before
    writing.close()


def test_dead_turn_and_damage_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    where = ["--folder", str(tmp_path)]
    with closing(SqliteJournal(journal_path(tmp_path))) as journal:
        for run_id, pid in (("gone", 2**22 + 1), ("here", os.getppid())):
            notebook = f"{run_id}.ipynb"
            journal.pid = pid
            journal.begin_turn(run_id, notebook=notebook, cell_key="c", request="x", model="m")
            journal.append(run_id, RunCompleted(summary="ok"))
    assert main(["runs", "--json", *where]) == 0
    told = {each["turn_id"]: each["status"] for each in json.loads(capsys.readouterr().out)["runs"]}
    assert (told["gone"], told["here"]) == ("cancelled", "running")
    assert main(["verify", *where]) == 0
    assert capsys.readouterr().out.startswith("Journal intact: ")
    with journal_of(tmp_path) as journal, journal.transaction() as db:
        db.execute("DELETE FROM events WHERE seq = 2")
    assert main(["verify", *where]) == 1
    assert "Entry 2 of the journal is the first bad one" in capsys.readouterr().err


@pytest.mark.kernel
def test_all_code_artifacts_are_refreshed_in_kernels(work: Path) -> None:
    before = logs(work)
    code, out, err = refresh(work)
    assert (code, err) == (0, "")
    assert "The dataset 'Same' is unchanged" in out
    assert "The chart 'Same' is unchanged" in out
    assert logs(work) == before
