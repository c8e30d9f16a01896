"""Verify everything that is published, and quarantine what is broken.

Every snapshot is hashed, every log line is read with its seal, and everything that a line, a
report or a name refers to must exist. A broken snapshot is moved aside, so that nothing is served
under a digest that it doesn't have; nothing is ever deleted.

With what the journal knows of the logs, that lines were cut off, that a log was made anew and that
a whole artifact is gone are found too. Not detected: who wrote a line of which the journal knows
nothing; that a name was given to somebody else. The pages of reports are not checked.
"""

import os
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from parsimony_kernel import identity
from parsimony_kernel.artifacts import seals
from parsimony_kernel.artifacts.reports import ReportError, parse
from parsimony_kernel.artifacts.store import LOG_NAME, ArtifactStore, holder
from parsimony_kernel.identity import ArtifactRef
from parsimony_kernel.storage import durable

QUARANTINE = f"{identity.ARTIFACT_FOLDER}/quarantine"
_NO_LOG = "restore it from a backup, or publish again what it recorded"
_WHY_UNNAMED = (
    "its writer was stopped before the line, the line is gone, or what it made was published before"
)


@dataclass(frozen=True)
class Finding:
    """A finding about one file. ``path`` and ``moved_to`` are relative to the workspace."""

    path: str
    problem: str
    moved_to: str = ""

    @property
    def sentence(self) -> str:
        """For a person."""
        moved = f" It lies in {self.moved_to!r} now." if self.moved_to else ""
        return f"{self.path!r} {self.problem}.{moved}"


@dataclass(frozen=True)
class Verification:
    """What was checked, and what is wrong.

    ``unnamed`` are sound snapshots that no log names. They harm nobody, and are among the
    ``notes``, which tell what is no fault: also files that are not ours.
    """

    snapshots: int = 0
    lines: int = 0
    findings: tuple[Finding, ...] = ()
    unnamed: tuple[str, ...] = ()
    notes: tuple[Finding, ...] = ()

    @property
    def ok(self) -> bool:
        return not self.findings


def verify(
    store: ArtifactStore,
    *,
    quarantine: bool = True,
    witnessed: Mapping[str, Collection[str]] = {},
) -> Verification:
    """Check everything that is published in a workspace.

    Args:
        quarantine: move broken snapshots below ``.ockham/quarantine``, under the path they had.
        witnessed: the seals of lines that each log is known to have, by its path.

    Raises:
        StorageError: a file or folder cannot be read, or not be moved.
    """
    sound, named = set[str](), set[str]()
    findings, notes = list[Finding](), list[Finding]()
    snapshots = lines = 0
    for path in sorted(_beside_logs(store)):
        told = store.told(path)
        suffix = identity.SNAPSHOT_SUFFIXES[_kind_of(path, store.root)]
        if path.name.startswith(".") or not path.name.endswith(suffix):
            notes.append(Finding(told, "is not ours and was left alone"))
            continue
        snapshots += 1
        problem = _fault_of(path, store.root)
        if not problem:
            sound.add(told)
            continue
        moved_to = ""
        if quarantine:
            aside = store.root / QUARANTINE / path.relative_to(store.folder)
            moved_to = store.told(durable.move_aside(path, aside))
        findings.append(Finding(told, problem, moved_to))
    for folder in _artifact_folders(store):
        log = folder / LOG_NAME
        if missing := _missing_log(store, log, sound):
            findings.append(Finding(store.told(log), missing))
        elif log.is_file():
            lines += sum(1 for line in durable.read(log).split(b"\n") if line.strip())
            problems = dict.fromkeys(_faults_of_log(store, log, sound, named))
            findings += [Finding(store.told(log), problem) for problem in problems]
    findings += [*_gone(store, witnessed), *_reports(store, sound), *_names(store)]
    unnamed = sorted(sound - named)
    notes += [Finding(path, f"is sound, and no log names it: {_WHY_UNNAMED}") for path in unnamed]
    return Verification(snapshots, lines, tuple(findings), tuple(unnamed), tuple(notes))


def _artifact_folders(store: ArtifactStore) -> list[Path]:
    found = [path for kind in identity.SNAPSHOT_KINDS for path in store.folder.glob(f"{kind}s/*")]
    return sorted(path for path in found if path.is_dir())


def _beside_logs(store: ArtifactStore) -> Iterator[Path]:
    """What lies where snapshots do, but for logs and what has no name yet."""
    for folder in (*_artifact_folders(store), *store.folder.glob("objects/*")):
        if folder.is_dir():
            yield from (
                path
                for path in folder.iterdir()
                if path.name != LOG_NAME and not durable.is_temporary(path)
            )


def _kind_of(path: Path, root: Path) -> str:
    folder = path.relative_to(root).parts[1]
    return "data_object" if folder == "objects" else folder.removesuffix("s")


def _missing_log(store: ArtifactStore, log: Path, sound: set[str]) -> str:
    """What is wrong where there should be a log and is none; nothing where all is well."""
    if os.path.lexists(log):
        return "" if log.is_file() else f"is no file, and stands where a log would: {_NO_LOG}"
    kind, logical_id = _kind_of(log, store.root), log.parent.name
    beside = f"{store.told(log.parent)}/"
    if not any(path.startswith(beside) for path in sound):
        return ""
    if kind == "notebook" and not store.is_claimed(kind, logical_id):
        return ""  # the code of what was published, not a script of its own
    return f"is missing, and snapshots lie beside it: {_NO_LOG}"


def _fault_of(path: Path, root: Path) -> str:
    """What is wrong with a snapshot; nothing where its bytes have the digest in its name."""
    if not path.is_file() or path.is_symlink():
        return "is no file, and stands where a snapshot would"
    kind, parts = _kind_of(path, root), path.relative_to(root).parts
    sha = parts[2] + path.name.partition(".")[0] if parts[1] == "objects" else ""
    sha = sha or path.name.partition(".")[0]
    try:
        expected = (
            identity.object_pool_path(sha)
            if kind == "data_object"
            else identity.workspace_file_path(ArtifactRef(kind, parts[2], sha))
        )
    except ValueError:
        expected = ""
    if path.relative_to(root).as_posix() != expected:
        return "has a name that no snapshot has"
    if identity.snapshot_sha(kind, durable.read(path)) != sha:
        return "is damaged: its bytes don't match the digest in its name"
    return ""


def _faults_of_log(
    store: ArtifactStore, log: Path, sound: set[str], named: set[str]
) -> Iterator[str]:
    """What is wrong with a log; the snapshots that it names are added to ``named``."""
    try:
        history = store.history(_kind_of(log, store.root), log.parent.name)
    except ValueError as exc:
        yield f"belongs to no artifact: {exc}"
        return
    if not history.entries and not history.problems:
        yield f"holds no line: {_NO_LOG}"
        return
    yield from (f"has a broken line: {problem}" for problem in history.problems)
    yield from (f"was changed: {fault}" for fault in seals.faults(durable.read(log)))
    for entry in history.entries:
        for path in filter(None, (entry.path, entry.code_path)):
            named.add(path)
            if path not in sound:
                yield f"names {path!r}, which is missing or damaged: publish it again"
        if entry.live_name and not store.is_claimed(entry.kind, entry.live_name):
            yield (
                f"gives the name {entry.live_name!r}, of which no owner is kept: publish it again"
            )


def _gone(store: ArtifactStore, witnessed: Mapping[str, Collection[str]]) -> Iterator[Finding]:
    """The logs that lack lines of which the journal knows."""
    there = store.lines()
    for log, known in sorted(witnessed.items()):
        if gone := {*known} - there.get(log, frozenset()):
            yield Finding(
                log,
                f"lacks {len(gone)} of {len(known)} lines that the journal knows: they were taken "
                "away or changed; restore it from a backup, or accept what is there with 'jupyter "
                "parsimony trust'",
            )


def _reports(store: ArtifactStore, sound: set[str]) -> Iterator[Finding]:
    for told in sorted(path for path in sound if path.endswith(".qmd")):
        try:
            report = parse(durable.read(store.root / told))
        except ReportError as exc:
            yield Finding(told, f"is no report: {exc}")
            continue
        for path in (ref.workspace_file_path for ref in report.shown):
            if path not in sound:
                yield Finding(told, f"shows {path!r}, which is missing or damaged")


def _names(store: ArtifactStore) -> Iterator[Finding]:
    for path in sorted((store.folder / "names").glob("*.json")):
        if not path.is_file():
            problem = "is no file, and stands where the owner of a name would"
            yield Finding(store.told(path), problem)
        elif holder(path) is None:
            yield Finding(store.told(path), "holds no owner of a name: remove it")
