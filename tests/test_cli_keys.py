"""``jupyter parsimony keys`` as it is typed."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from parsimony_kernel.cli import main as cli
from parsimony_kernel.storage.keyring import Keyring


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the keys of this test lie."""
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path))
    return tmp_path / "parsimony" / "keys"


def test_list_shows_states_and_days_only(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    old = Keyring(folder).current()
    new = Keyring(folder).rotate()
    assert cli.main(["keys", "list"]) == 0
    out = capsys.readouterr().out
    heading, first, second = out.splitlines()
    until = Keyring(folder).keys()[1].retired
    assert until is not None
    assert heading.split() == ["key", "state", "created", "signed", "until"]
    assert first.split()[:2] == [new.key_id, "current"]
    assert first.split()[3] == "-"
    assert second.split()[:2] == [old.key_id, "old"]
    assert second.split()[3] == f"{until:%Y-%m-%d}"
    assert old.secret not in out
    assert new.secret not in out


def test_rotate_reports_signing_key_and_grace(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old = Keyring(folder).current()
    assert cli.main(["keys", "rotate"]) == 0
    out = capsys.readouterr().out
    keyring = Keyring(folder)
    assert keyring.current() != old
    assert keyring.get(old.key_id) == old
    assert f"signed with {keyring.current().key_id} from now on" in out
    assert "7 more days" in out


def test_failure_is_one_sentence_and_exit_code_1(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder.parent.mkdir()
    folder.write_text("a file in the folder's place")
    assert cli.main(["keys", "rotate"]) == 1
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize(("command", "is_pipe"), [("list", False), ("rotate", True)])
def test_unwritable_output_is_exit_code_1(folder: Path, command: str, is_pipe: bool) -> None:
    """On a device that is full, and on a pipe without a reader."""
    before = Keyring(folder).current()
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
    assert (Keyring(folder).current() == before) is (command == "list")


@pytest.mark.parametrize("words", [["forge"], ["list", "extra"], ["rotate", "id"]])
def test_misuse_is_exit_code_2(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        cli.main(["keys", *words])
    assert caught.value.code == 2
    assert words[-1] in capsys.readouterr().err
