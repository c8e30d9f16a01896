"""Snapshots and their logs below ``.ockham``, in the workspace or at an address that many share.

Rule: a snapshot is in its place before the log names it, neither is ever changed
afterwards, and a snapshot is handed out only when its bytes still have the digest in its name.
"""

import asyncio
import itertools
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict
from rapidfuzz import fuzz, process

from parsimony_kernel.artifacts.places import Bucket, Place, place_of
from parsimony_kernel.core.cancellation import CancellationRequest, Cancelled
from parsimony_kernel.identity import (
    ARTIFACT_FOLDER,
    SNAPSHOT_KINDS,
    ArtifactRef,
    LiveNameCollisionError,
    artifact_folder_path,
    canonical_json,
    content_sha,
    live_name_key,
    snapshot_sha,
)
from parsimony_kernel.lineage.ledger import InputRef
from parsimony_kernel.storage.durable import StorageError

LOG_NAME = "log.jsonl"
LOOK_S = 5.0
NAMES = f"{ARTIFACT_FOLDER}/names"
MIN_ID_PREFIX = 6
SHORT_ID = 12
_NEAR = 3
_NEAR_ENOUGH = 55.0


class SnapshotError(Exception):
    """A snapshot is missing or damaged. ``str()`` is one sentence with the remedy."""


class UnknownArtifactError(LookupError):
    """No artifact is called so, or several are. ``str()`` is one sentence with the near ones."""


class SourceFile(BaseModel):
    """A source that the code read. Size in bytes and digest where it was a readable file.

    A ``stale`` one had changed, or was gone, when what was made from it was published: its digest
    is not known, and the size is that of when it was read.
    """

    model_config = ConfigDict(frozen=True)

    path: str
    size_bytes: int | None = None
    sha256: str | None = None
    stale: bool = False


class LogEntry(BaseModel):
    """One line of an artifact's log: which snapshot, made when, by which code, from what.

    ``notebook`` is the path of the notebook that published it and ``code_path`` that of the
    snapshot of the producing code, both relative to the workspace. To run that code again,
    ``folder`` is the folder that it runs in, relative to the workspace where it lies below it,
    and ``environment`` the versions of Python and of the libraries that it ran with. ``embedded``
    are the snapshots that a report shows, as ``reference`` spells them. ``provenance`` says where a
    data object was fetched: by which tool, with what, when.
    """

    model_config = ConfigDict(frozen=True)

    kind: str
    logical_id: str
    content_sha: str
    published_at: str = ""
    run_id: str = ""
    notebook: str = ""
    variable: str = ""
    title: str = ""
    description: str = ""
    live_name: str = ""
    code_path: str = ""
    inputs: tuple[InputRef, ...] = ()
    sources: tuple[SourceFile, ...] = ()
    folder: str = ""
    environment: Mapping[str, str] = {}
    embedded: tuple[str, ...] = ()
    provenance: Mapping[str, Any] = {}

    @property
    def ref(self) -> ArtifactRef:
        """The snapshot that the line is about."""
        return ArtifactRef(self.kind, self.logical_id, self.content_sha)

    @property
    def path(self) -> str:
        """Where the snapshot lies, relative to the workspace, with forward slashes."""
        return self.ref.workspace_file_path

    @property
    def code_ref(self) -> ArtifactRef | None:
        """The snapshot of the producing code, if there is one."""
        *_, logical_id, name = ("", *self.code_path.split("/"))
        try:
            ref = ArtifactRef("notebook", logical_id, name.removesuffix(".py"))
        except ValueError:
            return None
        return ref if ref.workspace_file_path == self.code_path else None

    @property
    def is_stale(self) -> bool:
        """Whether a source is known to have changed between being read and publishing."""
        return any(source.stale for source in self.sources)

    @property
    def name(self) -> str:
        """What people call it: its title, else its live name, else its id."""
        return self.title or self.live_name or self.logical_id


def reference(ref: ArtifactRef) -> str:
    """``ref`` as a text: ``kind/logical_id@content_sha``."""
    return f"{ref.kind}/{ref.logical_id}@{ref.content_sha}"


def parse_reference(text: str) -> ArtifactRef:
    """The snapshot that ``reference`` spells so. ``ValueError`` when it is none."""
    kind, slash, rest = text.partition("/")
    logical_id, at, sha = rest.rpartition("@")
    if not (slash and at):
        raise ValueError(f"{text!r} is no reference: write kind/logical_id@content_sha.")
    return ArtifactRef(kind, logical_id, sha)


class ArtifactStore:
    """The artifacts of one workspace.

    Args:
        root: the workspace, below which the notebooks lie.
        witness: is told the path and the digest of each line that is appended to a log.
        place: where everything lies, below ``.ockham``; by default where ``place_of`` says.
            Nothing is created before something is published.
    """

    def __init__(
        self,
        root: Path,
        witness: Callable[[str, str], None] | None = None,
        place: Place | None = None,
    ) -> None:
        self.root = root
        self.place = place or place_of(root)
        self._witness = witness

    @property
    def prefix(self) -> str:
        """What stands before the path of a log where all of it is told of: nothing in the
        workspace's own folder."""
        own = str(self.root.resolve())
        return "" if self.place.address == own else f"{self.place.address}/"

    async def look(self, stop: CancellationRequest) -> str:
        """Read anew what is published, where that takes a while: off the event loop, until
        ``stop``, and for a few seconds at most. Gives what stood in the way."""
        place = self.place
        if not isinstance(place, Bucket):
            return ""
        place.rest()
        try:
            async with asyncio.timeout(LOOK_S):
                await stop.race(asyncio.to_thread(place.look))
                await stop.race(asyncio.to_thread(self.list))
        except Cancelled:
            return ""  # the run says so
        except (StorageError, TimeoutError) as exc:
            return str(exc) or f"Nothing came from {place.address} within {LOOK_S:.0f} s."
        return ""

    def publish(
        self,
        entry: LogEntry,
        data: bytes,
        *,
        code: bytes | None = None,
        gives_up: Callable[[str], bool] = lambda owner: False,
    ) -> tuple[LogEntry, bool]:
        """Write the snapshot ``data`` and that of its code, then append ``entry`` to its log.

        Content, title and description as in the newest line append nothing: that line is
        returned. Equal content under a new title, or from sources that are not stale any more,
        appends a line about the snapshot that is there.

        Args:
            entry: its ``content_sha`` is empty or that of ``data`` (else ``ValueError``); a
                ``live_name``, if any, is claimed for ``entry.notebook``.
            code: what made ``data``, a snapshot at the entry's ``code_path``.
            gives_up: whether an owner that is not ``entry.notebook`` gives the name up.

        Returns:
            The line that now is the newest, and whether an earlier snapshot was reused.

        Raises:
            LiveNameCollisionError: the live name belongs to another notebook.
            StorageError: it could not be written; nothing was announced.
        """
        sha = snapshot_sha(entry.kind, data)
        if entry.content_sha not in ("", sha):
            raise ValueError(f"content_sha {entry.content_sha!r} is not that of the data")
        entry = entry.model_copy(update={"content_sha": sha})
        self.place.look()
        claim = entry.kind, entry.live_name, entry.notebook
        gate = "" if not entry.live_name else _claim_path(*claim[:2])
        if gate and self.place.is_there(gate):
            self.claim(*claim, gives_up=gives_up)
            gate = ""
        newest = self.latest(entry.kind, entry.logical_id)
        reused = newest is not None and newest.ref == entry.ref and self.is_whole(entry.ref)
        snapshots = {} if reused else {entry.ref: data}
        if code is not None and entry.code_ref is not None:
            snapshots[entry.code_ref] = code
        files = {ref.workspace_file_path: kept for ref, kept in snapshots.items()}
        log = log_path(entry.kind, entry.logical_id)
        made = self.place.create_all(files, log, {gate: _claimed(*claim)} if gate else {})
        if gate and gate not in made:
            # Somebody else was first, and may have published the same.
            return self.publish(entry, data, code=code, gives_up=gives_up)
        for ref, kept in snapshots.items():
            if ref.workspace_file_path not in made and not self.is_whole(ref):
                self.place.replace(ref.workspace_file_path, kept)
        if newest is not None and not _is_news(entry, newest):
            # Its writer may have been killed before the sync, or take it back after one that
            # failed.
            self.place.settle(log)
            if self.latest(entry.kind, entry.logical_id) != newest:
                return self.publish(entry, data, code=code, gives_up=gives_up)
            return newest, reused
        line = entry.model_dump_json()
        self.place.append(log, line)
        if self._witness is not None:
            self._witness(self.prefix + log, content_sha(line.encode()))
        return entry, reused

    def is_whole(self, ref: ArtifactRef) -> bool:
        """Whether the snapshot is there, with the bytes that it had."""
        data = self.place.read(ref.workspace_file_path)
        return data is not None and snapshot_sha(ref.kind, data) == ref.content_sha

    def claim(
        self,
        kind: str,
        live_name: str,
        owner: str,
        *,
        gives_up: Callable[[str], bool] = lambda owner: False,
    ) -> None:
        """Claim ``(kind, live_name)`` for ``owner``; of concurrent callers exactly one wins.

        Names that differ in case, width or composition only are one name. Each owner is a file
        of its own, numbered from 1; the highest holds the name.

        Raises:
            LiveNameCollisionError: it belongs to an owner that does not give it up.
        """
        data = _claimed(kind, live_name, owner)
        for number in itertools.count(1):
            path = _claim_path(kind, live_name, number)
            if self.place.create(path, data):
                return
            if self.place.is_there(_claim_path(kind, live_name, number + 1)):
                continue
            held_by = self.holder(path)
            if held_by == owner:
                self.place.settle(path)  # an earlier one of this name may have been killed
                return
            if held_by is not None and not gives_up(held_by):
                raise LiveNameCollisionError(kind, live_name, held_by)

    def read(self, ref: ArtifactRef) -> bytes:
        """The bytes of ``ref``. ``SnapshotError`` when they are missing or not what they were."""
        data = self.place.read(ref.workspace_file_path)
        if data is None:
            raise SnapshotError(
                f"The {ref.kind} {ref.workspace_file_path!r} is missing: publish it again, or "
                "restore it from a backup."
            )
        if snapshot_sha(ref.kind, data) != ref.content_sha:
            raise SnapshotError(
                f"The {ref.kind} {ref.workspace_file_path!r} is damaged (its bytes don't match "
                "the digest in its name): publish it again, or restore it from a backup."
            )
        return data

    def history(self, kind: str, logical_id: str) -> tuple[LogEntry, ...]:
        """The log of an artifact, oldest first, without the lines that can't be read."""
        lines = lines_in(self.place.log(log_path(kind, logical_id)))
        return tuple(filter(None, (_parsed(line, kind, logical_id) for line in lines)))

    def latest(self, kind: str, logical_id: str) -> LogEntry | None:
        """The newest line of an artifact's log, or ``None`` when there is none."""
        # From the end, since a log grows each time that the artifact is published.
        newest_first = reversed(lines_in(self.place.log(log_path(kind, logical_id))))
        read = (_parsed(line, kind, logical_id) for line in newest_first)
        return next(filter(None, read), None)

    def list(self) -> tuple[LogEntry, ...]:
        """The newest line of every artifact, in the order in which they were published."""
        newest: list[LogEntry] = []
        for kind in sorted(SNAPSHOT_KINDS):
            for logical_id in self.ids(kind):
                with suppress(ValueError):  # a folder that somebody else put there
                    if (entry := self.latest(kind, logical_id)) is not None:
                        newest.append(entry)
        return tuple(sorted(newest, key=lambda e: (e.published_at, e.kind, e.logical_id)))

    def find(self, words: str, *, notebook: str = "") -> LogEntry:
        """Find an artifact by name, at its newest snapshot.

        Asked in this order: a path or a reference, which name one snapshot; the logical id; the
        live name; the title; the variable; and the beginning of a logical id, from six characters
        on. Live names and titles are compared without case. Where several answer, those that
        ``notebook`` published win.

        Raises:
            UnknownArtifactError: there is none, or there are several.
        """
        asked = words.strip()
        entries = self.list()
        if (ref := _named_snapshot(asked, entries)) is not None:
            log = self.history(ref.kind, ref.logical_id)
            if lines := [entry for entry in log if entry.ref == ref]:
                return lines[-1]
        for found in _matches(asked, entries):
            found = [entry for entry in found if entry.notebook == notebook] or found
            if len(found) > 1:
                raise UnknownArtifactError(_several(asked, found))
            if found:
                return found[0]
        raise UnknownArtifactError(_none(asked, entries))

    def object_at(self, path: str) -> str | None:
        """The logical id of the data object whose snapshot lies at ``path`` in the workspace."""
        for logical_id in self.ids("data_object"):
            with suppress(ValueError):  # a folder that somebody else put there
                if any(e.path == path for e in self.history("data_object", logical_id)):
                    return logical_id
        return None

    def ids(self, kind: str) -> Sequence[str]:
        """What lies where the artifacts of a kind do, by name."""
        return self.place.names(f"{ARTIFACT_FOLDER}/{kind}s")

    def is_claimed(self, kind: str, live_name: str) -> bool:
        """Whether anybody has ever taken ``(kind, live_name)``."""
        return self.place.is_there(_claim_path(kind, live_name))

    def holder(self, path: str) -> str | None:
        """Who holds a live name, by the file of a claim."""
        # A claim that cannot be read holds nothing: the next number takes the name over.
        try:
            owner = json.loads(self.place.read(path) or b"")["owner"]
        except (ValueError, LookupError, TypeError, RecursionError):
            return None
        return owner if isinstance(owner, str) else None

    def lines(self) -> Mapping[str, frozenset[str]]:
        """The digests of the lines of each log, by its path in the workspace."""
        logs = (
            f"{ARTIFACT_FOLDER}/{kind}s/{name}/{LOG_NAME}"
            for kind in SNAPSHOT_KINDS
            for name in self.ids(kind)
        )
        held = {self.prefix + log: self.place.log(log) for log in logs}
        return {
            log: frozenset(map(content_sha, lines_in(data)))
            for log, data in held.items()
            if data is not None
        }


def lines_in(log: bytes | None) -> Sequence[bytes]:
    """The lines of a log, oldest first."""
    return [line for line in (log or b"").split(b"\n") if line.strip()]


def log_path(kind: str, logical_id: str) -> str:
    """Where the log of an artifact lies. ``ValueError`` where there is no such artifact."""
    return f"{artifact_folder_path(kind, logical_id)}/{LOG_NAME}"


def _is_news(entry: LogEntry, newest: LogEntry) -> bool:
    """Whether ``entry`` says anything that the ``newest`` line does not."""
    told = [(each.ref, each.title, each.description) for each in (entry, newest)]
    return told[0] != told[1] or (newest.is_stale and not entry.is_stale)


def _claim_path(kind: str, live_name: str, number: int = 1) -> str:
    return f"{NAMES}/{live_name_key(kind, live_name)}.{number}.json"


def _claimed(kind: str, live_name: str, owner: str) -> bytes:
    return canonical_json({"kind": kind, "live_name": live_name, "owner": owner})


def _matches(words: str, entries: Sequence[LogEntry]) -> Iterator[Sequence[LogEntry]]:
    """The entries that ``words`` name in each of the ways, in the order of the ways."""
    folded = " ".join(words.split()).casefold()
    yield [e for e in entries if e.logical_id == words]
    yield [e for e in entries if e.live_name and _same_name(e, words)]
    yield [e for e in entries if e.title and " ".join(e.title.split()).casefold() == folded]
    yield [e for e in entries if e.variable and e.variable == words]
    if len(words) >= MIN_ID_PREFIX:
        yield [e for e in entries if e.logical_id.startswith(words)]


def _same_name(entry: LogEntry, words: str) -> bool:
    return live_name_key(entry.kind, entry.live_name) == live_name_key(entry.kind, words)


def _several(words: str, entries: Sequence[LogEntry]) -> str:
    named = [f"{_called(e)} with the id {e.logical_id[:SHORT_ID]!r}" for e in entries[:_NEAR]]
    more = f" and {len(entries) - _NEAR} more" if len(entries) > _NEAR else ""
    return f"{words!r} names {', '.join(named)}{more}: give the id."


def _none(words: str, entries: Sequence[LogEntry]) -> str:
    if not entries:
        return f"There is no artifact {words!r}: nothing is published in this workspace yet."
    names = {name: e for e in entries for name in (e.title, e.variable, e.live_name) if name}
    near = process.extract(
        words, list(names), scorer=fuzz.WRatio, processor=str.casefold, score_cutoff=_NEAR_ENOUGH
    )
    if found := list(dict.fromkeys(_called(names[name]) for name, *_ in near))[:_NEAR]:
        return f"There is no artifact {words!r}: did you mean {' or '.join(found)}?"
    known = ", ".join(map(_called, entries[-_NEAR:]))
    return f"There is no artifact {words!r}. Published here: {known}."


def _called(entry: LogEntry) -> str:
    variable = f" ({entry.variable})" if entry.variable else ""
    return f"the {entry.kind.replace('_', ' ')} {entry.name!r}{variable}"


def _named_snapshot(words: str, entries: Sequence[LogEntry]) -> ArtifactRef | None:
    """The snapshot that ``words`` name as a reference or as a path, if they do."""
    path = words.replace("\\", "/").removeprefix("./")
    newest = next((entry.ref for entry in entries if entry.path == path), None)
    if newest is not None:
        return newest
    try:
        if not path.startswith(f"{ARTIFACT_FOLDER}/"):
            return parse_reference(words)
        _, folder, logical_id, name = path.split("/")
        ref = ArtifactRef(folder.removesuffix("s"), logical_id, name.partition(".")[0])
    except ValueError:
        return None
    return ref if ref.workspace_file_path == path else None


def _parsed(line: bytes, kind: str, logical_id: str) -> LogEntry | None:
    try:
        entry = LogEntry.model_validate_json(line)
        # An id may also be one that no path can have.
        return entry if (entry.ref.kind, entry.ref.logical_id) == (kind, logical_id) else None
    except ValueError:  # pydantic's and the reference's alike
        return None
