"""``jupyter parsimony`` as it is typed: every command's help, exit codes, and JSON."""

import io
import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import pandas as pd
import pytest

from parsimony_kernel import execution
from parsimony_kernel.artifacts.publish import Publisher
from parsimony_kernel.artifacts.store import ArtifactStore
from parsimony_kernel.cli import main as cli
from parsimony_kernel.cli.main import PROGRAM
from parsimony_kernel.core import events as ev
from parsimony_kernel.core.state import HeldCall, SuspensionRecord
from parsimony_kernel.storage.journal import SqliteJournal
from parsimony_kernel.storage.keyring import Keyring
from parsimony_kernel.storage.workspace import journal_path
from parsimony_kernel.testing.manual_clock import ManualClock
from parsimony_kernel.view.fold import replay
from parsimony_kernel.view.plain_text import record_of
from tests.artifacts.report_cases import clean, origin

TABLE = tomllib.loads(Path(cli.__file__ or "").with_name("commands.toml").read_text())
HOSTILE = "\x1b[31mred\x1b[0m \u202e\x00 naïve 🌧"
MADE_BY = "import pandas as pd\nt = pd.DataFrame({'v': [1, 2]})"
OLD = datetime.now(UTC) - timedelta(days=40)


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is made again runs in a fresh namespace of this process: no kernel has to start."""
    monkeypatch.setattr(execution, "RemoteExecutor", clean)


def step(number: int, code: str, *, ok: bool) -> Iterator[ev.AgentEvent]:
    call = {"tool_name": "run_python", "tool_call_id": f"c{number}", "tool_type": "code"}
    result = {"output": {"stdout": "shown\n"}} if ok else {"error": "boom", "message": "It broke."}
    yield ev.ToolEvent(**call, arguments={"code": code, "purpose": "look"})
    yield ev.ToolEvent(**call, completed=True, ok=ok, result=result)


def turn(journal: SqliteJournal, run_id: str, notebook: str, request: str) -> None:
    journal.begin_turn(run_id, notebook=notebook, cell_key=run_id, request=request, model="offline")
    for event in (
        ev.RunStarted(run_id=run_id, request=request, model="offline"),
        *step(1, "x = 1\nx", ok=True),
        *step(2, "1 / 0", ok=False),
        *step(3, "y = x + 1  # naïve", ok=True),
        ev.RunCompleted(summary=f"Done with {request}."),
    ):
        journal.append(run_id, event)
    journal.end_turn(run_id, "done", f"Done with {request}.")


def question(journal: SqliteJournal, run_id: str, notebook: str) -> None:
    journal.begin_turn(run_id, notebook=notebook, cell_key=run_id, request=HOSTILE, model="m")
    call = HeldCall(
        id="c", name="run_python", arguments=json.dumps({"code": HOSTILE}), sha="0" * 64
    )
    record = SuspensionRecord(
        run_id=run_id,
        session_id="s",
        suspension_token=run_id,
        suspended_at=journal.clock.now().isoformat(),
        pending_question=HOSTILE,
        pending_question_context=HOSTILE,
        pending_call=call,
        choices=[HOSTILE, "no"],
    )
    journal.append(run_id, ev.RunStarted(run_id=run_id, request=HOSTILE, model="offline"))
    journal.append(
        run_id,
        ev.UserInputRequested(question=HOSTILE, choices=[HOSTILE, "no"], suspension_record=record),
    )
    journal.suspend(record)
    journal.end_turn(run_id, "suspended")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A workspace with old and new turns of two notebooks, a question, and a published dataset."""
    old = SqliteJournal(journal_path(tmp_path), ManualClock(OLD))
    turn(old, "aa10" + "0" * 28, "a.ipynb", "first")
    turn(old, "aa20" + "0" * 28, "sub/b.ipynb", "second")
    new = SqliteJournal(journal_path(tmp_path))
    turn(new, "bb30" + "0" * 28, "a.ipynb", "third")
    question(new, "cc40" + "0" * 28, "a.ipynb")
    for journal in (old, new):
        journal.close()
    publisher = Publisher(ArtifactStore(tmp_path), notebook_path="a.ipynb")
    frame, lineage = pd.DataFrame({"v": [1, 2]}), [origin("t", MADE_BY, sources=())]
    publisher.publish("dataset", frame, variable="t", title="T", lineage=lineage, run_id="r1")
    return tmp_path


ALL = tuple((name,) for name in TABLE)


def help_of(capsys: pytest.CaptureFixture[str], *command: str) -> str:
    with pytest.raises(SystemExit) as ended:
        cli.main([*command, "--help"])
    assert ended.value.code == 0
    return capsys.readouterr().out


def examples(told: str) -> list[str]:
    """The lines that a help gives as examples, each without what it is for."""
    _, _, below = told.partition("for example:\n")
    found = re.findall(rf"^  {PROGRAM} (.*?)(?:  .*)?$", below, re.M)
    assert found
    return found


def keys_of(told: str) -> list[str]:
    """The keys that a help promises of ``--json``."""
    _, _, below = told.partition("with --json, one object with the keys:\n")
    return re.findall(r"^  (\w+)", below.partition("\n\n")[0], re.M)


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    """The exit code of a command, and what it wrote."""
    code = cli.main(words)
    said = capsys.readouterr()
    return code, said.out, said.err


Typed = Callable[..., tuple[int, str, str]]


@pytest.fixture
def typed(folder: Path, capsys: pytest.CaptureFixture[str]) -> Typed:
    """Runs a command on the workspace."""
    return lambda *words: run(capsys, *words, "--folder", str(folder))


@pytest.mark.parametrize("command", [(), *ALL], ids=" ".join)
def test_it_has_examples_that_the_parser_takes_and_the_exit_codes_within_80_columns(
    command: tuple[str, ...], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    told = help_of(capsys, *command)
    for example in examples(told):
        words = shlex.split(example)
        assert tuple(words[: len(command)]) == command
        cli.parser().parse_args(words)
        assert callable(resolve_name(f"parsimony_kernel.cli.{TABLE[words[0]]['run']}"))
    assert re.findall(r"^  (\d)  \w", told.partition("exit codes:\n")[2], re.M) == list("012")
    assert max(map(len, told.splitlines())) <= 80


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """The one line with which words that cannot be meant are refused."""
    code = cli.main(words)
    said = capsys.readouterr()
    assert (code, said.out, said.err.count("\n")) == (2, "", 1)
    return said.err


@pytest.mark.parametrize("command", [(), *ALL], ids=" ".join)
def test_misuse_is_exit_code_2_in_one_line(
    command: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert "--help" in refused(capsys, *command, "--no-such-flag")


@pytest.mark.parametrize(
    ("typed", "meant"),
    [("dome", "demo"), ("run", "runs"), ("docter", "doctor"), ("keys lst", "list")],
)
def test_unknown_command_suggests_nearest(
    typed: str, meant: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert f"Did you mean '{meant}'?" in refused(capsys, *typed.split())


@pytest.mark.parametrize(
    ("words", "named"),
    [
        ("runs --limit 0", "'0'"),
        ("purge", "--older-than"),
        ("purge --older-than 30", "'30'"),
        ("show --json --code", "--code"),
        *(("keys shred", "shred"), ("keys list extra", "extra"), ("keys rotate id", "id")),
    ],
)
def test_invalid_value_is_named(words: str, named: str, capsys: pytest.CaptureFixture[str]) -> None:
    said = refused(capsys, *words.split())
    assert named in said
    assert "_" not in said


@pytest.mark.parametrize("command", ALL, ids=" ".join)
def test_missing_folder_is_exit_code_2(
    command: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if "--folder" not in help_of(capsys, *command):
        assert command[0] in {"demo", "install", "keys", "doctor"}
        return
    needed = ("--older-than", "30d") if command == ("purge",) else ()
    code, out, err = run(capsys, *command, *needed, "--folder", str(tmp_path / "none"))
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert "--folder" in err


# What reads a journal, and needs one.
OF_A_JOURNAL = ("runs", "show", "resume", "verify", "metrics", "purge --older-than 30d")
TELLING = (*OF_A_JOURNAL[:-2], OF_A_JOURNAL[-1], "doctor", "refresh --all")


@pytest.mark.parametrize("words", OF_A_JOURNAL)
@pytest.mark.parametrize("content", [b"", b"not a database" * 999])
def test_without_a_journal_it_is_1_and_one_line(
    words: str, content: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if content:
        journal_path(tmp_path).parent.mkdir()
        journal_path(tmp_path).write_bytes(content)
    code, out, err = run(capsys, *words.split(), "--folder", str(tmp_path))
    assert (code, out) == (1, "")
    assert err.count("\n") == 1
    assert content or "--folder" in err


def test_interrupt_is_exit_code_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def stopped(**_options: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("parsimony_kernel.doctor.checks.run_checks", stopped)
    assert run(capsys, "doctor") == (1, "", "Stopped.\n")


@pytest.mark.parametrize("words", TELLING)
def test_json_has_documented_keys(
    words: str, typed: Typed, capsys: pytest.CaptureFixture[str]
) -> None:
    promised = keys_of(help_of(capsys, words.split()[0]))
    assert promised
    command = (*words.split(), "--json")
    code, out, err = run(capsys, *command) if words == "doctor" else typed(*command)
    assert list(json.loads(out)) == promised
    assert err == ""
    assert code == (0 if json.loads(out).get("ok", True) else 1)


@pytest.mark.parametrize(
    ("command", "key"),
    [
        ("runs", "runs"),
        ("resume", "questions"),
        ("doctor", "findings"),
        ("refresh --all", "artifacts"),
    ],
)
def test_list_items_have_documented_keys(
    command: str, key: str, typed: Typed, capsys: pytest.CaptureFixture[str]
) -> None:
    words = (*command.split(), "--json")
    promised = TABLE[words[0]]["json"][key].partition(": ")[2].split(", ")
    _, out, _ = run(capsys, *words) if command == "doctor" else typed(*words)
    assert list(json.loads(out)[key][0]) == promised


def test_verify_reports_intact_and_damaged(folder: Path, typed: Typed) -> None:
    code, out, _ = typed("verify", "--json")
    well = json.loads(out)
    assert (code, well["ok"], well["journal_entry"], well["findings"]) == (0, True, None, [])
    (log,) = (folder / ".ockham/datasets").glob("*/log.jsonl")
    log.write_text("{}\n")
    code, out, _ = typed("verify", "--json")
    assert (code, json.loads(out)["ok"]) == (1, False)
    (found, *_) = json.loads(out)["findings"]
    assert found["path"] == log.relative_to(folder).as_posix()
    assert list(found) == TABLE["verify"]["json"]["findings"].partition(": ")[2].split(", ")


def test_turns_are_listed_oldest_first_within_limit(typed: Typed) -> None:
    for options, beginnings, more in (
        ((), ["aa10", "aa20", "bb30", "cc40"], 0),
        (("--limit", "1"), ["cc40"], 3),
    ):
        told = json.loads(typed("runs", "--json", *options)[1])
        assert [each["turn_id"][:4] for each in told["runs"]] == beginnings
        assert told["more"] == more
    assert "3 older: --limit 4" in typed("runs", "--limit", "1")[1]


@pytest.mark.parametrize("named", ["sub/b.ipynb", "./sub/b.ipynb"])
def test_a_notebook_goes_by_its_path(named: str, typed: Typed) -> None:
    told = json.loads(typed("runs", "--json", "--notebook", named)[1])
    assert [each["request"] for each in told["runs"]] == ["second"]


def test_notebook_without_turns_suggests_nearest(typed: Typed) -> None:
    for command in ("runs", "show"):
        code, _, err = typed(command, "--notebook", "aa.ipynb")
        assert code == 1
        assert "Did you mean 'a.ipynb'?" in err
        assert "jupyter parsimony runs" in err


@pytest.mark.parametrize("command", ["runs", "resume", "show"])
def test_request_text_cannot_drive_terminal(command: str, typed: Typed) -> None:
    code, out, _ = typed(command)
    assert code == 0
    assert "red" in out
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e]", out)


def test_unencodable_output_is_escaped(typed: Typed, monkeypatch: pytest.MonkeyPatch) -> None:
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding="ascii"))
    assert typed("runs")[0] == 0
    assert rb"na\xefve \U0001f327" in written.getvalue()


def test_turn_without_question_names_those_with(typed: Typed) -> None:
    code, out, err = typed("resume", "--turn", "aa1000", "yes")
    assert (code, out) == (1, "")
    assert "Those that wait are of: cc400000" in err


def test_program_gets_question_verbatim(typed: Typed) -> None:
    out = typed("resume", "--json")[1]
    (asked,) = json.loads(out)["questions"]
    assert out.isascii()
    assert asked["question"] == asked["context"] == asked["held"] == HOSTILE
    assert asked["choices"] == [HOSTILE, "no"]
    assert asked["turn"] == 3


@pytest.mark.parametrize("words", [("aa1000",), ("1", "--notebook", "a.ipynb"), ("aa1000000000",)])
def test_show_prints_record_of_journal_events(
    words: tuple[str, ...], folder: Path, typed: Typed
) -> None:
    journal = SqliteJournal(journal_path(folder))
    events = journal.events("aa10" + "0" * 28)
    journal.close()
    code, out, _ = typed("show", *words)
    assert code == 0
    assert out == record_of(replay(events).blocks) + "\n"
    assert "Done with first." in out


def test_code_prints_working_code_only(typed: Typed) -> None:
    assert typed("show", "bb3000", "--code")[1] == "x = 1\nx\n\ny = x + 1  # naïve\n"
    code, out, err = typed("show", "cc4000", "--code")
    assert (code, out) == (1, "")
    assert "No code of this turn worked" in err


def test_running_turn_is_shown_so_far(folder: Path, typed: Typed) -> None:
    journal = SqliteJournal(journal_path(folder))
    run_id = "dd50" + "0" * 28
    journal.begin_turn(run_id, notebook="a.ipynb", cell_key="d", request="go", model="m")
    code, _, err = typed("show", "dd5000")
    assert (code, "has just begun" in err) == (1, True)
    begun, ended = step(1, "whole = " + "1" * 50_000, ok=True)
    for event in (ev.RunStarted(run_id=run_id, request="go", model="m"), begun):
        journal.append(run_id, event)
    out = typed("show", "dd5000")[1]
    assert "whole = 1" in out
    assert "Step 1 is running" not in out
    assert typed("show", "dd5000", "--code")[0] == 1
    journal.append(run_id, ended)
    journal.close()
    assert typed("show", "dd5000", "--code")[1] == "whole = " + "1" * 50_000 + "\n"


def test_younger_stays_and_purged_is_reported(typed: Typed) -> None:
    assert "turns 0." in typed("purge", "--older-than", "8w")[1]
    assert "turns 2." in typed("purge", "--older-than", "30d")[1]
    code, _, err = typed("show", "aa1000")
    assert code == 1
    assert "any more: it was purged" in err
    assert typed("runs")[1].count("(purged)") == 2
    assert typed("verify")[0] == 0


def test_journal_is_renamed_with_its_wal(folder: Path, typed: Typed) -> None:
    path = journal_path(folder)
    path.write_bytes(b"damaged" * 1_000)
    assert typed("journal") == (0, f"{path}\n", "")
    code, out, _ = typed("journal", "--set-aside")
    assert code == 0
    assert "journal.set-aside.sqlite" in out
    assert typed("journal") == (0, f"{path} (no journal yet)\n", "")
    code, _, err = typed("journal", "--set-aside")
    assert code == 1
    assert "--folder" in err
    SqliteJournal(path).close()


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the keys of a test lie."""
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path))
    return tmp_path / "parsimony" / "keys"


def test_list_shows_states_and_days_only(kept: Path, capsys: pytest.CaptureFixture[str]) -> None:
    old = Keyring(kept).current()
    new = Keyring(kept).rotate()
    assert cli.main(["keys", "list"]) == 0
    out = capsys.readouterr().out
    heading, first, second = out.splitlines()
    until = Keyring(kept).keys()[1].retired
    assert until is not None
    assert heading.split() == ["key", "state", "created", "signed", "until"]
    assert first.split()[:2] == [new.key_id, "current"]
    assert first.split()[3] == "-"
    assert second.split()[:2] == [old.key_id, "old"]
    assert second.split()[3] == f"{until:%Y-%m-%d}"
    assert old.secret not in out
    assert new.secret not in out


def test_rotate_reports_signing_key_and_grace(
    kept: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old = Keyring(kept).current()
    assert cli.main(["keys", "rotate"]) == 0
    out = capsys.readouterr().out
    keyring = Keyring(kept)
    assert keyring.current() != old
    assert keyring.get(old.key_id) == old
    assert f"signed with {keyring.current().key_id} from now on" in out
    assert "7 more days" in out


def test_failure_is_one_sentence_and_exit_code_1(
    kept: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept.parent.mkdir()
    kept.write_text("a file in the folder's place")
    assert cli.main(["keys", "rotate"]) == 1
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize(("command", "is_pipe"), [("list", False), ("rotate", True)])
def test_unwritable_output_is_exit_code_1(kept: Path, command: str, is_pipe: bool) -> None:
    """On a device that is full, and on a pipe without a reader."""
    before = Keyring(kept).current()
    if is_pipe:
        reader, target = os.pipe()
        os.close(reader)
    elif Path("/dev/full").exists():
        target = os.open("/dev/full", os.O_WRONLY)
    else:
        pytest.skip("this system has no full device")
    program = [sys.executable, "-m", "parsimony_kernel.cli.main", "keys", command]
    ended = subprocess.run(
        program, stdout=target, stderr=subprocess.PIPE, text=True, timeout=60, check=False
    )
    os.close(target)
    assert ended.returncode == 1
    assert ended.stderr.count("\n") == 1
    assert "was carried out, but its output cannot be written: " in ended.stderr
    # What is said to have been done has been done.
    assert (Keyring(kept).current() == before) is (command == "list")
