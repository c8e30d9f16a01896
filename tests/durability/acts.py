"""What is done to a workspace while the disk, the power or the process fails, and what must hold.

An act gets a folder and a way to announce: a word is announced once the call it is about has
returned, as its caller would. A check gets the folder and the words, and raises on any loss.
"""

import contextlib
import json
from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from pathlib import Path

import pandas as pd

from parsimony_kernel.artifacts.publish import Publisher
from parsimony_kernel.artifacts.store import ArtifactStore, LogEntry
from parsimony_kernel.core.events import RunStarted, TextDelta
from parsimony_kernel.core.state import SuspensionRecord
from parsimony_kernel.identity import ARTIFACT_FOLDER, ArtifactRef, snapshot_sha
from parsimony_kernel.storage import durable
from parsimony_kernel.storage.journal import SqliteJournal
from parsimony_kernel.storage.keyring import Keyring
from parsimony_kernel.testing.manual_clock import START, ManualClock
from tests.artifacts.report_cases import origin
from tests.artifacts.report_cases import publish as publish_as
from tests.journal import questions

Announce = Callable[[str], None]
Act = Callable[[Path, Announce], None]
Check = Callable[[Path, Collection[str]], None]


@dataclass(frozen=True)
class Case:
    """An act, what must hold after it was cut short, and what the next process does."""

    act: Act
    check: Check
    goes_on: Check


NOTEBOOK = "analysis.ipynb"
JOURNAL = "journal.sqlite"

_KINDS = {".parquet": "dataset", ".json": "chart", ".py": "notebook", ".qmd": "report"}


@cache
def frame(version: int) -> pd.DataFrame:
    """A table; of another size and content in each version."""
    return pd.DataFrame({"g": [f"g{n}" for n in range(40 * version)], "v": range(40 * version)})


def publish_version(root: Path, version: int) -> str:
    """Publish ``df``; returns the announced word, which is its reference."""
    made = origin("df", f"df = frame({version})", notebook_path=NOTEBOOK, sources=())
    publisher = Publisher(ArtifactStore(root), notebook_path=NOTEBOOK, clock=ManualClock())
    done = publish_as(publisher, "dataset", frame(version), "df", lineage=[made])
    return json.dumps([done.ref.kind, done.ref.logical_id, done.ref.content_sha])


def publish(root: Path, announce: Announce) -> None:
    """A first version, a second, the first again, and the first once more, which is reused."""
    for version in (1, 2, 1, 1):
        announce(publish_version(root, version))


def lines_of(root: Path) -> list[LogEntry]:
    """Every line of every log that can be read."""
    store = ArtifactStore(root)
    return [
        entry
        for log in sorted((store.root / ARTIFACT_FOLDER).glob("*s/*/log.jsonl"))
        for entry in store.history(log.parent.parent.name.removesuffix("s"), log.parent.name)
    ]


def check_published(root: Path, announced: Collection[str]) -> None:
    """Every announced snapshot is whole and in its log, and nothing is there by half."""
    store = ArtifactStore(root)
    lines = lines_of(root)
    named = {entry.ref for entry in lines}
    for word in announced:
        ref = ArtifactRef(*json.loads(word))
        assert ref in named, f"{ref} was announced and no log names it"
    for entry in lines:
        store.read(entry.ref)
        code = root / entry.code_path
        assert snapshot_sha("notebook", code.read_bytes()) == code.name.removesuffix(".py")
    for path in root.rglob("*"):
        kind = _KINDS.get(path.suffix)
        if path.is_file() and kind is not None and path.parent.name != "names":
            sha = path.name.partition(".")[0]
            assert snapshot_sha(kind, path.read_bytes()) == sha, f"{path.name} is there by half"


def check_publishing_goes_on(root: Path, announced: Collection[str]) -> None:
    """The next process publishes what it likes, and sweeps what the dead one left."""
    for version in (1, 3, 2):
        word = publish_version(root, version)
        announced = {*announced, word}
        check_published(root, announced)
        newest = max(ArtifactStore(root).list(), key=lambda entry: entry.kind == "dataset")
        assert json.dumps([newest.kind, newest.logical_id, newest.content_sha]) == word
    check_swept(root)


def check_swept(root: Path) -> None:
    """After an hour nothing temporary is left."""
    strays = list(root.rglob(".parsimony-*.tmp"))
    latest = max((stray.stat().st_mtime for stray in strays), default=START.timestamp())
    later = ManualClock(START + timedelta(seconds=latest - START.timestamp() + 7200))
    assert durable.sweep_temporary(root, clock=later) == len(strays)
    assert not list(root.rglob(".parsimony-*.tmp"))


def question(nonce: str) -> SuspensionRecord:
    """A question that waits; larger than a page of the journal."""
    return questions.question("r1", nonce, f"{nonce} words" * 40, times=40)


def suspend(root: Path, announce: Announce) -> None:
    """A turn that asks twice, its events before, between and after."""
    journal = SqliteJournal(root / ".ockham" / JOURNAL, ManualClock())
    journal.begin_turn("r1", notebook=NOTEBOOK, cell_key="c", request="Which?", model="offline")
    journal.append("r1", RunStarted(run_id="r1", request="Which?", model="offline"))
    for nonce in ("n1", "n2"):
        for number in range(3):
            journal.append("r1", TextDelta(content=f"{nonce} {number}"))
        journal.suspend(question(nonce))
        announce(nonce)
    journal.end_turn("r1", "suspended", "asked")
    announce("ended")
    journal.close()


def check_suspended(root: Path, announced: Collection[str]) -> None:
    """Every announced question is whole with all events before it, and the chain holds."""
    journal = SqliteJournal(root / ".ockham" / JOURNAL, ManualClock())
    with contextlib.closing(journal):
        assert journal.verify() is None
        pending = {row.record.suspension_token.partition(".")[0]: row for row in journal.pending()}
        asked = set(announced) - {"ended"}
        assert asked <= set(pending), f"{asked - set(pending)} was announced and is lost"
        for nonce, row in pending.items():
            assert row.record == question(nonce)
        told = [event.content for event in journal.events("r1") if isinstance(event, TextDelta)]
        expected = [f"{nonce} {number}" for nonce in ("n1", "n2") for number in range(3)]
        assert told == expected[: len(told)]
        assert len(told) >= 3 * len(pending)
        ends = [(turn.status, turn.summary) for turn in journal.turns()]
        if "ended" in announced:
            assert ends == [("suspended", "asked")]
        else:
            assert ends or not told


def check_suspending_goes_on(root: Path, announced: Collection[str]) -> None:
    """The next process asks its own question and finds those that were asked."""
    place = root / ".ockham" / JOURNAL
    with contextlib.closing(SqliteJournal(place, ManualClock())) as journal:
        journal.begin_turn("r2", notebook="b.ipynb", cell_key="c", request="?", model="offline")
        journal.append("r2", TextDelta(content="on"))
        journal.suspend(question("n3").model_copy(update={"run_id": "r2"}))
        assert journal.verify() is None
        waiting = {row.record.suspension_token.partition(".")[0] for row in journal.pending()}
        assert {*announced, "n3"} - {"ended"} <= waiting
    check_swept(root)


def sign(root: Path, announce: Announce) -> None:
    """A key, and after it two others."""
    keyring = Keyring(root / "keys", ManualClock())
    announce(keyring.current().key_id)
    announce(keyring.rotate().key_id)
    announce(keyring.rotate().key_id)


def check_signed(root: Path, announced: Collection[str]) -> None:
    """Every announced key can still be used."""
    keyring = Keyring(root / "keys", ManualClock())
    for word in announced:
        assert keyring.get(word) is not None, f"the key {word} is lost"


def check_signing_goes_on(root: Path, announced: Collection[str]) -> None:
    """The next process signs."""
    keyring = Keyring(root / "keys", ManualClock())
    assert keyring.get(keyring.current().key_id) is not None
    keyring.rotate()
    check_signed(root, announced)
    check_swept(root)


PUBLISH = Case(publish, check_published, check_publishing_goes_on)
SIGN = Case(sign, check_signed, check_signing_goes_on)
SUSPEND = Case(suspend, check_suspended, check_suspending_goes_on)
