"""Writing files so that what is announced is there."""

import errno
import os
import stat
from collections.abc import Callable
from operator import attrgetter
from pathlib import Path

import pytest

from parsimony_kernel.storage import durable
from parsimony_kernel.storage.durable import StorageError
from parsimony_kernel.testing.manual_clock import START, ManualClock
from tests.races import Race


def _names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_create_keeps_existing_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    assert durable.create(path, b"one", mode=0o600) is True
    assert durable.create(path, b"two") is False
    assert path.read_bytes() == b"one"
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("can_thread", [True, False])
def test_several_files_are_created_unless_they_exist(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, can_thread: bool
) -> None:
    if not can_thread:  # as at the exit of a process
        monkeypatch.setattr("concurrent.futures.thread._shutdown", True)
    one, two, three = (tmp_path / name for name in ("a/one", "b/two", "three"))
    assert durable.create_all({one: b"1", two: b"2"}) == {one, two}
    assert durable.create_all({one: b"0", two: b"0", three: b"3"}) == {three}
    assert [each.read_bytes() for each in (one, two, three)] == [b"1", b"2", b"3"]
    assert not list(tmp_path.rglob(".parsimony-*"))


def test_failed_file_of_several_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, two = (tmp_path / name for name in ("one", "two"))

    def sync(handle: int) -> None:
        if os.fstat(handle).st_size == 2:
            raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(os, "fsync", sync)
    with pytest.raises(StorageError, match=r"two': the disk is full"):
        durable.create_all({one: b"1", two: b"22"})
    assert not _names(tmp_path)


def test_nothing_is_created_where_the_claim_exists(tmp_path: Path) -> None:
    claim, one, two = (tmp_path / name for name in ("claim", "one", "two"))
    assert durable.create_all({claim: b"", one: b"1"}, claim=claim) == {claim, one}
    assert durable.create_all({claim: b"", two: b"2"}, claim=claim) == frozenset()
    assert _names(tmp_path) == ["claim", "one"]


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such modes")
@pytest.mark.parametrize("mode", [0o600, 0o640, 0o644, 0o700, 0o755, 0o444, 0o2750])
def test_rewritten_file_keeps_mode_and_owner(mode: int, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"one")
    if os.geteuid() == 0:
        os.chown(path, 12_345, 23_456)
    path.chmod(mode)
    kept = attrgetter("st_mode", "st_uid", "st_gid")
    before = kept(path.stat())
    durable.rewrite(path, bytes.upper)
    assert path.read_bytes() == b"ONE"
    assert kept(path.stat()) == before


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such owners")
@pytest.mark.parametrize(("group_too", "mode"), [(False, 0o774), (True, 0o704)])
def test_file_of_unkeepable_owner_is_opened_to_nobody(
    group_too: bool, mode: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"one")
    path.chmod(0o4774)

    def forbidden(_handle: int, user: int, _group: int) -> None:
        if user != -1 or group_too:
            raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "fchown", forbidden)
    durable.rewrite(path, bytes.upper)
    assert stat.S_IMODE(path.stat().st_mode) == mode


def test_refused_rewrite_keeps_file_and_raises(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"one")
    with pytest.raises(UnicodeDecodeError):
        durable.rewrite(path, lambda _: b"\xff".decode().encode())
    assert path.read_bytes() == b"one"
    assert _names(tmp_path) == ["file"]


_REWRITING = """
from pathlib import Path
from parsimony_kernel.storage import durable
wait()
for n in range(25):
    durable.rewrite(Path(place) / "file", lambda before: before + f"{me}-{n}\\n".encode())
"""


@pytest.mark.slow
def test_concurrent_rewrites_lose_nothing(race: Race, tmp_path: Path) -> None:
    pytest.importorskip("fcntl", reason="without locks they are not kept apart")
    (tmp_path / "file").write_bytes(b"")
    race(_REWRITING, tmp_path)
    lines = (tmp_path / "file").read_text().splitlines()
    assert sorted(lines) == sorted(f"n{me}-{n}" for me in range(8) for n in range(25))


def test_lines_are_appended_one_by_one(tmp_path: Path) -> None:
    path = tmp_path / "sub" / "log"
    durable.append_line(path, "one")
    durable.append_line(path, "zwei — 二")
    assert path.read_text(encoding="utf-8") == "one\nzwei — 二\n"


def test_torn_line_spoils_only_itself(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b'whole\n{"torn')
    durable.append_line(path, "next")
    assert path.read_bytes() == b'whole\n{"torn\nnext\n'


def test_line_break_in_line_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="line break"):
        durable.append_line(tmp_path / "log", "a\nb")
    assert _names(tmp_path) == []


@pytest.mark.parametrize(
    ("act", "said"),
    [
        (lambda at: durable.create(at / "file" / "x", b""), "choose another folder"),
        (lambda at: durable.replace(at / "file" / "x", b""), "choose another folder"),
        (lambda at: durable.replace(at / "folder", b""), "a folder stands in its place"),
        (lambda at: durable.replace(at / "a\0b", b""), "check the path"),
        (lambda at: durable.rewrite(at / "nothing", bytes.upper), "does not exist"),
        (lambda at: durable.read(at / "nothing"), "does not exist"),
        (lambda at: durable.settle(at / "nothing"), "does not exist"),
        (lambda at: durable.settle(at / "pipe"), "Cannot sync"),
    ],
)
def test_failure_is_one_sentence(tmp_path: Path, act: Callable[[Path], object], said: str) -> None:
    (tmp_path / "file").write_bytes(b"")
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(StorageError, match=said) as caught:
        act(tmp_path)
    assert "\n" not in str(caught.value)
    assert _names(tmp_path) == ["file", "folder", "pipe"]


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (errno.EROFS, "read-only"),
        (errno.EACCES, "permission is denied"),
        (errno.EIO, "check the disk"),
        (errno.EXDEV, os.strerror(errno.EXDEV)),
    ],
)
def test_every_error_names_path_and_remedy(code: int, words: str) -> None:
    error = durable.storage_error(OSError(code, os.strerror(code)), Path("/a/b"))
    assert words in str(error)
    assert "'/a/b'" in str(error)
    assert "; " in str(error)
    assert isinstance(error, OSError)
    assert error.errno == code


def test_old_strays_are_swept_and_young_ones_kept(tmp_path: Path) -> None:
    noon = START.timestamp()
    folder = tmp_path / "deep" / "er"
    folder.mkdir(parents=True)
    for name, age in [(".parsimony-1-a.tmp", 7200), (".parsimony-2-b.tmp", 60), ("mine.tmp", 7200)]:
        (folder / name).write_bytes(b"")
        os.utime(folder / name, (noon - age, noon - age))
    assert durable.sweep_temporary(tmp_path, clock=ManualClock()) == 1
    assert _names(folder) == [".parsimony-2-b.tmp", "mine.tmp"]
    assert durable.sweep_temporary(tmp_path / "nothing", clock=ManualClock()) == 0


_WITHOUT_LINKS = """
import errno, os
from pathlib import Path
from parsimony_kernel.storage import durable
def no_links(old, new):
    raise OSError(errno.EPERM, "no links")
os.link = no_links
wait()
made = [durable.create(Path(place) / str(n), me.encode() * 9999) for n in range(40)]
whole = [len(durable.read(Path(place) / str(n))) == 2 * 9999 for n in range(40)]
print(sum(made), all(whole))
"""


def test_one_of_many_creates_each_file_without_links(race: Race, tmp_path: Path) -> None:
    said = [each.split() for each in race(_WITHOUT_LINKS, tmp_path)]
    assert sum(int(made) for made, _ in said) == 40
    assert {whole for _, whole in said} == {"True"}


_APPENDING = """
import os
from pathlib import Path
from parsimony_kernel.storage import durable
write, count = os.write, 0
def short(handle, data):
    global count
    count += 1
    return write(handle, bytes(data)[: len(data) // 2 if count % 3 == 0 else len(data)])
os.write = short
wait()
told = []
for n in range(60):
    try:
        durable.append_line(Path(place) / "log", f"{me}-{n}-" + "x" * 3000)
        told.append(n)
    except durable.StorageError:
        pass
print(*told)
"""


def test_concurrent_lines_stay_whole(race: Race, tmp_path: Path) -> None:
    said = race(_APPENDING, tmp_path)
    told = {f"n{me}-{n}-" + "x" * 3000 for me, each in enumerate(said) for n in each.split()}
    lines = (tmp_path / "log").read_text().splitlines()
    assert set(lines) == told
    assert len(lines) == len(told) == 8 * 40


@pytest.mark.parametrize("link", [".ockham", ".ockham/datasets", ".ockham/datasets/d1"])
def test_link_out_of_workspace_is_not_followed(tmp_path: Path, link: str) -> None:
    workspace, outside = tmp_path / "clone", tmp_path / "outside"
    outside.mkdir()
    place = workspace / link
    place.parent.mkdir(parents=True)
    place.symlink_to(outside, target_is_directory=True)
    path = workspace / ".ockham" / "datasets" / "d1" / "log.jsonl"
    for write in (
        lambda: durable.create(path, b"x"),
        lambda: durable.replace(path, b"x"),
        lambda: durable.append_line(path, "x"),
    ):
        with pytest.raises(durable.StorageError, match="leads out of the workspace"):
            write()
    assert list(outside.iterdir()) == []


def test_link_within_workspace_is_followed(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / ".ockham").symlink_to("kept", target_is_directory=True)
    assert durable.create(tmp_path / ".ockham" / "a" / "b", b"x")
    assert (tmp_path / "kept" / "a" / "b").read_bytes() == b"x"


def test_linked_log_is_not_written_through(tmp_path: Path) -> None:
    (tmp_path / "log.jsonl").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(durable.StorageError, match="a link stands in its place"):
        durable.append_line(tmp_path / "log.jsonl", "x")
    assert not (tmp_path / "elsewhere").exists()


def test_changed_file_is_synced_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced = list[int]()
    monkeypatch.setattr(os, "fsync", synced.append)
    made, log = tmp_path / "made", tmp_path / "log"

    def syncs(act: Callable[[], object]) -> int:
        synced.clear()
        act()
        return len(synced)

    assert syncs(lambda: durable.create(made, b"x")) > 1
    assert syncs(lambda: durable.create(made, b"x")) == 0
    assert syncs(lambda: durable.settle(made)) == 0
    made.write_bytes(b"y")  # of another program, with as many bytes
    assert syncs(lambda: durable.settle(made)) > 0
    assert syncs(lambda: durable.append_line(log, "1")) == 2
    assert syncs(lambda: durable.append_line(log, "2")) == 1
    with log.open("ab") as other:
        other.write(b"3\n")
    assert syncs(lambda: durable.settle(log)) > 0
    log.unlink()
    assert syncs(lambda: durable.append_line(log, "4")) == 2
