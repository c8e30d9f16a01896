"""Signing keys on a real disk."""

import hashlib
import os
import subprocess
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from parsimony_kernel.storage.keyring import GRACE_S, Key, Keyring, KeyringError
from parsimony_kernel.testing.manual_clock import START, ManualClock


def at(folder: Path, clock: ManualClock) -> Keyring:
    return Keyring.open(folder, {}, clock)


def states(keyring: Keyring) -> list[tuple[str, str]]:
    stored = keyring.keys()
    return [(key.key_id, key.state(keyring._clock.now())) for key in stored]


def kept(folder: Path) -> str:
    """Everything that the files of a keyring hold."""
    return "".join(path.read_text() for path in folder.iterdir())


def test_key_is_created_on_first_use_and_kept(tmp_path: Path) -> None:
    folder = tmp_path / "keys"
    keyring = Keyring.open(folder, {})
    assert not folder.exists()
    key = keyring.current()
    assert len(key.secret) == 64
    assert Keyring.open(folder, {}).current() == key
    assert keyring.get(key.key_id) == key
    # Two places never share an id.
    other = Keyring.open(tmp_path / "b", {}).current()
    assert other.key_id != key.key_id
    assert keyring.get(other.key_id) is None


def test_environment_key_wins_and_old_keys_stay_readable(tmp_path: Path) -> None:
    old = Keyring.open(tmp_path, {}).current()
    keyring = Keyring.open(tmp_path, {"PARSIMONY_SUSPENSION_SECRET": "mine"})
    assert (keyring.current().key_id, keyring.current().secret) == ("env", "mine")
    assert keyring.get("env") == keyring.current()
    assert keyring.get(old.key_id) == old
    assert Keyring.open(tmp_path, {}).get("env") is None
    assert Keyring.open(tmp_path, {"PARSIMONY_SUSPENSION_SECRET": " "}).current() == old


def test_default_folder_is_jupyter_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path))
    Keyring.open(None, {}).current()
    assert (tmp_path / "parsimony" / "keys" / "keys.json").is_file()


@pytest.mark.parametrize(
    "key_id", ["", "../../etc/passwd", "current", "A" * 16, "0" * 16, "x" * 5000, "a\0"]
)
def test_unknown_key_id_gives_none_and_cannot_be_revoked(tmp_path: Path, key_id: str) -> None:
    keyring = at(tmp_path, ManualClock())
    keyring.current()
    before = kept(tmp_path)
    assert keyring.get(key_id) is None
    with pytest.raises(KeyringError, match=r"There is no key .* here: .*keys list") as caught:
        keyring.revoke(key_id)
    assert len(str(caught.value)) < 200
    assert kept(tmp_path) == before


def test_unwritable_folder_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    keyring = Keyring.open(tmp_path / "file" / "keys", {})
    with pytest.raises(KeyringError, match="Cannot create the folder"):
        keyring.rotate()
    with pytest.raises(KeyringError) as caught:
        keyring.current()
    message = str(caught.value)
    assert message.startswith("There is no key to sign questions with: Cannot create the folder")
    assert "or set PARSIMONY_SUSPENSION_SECRET" in message
    assert "\n" not in message


_FIRST = """
from pathlib import Path
from parsimony_kernel.storage.keyring import Keyring
wait()
print(Keyring.open(Path(place), {}).current().key_id)
"""


def test_concurrent_processes_get_one_first_key(
    tmp_path: Path, race: Callable[[str, Path], list[str]]
) -> None:
    ids = set(race(_FIRST, tmp_path / "keys"))
    assert len(ids) == 1
    assert [path.name for path in (tmp_path / "keys").iterdir()] == ["keys.json"]


def test_rotated_key_verifies_during_grace_only(
    tmp_path: Path,
) -> None:
    clock = ManualClock()
    keyring = at(tmp_path, clock)
    old = keyring.current()
    new = keyring.rotate()
    assert new != old
    assert keyring.current() == at(tmp_path, clock).current() == new
    clock.advance(GRACE_S)
    assert keyring.get(old.key_id) == old
    assert states(keyring) == [(new.key_id, "current"), (old.key_id, "grace")]
    clock.advance(1)
    assert keyring.get(old.key_id) is None
    assert states(keyring) == [(new.key_id, "current"), (old.key_id, "expired")]
    assert keyring.get(new.key_id) == new
    # A time that is given counts instead of the clock.
    keyring.rotate(START + timedelta(days=100))
    later = START + timedelta(days=107)
    assert keyring.get(new.key_id, later) == new
    assert keyring.get(new.key_id, later + timedelta(seconds=1)) is None


def test_every_key_has_its_own_grace(tmp_path: Path) -> None:
    clock = ManualClock()
    keyring = at(tmp_path, clock)
    keys = [keyring.current()]
    for _ in range(3):
        clock.advance(4 * 86_400)
        keys.append(keyring.rotate())
    assert [keyring.get(key.key_id) for key in keys] == [None, *keys[1:]]
    dates = [START + timedelta(days=days) for days in (12, 8, 4)]
    stored = keyring.keys()
    assert list(stored) == keys[::-1]
    assert [key.since for key in stored[:-1]] == dates
    assert [key.retired for key in stored] == [None, *dates]


def test_rotation_without_key_creates_first(tmp_path: Path) -> None:
    keyring = at(tmp_path / "keys", ManualClock())
    assert keyring.keys() == ()
    assert not (tmp_path / "keys").exists()
    assert keyring.rotate() == keyring.current()
    assert [state for _, state in states(keyring)] == ["current"]


def test_revoked_secret_is_gone(tmp_path: Path) -> None:
    clock = ManualClock()
    keyring = at(tmp_path, clock)
    old = keyring.current()
    new = keyring.rotate()
    assert old.secret in kept(tmp_path)
    clock.advance(60)
    keyring.revoke(old.key_id)
    assert old.secret not in kept(tmp_path)
    assert keyring.get(old.key_id) is None
    assert keyring.current() == new
    assert states(at(tmp_path, clock)) == [(new.key_id, "current")]


def test_environment_key_is_changed_at_its_source(tmp_path: Path) -> None:
    old = at(tmp_path, ManualClock()).current()
    keyring = Keyring.open(tmp_path, {"PARSIMONY_SUSPENSION_SECRET": "hush"}, ManualClock())
    assert states(keyring) == [("env", "environment"), (old.key_id, "current")]
    with pytest.raises(KeyringError, match=r"PARSIMONY_SUSPENSION_SECRET .*to a new secret"):
        keyring.rotate()
    with pytest.raises(KeyringError, match="unset that variable"):
        keyring.revoke("env")
    keyring.revoke(old.key_id)
    assert states(keyring) == [("env", "environment")]
    assert keyring.current().secret == "hush"


def test_key_file_stays_private(tmp_path: Path) -> None:
    keyring = at(tmp_path / "keys", ManualClock())
    keyring.revoke(keyring.current().key_id)
    keyring.rotate()
    keyring.rotate()
    assert (tmp_path / "keys").stat().st_mode & 0o777 == 0o700
    (file,) = (tmp_path / "keys").iterdir()
    assert file.stat().st_mode & 0o777 == 0o600


def test_key_listing_holds_no_secret(tmp_path: Path) -> None:
    keyring = Keyring.open(tmp_path, {"PARSIMONY_SUSPENSION_SECRET": "hush-hush"}, ManualClock())
    key = at(tmp_path, ManualClock()).current()
    shown = repr(keyring.keys()) + str(keyring.keys()) + keyring.why_not(key.key_id)
    shown += repr(keyring) + repr(keyring.current()) + str(keyring.current())
    assert key.key_id in shown
    assert "hush" not in shown
    assert key.secret not in shown


def test_question_with_unusable_key_says_why(tmp_path: Path) -> None:
    clock = ManualClock()
    keyring = at(tmp_path, clock)
    expired = keyring.current()
    clock.advance(60)
    revoked = keyring.rotate()
    keyring.revoke(revoked.key_id)
    clock.advance(GRACE_S + 1)
    grace = keyring.rotate()
    current = keyring.rotate()

    why = {
        key_id: keyring.why_not(key_id)
        for key_id in (expired.key_id, revoked.key_id, "f" * 5000, "", "env")
    }
    for (key_id, sentence), part in zip(
        why.items(),
        (
            "was replaced on 2026-01-01 and was good for 7 days more",
            "was revoked",
            "is not on this machine",
            "is not on this machine",
            "PARSIMONY_SUSPENSION_SECRET, which is not set here",
        ),
        strict=True,
    ):
        assert keyring.get(key_id) is None
        assert part in sentence
        assert "run the cell" in sentence
        assert sentence.endswith(".")
        assert "\n" not in sentence
        assert len(sentence) < 400
    assert [keyring.why_not(key.key_id) for key in (grace, current)] == ["", ""]
    given = Keyring.open(tmp_path, {"PARSIMONY_SUSPENSION_SECRET": "mine"}, clock)
    assert given.why_not("env") == ""


def test_folder_error_is_one_sentence_for_every_question(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    looped = at(tmp_path / "loop", ManualClock())
    for ask in (looped.keys, looped.rotate, looped.current, lambda: looped.get("x")):
        with pytest.raises(KeyringError, match="Cannot read"):
            ask()


def dangle(path: Path) -> None:
    path.symlink_to(path.parent / "nowhere")


def loop(path: Path) -> None:
    path.symlink_to(path)


def zeros(path: Path) -> None:
    path.symlink_to("/dev/zero")


def holding(text: str) -> Callable[[Path], object]:
    return lambda path: path.write_text(text)


def entry(
    secret: str = "hush", since: str = "2026-07-08T00:00:00Z", of: str | None = None
) -> Callable[[Path], object]:
    key_id = hashlib.sha256(f"key id of {of or secret}".encode()).hexdigest()[:16]
    return holding(f'[{{"key_id": "{key_id}", "secret": "{secret}", "since": "{since}"}}]')


@pytest.mark.parametrize(
    "put",
    [
        *(os.mkfifo, Path.mkdir, zeros, dangle, loop, holding(""), holding("[")),
        *(entry(since="yesterday"), entry(since="2026-07-08T00:00:00"), entry(secret="")),
        entry(of="a secret that was another"),
    ],
)
def test_foreign_file_in_its_place_is_left_alone(
    tmp_path: Path, put: Callable[[Path], object]
) -> None:
    keyring = at(tmp_path, ManualClock())
    put(tmp_path / "keys.json")
    before = (tmp_path / "keys.json").lstat()
    for ask in (
        keyring.rotate,
        keyring.current,
        keyring.keys,
        lambda: keyring.get("x"),
        lambda: keyring.revoke("x"),
        lambda: keyring.why_not("x"),
    ):
        with pytest.raises(KeyringError, match=r"is damaged: .* or remove that file") as caught:
            ask()
        assert "hush" not in str(caught.value)
    assert (tmp_path / "keys.json").lstat() == before
    assert len(list(tmp_path.iterdir())) == 1


_REVOKE = """
from pathlib import Path
from contextlib import suppress
from parsimony_kernel.storage.keyring import Keyring, KeyringError
keyring = Keyring.open(Path(place), {})
key = keyring.current()
wait()
if int(me[1:]) % 2:
    with suppress(KeyringError):  # another was first
        keyring.revoke(key.key_id)
print(keyring.current().key_id)
"""


def test_revoked_key_stays_revoked_while_others_sign(
    tmp_path: Path, race: Callable[[str, Path], list[str]]
) -> None:
    folder = tmp_path / "keys"
    first = Keyring.open(folder, {}).current()
    after = set(race(_REVOKE, folder)) - {first.key_id}
    keyring = Keyring.open(folder, {})
    assert after == {keyring.current().key_id}
    assert keyring.get(first.key_id) is None
    assert first.secret not in kept(folder)


def steps_of(program: str, place: Path, what: str) -> int:
    """The steps that ``program`` counts."""
    ran = subprocess.run(
        [sys.executable, "-c", program, str(place), what],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert ran.returncode == 0, ran.stderr
    return int(ran.stdout)


# Ends a child of its own at each step on the disk in turn, until one gets through.
_DIE = """
import os, sys
from pathlib import Path
from parsimony_kernel.storage.keyring import Keyring

place, change = Path(sys.argv[1]), sys.argv[2]
for deadly in range(1, 100):
    folder = place / str(deadly)
    keyring = Keyring.open(folder, {})
    key_id = "" if change == "first" else keyring.current().key_id
    child = os.fork()
    if not child:
        left = deadly

        def count(event, arguments):
            global left
            if event in {"open", "os.link", "os.rename", "os.remove", "os.mkdir"}:
                left -= 1
                if not left:
                    os._exit(9)

        sys.addaudithook(count)
        if change == "revoke":
            keyring.revoke(key_id)
        else:
            keyring.current() if change == "first" else keyring.rotate()
        os._exit(0)
    if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0:
        break
print(deadly)
"""


@pytest.mark.parametrize("change", ["first", "rotate", "revoke"])
def test_change_killed_anywhere_leaves_working_keyring(tmp_path: Path, change: str) -> None:
    steps = steps_of(_DIE, tmp_path, change)
    assert 5 < steps < 99
    for step in range(1, steps + 1):
        folder = tmp_path / str(step)
        keyring = at(folder, ManualClock())
        before = dict(states(keyring))
        assert set(before.values()) <= {"current", "grace"}
        key = keyring.current()
        assert isinstance(key, Key)
        assert keyring.rotate() == keyring.current() != key
        assert keyring.get(key.key_id) == key
        assert all(keyring.get(key_id) for key_id in before)
        assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o600}
