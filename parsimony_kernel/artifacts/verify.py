"""Verify everything that is published.

Every snapshot is hashed, every log line is read, and everything that a line, a report or a name
refers to must exist. Nothing is changed: a broken snapshot is served to nobody, since each read
checks the digest, and publishing it again mends it.

With what the journal knows of the logs, a line that was changed or cut off, a log that was made
anew and a whole artifact that is gone are found too. Not detected: who wrote a line of which the
journal knows nothing; that a name was given to somebody else. The pages of reports are not checked.
"""

from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass

from parsimony_kernel import identity
from parsimony_kernel.artifacts.store import (
    LOG_NAME,
    NAMES,
    ArtifactStore,
    lines_in,
    parse_reference,
)
from parsimony_kernel.identity import ARTIFACT_FOLDER, ArtifactRef

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
    sound, lines = {path for path, fault in faults.items() if not fault}, 0
    for folder in _artifact_folders(store):
        log = f"{folder}/{LOG_NAME}"
        data = store.place.log(log)
        if data is None:
            problems = [_missing_log(store, log, sound)]
        elif held := len(lines_in(data)):
            lines += held
            problems = list(dict.fromkeys(_faults_of_log(store, log, held, sound)))
        else:  # a writer that was stopped before the first line leaves one of which nobody knows
            problems = [] if witnessed is not None else [f"holds no line: {_NO_LOG}"]
        findings += [Finding(log, problem) for problem in filter(None, problems)]
    there, known = store.lines(), None
    if witnessed is not None:
        findings += _gone(store, there, witnessed)
        known = sum(len(held & {*witnessed.get(log, ())}) for log, held in there.items())
    return Verification(len(faults), lines, known, (*findings, *_names(store)))


def _artifact_folders(store: ArtifactStore) -> list[str]:
    return [
        f"{ARTIFACT_FOLDER}/{kind}s/{name}"
        for kind in sorted(identity.SNAPSHOT_KINDS)
        for name in store.ids(kind)
    ]


def _snapshots(store: ArtifactStore) -> Iterator[str]:
    """What lies where snapshots do and is called as they are; the rest is not ours."""
    objects = f"{ARTIFACT_FOLDER}/objects"
    pools = [f"{objects}/{name}" for name in store.place.names(objects)]
    for folder in sorted([*_artifact_folders(store), *pools]):
        suffix = identity.SNAPSHOT_SUFFIXES[_kind_of(folder)]
        for name in store.place.names(folder):
            if name.endswith(suffix) and not name.startswith("."):
                yield f"{folder}/{name}"


def _kind_of(path: str) -> str:
    folder = path.split("/")[1]
    return "data_object" if folder == "objects" else folder.removesuffix("s")


def _missing_log(store: ArtifactStore, log: str, sound: set[str]) -> str:
    """What is wrong where there should be a log and is none; nothing where all is well."""
    if store.place.is_there(log):
        return f"is no file, and stands where a log would: {_NO_LOG}"
    _, _, logical_id, _ = log.split("/")
    beside = log.removesuffix(LOG_NAME)
    if not any(path.startswith(beside) for path in sound):
        return ""
    if _kind_of(log) == "notebook" and not store.is_claimed("notebook", logical_id):
        return ""  # the code of what was published, not a script of its own
    return f"is missing, and snapshots lie beside it: {_NO_LOG}"


def _fault_of(store: ArtifactStore, path: str) -> str:
    """What is wrong with a snapshot; nothing where its bytes have the digest in its name."""
    data = store.place.read(path) if store.place.is_plain(path) else None
    if data is None:
        return "is no file, and stands where a snapshot would"
    kind, logical_id = _kind_of(path), path.split("/")[2]
    with suppress(ValueError):  # nothing that is published has such a path
        ref = ArtifactRef(kind, logical_id, identity.snapshot_sha(kind, data))
        if ref.workspace_file_path == path:
            return ""
    return "is damaged: its bytes don't match the digest in its name"


def _faults_of_log(store: ArtifactStore, log: str, held: int, sound: set[str]) -> Iterator[str]:
    """What is wrong with a log that holds so many lines."""
    try:
        entries = store.history(_kind_of(log), log.split("/")[2])
    except ValueError as exc:
        yield f"belongs to no artifact: {exc}"
        return
    if len(entries) < held:
        yield (
            "has a line that can't be read or is about another artifact, and is passed over; "
            "publish again what it recorded"
        )
    for entry in entries:
        shown: list[str] = []
        try:
            shown += [parse_reference(each).workspace_file_path for each in entry.embedded]
        except ValueError as exc:
            yield f"names what it shows wrongly: {exc}"
        for path in filter(None, (entry.path, entry.code_path, *shown)):
            # It may have been published since the snapshots were looked through.
            if path not in sound and _fault_of(store, path):
                yield f"names {path!r}, which is missing or damaged: publish it again"
        if entry.live_name and not store.is_claimed(entry.kind, entry.live_name):
            yield (
                f"gives the name {entry.live_name!r}, of which no owner is kept: publish it again"
            )


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
