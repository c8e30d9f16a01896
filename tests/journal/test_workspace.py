"""Finding the workspace, a place for its journal, and keeping that from git."""

import subprocess
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from parsimony_kernel.core.events import TextDelta
from parsimony_kernel.storage.durable import StorageError
from parsimony_kernel.storage.journal import SqliteJournal
from parsimony_kernel.storage.workspace import find_workspace, is_on_network, journal_path, prepare


def test_nearest_ockham_folder_is_the_workspace(tmp_path: Path) -> None:
    deep = tmp_path / "a" / "b" / "c"
    assert find_workspace(deep, {}) == deep
    deep.mkdir(parents=True)
    (tmp_path / ".ockham").mkdir()
    assert find_workspace(deep, {}) == tmp_path
    (tmp_path / "a" / "b" / ".ockham").mkdir()
    assert find_workspace(deep, {}) == tmp_path / "a" / "b"


def test_ockham_file_makes_no_workspace(tmp_path: Path) -> None:
    (tmp_path / ".ockham").mkdir()
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / ".ockham").write_bytes(b"")
    assert find_workspace(tmp_path / "a", {}) == tmp_path


def test_environment_sets_workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ".ockham").mkdir()
    chosen = {"PARSIMONY_WORKSPACE": str(tmp_path / "chosen")}
    assert find_workspace(tmp_path, chosen) == tmp_path / "chosen"
    assert find_workspace(tmp_path, {"PARSIMONY_WORKSPACE": " "}) == tmp_path
    monkeypatch.chdir(tmp_path)
    assert find_workspace(Path("x"), {"PARSIMONY_WORKSPACE": "here"}) == tmp_path / "here"
    monkeypatch.setenv("HOME", str(tmp_path))
    assert find_workspace(Path("x"), {"PARSIMONY_WORKSPACE": "~/w"}) == tmp_path / "w"


MOUNTS = {
    "/": "ext4",
    "/home": "nfs4",
    "/home/me/local disk": "xfs",
    "/mnt/nas": "cifs",
    "/mnt/ssh": "fuse.sshfs",
}


@pytest.fixture
def mounts(monkeypatch: pytest.MonkeyPatch) -> None:
    told = [SimpleNamespace(mountpoint=place, fstype=kind) for place, kind in MOUNTS.items()]
    monkeypatch.setattr(psutil, "disk_partitions", lambda all: told)


@pytest.mark.usefixtures("mounts")
@pytest.mark.parametrize(
    ("path", "network"),
    [
        ("/srv/work", False),
        ("/home/me/work", True),
        ("/home/me/local disk/work", False),
        ("/homestead", False),
        ("/mnt/nas", True),
        ("/mnt/ssh/deep/er", True),
    ],
)
def test_nearest_mount_reveals_network_file_system(path: str, network: bool) -> None:
    assert is_on_network(Path(path)) is network


@pytest.mark.usefixtures("mounts")
def test_journal_is_in_workspace_or_user_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path))
    local = journal_path(Path("/srv/work"))
    assert local == Path("/srv/work/.ockham/journal.sqlite")
    away = journal_path(Path("/mnt/nas/work"))
    assert away.parent == tmp_path / "parsimony" / "journals"
    assert away != journal_path(Path("/mnt/nas/other"))
    assert away == journal_path(Path("/mnt/nas/work"))


def test_without_mount_table_everything_is_local(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(all: bool) -> None:
        raise FileNotFoundError("/proc/filesystems")

    monkeypatch.setattr(psutil, "disk_partitions", nothing)
    assert is_on_network(Path("/home/me")) is False


def test_git_tracks_artifacts_but_not_journal(tmp_path: Path) -> None:
    git = ["git", "-C", str(tmp_path), "-c", "core.excludesFile="]
    if subprocess.run([*git, "init", "-q"], check=False, capture_output=True).returncode:
        pytest.fail("git is needed to say what it takes")
    journal = SqliteJournal(journal_path(tmp_path))
    journal.append("a", TextDelta(content="a log and its memory lie beside the file"))
    for name in ("keys/key.json", "replaced/x", "datasets/a/log.jsonl"):
        path = tmp_path / ".ockham" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x")
    subprocess.run([*git, "add", "."], check=True)
    listed = subprocess.run([*git, "ls-files"], check=True, capture_output=True, text=True)
    journal.close()
    assert listed.stdout.splitlines() == [".ockham/.gitignore", ".ockham/datasets/a/log.jsonl"]


@pytest.mark.parametrize("written", ["mine\n", ""])
def test_existing_gitignore_is_kept(tmp_path: Path, written: str) -> None:
    ignored = tmp_path / ".ockham" / ".gitignore"
    ignored.parent.mkdir()
    ignored.write_text(written)
    prepare(tmp_path)
    SqliteJournal(journal_path(tmp_path)).close()
    assert ignored.read_text() == written


def test_journal_outside_workspace_leaves_folder_alone(tmp_path: Path) -> None:
    SqliteJournal(tmp_path / "journals" / "a.sqlite").close()
    assert [path.name for path in (tmp_path / "journals").iterdir()] == ["a.sqlite"]


def test_unwritable_workspace_is_reported(tmp_path: Path) -> None:
    (tmp_path / ".ockham").write_bytes(b"")
    with pytest.raises(StorageError, match="choose another folder"):
        prepare(tmp_path)
