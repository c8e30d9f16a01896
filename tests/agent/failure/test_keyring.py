"""Signing keys on a real disk."""

import hashlib
import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from parsimony_kernel.storage.durable import StorageError
from parsimony_kernel.storage.keyring import Keyring
from parsimony_kernel.testing.manual_clock import START, ManualClock
from tests.races import Race


def at(folder: Path, clock: ManualClock | None = None) -> Keyring:
    return Keyring(folder, clock or ManualClock())


def states(keyring: Keyring) -> list[tuple[str, str]]:
    stored = keyring.keys()
    return [(key.key_id, "old" if key.retired else "current") for key in stored]


def kept(folder: Path) -> str:
    """Everything that the files of a keyring hold."""
    return "".join(path.read_text() for path in folder.iterdir())


def test_key_is_created_on_first_use_and_kept(tmp_path: Path) -> None:
    folder = tmp_path / "keys"
    keyring = Keyring(folder)
    assert not folder.exists()
    key = keyring.current()
    assert len(key.secret) == 64
    assert Keyring(folder).current() == key
    assert keyring.get(key.key_id) == key
    # Two places never share an id.
    other = Keyring(tmp_path / "b").current()
    assert other.key_id != key.key_id
    assert keyring.get(other.key_id) is None


def test_default_folder_is_jupyter_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path))
    Keyring().current()
    assert (tmp_path / "parsimony" / "keys" / "keys.json").is_file()


@pytest.mark.parametrize(
    "key_id", ["", "../../etc/passwd", "current", "A" * 16, "0" * 16, "x" * 5000, "a\0"]
)
def test_unknown_key_id_gives_none(tmp_path: Path, key_id: str) -> None:
    keyring = at(tmp_path)
    keyring.current()
    before = kept(tmp_path)
    assert keyring.get(key_id) is None
    assert kept(tmp_path) == before


def test_unwritable_folder_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    keyring = Keyring(tmp_path / "file" / "keys")
    with pytest.raises(StorageError, match="Cannot create the folder"):
        keyring.rotate()
    with pytest.raises(StorageError) as caught:
        keyring.current()
    message = str(caught.value)
    assert message.startswith("There is no key to sign questions with: Cannot create the folder")
    assert "or set JUPYTER_DATA_DIR" in message
    assert "\n" not in message


_FIRST = """
from pathlib import Path
from parsimony_kernel.storage.keyring import Keyring
from tests.races import Race
wait()
print(Keyring(Path(place)).current().key_id)
"""


def test_concurrent_processes_get_one_first_key(tmp_path: Path, race: Race) -> None:
    ids = set(race(_FIRST, tmp_path / "keys"))
    assert len(ids) == 1
    assert [path.name for path in (tmp_path / "keys").iterdir()] == ["keys.json"]


def test_rotated_keys_verify_and_newest_signs(tmp_path: Path) -> None:
    clock = ManualClock()
    keyring = at(tmp_path / "keys", clock)
    assert keyring.keys() == ()
    assert not (tmp_path / "keys").exists()
    keys = [keyring.rotate()]
    for _ in range(2):
        clock.advance(4 * 86_400)
        keys.append(keyring.rotate())
    assert keyring.current() == at(tmp_path / "keys").current() == keys[-1]
    assert [keyring.get(key.key_id) for key in keys] == keys
    assert [state for _, state in states(keyring)] == ["current", "old", "old"]
    stored = keyring.keys()
    assert list(stored) == keys[::-1]
    dates = [START + timedelta(days=days) for days in (8, 4, 0)]
    assert [key.since for key in stored] == dates
    assert [key.retired for key in stored] == [None, *dates[:2]]


def test_retired_key_never_signs_again(tmp_path: Path) -> None:
    keyring = at(tmp_path)
    old = keyring.current()
    newer = keyring.rotate()
    (file,) = tmp_path.iterdir()
    # As an earlier version's revocation of the newest key left it.
    file.write_text(json.dumps(json.loads(file.read_text())[:1]))
    assert at(tmp_path).current() not in (old, newer)
    assert at(tmp_path).get(old.key_id) == old


def test_key_file_stays_private(tmp_path: Path) -> None:
    keyring = at(tmp_path / "keys")
    keyring.current()
    keyring.rotate()
    keyring.rotate()
    assert (tmp_path / "keys").stat().st_mode & 0o777 == 0o700
    (file,) = (tmp_path / "keys").iterdir()
    assert file.stat().st_mode & 0o777 == 0o600


def test_key_listing_holds_no_secret(tmp_path: Path) -> None:
    keyring = at(tmp_path)
    key = keyring.current()
    shown = f"{keyring.keys()!r} {keyring.keys()} {keyring!r} {key!r} {key}"
    assert key.key_id in shown
    assert key.secret not in shown


def loop(path: Path) -> None:
    path.symlink_to(path)


def holding(text: str) -> Callable[[Path], object]:
    return lambda path: path.write_text(text)


def entry(secret: str = "hush", of: str | None = None, **more: object) -> Callable[[Path], object]:
    key_id = hashlib.sha256(f"key id of {of or secret}".encode()).hexdigest()[:16]
    kept = {"key_id": key_id, "secret": secret, "since": "2026-07-08T00:00:00Z", **more}
    return holding(json.dumps([kept]))


@pytest.mark.parametrize(
    "put",
    [
        *(Path.mkdir, loop, holding(""), holding("[")),
        *(entry(since="yesterday"), entry(since="2026-07-08T00:00:00"), entry(more=1)),
        *(entry(key_id=None), entry(secret=""), entry(of="a secret that was another")),
    ],
)
def test_foreign_file_is_left_alone(tmp_path: Path, put: Callable[[Path], object]) -> None:
    keyring = at(tmp_path)
    put(tmp_path / "keys.json")

    def state() -> tuple[int, ...]:
        found = (tmp_path / "keys.json").lstat()
        return found.st_mode, found.st_ino, found.st_size, found.st_mtime_ns  # reading is allowed

    before = state()
    for ask in (keyring.rotate, keyring.current, keyring.keys, lambda: keyring.get("x")):
        said = r"is damaged: .* or delete it|a (folder|link) stands in its place"
        with pytest.raises(StorageError, match=said) as caught:
            ask()
        assert "hush" not in str(caught.value)
    assert state() == before
    assert len(list(tmp_path.iterdir())) == 1
