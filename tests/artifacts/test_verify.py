"""What is broken is found, told and moved aside, and nothing that is sound is touched."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from parsimony_kernel import durable
from parsimony_kernel.artifacts.publish import Publisher
from parsimony_kernel.artifacts.store import ArtifactStore, LogEntry
from parsimony_kernel.artifacts.verify import QUARANTINE, Verification, verify
from parsimony_kernel.cli import main
from parsimony_kernel.identity import content_sha
from parsimony_kernel.lineage.ledger import VariableOrigin

ORIGIN = VariableOrigin(
    name="t",
    version=1,
    actor="agent",
    notebook_path="a.ipynb",
    cell_id="c1",
    run_id="r1",
    code="t = pd.DataFrame({'x': [1]})",
    code_sha="0" * 64,
)


@pytest.fixture
def store(tmp_path: Path) -> ArtifactStore:
    store = ArtifactStore(tmp_path)
    publisher = Publisher(store, notebook_path="a.ipynb", quarto="")
    for rows in ([1], [1, 2]):
        publisher.publish_dataset(
            pd.DataFrame({"x": rows}), variable="t", title="T", lineage=[ORIGIN], run_id="r1"
        )
    publisher.publish_report("R", "![T](artifact:t)", run_id="r1")
    data = b"PAR1 of a pool"
    entry = LogEntry(kind="data_object", logical_id="d" * 64, content_sha=content_sha(data))
    store.publish(entry, data)
    return store


def snapshot(store: ArtifactStore, pattern: str) -> Path:
    return sorted(store.folder.glob(pattern))[0]


def files(store: ArtifactStore) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in store.folder.rglob("*") if path.is_file()}


def test_what_is_sound_is_counted_and_left_alone(store: ArtifactStore) -> None:
    before = files(store)
    found = verify(store)
    assert found == Verification(snapshots=5, lines=4)
    assert files(store) == before


@pytest.mark.parametrize(
    "pattern",
    ["datasets/*/*.parquet", "reports/*/*.qmd", "notebooks/*/*.py", "objects/*/*.parquet"],
)
def test_a_damaged_snapshot_is_moved_aside_with_its_bytes(
    store: ArtifactStore, pattern: str
) -> None:
    path = snapshot(store, pattern)
    path.write_bytes(path.read_bytes() + b"x = 2")
    damaged = path.read_bytes()
    found = verify(store)
    first = next(each for each in found.findings if each.moved_to)
    assert (store.root / first.moved_to).read_bytes() == damaged
    assert first.moved_to.startswith(QUARANTINE)
    assert not path.exists()
    assert any("missing or damaged" in each.problem for each in found.findings)
    assert not verify(store).ok, "what is named is still missing"


def test_it_can_be_left_where_it_is(store: ArtifactStore) -> None:
    path = snapshot(store, "datasets/*/*.parquet")
    path.write_bytes(b"")
    before = files(store)
    assert not verify(store, quarantine=False).ok
    assert files(store) == before


def test_a_second_damaged_file_does_not_replace_the_first(store: ArtifactStore) -> None:
    path = snapshot(store, "datasets/*/*.parquet")
    moved = []
    for data in (b"one", b"two"):
        path.write_bytes(data)
        moved += [each.moved_to for each in verify(store).findings if each.moved_to]
    assert [(store.root / each).read_bytes() for each in moved] == [b"one", b"two"]


def test_publishing_again_mends_what_was_moved_aside(store: ArtifactStore) -> None:
    path = sorted(store.folder.glob("datasets/*/*.parquet"))[0]
    newest = next(entry for entry in store.list() if entry.kind == "dataset").content_sha
    path = path.with_name(f"{newest}.parquet")
    path.write_bytes(b"")
    assert not verify(store).ok
    Publisher(store, notebook_path="a.ipynb", quarto="").publish_dataset(
        pd.DataFrame({"x": [1, 2]}), variable="t", title="T", lineage=[ORIGIN], run_id="r1"
    )
    assert verify(store).ok


def _torn(store: ArtifactStore) -> None:
    log = snapshot(store, "datasets/*/log.jsonl")
    log.write_bytes(log.read_bytes()[:-20])


def _without_code(store: ArtifactStore) -> None:
    shutil.rmtree(store.folder / "notebooks")


def _without_what_a_report_shows(store: ArtifactStore) -> None:
    for path in store.folder.glob("datasets/*/*.parquet"):
        path.unlink()


def _with_a_name_of_nobody(store: ArtifactStore) -> None:
    snapshot(store, "names/*.json").write_text("{}")


def _with_a_swapped_snapshot(store: ArtifactStore) -> None:
    first, second = sorted(store.folder.glob("datasets/*/*.parquet"))
    first.write_bytes(second.read_bytes())


def _with_a_stranger(store: ArtifactStore) -> None:
    (snapshot(store, "datasets/*/*.parquet").parent / "notes.txt").write_text("mine")


def _with_a_folder_in_its_place(store: ArtifactStore) -> None:
    path = snapshot(store, "datasets/*/*.parquet")
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (_torn, "broken line"),
        (_without_code, "missing or damaged"),
        (_without_what_a_report_shows, "shows"),
        (_with_a_name_of_nobody, "owner of a name"),
        (_with_a_swapped_snapshot, "do not have the digest"),
        (_with_a_stranger, "no snapshot has"),
        (_with_a_folder_in_its_place, "is no file"),
    ],
)
def test_other_damage_is_told_and_the_command_fails(
    store: ArtifactStore,
    damage: Callable[[ArtifactStore], None],
    said: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    damage(store)
    assert main(["verify", "--folder", str(store.root)]) == 1
    assert said in capsys.readouterr().err


def test_the_command_says_what_it_looked_at(
    store: ArtifactStore, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["verify", "--folder", str(store.root)]) == 0
    assert "snapshots 5, lines of logs 4" in capsys.readouterr().out


def test_a_snapshot_that_no_log_names_harms_nobody(store: ArtifactStore) -> None:
    ref = store.put("dataset", "e" * 64, b"written before a crash")
    found = verify(store)
    assert (found.ok, found.unnamed) == (True, (ref.workspace_file_path,))


def test_what_a_writer_has_not_named_yet_is_not_looked_at(store: ArtifactStore) -> None:
    path = snapshot(store, "datasets/*/*.parquet").with_name(".parsimony-1-ab.tmp")
    path.write_bytes(b"half")
    assert durable.is_temporary(path)
    assert verify(store).ok
