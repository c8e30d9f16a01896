"""Integrity check of all published artifacts.

Every snapshot is hashed, every log line is parsed, and everything that a line, a report or a name
refers to must exist. Nothing is changed: a damaged snapshot is never returned, since each read
checks the digest, and publishing it again repairs it.

With the line digests recorded in the journal, changed or truncated lines, recreated logs and
removed artifacts are found too. Not detected: the author of a line that the journal doesn't know,
and names reassigned to another owner. The pages of reports aren't checked.
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

_NO_LOG = "restore it from a backup, or publish again what it recorded"


@dataclass(frozen=True)
class Finding:
    """A problem with one file. ``path`` is relative to the workspace."""

    path: str
    problem: str

    @property
    def sentence(self) -> str:
        """The finding as a sentence for people."""
        return f"{self.path!r} {self.problem}."


@dataclass(frozen=True)
class Verification:
    """The result of a check: the numbers of snapshots and log lines, and the findings."""

    snapshots: int = 0
    lines: int = 0
    findings: tuple[Finding, ...] = ()

    @property
    def ok(self) -> bool:
        return not self.findings


def verify(
    store: ArtifactStore, witnessed: Mapping[str, Collection[str]] | None = None
) -> Verification:
    """Check everything that is published in a workspace.

    Args:
        store: the artifacts to check.
        witnessed: the line digests recorded in the journal, by log path; ``None`` without a
            journal.

    Raises:
        StorageError: a file or folder can't be read.
    """
    sound, findings, lines = set[str](), list[Finding](), 0
    snapshots = list(_snapshots(store))
    for path in snapshots:
        if problem := _fault_of(store, path):
            findings.append(Finding(path, problem))
        else:
            sound.add(path)
    for folder in _artifact_folders(store):
        log = f"{folder}/{LOG_NAME}"
        data = store.place.log(log)
        if data is None:
            problems = [_missing_log(store, log, sound)]
        elif held := len(lines_in(data)):
            lines += held
            problems = list(dict.fromkeys(_faults_of_log(store, log, held, sound)))
        else:  # an empty log that the journal doesn't know: its writer stopped before line one
            problems = [] if witnessed is not None else [f"holds no line: {_NO_LOG}"]
        findings += [Finding(log, problem) for problem in filter(None, problems)]
    findings += [*_gone(store, witnessed or {}), *_names(store)]
    return Verification(len(snapshots), lines, tuple(findings))


def _artifact_folders(store: ArtifactStore) -> list[str]:
    return [
        f"{ARTIFACT_FOLDER}/{kind}s/{name}"
        for kind in sorted(identity.SNAPSHOT_KINDS)
        for name in store.ids(kind)
    ]


def _snapshots(store: ArtifactStore) -> Iterator[str]:
    """Yield the paths of all files named like snapshots; other files aren't ours."""
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
    """Return the problem with a missing log, or ``""`` if none is needed."""
    if store.place.is_there(log):
        return f"is no file, and stands where a log would: {_NO_LOG}"
    _, _, logical_id, _ = log.split("/")
    beside = log.removesuffix(LOG_NAME)
    if not any(path.startswith(beside) for path in sound):
        return ""
    if _kind_of(log) == "notebook" and not store.is_claimed("notebook", logical_id):
        return ""  # producing code of other artifacts, which has no log
    return f"is missing, and snapshots lie beside it: {_NO_LOG}"


def _fault_of(store: ArtifactStore, path: str) -> str:
    """Return the problem with a snapshot, or ``""`` if its bytes match the digest in its name."""
    data = store.place.read(path) if store.place.is_plain(path) else None
    if data is None:
        return "is no file, and stands where a snapshot would"
    kind, logical_id = _kind_of(path), path.split("/")[2]
    with suppress(ValueError):  # not a path that publishing creates
        ref = ArtifactRef(kind, logical_id, identity.snapshot_sha(kind, data))
        if ref.workspace_file_path == path:
            return ""
    return "is damaged: its bytes don't match the digest in its name"


def _faults_of_log(store: ArtifactStore, log: str, held: int, sound: set[str]) -> Iterator[str]:
    """Yield the problems of a log with ``held`` lines, given the paths of ``sound`` snapshots."""
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
            if path not in sound:
                yield f"names {path!r}, which is missing or damaged: publish it again"
        if entry.live_name and not store.is_claimed(entry.kind, entry.live_name):
            yield (
                f"gives the name {entry.live_name!r}, of which no owner is kept: publish it again"
            )


def _gone(store: ArtifactStore, witnessed: Mapping[str, Collection[str]]) -> Iterator[Finding]:
    """Yield a finding for each log that lacks lines recorded in the journal."""
    there = store.lines()
    own = f"{store.prefix}{ARTIFACT_FOLDER}/"  # other stores check their own
    for log, known in sorted(item for item in witnessed.items() if item[0].startswith(own)):
        if gone := {*known} - there.get(log, frozenset()):
            yield Finding(
                log,
                f"lacks {len(gone)} of {len(known)} lines that the journal knows: they were taken "
                "away or changed; restore it from a backup, or accept what is there with 'jupyter "
                "parsimony trust'",
            )


def _names(store: ArtifactStore) -> Iterator[Finding]:
    for name in store.place.names(NAMES):
        if name.endswith(".json") and store.holder(f"{NAMES}/{name}") is None:
            yield Finding(f"{NAMES}/{name}", "holds no owner of a name: remove it")
