"""Finding the workspace, and a place for its journal."""

from pathlib import Path

import pytest

from parsimony_kernel.journal.workspace import find_workspace, is_on_network, journal_path


def test_the_nearest_folder_with_ockham_is_the_workspace(tmp_path: Path) -> None:
    deep = tmp_path / "a" / "b" / "c"
    deep.mkdir(parents=True)
    (tmp_path / ".ockham").mkdir()
    assert find_workspace(deep, {}) == tmp_path
    (tmp_path / "a" / "b" / ".ockham").mkdir()
    assert find_workspace(deep, {}) == tmp_path / "a" / "b"


def test_a_file_named_ockham_makes_no_workspace(tmp_path: Path) -> None:
    (tmp_path / ".ockham").mkdir()
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / ".ockham").write_bytes(b"")
    assert find_workspace(tmp_path / "a", {}) == tmp_path


def test_without_one_the_folder_itself_is_the_workspace(tmp_path: Path) -> None:
    assert find_workspace(tmp_path / "new", {}) == tmp_path / "new"


def test_the_environment_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ".ockham").mkdir()
    chosen = {"PARSIMONY_WORKSPACE": str(tmp_path / "chosen")}
    assert find_workspace(tmp_path, chosen) == tmp_path / "chosen"
    assert find_workspace(tmp_path, {"PARSIMONY_WORKSPACE": " "}) == tmp_path
    monkeypatch.chdir(tmp_path)
    assert find_workspace(Path("x"), {"PARSIMONY_WORKSPACE": "here"}) == tmp_path / "here"
    monkeypatch.setenv("HOME", str(tmp_path))
    assert find_workspace(Path("x"), {"PARSIMONY_WORKSPACE": "~/w"}) == tmp_path / "w"


MOUNTS = r"""/dev/sda1 / ext4 rw 0 0
server:/home /home nfs4 rw 0 0
/dev/sdb1 /home/me/local\040disk xfs rw 0 0
//nas/share /mnt/nas cifs rw 0 0
me@host: /mnt/ssh fuse.sshfs rw 0 0
odd line
"""


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
def test_a_network_file_system_is_told_by_the_nearest_mount(path: str, network: bool) -> None:
    assert is_on_network(Path(path), MOUNTS) is network


def test_the_journal_lies_in_the_workspace_or_beside_the_users_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path))
    local = journal_path(Path("/srv/work"), mounts=MOUNTS)
    assert local == Path("/srv/work/.ockham/journal.sqlite")
    away = journal_path(Path("/mnt/nas/work"), mounts=MOUNTS)
    assert away.parent == tmp_path / "parsimony" / "journals"
    assert away != journal_path(Path("/mnt/nas/other"), mounts=MOUNTS)
    assert away == journal_path(Path("/mnt/nas/work"), mounts=MOUNTS)


def test_without_a_table_of_mounts_everything_is_local() -> None:
    assert is_on_network(Path("/home/me"), "") is False
