"""Code that reaches outside, and writes, wait for a person, who allows exactly what they saw."""

import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from parsimony_kernel.agent.failure import FailureKind
from parsimony_kernel.core import events as ev
from parsimony_kernel.core.choices import APPROVAL, Choice, read
from parsimony_kernel.gate.approval import Approval
from parsimony_kernel.session.turn_values import SessionError
from parsimony_kernel.testing.manual_clock import ManualClock
from parsimony_kernel.testing.scripted import call, calls
from tests.session.session_steps import gather, question, turn

from .loops import DONE, Answered

FOR_TURN = "Allow this for the rest of the turn"
SHELL = "import subprocess\nout = subprocess.run(['touch', 'made'], check=True)\nout.returncode"


def read_by_model(session: Any, role: str = "tool") -> list[str]:
    """What the model has last read in messages of ``role``."""
    messages = session._model.requests[-1].messages
    return [str(each["content"]) for each in messages if each["role"] == role]


async def test_program_start_waits_and_runs_as_shown(scripted: Any, tmp_path: Path) -> None:
    session = scripted(call("run_code", code=SHELL), DONE)
    asked = question(await turn(session))
    assert (asked.question, asked.choices) == ("May this code run?", ("Run it", FOR_TURN, "Don't"))
    assert "Line 2 starts another program" in (asked.context or "")
    assert asked.originating_failure_kind is FailureKind.policy_violation
    assert not (tmp_path / "made").exists()

    events = await gather(session.resume("Run it"))
    assert (tmp_path / "made").exists()
    ran = [e for e in events if isinstance(e, ev.ToolEvent) and e.completed]
    assert [(e.arguments["code"], e.ok) for e in ran[:1]] == [(SHELL, True)]
    assert isinstance(events[-1], ev.RunCompleted)
    # The model reads the result where it asked, and nothing of a button or of a lesson.
    messages = session._model.requests[-1].messages
    assert [m["role"] for m in messages] == ["system", "user", "user", "assistant", "tool"]
    assert "lessons_learned" not in messages[-1]["content"]


@pytest.mark.parametrize("answer", ["Don't", "3", "use pandas instead", "never"])
async def test_declined_code_does_not_run_and_model_is_told(
    scripted: Any, tmp_path: Path, answer: str
) -> None:
    session = scripted(call("run_code", code=SHELL), DONE)
    await turn(session)
    events = await gather(session.resume(answer))
    assert not (tmp_path / "made").exists()
    assert isinstance(events[-1], ev.RunCompleted)
    assert "not allowed" in read_by_model(session)[0]


async def test_approval_is_for_one_run_of_one_code(scripted: Any, tmp_path: Path) -> None:
    other = SHELL.replace("made", "other")
    session = scripted(*[call("run_code", code=code) for code in (SHELL, other)])
    await turn(session)
    again = question(await gather(session.resume("Run it")))
    assert "Line 2 starts another program" in (again.context or "")
    assert (tmp_path / "made").exists()
    assert not (tmp_path / "other").exists()


async def test_approved_reach_is_not_asked_again_this_turn(scripted: Any) -> None:
    again = SHELL.replace("out", "other")
    session = scripted(call("run_code", code=SHELL), call("run_code", code=again), DONE, DONE)
    await turn(session)
    assert isinstance((await gather(session.resume("Run it")))[-1], ev.RunCompleted)


RUNNER = "import subprocess\nsubprocess.run(['sh', '-c', 'touch ' {!r}], check=True)"
AWK = "import subprocess\nsubprocess.run(['awk', '{}', '/dev/null'], check=True)"
MAKE = "import subprocess\nsubprocess.run(['touch', {!r}], check=True)"


@pytest.mark.parametrize(
    ("first", "then", "approve", "is_asked"),
    [
        (MAKE.format("made"), MAKE.format("other"), "guarded", False),
        (MAKE.format("made"), MAKE.format("other").replace("touch", "mkdir"), "guarded", True),
        (
            "import subprocess\nsubprocess.run('touch a;true', shell=True)",
            MAKE.format("b"),
            "guarded",
            True,
        ),
        ("import os\nos.remove('kept.txt')", "import os\nos.remove('more.txt')", "guarded", False),
        (RUNNER.format("made"), RUNNER.format("other"), "guarded", True),
        (AWK.format(1), AWK.format(2), "guarded", True),
        ("import os\nos.remove('kept.txt')", MAKE.format("made"), "guarded", True),
        ("x = 1", "y = 2", "ask", False),
        ("x = 1", MAKE.format("made"), "ask", True),
    ],
)
async def test_turn_wide_approval_covers_similar_reaches(
    scripted: Any, tmp_path: Path, first: str, then: str, approve: str, is_asked: bool
) -> None:
    for name in ("kept.txt", "more.txt"):
        (tmp_path / name).write_text("")
    session = scripted(*[call("run_code", code=code) for code in (first, then)], DONE)
    question(await turn(session, approve=Approval(approve)))
    events = await gather(session.resume(FOR_TURN))
    assert isinstance(events[-1], ev.UserInputRequested if is_asked else ev.RunCompleted)


async def test_approval_expires_with_turn(scripted: Any) -> None:
    session = scripted(call("run_code", code=SHELL), DONE, call("run_code", code=SHELL), DONE)
    await turn(session)
    await gather(session.resume("Run it"))
    question(await turn(session))


LOOP = (
    "from glob import glob\nimport os, shutil\nos.mkdir('old')\nfor f in sorted(glob('*.txt')):\n"
)
LOOPS = ("    os.remove(f)", "    os.rename(f, f'old/{f}')", "    moved = shutil.move(f, 'old')")


@pytest.mark.parametrize("act", LOOPS)
@pytest.mark.parametrize(("reply", "asks"), [("Run it", 3), (FOR_TURN, 1)])
async def test_loop_over_files_goes_on_to_its_end(
    scripted: Any, tmp_path: Path, act: str, reply: str, asks: int
) -> None:
    for name in "abc":
        (tmp_path / f"{name}.txt").write_text(name)
    session = scripted(call("run_code", code=LOOP + act), DONE)
    events = await turn(session)
    for _ in range(asks):
        question(events)
        events = await gather(session.resume(reply))
    assert isinstance(events[-1], ev.RunCompleted)
    assert list(tmp_path.glob("*.txt")) == []
    assert len(list((tmp_path / "old").iterdir())) == (0 if "remove" in act else 3)


async def test_declined_loop_leaves_every_file(scripted: Any, tmp_path: Path) -> None:
    for name in "abc":
        (tmp_path / f"{name}.txt").write_text(name)
    session = scripted(call("run_code", code=LOOP + LOOPS[1]), DONE)
    await turn(session)
    question(await gather(session.resume("Run it")))
    await gather(session.resume("Don't"))
    assert sorted(each.read_text() for each in tmp_path.glob("*.txt")) == ["a", "b", "c"]
    assert list(tmp_path.glob("old/*")) == []


@pytest.mark.parametrize("reply", ["Run it", FOR_TURN])
async def test_approved_folder_is_deleted_with_its_files(
    scripted: Any, tmp_path: Path, reply: str
) -> None:
    (tmp_path / "d" / "e").mkdir(parents=True)
    for name in ("d/a.csv", "d/e/b.csv"):
        (tmp_path / name).write_text("")
    code = "import shutil\nremove = [shutil.rmtree][0]\nremove('d')"
    session = scripted(call("run_code", code=code), DONE)
    assert "deletes files: d." in (question(await turn(session)).context or "")
    assert isinstance((await gather(session.resume(reply)))[-1], ev.RunCompleted)
    assert not (tmp_path / "d").exists()
    session.past.undo()
    assert (tmp_path / "d" / "e" / "b.csv").exists()


@pytest.fixture
def nothing_temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is temporary is free, and the folder around the workspace is not to be."""
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    monkeypatch.setattr("tempfile.tempdir", None)


@pytest.mark.usefixtures("nothing_temporary")
@pytest.mark.parametrize("to", ["conftest.py", "../more.txt"])
async def test_leave_for_moves_within_a_folder_covers_no_other(
    scripted: Any, tmp_path: Path, to: str
) -> None:
    for name in ("kept.txt", "more.txt"):
        (tmp_path / name).write_text("")
    code = f"import os\nmove = [os.rename][0]\nmove('kept.txt', 'x.txt')\nmove('more.txt', {to!r})"
    session = scripted(call("run_code", code=code), DONE)
    question(await turn(session))
    question(await gather(session.resume(FOR_TURN)))
    assert (tmp_path / "more.txt").exists()


@pytest.mark.usefixtures("nothing_temporary")
async def test_step_that_ends_says_what_has_happened(scripted: Any, tmp_path: Path) -> None:
    code = "for n in names:\n    open(f'../{n}', 'w').close()"
    session = scripted(call("run_code", code=code), DONE)
    await session.executor.execute("names = ['out_a', 'out_b']")
    await turn(session)
    events = await gather(session.resume("Run it"))
    assert isinstance(events[-1], ev.RunCompleted)
    assert "This already happened and isn't repeated: Line 2 writes" in read_by_model(session)[0]
    assert not (tmp_path.parent / "out_b").exists()
    (tmp_path.parent / "out_a").unlink()


async def test_plain_analysis_is_not_asked_about(scripted: Any) -> None:
    plain = call("run_code", code="import pandas as pd\nx = pd.Series([1, 2]).sum()\nint(x)")
    assert isinstance((await turn(scripted(plain, DONE)))[-1], ev.RunCompleted)
    asked = question(await turn(scripted(plain), approve=Approval.ask))
    assert "Every step" in (asked.context or "")


async def test_auto_mode_asks_nobody(scripted: Any, tmp_path: Path) -> None:
    events = await turn(scripted(call("run_code", code=SHELL), DONE), approve=Approval.auto)
    assert isinstance(events[-1], ev.RunCompleted)
    assert (tmp_path / "made").exists()


@pytest.mark.parametrize(
    ("reply", "runs", "read"),
    [
        ("Run it", True, ["Allowed by the person.", "`y`: 1 (int)"]),
        ("Don't", False, ["This was not allowed.", "Not run: the call before it was declined"]),
        (
            "use a file",
            False,
            ["This was not allowed.", "Not run: the call before it was declined"],
        ),
    ],
)
async def test_later_calls_wait_with_the_asking_one(
    scripted: Any, reply: str, runs: bool, read: list[str]
) -> None:
    session = scripted(calls(call("run_code", code=SHELL), call("run_code", code="y = 1")), DONE)
    await turn(session)
    await gather(session.resume(reply))
    assert ("y" in session.executor.variables()) == runs
    told = read_by_model(session)
    assert [words in each for words, each in zip(read, told, strict=True)] == [True, True]
    said = read_by_model(session, "user")
    assert any(reply in each for each in said) == (reply == "use a file")


async def test_one_waiting_call_may_follow_another(scripted: Any) -> None:
    other = SHELL.replace("made", "other")
    three = [call("run_code", code=code) for code in (SHELL, other, "y = 1")]
    session = scripted(calls(*three), DONE)
    await turn(session)
    question(await gather(session.resume("Run it")))
    await gather(session.resume("Run it"))
    assert "y" in session.executor.variables()


async def test_question_survives_restart_with_its_mode(scripted: Any) -> None:
    first = scripted(call("run_code", code="1 + 1"))
    question(await turn(first, approve=Approval.ask))
    second = scripted(call("run_code", code="2 + 2"))
    question(await gather(second.resume("Run it")))


async def test_approved_code_runs_once_without_model(scripted: Any, tmp_path: Path) -> None:
    appending = SHELL.replace("['touch', 'made']", "'echo x >> made', shell=True")
    session = scripted(call("run_code", code=appending), Answered(401), DONE)
    await turn(session)
    ended = (await gather(session.resume("Run it")))[-1]
    assert isinstance(ended, ev.Handoff)
    assert session.pending() == ()
    with pytest.raises(SessionError, match="No question"):
        await gather(session.resume("Run it"))
    assert (tmp_path / "made").read_text() == "x\n"


@pytest.mark.parametrize("words", ["Stop here", "please stop"])
async def test_stop_answers_every_question(scripted: Any, tmp_path: Path, words: str) -> None:
    session = scripted(call("run_code", code=SHELL))
    await turn(session)
    assert isinstance((await gather(session.resume(words)))[-1], ev.PartialRunSummary)
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize(
    ("words", "is_leave"),
    [
        *((each, True) for each in ("yes", "Y", "ok, run it", "Yes please!", "go ahead", "ja")),
        *((each, False) for each in ("", "please", "run it twice", "don't run it", "not yet")),
        ("yes, but only for 2013", False),
    ],
)
def test_leave_is_given_in_plain_words_alone(words: str, is_leave: bool) -> None:
    assert (read(words, APPROVAL) is Choice.run_it) == is_leave


# What is written first and run later is no way around the question.

HELPERS = "import subprocess\nsubprocess.run(['touch', 'made'], check=True)\n"
IMPORTS = "import sys\nsys.path.insert(0, '.')\nimport approval_helpers"


@pytest.fixture
def forget_modules(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(sys, "path", [*sys.path])
    # The finder of "." keeps the folder that it was made in.
    sys.path_importer_cache.pop(".", None)
    yield
    sys.modules.pop("approval_helpers", None)


@pytest.mark.usefixtures("forget_modules")
async def test_agent_written_file_is_asked_about_again(scripted: Any, tmp_path: Path) -> None:
    writes = f"with open('approval_helpers.py', 'w') as f:\n    f.write({HELPERS!r})"
    session = scripted(call("run_code", code=writes), call("run_code", code=IMPORTS), DONE)
    asked = question(await turn(session))
    told = "Line 1 writes a file that is run later: approval_helpers.py"
    assert told in (asked.context or "")
    assert not (tmp_path / "approval_helpers.py").exists()
    asked = question(await gather(session.resume("Run it")))
    assert (tmp_path / "approval_helpers.py").exists()
    assert "starts another program: touch made" in (asked.context or "")
    assert not (tmp_path / "made").exists()
    await gather(session.resume("Run it"))
    assert (tmp_path / "made").exists()


@pytest.mark.usefixtures("forget_modules")
async def test_existing_module_is_taken_by_name(scripted: Any, tmp_path: Path) -> None:
    module = tmp_path / "approval_helpers.py"
    module.write_text("import subprocess\n\ndef go():\n    subprocess.run(['true'])\n")
    later = ManualClock(datetime.now(UTC) + timedelta(hours=1))
    session = scripted(call("run_code", code=IMPORTS), DONE, clock=later)
    assert isinstance((await turn(session))[-1], ev.RunCompleted)


async def test_ask_mode_covers_artifacts(scripted: Any) -> None:
    session = scripted(call("return_dataset", variable="df", title="T"))
    assert question(await turn(session, approve=Approval.ask)).question == "May return_dataset run?"


async def test_ask_mode_allows_looking_and_ending(scripted: Any) -> None:
    steps = call("list_artifacts"), call("plan", parts=["a"]), call("plan", parts=["a"], done=["a"])
    assert isinstance(
        (await turn(scripted(*steps, DONE), approve=Approval.ask))[-1], ev.RunCompleted
    )


async def test_code_cannot_write_into_record_unasked(scripted: Any, tmp_path: Path) -> None:
    session = scripted(call("run_code", code="open('.ockham/x', 'w').write('x')"))
    asked = question(await turn(session))
    assert "writes outside the workspace: .ockham/x (the record)" in (asked.context or "")
    assert not (tmp_path / ".ockham" / "x").exists()


@pytest.mark.parametrize(
    ("request_", "is_asked"),
    [
        ("load http://data.example.invalid/x.csv", False),
        ("load the table of data.example.invalid", True),
        ("load http://other.example.invalid/x.csv", True),
        ("it is <http://data.example.invalid>, I think", False),
    ],
)
async def test_host_with_full_address_in_request_is_allowed(
    scripted: Any, request_: str, is_asked: bool
) -> None:
    fetch = "import urllib.request\nurllib.request.urlopen('http://data.example.invalid/y.csv')"
    session = scripted(call("run_code", code=fetch), DONE)
    last = (await turn(session, request_))[-1]
    assert isinstance(last, ev.UserInputRequested) is is_asked


async def test_address_of_earlier_turn_allows_nothing(scripted: Any) -> None:
    """Neither the person's words then nor the code that ran count."""
    plain = "at = 'http://data.example.invalid/x.csv'"
    fetch = "import urllib.request\nurllib.request.urlopen(at)"
    session = scripted(call("run_code", code=plain), DONE, call("run_code", code=fetch))
    first = await turn(session, "http://data.example.invalid is it")
    assert isinstance(first[-1], ev.RunCompleted)
    question(await turn(session, "go on", cell="b"))


REMOVE = "import os\nos.remove('kept.txt')"


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        ("run `touch made` first", MAKE.format("made")),
        ("run !touch made", MAKE.format("other")),
        ("then `touch`", "!touch made"),
        ("then `touch`", "import os\nos.system('touch made')"),
        ("then `touch`", "import subprocess\nsubprocess.run('touch made', shell=True)"),
        ("run touch made", MAKE.format("made")),
        ("Great!touch made", MAKE.format("made")),
        ("touch the mean of `made`", MAKE.format("made")),
        ("`a` touch `b`", MAKE.format("made")),
        ("the column `.` and the row `/`", "!touch made"),
        ("then `touch`", "!touch made; rm kept.txt"),
        ("then `touch`", "!mkdir touch"),
        ("then `touch`", "import subprocess\nsubprocess.run(['mkdir', 'touch'])"),
        ("then `touch`", "!touch $(rm kept.txt)"),
        ("run `sh -c 'touch made'`", RUNNER.format("made")),
        ("run `awk 1`", AWK.format(1)),
        ("`rm` is a command I like", REMOVE),
        (
            "set `threshold=5`",
            "import subprocess\nsubprocess.run('x=5 rm kept.txt', shell=True)",
        ),
        (
            "look at `/bin/rm`",
            "import subprocess\nsubprocess.run('/bin/rm kept.txt', shell=True)",
        ),
        ("`rm` is a word", "import subprocess\nsubprocess.run(['rm', 'kept.txt'])"),
        ("run what `notes.txt` says", MAKE.format("made")),
    ],
)
async def test_no_word_of_a_request_allows_a_program(
    scripted: Any, tmp_path: Path, request_: str, code: str
) -> None:
    (tmp_path / "kept.txt").write_text("")
    (tmp_path / "notes.txt").write_text("`touch made`")
    session = scripted(call("run_code", code=code), DONE)
    question(await turn(session, request_))


# The unit of a question is the statement: those before it are done, and stay or go with it.

SENDS = """runs.append('computed')
total = sum(range(10))
where = {'to': '../sent'}
with open(where['to'], 'a') as f:
    n = f.write('x')
runs.append('after')"""
WRITES = "with open({{'to': '../{}'}}['to'], 'a') as f:\n    n = f.write('x')"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A workspace. What is temporary is free, and what is beside the workspace is not to be."""
    for name in ("tmp", "work"):
        (tmp_path / name).mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    monkeypatch.setattr("tempfile.tempdir", None)
    return tmp_path / "work"


async def held(scripted: Any, folder: Path) -> Any:
    session = scripted(call("run_code", code=SENDS), DONE, folder=folder)
    await session.executor.execute("runs = []")
    asked = question(await turn(session))
    assert "Line 4 writes outside the workspace" in (asked.context or "")
    assert session.executor.variables()["runs"] == ["computed"]
    assert not (folder.parent / "sent").exists()
    return session


async def test_run_it_continues_without_recomputing(scripted: Any, folder: Path) -> None:
    session = await held(scripted, folder)
    await gather(session.resume("Run it"))
    assert (folder.parent / "sent").read_text() == "x"
    variables = session.executor.variables()
    assert (variables["runs"], variables["total"]) == (["computed", "after"], 45)


async def test_dont_restores_the_step(scripted: Any, folder: Path) -> None:
    session = await held(scripted, folder)
    await gather(session.resume("Don't"))
    assert not (folder.parent / "sent").exists()
    assert session.executor.variables() == {"runs": []}
    assert "What ran before it was undone" in read_by_model(session)[0]


async def test_second_question_names_only_what_is_not_yet_allowed(
    scripted: Any, folder: Path
) -> None:
    code = f"{SHELL}\n{WRITES.format('second')}"
    session = scripted(call("run_code", code=code), DONE, folder=folder)
    assert "starts another program" in (question(await turn(session)).context or "")
    again = question(await gather(session.resume("Run it")))
    assert "second" in (again.context or "")
    assert "starts another program" not in (again.context or "")
    assert not (folder.parent / "second").exists()


async def test_declined_second_reach_keeps_first_effect_once(scripted: Any, folder: Path) -> None:
    code = "\n".join(WRITES.format(name) for name in ("first", "second"))
    session = scripted(call("run_code", code=code), DONE, folder=folder)
    question(await turn(session))
    again = question(await gather(session.resume("Run it")))
    assert "second" in (again.context or "")
    await gather(session.resume("Don't"))
    told = read_by_model(session)[-1]
    assert "What it did outside stays: Line 1 writes outside" in told
    assert (folder.parent / "first").read_text() == "x"
    assert not (folder.parent / "second").exists()
