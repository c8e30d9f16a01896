"""What is broken is found, told and moved aside, and nothing that is sound is touched."""

import json
import os
import shutil
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from parsimony_kernel.artifacts import seals
from parsimony_kernel.artifacts.publish import Publisher
from parsimony_kernel.artifacts.store import ArtifactStore, LogEntry
from parsimony_kernel.artifacts.verify import QUARANTINE, Verification, verify
from parsimony_kernel.cli.main import main
from parsimony_kernel.identity import ARTIFACT_FOLDER, ArtifactRef, content_sha
from parsimony_kernel.lineage.ledger import VariableOrigin
from parsimony_kernel.storage.store import SqliteJournal

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
    publisher = Publisher(store, notebook_path="a.ipynb")
    for rows in ([1], [1, 2]):
        publisher.publish(
            "dataset",
            pd.DataFrame({"x": rows}),
            variable="t",
            title="T",
            lineage=[ORIGIN],
            run_id="r1",
        )
    publisher.publish("report", "![T](artifact:t)", title="R", run_id="r1")
    data = b"PAR1 of a pool"
    entry = LogEntry(kind="data_object", logical_id="d" * 64, content_sha=content_sha(data))
    store.publish(entry, data)
    return store


def snapshot(store: ArtifactStore, pattern: str) -> Path:
    return sorted(_folder(store).glob(pattern))[0]


def _folder(store: ArtifactStore) -> Path:
    return store.root / ARTIFACT_FOLDER


def files(store: ArtifactStore) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in _folder(store).rglob("*") if path.is_file()}


def cut(log: Path) -> None:
    log.write_bytes(b"".join(log.read_bytes().splitlines(keepends=True)[:1]))


def made_anew(log: Path) -> None:
    """The same lines with another title, each with a seal that fits."""
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    text = b""
    for line in lines:
        for name in ("after", "before", "seal"):
            del line[name]
        line["title"] = "Forged"
        text += f"{seals.sealed(json.dumps(line, separators=(',', ':')), text)[0]}\n".encode()
    log.write_bytes(text)


@pytest.mark.parametrize(
    ("tamper", "gone"),
    [(cut, "1 of 2"), (made_anew, "2 of 2"), (lambda log: shutil.rmtree(log.parent), "2 of 2")],
    ids=["the newest line is cut off", "made anew with seals that fit", "the artifact is gone"],
)
def test_what_the_log_itself_cannot_show_is_found_with_what_the_journal_knows(
    tmp_path: Path, tamper: Callable[[Path], None], gone: str
) -> None:
    with closing(SqliteJournal(tmp_path / ".ockham" / "journal.sqlite")) as journal:
        store = ArtifactStore(tmp_path, journal.witness)
        publisher = Publisher(store, notebook_path="a.ipynb")
        told: Any = {"variable": "t", "title": "T", "lineage": [ORIGIN], "run_id": "r1"}
        for rows in ([1], [1, 2]):
            publisher.publish("dataset", pd.DataFrame({"x": rows}), **told)
        assert verify(store, witnessed=journal.witnessed()).ok
        log = snapshot(store, "datasets/*/log.jsonl")
        tamper(log)
        problems = [each.problem for each in verify(store).findings]
        assert not [each for each in problems if "changed" in each]
        found = verify(store, witnessed=journal.witnessed()).findings
        assert any(f"lacks {gone} lines that the journal knows" in each.problem for each in found)
        journal.accept(store.lines())
        found = verify(store, witnessed=journal.witnessed()).findings
        assert not [each for each in found if "the journal knows" in each.problem]
        assert journal.verify() is None


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
    path = sorted(_folder(store).glob("datasets/*/*.parquet"))[0]
    newest = next(entry for entry in store.list() if entry.kind == "dataset").content_sha
    path = path.with_name(f"{newest}.parquet")
    path.write_bytes(b"")
    assert not verify(store).ok
    Publisher(store, notebook_path="a.ipynb").publish(
        "dataset",
        pd.DataFrame({"x": [1, 2]}),
        variable="t",
        title="T",
        lineage=[ORIGIN],
        run_id="r1",
    )
    assert verify(store).ok


def _torn(store: ArtifactStore) -> None:
    log = snapshot(store, "datasets/*/log.jsonl")
    log.write_bytes(log.read_bytes()[:-20])


def _without_code(store: ArtifactStore) -> None:
    shutil.rmtree(_folder(store) / "notebooks")


def _without_what_a_report_shows(store: ArtifactStore) -> None:
    for path in _folder(store).glob("datasets/*/*.parquet"):
        path.unlink()


def _with_a_name_of_nobody(store: ArtifactStore) -> None:
    snapshot(store, "names/*.json").write_text("{}")


def _with_a_swapped_snapshot(store: ArtifactStore) -> None:
    first, second = sorted(_folder(store).glob("datasets/*/*.parquet"))
    first.write_bytes(second.read_bytes())


def _with_what_looks_like_a_snapshot(store: ArtifactStore) -> None:
    (snapshot(store, "datasets/*/*.parquet").parent / "notes.parquet").write_text("mine")


def _without_a_log(store: ArtifactStore) -> None:
    snapshot(store, "datasets/*/log.jsonl").unlink()


def _with_an_empty_log(store: ArtifactStore) -> None:
    snapshot(store, "data_objects/*/log.jsonl").write_bytes(b"")


def _instead(pattern: str, put: Callable[[Path], None]) -> Callable[[ArtifactStore], None]:
    """Puts something else in the place of a file."""

    def damage(store: ArtifactStore) -> None:
        path = snapshot(store, pattern)
        path.unlink()
        put(path)

    return damage


def _without_the_log_of_a_script(store: ArtifactStore) -> None:
    Publisher(store, notebook_path="a.ipynb").publish("notebook", "x = 1", title="s", run_id="r1")
    (_folder(store) / "notebooks/s/log.jsonl").unlink()


def _without_a_name(store: ArtifactStore) -> None:
    snapshot(store, "names/*.json").unlink()


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (_torn, "is not as it was written; publish again"),
        (_without_code, "missing or damaged"),
        (_without_what_a_report_shows, "which is missing or damaged"),
        (_with_a_name_of_nobody, "owner of a name"),
        (_with_a_swapped_snapshot, "don't match the digest"),
        (_with_what_looks_like_a_snapshot, "don't match the digest"),
        (_instead("datasets/*/*.parquet", Path.mkdir), "is no file"),
        (_without_a_log, "is missing, and snapshots lie beside it"),
        (_with_an_empty_log, "holds no line"),
        (_instead("reports/*/log.jsonl", os.mkfifo), "is no file, and stands where a log would"),
        (_instead("reports/*/log.jsonl", Path.mkdir), "is no file, and stands where a log would"),
        (_without_the_log_of_a_script, "is missing, and snapshots lie beside it"),
        (_instead("names/*.json", os.mkfifo), "holds no owner of a name"),
        (_instead("names/*.json", Path.mkdir), "holds no owner of a name"),
        (_without_a_name, "of which no owner is kept"),
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


def test_a_snapshot_that_no_log_names_is_told_and_harms_nobody(
    store: ArtifactStore, capsys: pytest.CaptureFixture[str]
) -> None:
    published = next(entry for entry in store.list() if entry.kind == "dataset")
    data = b"written before a crash"
    ref = ArtifactRef("dataset", published.logical_id, content_sha(data))
    store.place.create(ref.workspace_file_path, data)
    found = verify(store)
    assert (found.ok, [note.path for note in found.notes]) == (True, [ref.workspace_file_path])
    assert main(["verify", "--folder", str(store.root)]) == 0
    assert f"{ref.workspace_file_path!r} is sound, and no log names it" in capsys.readouterr().out


@pytest.mark.parametrize(
    "name", [".DS_Store", "Thumbs.db", "{}.parquet~", "{}.parquet.bak", ".#{}.parquet"]
)
def test_what_other_programs_leave_is_told_and_neither_moved_nor_a_fault(
    store: ArtifactStore, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = snapshot(store, "datasets/*/*.parquet")
    other = path.with_name(name.format(path.stem))
    other.write_bytes(b"theirs")
    assert main(["verify", "--folder", str(store.root)]) == 0
    assert "is not ours and was left alone" in capsys.readouterr().out
    assert other.read_bytes() == b"theirs"


class TestTheSealsOfALog:
    @pytest.fixture
    def log(self, store: ArtifactStore) -> Path:
        for title in ("T2", "T3"):
            Publisher(store, notebook_path="a.ipynb").publish(
                "dataset",
                pd.DataFrame({"x": [1, 2]}),
                variable="t",
                title=title,
                lineage=[ORIGIN],
                run_id="r1",
            )
        return snapshot(store, "datasets/*/log.jsonl")

    @pytest.mark.parametrize("place", [0, 1, 3])
    @pytest.mark.parametrize(
        "change",
        [
            {"title": "Forged"},
            {"code_path": ".ockham/notebooks/a/" + "0" * 64 + ".py"},
            {"sources": [{"path": "other.csv"}]},
            {"notebook": "b.ipynb"},
        ],
    )
    def test_an_altered_line_is_found(
        self, store: ArtifactStore, log: Path, place: int, change: dict[str, object]
    ) -> None:
        lines = log.read_text().splitlines()
        told = json.loads(lines[place]) | change
        lines[place] = json.dumps(told, separators=(",", ":"))
        log.write_text("\n".join(lines) + "\n")
        assert any(
            f"line {place + 1} is not as it was written" in each.problem
            for each in verify(store).findings
        )

    @pytest.mark.parametrize("place", [0, 1, 3])
    def test_a_line_that_lost_its_seal_is_found(
        self, store: ArtifactStore, log: Path, place: int
    ) -> None:
        lines = log.read_text().splitlines()
        told = json.loads(lines[place])
        lines[place] = json.dumps({key: told[key] for key in LogEntry.model_fields})
        log.write_text("\n".join(lines) + "\n")
        assert not verify(store).ok

    @pytest.mark.parametrize("order", [(0, 1, 3), (1, 2, 3), (0, 2, 1, 3), (0, 1, 2, 3, 1)])
    def test_a_line_that_is_missing_moved_or_repeated_is_found(
        self, store: ArtifactStore, log: Path, order: tuple[int, ...]
    ) -> None:
        lines = log.read_bytes().splitlines(keepends=True)
        assert len(lines) == 4
        log.write_bytes(b"".join(lines[place] for place in order))
        assert not verify(store).ok

    def test_every_flipped_bit_is_found(self, store: ArtifactStore, log: Path) -> None:
        sound = log.read_bytes()
        assert verify(store).ok
        for place in range(0, len(sound), 17):
            damaged = bytearray(sound)
            damaged[place] ^= 1 << place % 8
            log.write_bytes(damaged)
            assert not verify(store).ok, (place, sound[place : place + 1])

    def test_lines_that_are_cut_off_at_the_end_leave_their_snapshot_unnamed(
        self, store: ArtifactStore, log: Path
    ) -> None:
        log.write_bytes(log.read_bytes().splitlines(keepends=True)[0])
        found = verify(store)
        assert log.parent.relative_to(store.root).as_posix() in str(found.notes)


def test_what_a_writer_has_not_named_yet_is_not_looked_at(store: ArtifactStore) -> None:
    path = snapshot(store, "datasets/*/*.parquet").with_name(".parsimony-1-ab.tmp")
    path.write_bytes(b"half")
    assert verify(store).ok
