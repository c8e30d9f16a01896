"""Signing keys on a real disk."""

from collections.abc import Callable
from pathlib import Path

import pytest

from parsimony_kernel.agent.failure.keyring import Keyring, KeyringError


def test_a_key_is_made_on_first_need_and_stays(tmp_path: Path) -> None:
    folder = tmp_path / "keys"
    keyring = Keyring.open(folder, {})
    assert not folder.exists()
    key = keyring.current()
    assert len(key.secret) == 64
    assert Keyring.open(folder, {}).current() == key
    assert keyring.get(key.key_id) == key


def test_only_the_user_can_read_a_key(tmp_path: Path) -> None:
    folder = tmp_path / "keys"
    Keyring.open(folder, {}).current()
    assert folder.stat().st_mode & 0o777 == 0o700
    files = list(folder.iterdir())
    assert len(files) == 2
    assert {path.stat().st_mode & 0o777 for path in files} == {0o600}


def test_two_places_never_share_an_id(tmp_path: Path) -> None:
    one = Keyring.open(tmp_path / "a", {}).current()
    two = Keyring.open(tmp_path / "b", {}).current()
    assert one.key_id != two.key_id
    assert Keyring.open(tmp_path / "a", {}).get(two.key_id) is None


def test_the_environment_overrides_and_old_keys_stay_readable(tmp_path: Path) -> None:
    old = Keyring.open(tmp_path, {}).current()
    keyring = Keyring.open(tmp_path, {"PARSIMONY_SUSPENSION_SECRET": "mine"})
    assert (keyring.current().key_id, keyring.current().secret) == ("env", "mine")
    assert keyring.get("env") == keyring.current()
    assert keyring.get(old.key_id) == old
    assert Keyring.open(tmp_path, {}).get("env") is None
    assert Keyring.open(tmp_path, {"PARSIMONY_SUSPENSION_SECRET": " "}).current() == old


def test_without_a_folder_keys_lie_in_jupyters_data_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path))
    key = Keyring.open(None, {}).current()
    assert (tmp_path / "parsimony" / "keys" / f"{key.key_id}.key").is_file()


def test_no_secret_is_ever_shown(tmp_path: Path) -> None:
    keyring = Keyring.open(tmp_path, {"PARSIMONY_SUSPENSION_SECRET": "hush-hush"})
    assert "hush" not in repr(keyring) + repr(keyring.current()) + str(keyring.current())


@pytest.mark.parametrize("key_id", ["", "../../etc/passwd", "current", "A" * 16, "0" * 16, "a\0"])
def test_an_id_that_names_no_key_gives_none(tmp_path: Path, key_id: str) -> None:
    keyring = Keyring.open(tmp_path, {})
    keyring.current()
    assert keyring.get(key_id) is None


def test_a_damaged_key_is_no_key_and_the_remedy_is_said(tmp_path: Path) -> None:
    keyring = Keyring.open(tmp_path, {})
    key = keyring.current()
    (tmp_path / f"{key.key_id}.key").write_text(key.secret[:-1] + "x")
    assert keyring.get(key.key_id) is None
    with pytest.raises(KeyringError, match=r"current' names is missing or damaged: remove that"):
        keyring.current()
    (tmp_path / "current").unlink()
    assert keyring.current().key_id != key.key_id


def test_an_empty_pointer_is_said(tmp_path: Path) -> None:
    (tmp_path / "current").write_bytes(b"")
    with pytest.raises(KeyringError, match="missing or damaged"):
        Keyring.open(tmp_path, {}).current()
    assert [path.name for path in tmp_path.iterdir()] == ["current"]


def test_a_folder_that_cannot_be_written_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(KeyringError) as caught:
        Keyring.open(tmp_path / "file" / "keys", {}).current()
    message = str(caught.value)
    assert message.startswith("There is no key to sign questions with: Cannot create the folder")
    assert "or set PARSIMONY_SUSPENSION_SECRET" in message
    assert "\n" not in message


_FIRST = """
from pathlib import Path
from parsimony_kernel.agent.failure.keyring import Keyring
wait()
print(Keyring.open(Path(place), {}).current().key_id)
"""


def test_processes_that_need_the_first_key_at_once_get_the_same(
    tmp_path: Path, race: Callable[[str, Path], list[str]]
) -> None:
    ids = set(race(_FIRST, tmp_path / "keys"))
    assert len(ids) == 1
    assert {p.name for p in (tmp_path / "keys").iterdir()} == {f"{ids.pop()}.key", "current"}
