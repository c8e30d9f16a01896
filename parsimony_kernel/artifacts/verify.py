"""Verify everything that is published, and quarantine what is broken.

Every snapshot is hashed, every log line is read with its seal, and everything that a line, a
report or a name refers to must exist. A broken snapshot is moved aside, so that nothing is served
under a digest that it doesn't have; nothing is ever deleted.

With what the journal knows of the logs, that lines were cut off, that a log was made anew and that
a whole artifact is gone are found too. Not detected: who wrote a line of which the journal knows
nothing; that a name was given to somebody else. The pages of reports are not checked.
"""

from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass

from parsimony_kernel import identity
from parsimony_kernel.artifacts import seals
from parsimony_kernel.artifacts.store import LOG_NAME, NAMES, ArtifactStore, parse_reference
from parsimony_kernel.identity import ARTIFACT_FOLDER, ArtifactRef

QUARANTINE = f"{ARTIFACT_FOLDER}/quarantine"
_NO_LOG = "restore it from a backup, or publish again what it recorded"
_UNNAMED = (
    "is sound, and no log names it: its writer was stopped before the line, or the line is gone"
)
_UNWRITTEN = "holds no line, and the journal knows of none: its writer was stopped before the first"


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

    ``notes`` tell what is no fault: sound snapshots that no log names, and files that are not ours.
    """

    snapshots: int = 0
    lines: int = 0
    findings: tuple[Finding, ...] = ()
    notes: tuple[Finding, ...] = ()

    @property
    def ok(self) -> bool:
        return not self.findings


def verify(
    store: ArtifactStore,
    *,
    quarantine: bool = True,
    witnessed: Mapping[str, Collection[str]] | None = None,
) -> Verification:
    """Check everything that is published in a workspace.

    Args:
        quarantine: move broken snapshots below ``.ockham/quarantine``, under the path they had.
        witnessed: the seals of lines that each log is known to have, by its path; ``None`` where
            nothing is known of any.

    Raises:
        StorageError: a file or folder cannot be read, or not be moved.
    """
    sound, named = set[str](), set[str]()
    findings, notes = list[Finding](), list[Finding]()
    snapshots = lines = 0
    for path in _beside_logs(store):
        name = path.rpartition("/")[2]
        if name.startswith(".") or not name.endswith(identity.SNAPSHOT_SUFFIXES[_kind_of(path)]):
            notes.append(Finding(path, "is not ours and was left alone"))
            continue
        snapshots += 1
        problem = _fault_of(store, path)
        if not problem:
            sound.add(path)
            continue
        moved_to = ""
        if quarantine:
            aside = f"{QUARANTINE}{path.removeprefix(ARTIFACT_FOLDER)}"
            moved_to = store.place.set_aside(path, aside)
        findings.append(Finding(path, problem, moved_to))
    for folder in _artifact_folders(store):
        log = f"{folder}/{LOG_NAME}"
        lines_of_log = store.place.log(log)
        if lines_of_log == b"" and witnessed is not None and store.prefix + log not in witnessed:
            notes.append(Finding(log, _UNWRITTEN))
            continue
        if lines_of_log is None:
            if missing := _missing_log(store, log, sound):
                findings.append(Finding(log, missing))
            continue
        lines += sum(1 for line in lines_of_log.split(b"\n") if line.strip())
        problems = dict.fromkeys(_faults_of_log(store, log, lines_of_log, sound, named))
        findings += [Finding(log, problem) for problem in problems]
    findings += [*_gone(store, witnessed or {}), *_names(store)]
    # The code of what was published before stays without a line.
    code = identity.SNAPSHOT_SUFFIXES["notebook"]
    notes += [Finding(path, _UNNAMED) for path in sorted(sound - named) if not path.endswith(code)]
    return Verification(snapshots, lines, tuple(findings), tuple(notes))


def _artifact_folders(store: ArtifactStore) -> list[str]:
    return [
        f"{ARTIFACT_FOLDER}/{kind}s/{name}"
        for kind in sorted(identity.SNAPSHOT_KINDS)
        for name in store.ids(kind)
    ]


def _beside_logs(store: ArtifactStore) -> Iterator[str]:
    """What lies where snapshots do, but for logs and what has no name yet."""
    objects = f"{ARTIFACT_FOLDER}/objects"
    pools = [f"{objects}/{name}" for name in store.place.names(objects)]
    for folder in sorted([*_artifact_folders(store), *pools]):
        names = store.place.names(folder)
        yield from (f"{folder}/{name}" for name in names if name != LOG_NAME)


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


def _faults_of_log(
    store: ArtifactStore, log: str, lines: bytes, sound: set[str], named: set[str]
) -> Iterator[str]:
    """What is wrong with a log; the snapshots that it names are added to ``named``."""
    try:
        entries = store.history(_kind_of(log), log.split("/")[2])
    except ValueError as exc:
        yield f"belongs to no artifact: {exc}"
        return
    held = sum(1 for line in lines.split(b"\n") if line.strip())
    if not held:
        yield f"holds no line: {_NO_LOG}"
    _, faults = seals.examine(lines)
    yield from (f"was changed: {fault}; publish again what it recorded" for fault in faults)
    if len(entries) < held and not faults:
        yield (
            "has a sealed line that is about another artifact or can't be read, and is passed "
            "over; publish again what it recorded"
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
        named |= {entry.path, entry.code_path}
        if entry.live_name and not store.is_claimed(entry.kind, entry.live_name):
            yield (
                f"gives the name {entry.live_name!r}, of which no owner is kept: publish it again"
            )


def _gone(store: ArtifactStore, witnessed: Mapping[str, Collection[str]]) -> Iterator[Finding]:
    """The logs that lack lines of which the journal knows."""
    there = store.lines()
    own = f"{store.prefix}{ARTIFACT_FOLDER}/"  # what lies elsewhere is looked at there
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
