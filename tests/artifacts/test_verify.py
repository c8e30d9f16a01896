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


def altered(**change: object) -> Callable[[Path], None]:
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
def test_journal_reveals_log_tampering(
    tmp_path: Path, tamper: Callable[[Path], None], gone: str
) -> None:
    with closing(SqliteJournal(tmp_path / ".ockham" / "journal.sqlite")) as journal:
        store = ArtifactStore(tmp_path, journal.witness)
        publisher = Publisher(store, notebook_path="a.ipynb")
        for rows in ([1], [1, 2]):
            publish(publisher, "dataset", pd.DataFrame({"x": rows}), "t", lineage=[ORIGIN])
        whole = verify(store, witnessed=journal.witnessed())
        assert (whole.ok, whole.lines, whole.known) == (True, 2, 2)
        tamper(snapshot(store, "datasets/*/log.jsonl"))
        found = verify(store, witnessed=journal.witnessed()).findings
        assert any(f"lacks {gone} lines that the journal knows" in each.problem for each in found)
        journal.accept(store.lines())
        found = verify(store, witnessed=journal.witnessed()).findings
        assert not [each for each in found if "the journal knows" in each.problem]
        assert journal.verify() is None


@pytest.mark.parametrize(
    "pattern",
    ["datasets/*/*.parquet", "reports/*/*.qmd", "notebooks/*/*.py", "objects/*/*.parquet"],
)
def test_a_damaged_snapshot_is_found_and_left_where_it_is(
    store: ArtifactStore, pattern: str
) -> None:
    path = snapshot(store, pattern)
    path.write_bytes(path.read_bytes() + b"x = 2")
    before = files(store)
    problems = {each.path: each.problem for each in verify(store).findings}
    assert "is damaged" in problems[path.relative_to(store.root).as_posix()]
    assert any("missing or damaged" in each for each in problems.values())
    assert files(store) == before


def _on(pattern: str, damage: Callable[[Path], object]) -> Callable[[ArtifactStore], None]:
    """Damages the first file that matches a pattern."""

    def apply(store: ArtifactStore) -> None:
        damage(snapshot(store, pattern))

    return apply


def _instead(put: Callable[[Path], None]) -> Callable[[Path], None]:
    """Puts something else in the place of a file."""

    def replace(path: Path) -> None:
        path.unlink()
        put(path)

    return replace


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (
            _on("datasets/*/log.jsonl", lambda log: log.write_bytes(log.read_bytes()[:-20])),
            "a line that can't be read",
        ),
        (_on("notebooks/*/*.py", Path.unlink), "missing or damaged"),
        (_on("datasets/*/*.parquet", Path.unlink), "which is missing or damaged"),
        (
            _on(
                "datasets/*/*.parquet",
                lambda path: path.with_name("notes.parquet").write_text("mine"),
            ),
            "don't match the digest",
        ),
        (_on("datasets/*/*.parquet", _instead(Path.mkdir)), "is no file"),
        (
            _on(
                "datasets/*/*.parquet",
                lambda path: path.symlink_to(path.rename(path.parents[3] / "elsewhere")),
            ),
            "is no file, and stands where a snapshot would",
        ),
        (_on("datasets/*/log.jsonl", Path.unlink), "is missing or no file"),
        (_on("data_objects/*/log.jsonl", lambda log: log.write_bytes(b"")), "holds no line"),
        (_on("reports/*/log.jsonl", _instead(os.mkfifo)), "is missing or no file"),
        (_on("reports/*/log.jsonl", altered(embedded=["x"])), "names what it shows wrongly"),
        (_on("reports/*/log.jsonl", altered(code_path="../x")), "names '../x', which is missing"),
        (_on("names/*.json", Path.unlink), "which no owner holds"),
        (_on("data_objects/*/log.jsonl", _instead(Path.mkdir)), "is missing or no file"),
        (_on("notebooks/s/log.jsonl", Path.unlink), "is missing or no file"),
        (_on("names/*.json", lambda path: path.write_text("{}")), "holds no owner of a name"),
        (_on("names/*.json", _instead(os.mkfifo)), "holds no owner of a name"),
    ],
)
def test_other_damage_is_reported_and_command_fails(
    store: ArtifactStore,
    damage: Callable[[ArtifactStore], None],
    said: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    damage(store)
    assert main(["verify", "--folder", str(store.root)]) == 1
    assert said in capsys.readouterr().err


def test_command_says_what_it_checked(
    store: ArtifactStore, capsys: pytest.CaptureFixture[str]
) -> None:
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


@pytest.mark.parametrize(
    "name",
    [
        ".DS_Store",
        "Thumbs.db",
        "{}.parquet~",
        "{}.parquet.bak",
        ".#{}.parquet",
        ".parsimony-1-ab.tmp",
    ],
)
def test_what_other_programs_leave_is_no_fault(store: ArtifactStore, name: str) -> None:
    path = snapshot(store, "datasets/*/*.parquet")
    path.with_name(name.format(path.stem)).write_bytes(b"theirs")
    assert verify(store).ok


def test_what_is_published_meanwhile_is_no_fault(
    store: ArtifactStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    publisher, read = Publisher(store, notebook_path="a.ipynb"), store.place.log
    publisher.publish("report", "One.", title="Later", run_id="r2")

    def log(path: str) -> bytes | None:
        monkeypatch.undo()
        publisher.publish("report", "Two.", title="Later", run_id="r2")
        return read(path)

    monkeypatch.setattr(store.place, "log", log)
    assert verify(store).findings == ()
