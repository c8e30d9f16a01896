"""Two users and one shared folder: neither has the other's keys or answers for them."""

import os
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from parsimony_kernel.storage.journal import SqliteJournal
from tests.attack.storm import Child, Say, ask, reply

pytestmark = [
    pytest.mark.exhaustive,
    pytest.mark.skipif(
        not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can be two users"
    ),
]

GROUP, ADA, GRACE = 20_000, 20_001, 20_002


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder that both can write, and a home for each. What children need is imported here."""
    with TemporaryDirectory() as made:
        folder = Path(made)
        folder.chmod(0o755)
        monkeypatch.setenv("JUPYTER_DATA_DIR", str(folder / "mine"))
        for name, owner, mode in (
            ("warm", 0, 0o700),
            ("shared", 0, 0o2775),
            (str(ADA), ADA, 0o700),
            (str(GRACE), GRACE, 0o700),
        ):
            (folder / name).mkdir()
            os.chown(folder / name, owner, GROUP)
            (folder / name).chmod(mode)
        for act in (ask, reply):
            act(folder / "warm")(lambda _: None)
        yield folder


def as_user(user: int, place: Path, act: Callable[[Say], None], umask: int = 0o002) -> list[str]:
    """What ``act`` says in a process of that user, or the error that it ends with."""

    def act_as(say: Say) -> None:
        os.setgroups([])
        os.setgid(GROUP)
        os.setuid(user)
        os.umask(umask)
        os.environ["JUPYTER_DATA_DIR"] = str(place / str(user) / "data")
        try:
            act(say)
        except Exception as exc:  # boundary: it is what the test looks at
            say(f"{type(exc).__name__}: {exc}")

    child = Child(act_as)
    child.wait()
    return child.said()


def verified(root: Path) -> Callable[[Say], None]:
    """An act that says what is wrong with the journal."""

    def act(say: Say) -> None:
        with closing(SqliteJournal(root / ".ockham" / "journal.sqlite")) as journal:
            say(str(journal.verify()))

    return act


def test_question_is_answered_by_its_user_only(place: Path) -> None:
    shared = place / "shared"
    assert as_user(ADA, place, ask(shared)) == ["begun", "asked"]
    (key,) = (place / str(ADA)).rglob("keys.json")
    assert (key.stat().st_mode & 0o777, key.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    (read,) = as_user(GRACE, place, lambda say: say(key.read_text()))
    assert read.startswith("PermissionError")
    refused = as_user(GRACE, place, reply(shared))[-1]
    assert "that signed this question is not on this machine" in refused
    assert as_user(ADA, place, reply(shared)) == ["begun", "done"]
    assert (shared / "letters").read_text() == "ada\n"


def test_journal_of_two_users_is_verified_for_neither(place: Path) -> None:
    shared = place / "shared"
    as_user(ADA, place, ask(shared))
    assert as_user(ADA, place, verified(shared)) == ["None"]
    (told,) = as_user(GRACE, place, verified(shared))
    assert "the key that sealed it is not here" in told
    assert as_user(GRACE, place, ask(shared)) == ["begun", "asked"]
    (told,) = as_user(ADA, place, verified(shared))
    assert "are not those that were written" in told


def test_user_without_write_permission_is_told_what_to_do(place: Path) -> None:
    shared = place / "shared"
    as_user(ADA, place, ask(shared), umask=0o022)
    (refused,) = as_user(GRACE, place, ask(shared))
    assert "set PARSIMONY_WORKSPACE to a folder that is" in refused
