"""Verify everything that is published.

Every snapshot is hashed, every log line is read, and everything that a line, a report or a name
refers to must exist. Nothing is changed: a broken snapshot is served to nobody, since each read
checks the digest, and publishing it again mends it.

With what the journal knows of the logs, a line that was changed or cut off, a log that was made
anew and a whole artifact that is gone are found too. Not detected: who wrote a line of which the
journal knows nothing; that a name was given to somebody else. The pages of reports are not checked.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from parsimony_kernel.artifacts.store import (
    LOG_NAME,
    NAMES,
    ArtifactStore,
    lines_in,
    log_path,
    parse_reference,
)
from parsimony_kernel.identity import ARTIFACT_FOLDER, SNAPSHOT_SUFFIXES, ArtifactRef, snapshot_sha

_Lines = Mapping[str, Collection[str]]

_NO_LOG = "restore it from a backup, or publish again what it recorded"


@dataclass(frozen=True)
class Finding:
    """What is wrong with one file. ``path`` is relative to the workspace."""

    path: str
    problem: str

    @property
    def sentence(self) -> str:
        """For a person."""
        return f"{self.path!r} {self.problem}."


@dataclass(frozen=True)
class Verification:
    """How much was checked, and what is wrong. ``known`` are the lines that the journal knows;
    ``None`` where there is none."""

    snapshots: int = 0
    lines: int = 0
    known: int | None = None
    findings: tuple[Finding, ...] = ()

    @property
    def ok(self) -> bool:
        return not self.findings


def verify(store: ArtifactStore, witnessed: _Lines | None = None) -> Verification:
    """Check everything that is published in a workspace.

    Args:
        witnessed: the digests of lines that each log is known to have, by its path; ``None`` where
            nothing is known of any.

    Raises:
        StorageError: a file or folder cannot be read.
    """
    faults = {path: _fault_of(store, path) for path in _snapshots(store)}
    findings = [Finding(path, fault) for path, fault in faults.items() if fault]
    sound = {path for path, fault in faults.items() if not fault}
    for kind, logical_id in store.ids():
        problems = _faults_of_log(store, kind, logical_id, sound, witnessed is not None)
        log = log_path(kind, logical_id)
        findings += [Finding(log, problem) for problem in dict.fromkeys(problems)]
    there, known = store.lines(), None
    if witnessed is not None:
        findings += _gone(store, there, witnessed)
        known = sum(len(held & {*witnessed.get(log, ())}) for log, held in there.items())
    lines = sum(map(len, there.values()))
    return Verification(len(faults), lines, known, (*findings, *_names(store)))


def _snapshots(store: ArtifactStore) -> Iterator[str]:
    """Yield the files that lie where snapshots do and are named like them."""
    folders = [f"{ARTIFACT_FOLDER}/{kind}s/{name}" for kind, name in store.ids()]
    objects = f"{ARTIFACT_FOLDER}/objects"
    for folder in (*folders, *(f"{objects}/{name}" for name in store.place.names(objects))):
        suffix = SNAPSHOT_SUFFIXES[_kind_of(folder)]
        for name in store.place.names(folder):
            if name.endswith(suffix) and not name.startswith("."):
                yield f"{folder}/{name}"


def _kind_of(path: str) -> str:
    folder = f"{path}/".split("/")[1]
    return "data_object" if folder == "objects" else folder.removesuffix("s")


def _fault_of(store: ArtifactStore, path: str) -> str:
    """Return the fault of a snapshot; empty if its bytes have the digest in its path."""
    data = store.place.read(path) if store.place.is_plain(path) else None
    kind = _kind_of(path)
    if data is None or kind not in SNAPSHOT_SUFFIXES:
        return "is no file, and stands where a snapshot would"
    *_, folder, name = path.removesuffix(SNAPSHOT_SUFFIXES[kind]).split("/")
    digest = folder + name if kind == "data_object" else name
    if snapshot_sha(kind, data) == digest:
        return ""
    return "is damaged: its bytes don't match the digest in its name"


def _faults_of_log(
    store: ArtifactStore, kind: str, logical_id: str, sound: Collection[str], has_journal: bool
) -> Iterator[str]:
    log = log_path(kind, logical_id)
    data = store.place.log(log)
    if data is None:
        beside = log.removesuffix(LOG_NAME)
        # The code of artifacts lies without a log; a script has a name.
        has_one = kind != "notebook" or store.is_claimed(kind, logical_id)
        has_one = has_one and any(each.startswith(beside) for each in sound)
        if has_one or store.place.is_there(log):
            yield f"is missing or no file, where a log should be: {_NO_LOG}"
        return
    lines, entries = lines_in(data), store.history(kind, logical_id)
    # A writer that was killed leaves an empty log; the journal knows whether it had lines.
    if not lines and not has_journal:
        yield f"holds no line: {_NO_LOG}"
    shown: list[ArtifactRef] = []
    try:
        shown += [parse_reference(each) for entry in entries for each in entry.embedded]
    except ValueError as exc:
        yield f"names what it shows wrongly: {exc}"
    if len(entries) < len(lines):
        yield (
            "has a line that can't be read or is about another artifact, and is passed over; "
            "publish again what it recorded"
        )
    for entry in entries:
        if entry.live_name and not store.is_claimed(kind, entry.live_name):
            yield f"gives the name {entry.live_name!r}, which no owner holds: publish it again"
    named = [path for entry in entries for path in (entry.path, entry.code_path) if path]
    for path in (*named, *(ref.workspace_file_path for ref in shown)):
        # It may have been published since the snapshots were looked through.
        if path not in sound and _fault_of(store, path):
            yield f"names {path!r}, which is missing or damaged: publish it again"


def _gone(store: ArtifactStore, there: _Lines, known: _Lines) -> Iterator[Finding]:
    """The logs that lack lines of which the journal knows."""
    own = f"{store.prefix}{ARTIFACT_FOLDER}/"  # what lies elsewhere is looked at there
    for log, lines in sorted(item for item in known.items() if item[0].startswith(own)):
        if gone := {*lines}.difference(there.get(log, ())):
            yield Finding(
                log,
                f"lacks {len(gone)} of {len(lines)} lines that the journal knows: they were taken "
                "away or changed; restore it from a backup, or accept what is there with 'jupyter "
                "parsimony trust'",
            )


def _names(store: ArtifactStore) -> Iterator[Finding]:
    for name in store.place.names(NAMES):
        if name.endswith(".json") and store.holder(f"{NAMES}/{name}") is None:
            yield Finding(f"{NAMES}/{name}", "holds no owner of a name: remove it")
