"""Every call of a publish and of a suspend fails once, in every way that a disk fails.

`make test` deals the calls out among the ways; `make test-all` fails each in every way.
Whoever asked is told in one sentence with the remedy, nothing is announced, what was there
stands, and the same again succeeds.
"""

import contextlib
import errno
import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from parsimony_kernel.storage import durable
from parsimony_kernel.storage.database import JournalError
from parsimony_kernel.storage.durable import StorageError
from parsimony_kernel.storage.journal import SqliteJournal
from parsimony_kernel.storage.keyring import Keyring
from parsimony_kernel.testing.manual_clock import ManualClock
from tests.durability import acts
from tests.durability.disk import Seam, failing_at
from tests.tiers import every

FAULTS = [errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EINTR]
_names = [errno.errorcode[code] for code in FAULTS]


Act = Callable[[Path], str]


def failing(
    folder: Path,
    act: Act,
    code: int,
    *,
    before: Act = str,
    calls: slice = slice(None),
    is_short: bool = False,
) -> Iterator[tuple[Path, str, str, list[str]]]:
    """Fail each of the ``calls`` of ``act`` once, in a folder in which ``before`` was done: the
    folder, the call, what ``before`` gave, and what ``act`` gave if it did."""
    counted = Seam(folder / "counted")
    counted.root.mkdir()
    before(counted.root)
    with counted.recorded():
        act(counted.root)
    for number in range(len(counted.calls))[calls]:
        root = folder / str(number)
        root.mkdir()
        given, told, seam = before(root), list[str](), Seam(root)
        with seam.recorded(failing_at(number, code), is_short=is_short):
            try:
                told.append(act(root))
            except (StorageError, JournalError) as exc:
                _is_a_sentence_with_a_remedy(exc)
        # What is made once of the user's own folders is not called for again.
        call = seam.calls[number][0] if number < len(seam.calls) else ""
        yield root, call, given, told


@pytest.fixture(autouse=True)
def a_process_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(durable, "_anchored", {})


@every(5)
@pytest.mark.parametrize("is_short", [False, True], ids=["whole", "short"])
@pytest.mark.parametrize("code", FAULTS, ids=_names)
def test_publish_failing_at_any_call_says_so_and_retries(
    code: int, is_short: bool, stride: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def second(root: Path) -> str:
        monkeypatch.setattr(durable, "_anchored", {})
        return acts.publish_version(root, 2)

    failed, calls = 0, slice((2 * FAULTS.index(code) + is_short) % stride, None, stride)
    tried = failing(tmp_path, second, code, before=_first, calls=calls, is_short=is_short)
    for root, call, first, told in tried:
        failed += not told
        acts.check_published(root, {first, *told})
        assert len(acts.lines_of(root)) == len({first, *told}), call
        assert not _strays(root) or call == "unlink"
        acts.check_published(root, {first, *told, acts.publish_version(root, 2)})
        acts.check_swept(root)
    assert failed * stride > 15


def _first(root: Path) -> str:
    return acts.publish_version(root, 1)


def _is_a_sentence_with_a_remedy(exc: Exception) -> None:
    said = str(exc)
    assert said.startswith(("Cannot ", "There is no key ", "The journal cannot "))
    assert "; " in said or ": " in said
    assert said.endswith(".")
    assert "\n" not in said


def _strays(root: Path) -> list[Path]:
    return list(root.rglob(".parsimony-*.tmp"))


@pytest.mark.parametrize("is_short", [False, True], ids=["whole", "short"])
@pytest.mark.parametrize("code", FAULTS, ids=_names)
def test_failed_rewrite_leaves_file_whole(code: int, is_short: bool, tmp_path: Path) -> None:
    def written(root: Path) -> str:
        return str((root / "file").write_bytes(b"one"))

    def rewritten(root: Path) -> str:
        durable._anchored.clear()
        durable.rewrite(root / "file", lambda before: before.replace(b"one", b"two" * 99))
        return "rewritten"

    failed = 0
    tried = failing(tmp_path, rewritten, code, before=written, is_short=is_short)
    for root, call, _, told in tried:
        failed += not told
        assert (root / "file").read_bytes() in (b"one", b"two" * 99)
        assert not _strays(root) or call == "unlink"
        rewritten(root)
        assert (root / "file").read_bytes() == b"two" * 99
    assert failed > 5


@pytest.mark.parametrize("code", FAULTS, ids=_names)
def test_failed_key_write_is_reported_and_retried(code: int, tmp_path: Path) -> None:
    def key(root: Path) -> str:
        return Keyring(root / "keys", ManualClock()).current().key_id

    for root, _, _, told in failing(tmp_path, key, code):
        acts.check_signed(root, [*told, key(root)])


@every(len(FAULTS))
@pytest.mark.parametrize("code", FAULTS, ids=_names)
def test_failed_journal_creation_can_be_retried(code: int, stride: int, tmp_path: Path) -> None:
    def asked(root: Path) -> str:
        acts.suspend(root, lambda _word: None)
        return "asked"

    calls = slice(FAULTS.index(code) % stride, None, stride)
    for root, _, _, told in failing(tmp_path, asked, code, calls=calls):
        if told:
            continue
        asked(root)
        acts.check_suspended(root, ["n1", "n2", "ended"])
        assert not _strays(root / ".ockham")


def test_lost_journal_is_recreated_once_space_allows(tmp_path: Path) -> None:
    place = tmp_path / ".ockham" / acts.JOURNAL
    with contextlib.closing(SqliteJournal(place, ManualClock())) as journal:
        for path in place.parent.iterdir():
            path.unlink()

        def full(call: str, path: str) -> None:
            if call == "open" and ".parsimony-" in path:
                raise OSError(errno.ENOSPC, "full", path)

        with Seam(tmp_path).recorded(full):
            for _ in range(2):
                with pytest.raises(JournalError, match="the disk is full"):
                    journal.suspend(acts.question("n1"))
        journal.begin_turn("r1", notebook="n", cell_key="c", request="?", model="m")
        journal.suspend(acts.question("n1"))
        assert [row.record for row in journal.pending()] == [acts.question("n1")]


class _Failing(sqlite3.Connection):
    """A connection whose statements fail from one of them on, for as long as it is told to."""

    left: int | None = None
    problem = ""

    def execute(self, *given: object) -> sqlite3.Cursor:
        if _Failing.left is not None:
            if _Failing.left == 0 and given[0] != "ROLLBACK":
                raise sqlite3.OperationalError(_Failing.problem)
            _Failing.left -= _Failing.left > 0
        return super().execute(*given)  # type: ignore[arg-type]


@pytest.fixture
def statements(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[_Failing]]:
    connect = sqlite3.connect
    monkeypatch.setattr(
        sqlite3, "connect", lambda *names, **given: connect(*names, **given, factory=_Failing)
    )
    yield _Failing
    _Failing.left = None


@pytest.mark.parametrize("problem", ["database or disk is full", "disk I/O error"])
@pytest.mark.parametrize("statement", range(9))
def test_failed_suspend_keeps_nothing_half(
    statement: int, problem: str, tmp_path: Path, statements: type[_Failing]
) -> None:
    place = tmp_path / ".ockham" / acts.JOURNAL
    with contextlib.closing(SqliteJournal(place, ManualClock())) as journal:
        journal.begin_turn("r1", notebook="n", cell_key="c", request="?", model="m")
        statements.left, statements.problem = statement, problem
        with pytest.raises(JournalError) as caught:
            journal.suspend(acts.question("n1"))
        _is_a_sentence_with_a_remedy(caught.value)
        assert problem in str(caught.value)
        statements.left = None
        assert journal.pending() == ()
        journal.suspend(acts.question("n1"))
        assert len(journal.pending()) == 1


_LIMITED = """
import json, resource, sys
from pathlib import Path
from parsimony_kernel.artifacts.store import ArtifactStore
from parsimony_kernel.storage.durable import StorageError
from parsimony_kernel.storage.database import JournalError
from parsimony_kernel.storage.journal import SqliteJournal
from parsimony_kernel.testing.manual_clock import ManualClock
from tests.durability import acts

root, said = Path(sys.argv[1]), []
journal = SqliteJournal(root / ".ockham" / acts.JOURNAL, ManualClock())
journal.begin_turn("r1", notebook="n", cell_key="c", request="?", model="m")
journal.suspend(acts.question("n1"))
whole = acts.publish_version(root, 1)

def limit(size):
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))

for size in (*range(0, 4000, 400), *range(4000, 200_000, 4096)):
    limit(size)
    asked = acts.question("n2")
    for act, given in ((acts.publish_version, (root, 2)), (journal.suspend, (asked,))):
        try:
            act(*given)
        except (StorageError, JournalError) as exc:
            said.append(str(exc))
    limit(resource.RLIM_INFINITY)
    acts.check_published(root, [whole])
    assert journal.verify() is None
asked = {row.record.suspension_token.partition(".")[0] for row in journal.pending()}
assert asked == {"n1", "n2"}, asked
acts.check_published(root, [whole, acts.publish_version(root, 2)])
journal.close()
print(json.dumps(said))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no limit on the size of a file")
def test_file_size_limit_loses_nothing(tmp_path: Path) -> None:
    """The limit of the operating system, which cuts a write short and then refuses it."""
    done = subprocess.run(
        [sys.executable, "-c", _LIMITED, str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert any("larger than is allowed" in each for each in said)
    assert any("the journal" in each for each in said)
