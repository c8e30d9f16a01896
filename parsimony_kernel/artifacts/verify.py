"""Whether everything published is still what it was, and where what is broken goes.

Every snapshot is hashed again, every line of a log is read, and everything that a line, a report
or a name refers to has to be there. A snapshot that is broken is moved aside, so that nothing is
handed out under a digest that it does not have; nothing is ever deleted.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from parsimony_kernel import durable
from parsimony_kernel.artifacts.reports import pinned_in
from parsimony_kernel.artifacts.store import LOG_NAME, ArtifactStore, is_claim
from parsimony_kernel.identity import (
    ARTIFACT_FOLDER,
    SNAPSHOT_KINDS,
    ArtifactRef,
    object_pool_path,
    snapshot_sha,
    workspace_file_path,
)

QUARANTINE = f"{ARTIFACT_FOLDER}/quarantine"
_CHUNK = 2**20


@dataclass(frozen=True)
class Finding:
    """What is wrong with one file. ``path`` and ``moved_to`` are relative to the workspace."""

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
    """What was looked at, and what is wrong.

    ``unnamed`` are sound snapshots that no log names: a writer died between the two, or the line
    is broken. They harm nobody.
    """

    snapshots: int = 0
    lines: int = 0
    findings: tuple[Finding, ...] = ()
    unnamed: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        return not self.findings


def verify(store: ArtifactStore, *, quarantine: bool = True) -> Verification:
    """Look at all that is published in a workspace.

    Args:
        quarantine: move broken snapshots below ``.ockham/quarantine``, under the path they had.

    Raises:
        StorageError: a file or folder cannot be read, or not be moved.
    """
    sound, findings = set[str](), list[Finding]()
    snapshots = 0
    for path in sorted(_snapshots(store)):
        snapshots += 1
        told = path.relative_to(store.root).as_posix()
        problem = _fault_of(path, store.root)
        if not problem:
            sound.add(told)
            continue
        moved_to = ""
        if quarantine:
            aside = durable.move_aside(
                path, store.root / QUARANTINE / path.relative_to(store.folder)
            )
            moved_to = aside.relative_to(store.root).as_posix()
        findings.append(Finding(told, problem, moved_to))
    lines, named = 0, set[str]()
    for log in sorted(store.folder.glob(f"*/*/{LOG_NAME}")):
        read, problems = _log(store, log, sound, named)
        lines += read
        findings += problems
    findings += _reports(store, sound)
    findings += [
        Finding(path.relative_to(store.root).as_posix(), "holds no owner of a name: remove it")
        for path in sorted((store.folder / "names").glob("*.json"))
        if not is_claim(durable.read(path))
    ]
    return Verification(snapshots, lines, tuple(findings), tuple(sorted(sound - named)))


def _snapshots(store: ArtifactStore) -> Iterator[Path]:
    folders = [f"{kind}s/*" for kind in SNAPSHOT_KINDS] + ["objects/*"]
    for pattern in folders:
        for folder in store.folder.glob(pattern):
            if folder.is_dir():
                yield from (
                    path
                    for path in folder.iterdir()
                    if path.name != LOG_NAME and not durable.is_temporary(path)
                )


def _fault_of(path: Path, root: Path) -> str:
    """What is wrong with a snapshot; nothing where its bytes have the digest in its name."""
    if not path.is_file() or path.is_symlink():
        return "is no file, and stands where a snapshot would"
    parts = path.relative_to(root).parts
    kind = "data_object" if parts[1] == "objects" else parts[1].removesuffix("s")
    sha = parts[2] + path.name.partition(".")[0] if parts[1] == "objects" else ""
    sha = sha or path.name.partition(".")[0]
    try:
        expected = (
            object_pool_path(sha)
            if kind == "data_object"
            else workspace_file_path(ArtifactRef(kind, parts[2], sha))
        )
    except ValueError:
        expected = ""
    if path.relative_to(root).as_posix() != expected:
        return "has a name that no snapshot has"
    if _digest(kind, path) != sha:
        return "is damaged: its bytes do not have the digest in its name"
    return ""


def _digest(kind: str, path: Path) -> str:
    if kind == "notebook":
        return snapshot_sha(kind, durable.read(path))
    digest = hashlib.sha256()
    with durable.reading(path) as stream:
        while chunk := stream.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def _log(
    store: ArtifactStore, log: Path, sound: set[str], named: set[str]
) -> tuple[int, list[Finding]]:
    told = log.relative_to(store.root).as_posix()
    kind, logical_id = log.parent.parent.name.removesuffix("s"), log.parent.name
    if kind not in SNAPSHOT_KINDS:
        return 0, []
    try:
        history = store.history(kind, logical_id)
    except ValueError as exc:
        return 0, [Finding(told, f"belongs to no artifact: {exc}")]
    findings = [Finding(told, f"has a broken line: {problem}") for problem in history.problems]
    missing = set[str]()
    for entry in history.entries:
        named.add(entry.path)
        missing |= {entry.path} - sound
        if entry.code_path:
            named.add(entry.code_path)
            missing |= {entry.code_path} - sound
    findings += [
        Finding(told, f"names {path!r}, which is missing or damaged: publish it again")
        for path in sorted(missing)
    ]
    return len(history.entries) + len(history.problems), findings


def _reports(store: ArtifactStore, sound: set[str]) -> list[Finding]:
    findings = []
    for told in sorted(path for path in sound if path.endswith(".qmd")):
        text = durable.read(store.root / told).decode("utf-8", "replace")
        findings += [
            Finding(told, f"shows {ref.workspace_file_path!r}, which is missing or damaged")
            for ref in pinned_in(text)
            if ref.workspace_file_path not in sound
        ]
    return findings
