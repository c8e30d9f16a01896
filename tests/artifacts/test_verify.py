"""What is broken is found and told, and nothing is touched."""

import json
import os
import shutil
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pandas as pd
import pytest

from parsimony_kernel.artifacts.publish import Publisher
from parsimony_kernel.artifacts.store import ArtifactStore, LogEntry
from parsimony_kernel.artifacts.verify import verify
from parsimony_kernel.cli.main import main
from parsimony_kernel.identity import ARTIFACT_FOLDER, ArtifactRef, content_sha
from parsimony_kernel.storage.journal import SqliteJournal
from tests.artifacts.report_cases import origin, publish

ORIGIN = origin("t", sources=())
Damage = Callable[[Path], object]
LOG, TABLE = "datasets/*/log.jsonl", "datasets/*/*.parquet"


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace with something of each kind."""
    folder = tmp_path_factory.mktemp("whole")
    store = ArtifactStore(folder)
    publisher = Publisher(store, notebook_path="a.ipynb")
    for rows in ([1], [1, 2]):
        publish(publisher, "dataset", pd.DataFrame({"x": rows}), "t", lineage=[ORIGIN])
    publisher.publish("report", "![T](artifact:t)", title="R", run_id="r1")
    publisher.publish("notebook", "x = 1", title="s", run_id="r1")
    data = b"PAR1 of a pool"
    entry = LogEntry(kind="data_object", logical_id="d" * 64, content_sha=content_sha(data))
    store.publish(entry, data)
    return folder


@pytest.fixture
def store(whole: Path, tmp_path: Path) -> ArtifactStore:
    shutil.copytree(whole, tmp_path, dirs_exist_ok=True)
    return ArtifactStore(tmp_path)


def snapshot(store: ArtifactStore, pattern: str) -> Path:
    return sorted(_folder(store).glob(pattern))[0]


def _folder(store: ArtifactStore) -> Path:
    return store.root / ARTIFACT_FOLDER


def files(store: ArtifactStore) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in _folder(store).rglob("*") if path.is_file()}


def cut(log: Path) -> None:
    log.write_bytes(b"".join(log.read_bytes().splitlines(keepends=True)[:1]))


def altered(**change: object) -> Damage:
    """Writes another value into the first line of a log."""

    def alter(log: Path) -> None:
        first, *rest = log.read_text().splitlines()
        lines = [json.dumps(json.loads(first) | change, separators=(",", ":")), *rest]
        log.write_text("\n".join(lines) + "\n")

    return alter


def flipped(log: Path) -> None:
    data = bytearray(log.read_bytes())
    data[40] ^= 1
    log.write_bytes(data)


@pytest.mark.parametrize(
    ("tamper", "gone"),
    [
        (cut, "1 of 2"),
        (altered(title="Forged"), "1 of 2"),
        (flipped, "1 of 2"),
        (lambda log: shutil.rmtree(log.parent), "2 of 2"),
    ],
)
def test_log_tampering_is_found(tmp_path: Path, tamper: Damage, gone: str) -> None:
    with closing(SqliteJournal(tmp_path / ".ockham" / "journal.sqlite")) as journal:
        store = ArtifactStore(tmp_path, journal.witness)
        publisher = Publisher(store, notebook_path="a.ipynb")
        for rows in ([1], [1, 2]):
            publish(publisher, "dataset", pd.DataFrame({"x": rows}), "t", lineage=[ORIGIN])
        whole = verify(store, witnessed=journal.witnessed())
        assert (whole.ok, whole.lines, whole.known) == (True, 2, 2)
        tamper(snapshot(store, LOG))
        found = verify(store, witnessed=journal.witnessed()).findings
        assert any(f"lacks {gone} lines that the journal knows" in each.problem for each in found)
        journal.accept(store.lines())
        found = verify(store, witnessed=journal.witnessed()).findings
        assert not [each for each in found if "the journal knows" in each.problem]
        assert journal.verify() is None


@pytest.mark.parametrize(
    "pattern",
    [TABLE, "reports/*/*.qmd", "notebooks/*/*.py", "objects/*/*.parquet"],
)
def test_damaged_snapshot_is_found_and_left_alone(store: ArtifactStore, pattern: str) -> None:
    path = snapshot(store, pattern)
    path.write_bytes(path.read_bytes() + b"x = 2")
    before = files(store)
    problems = {each.path: each.problem for each in verify(store).findings}
    assert "is damaged" in problems[path.relative_to(store.root).as_posix()]
    assert any("missing or damaged" in each for each in problems.values())
    assert files(store) == before


def _instead(put: Damage) -> Damage:
    """Puts something else in the place of a file."""

    def replace(path: Path) -> None:
        path.unlink()
        put(path)

    return replace


def _linked(path: Path) -> None:
    path.symlink_to(path.rename(path.parents[3] / "elsewhere"))


@pytest.mark.parametrize(
    ("where", "damage", "said"),
    [
        (LOG, lambda log: log.write_bytes(log.read_bytes()[:-20]), "a line that can't be read"),
        ("notebooks/*/*.py", Path.unlink, "missing or damaged"),
        (TABLE, Path.unlink, "which is missing or damaged"),
        (TABLE, lambda path: path.with_name("x.parquet").touch(), "don't match the digest"),
        (TABLE, _instead(Path.mkdir), "is no file"),
        (TABLE, _linked, "is no file, and stands where a snapshot would"),
        (LOG, Path.unlink, "is missing or no file"),
        ("data_objects/*/log.jsonl", lambda log: log.write_bytes(b""), "holds no line"),
        ("reports/*/log.jsonl", _instead(os.mkfifo), "is missing or no file"),
        ("reports/*/log.jsonl", altered(embedded=["x"]), "names what it shows wrongly"),
        ("reports/*/log.jsonl", altered(code_path="../x"), "names '../x', which is missing"),
        ("names/*.json", Path.unlink, "which no owner holds"),
        ("data_objects/*/log.jsonl", _instead(Path.mkdir), "is missing or no file"),
        ("notebooks/s/log.jsonl", Path.unlink, "is missing or no file"),
        ("names/*.json", lambda path: path.write_text("{}"), "holds no owner of a name"),
        ("names/*.json", _instead(os.mkfifo), "holds no owner of a name"),
    ],
)
def test_other_damage_is_reported_and_command_fails(
    store: ArtifactStore,
    where: str,
    damage: Damage,
    said: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    damage(snapshot(store, where))
    assert main(["verify", "--folder", str(store.root)]) == 1
    assert said in capsys.readouterr().err


def test_command_tells_its_counts(store: ArtifactStore, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", "--folder", str(store.root)]) == 0
    told = capsys.readouterr().out
    assert "There is no journal here." in told
    assert "snapshots 6, lines of logs 5, of which the journal knows 0." in told


def test_a_snapshot_that_no_log_names_harms_nobody(store: ArtifactStore) -> None:
    published = next(entry for entry in store.list() if entry.kind == "dataset")
    data = b"written before a crash"
    ref = ArtifactRef("dataset", published.logical_id, content_sha(data))
    store.place.create(ref.workspace_file_path, data)
    assert verify(store).ok


def test_what_other_programs_leave_is_no_fault(store: ArtifactStore) -> None:
    path = snapshot(store, TABLE)
    for name in (".DS_Store", "Thumbs.db", f"{path.name}~", f"{path.name}.bak", f".#{path.name}",
                 ".parsimony-1-ab.tmp"):  # fmt: skip
        path.with_name(name).write_bytes(b"theirs")
        assert verify(store).ok, name


def test_later_publish_is_no_fault(store: ArtifactStore, monkeypatch: pytest.MonkeyPatch) -> None:
    publisher, read = Publisher(store, notebook_path="a.ipynb"), store.place.log
    publisher.publish("report", "One.", title="Later", run_id="r2")

    def log(path: str) -> bytes | None:
        monkeypatch.undo()
        publisher.publish("report", "Two.", title="Later", run_id="r2")
        return read(path)

    monkeypatch.setattr(store.place, "log", log)
    assert verify(store).findings == ()
