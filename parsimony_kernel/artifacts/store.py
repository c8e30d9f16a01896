"""Snapshots and their logs below ``.ockham``, in the workspace or at a shared address.

Rule: a snapshot is stored before a log line refers to it, neither is ever changed afterwards, and a
snapshot is returned only if its bytes still match the digest in its name.
"""

import asyncio
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from parsimony_kernel import identity
from parsimony_kernel.artifacts.places import Bucket, Place, place_of
from parsimony_kernel.core.cancellation import CancellationRequest, Cancelled
from parsimony_kernel.core.errors import SessionError
from parsimony_kernel.core.fuzzy import nearest
from parsimony_kernel.core.text import from_json
from parsimony_kernel.identity import ARTIFACT_FOLDER, ArtifactRef, content_sha, live_name_key
from parsimony_kernel.lineage.ledger import InputRef
from parsimony_kernel.storage.durable import StorageError

LOG_NAME = "log.jsonl"
LOOK_S = 5.0
NAMES = f"{ARTIFACT_FOLDER}/names"
MIN_ID_PREFIX = 6
SHORT_ID = 12
_NEAR = 3


class SnapshotError(SessionError):
    """A snapshot is missing or damaged. ``str()`` is one sentence with the remedy."""


class UnknownArtifactError(SessionError, LookupError):
    """A name that matches no artifact or several. ``str()`` is one sentence with candidates."""


class SourceFile(BaseModel):
    """A source that the code read, with its size in bytes and its digest, as far as known.

    The digest of a source that has changed between being read and publishing is empty; that of a
    very large file is ``None``.
    """

    model_config = ConfigDict(frozen=True)

    path: str
    size_bytes: int | None = None
    sha256: str | None = None


class LogEntry(BaseModel):
    """One line of an artifact's log: a snapshot with its time, code, inputs and sources.

    Attributes:
        notebook: the path of the publishing notebook, relative to the workspace.
        code_path: the path of the snapshot of the producing code, relative to the workspace.
        folder: the working folder to run that code in, relative to the workspace if below it.
        environment: the versions of Python and of the libraries that it ran with.
        embedded: the snapshots that a report shows, formatted by ``reference``.
        provenance: the tool, arguments and time of a fetched data object.
    """

    model_config = ConfigDict(frozen=True)

    kind: str
    logical_id: str
    content_sha: str = ""
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
        """The snapshot that the line records."""
        return ArtifactRef(self.kind, self.logical_id, self.content_sha)

    @property
    def path(self) -> str:
        """The path of the snapshot, relative to the workspace, with forward slashes."""
        return self.ref.workspace_file_path

    @property
    def code_ref(self) -> ArtifactRef | None:
        """The snapshot of the producing code, if there is one."""
        ref = _ref_at(self.code_path)
        return ref if ref is not None and ref.kind == "notebook" else None

    @property
    def name(self) -> str:
        """The display name: the title, else the live name, else the id."""
        return self.title or self.live_name or self.logical_id


def reference(ref: ArtifactRef) -> str:
    """Format ``ref`` as ``kind/logical_id@content_sha``."""
    return f"{ref.kind}/{ref.logical_id}@{ref.content_sha}"


def parse_reference(text: str) -> ArtifactRef:
    """Parse a reference as formatted by ``reference``; ``ValueError`` if it isn't one."""
    kind, slash, rest = text.partition("/")
    logical_id, at, sha = rest.rpartition("@")
    if not (slash and at):
        raise ValueError(f"{text!r} is no reference: write kind/logical_id@content_sha.")
    return ArtifactRef(kind, logical_id, sha)


class ArtifactStore:
    """The artifacts of one workspace.

    Args:
        root: the workspace, the folder above the notebooks.
        witness: called with the path and the digest of each line appended to a log.
        place: the storage backend, by default ``place_of(root)``. Nothing is created before
            something is published.
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
        """The prefix of log paths for the witness: the address of the backend, or nothing for the
        workspace's own folder."""
        own = str(self.root.resolve())
        return "" if self.place.address == own else f"{self.place.address}/"

    async def look(self, stop: CancellationRequest) -> str:
        """Refresh the listing of a shared bucket; return the error as a sentence, or ``""``.

        It runs off the event loop, until ``stop`` and for at most ``LOOK_S`` seconds. A local
        folder needs no refresh.
        """
        place = self.place
        if not isinstance(place, Bucket):
            return ""
        place.rest()
        try:
            async with asyncio.timeout(LOOK_S):
                await stop.race(asyncio.to_thread(place.look))
                await stop.race(asyncio.to_thread(self.list))
        except Cancelled:
            return ""  # the run itself reports the stop
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

        If content, title, description and sources equal those of the newest line, nothing is
        appended and that line is returned. Equal content under a new title, or from sources with
        other bytes, appends a line about the existing snapshot.

        Args:
            entry: the new line, except for its ``content_sha``, which is that of ``data``. Its
                ``live_name``, if any, is claimed for ``entry.notebook``.
            data: the bytes of the snapshot.
            code: the producing code, stored as a snapshot at the entry's ``code_path``.
            gives_up: whether an owner other than ``entry.notebook`` gives up the name.

        Returns:
            The line that is now the newest, and whether an earlier snapshot was reused.

        Raises:
            LiveNameCollisionError: the live name belongs to another notebook.
            StorageError: it could not be written; nothing was recorded.
        """
        entry = entry.model_copy(update={"content_sha": identity.snapshot_sha(entry.kind, data)})
        self.place.look()
        claim, files = (entry.kind, entry.live_name, entry.notebook), dict[str, bytes]()
        name = entry.live_name and _claim_path(*claim[:2])
        if name and self.place.is_there(name):
            self.claim(*claim, gives_up=gives_up)
        elif name:
            files[name] = _claimed(*claim)
        newest = self.latest(entry.kind, entry.logical_id)
        reused = newest is not None and newest.ref == entry.ref and self.is_whole(entry.ref)
        snapshots = {} if reused else {entry.ref: data}
        if code is not None and entry.code_ref is not None:
            snapshots[entry.code_ref] = code
        files |= {ref.workspace_file_path: kept for ref, kept in snapshots.items()}
        log = log_path(entry.kind, entry.logical_id)
        made = self.place.create_all(files, log, name if name in files else "")
        if name in files and name not in made:
            # Another publisher was first, perhaps with the same content: start over.
            return self.publish(entry, data, code=code, gives_up=gives_up)
        for ref, kept in snapshots.items():
            if ref.workspace_file_path not in made and not self.is_whole(ref):
                self.place.replace(ref.workspace_file_path, kept)
        if newest is not None and _told(entry) == _told(newest):
            # The line's writer may have been killed before its sync, or may truncate it after a
            # failed one.
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
        """Return whether the snapshot exists and its bytes match its digest."""
        data = self.place.read(ref.workspace_file_path)
        return data is not None and identity.snapshot_sha(ref.kind, data) == ref.content_sha

    def claim(
        self,
        kind: str,
        live_name: str,
        owner: str,
        *,
        gives_up: Callable[[str], bool] = lambda owner: False,
    ) -> None:
        """Claim ``(kind, live_name)`` for ``owner``; of concurrent callers exactly one wins.

        Names that differ only in case, width or Unicode composition are the same name. Each claim
        is a file, numbered from 1; the highest number holds the name.

        Raises:
            LiveNameCollisionError: another owner holds it and doesn't give it up.
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
                self.place.settle(path)  # its writer may have been killed before the sync
                return
            if held_by is not None and not gives_up(held_by):
                raise identity.LiveNameCollisionError(kind, live_name, held_by)

    def read(self, ref: ArtifactRef) -> bytes:
        """Return the bytes of ``ref``; ``SnapshotError`` if they are missing or damaged."""
        data = self.place.read(ref.workspace_file_path)
        if data is None or identity.snapshot_sha(ref.kind, data) != ref.content_sha:
            fault = "missing" if data is None else "damaged"
            raise SnapshotError(
                f"The {ref.kind} {ref.workspace_file_path!r} is {fault}: publish it again, or "
                "restore it from a backup."
            )
        return data

    def history(self, kind: str, logical_id: str) -> tuple[LogEntry, ...]:
        """Return the log of an artifact, oldest first, without unreadable lines."""
        return tuple(self._newest_first(kind, logical_id))[::-1]

    def latest(self, kind: str, logical_id: str) -> LogEntry | None:
        """Return the newest readable line of an artifact's log, or ``None``."""
        return next(self._newest_first(kind, logical_id), None)

    def _newest_first(self, kind: str, logical_id: str) -> Iterator[LogEntry]:
        # Parsed one by one from the end: a log grows with each publication.
        for line in reversed(lines_in(self.place.log(log_path(kind, logical_id)))):
            with suppress(ValueError):  # pydantic's, and that of an id that can't be a path
                entry = LogEntry.model_validate_json(line)
                if (entry.ref.kind, entry.ref.logical_id) == (kind, logical_id):
                    yield entry

    def list(self) -> tuple[LogEntry, ...]:
        """Return the newest line of every artifact, in order of publication."""
        newest = filter(None, (self.latest(*each) for each in self.ids()))
        return tuple(sorted(newest, key=lambda e: (e.published_at, e.kind, e.logical_id)))

    def find(self, words: str, *, notebook: str = "") -> LogEntry:
        """Find an artifact by name, at its newest snapshot.

        Tried in this order: a path or a reference, which identify one snapshot; the logical id; the
        live name; the title; the variable; and a prefix of a logical id, of six characters or more.
        Live names and titles are compared without case. Of several matches, those published by
        ``notebook`` win.

        Raises:
            UnknownArtifactError: nothing matches, or several artifacts do.
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
        """Return the id of the data object with a snapshot at ``path`` below ``.ockham``."""
        whole = f"{ARTIFACT_FOLDER}/{path}"
        objects = (each for each in self.ids() if each[0] == "data_object")
        logs = ((name, self.history(kind, name)) for kind, name in objects)
        return next((name for name, log in logs if whole in {e.path for e in log}), None)

    def ids(self) -> Sequence[tuple[str, str]]:
        """Return kind and logical id of every artifact; foreign files count as artifacts."""
        kinds = sorted(identity.SNAPSHOT_KINDS)
        return [(k, name) for k in kinds for name in self.place.names(f"{ARTIFACT_FOLDER}/{k}s")]

    def is_claimed(self, kind: str, live_name: str) -> bool:
        """Return whether ``(kind, live_name)`` has ever been claimed."""
        return self.place.is_there(_claim_path(kind, live_name))

    def holder(self, path: str) -> str | None:
        """Return the owner recorded in a claim file, or ``None`` if it is unreadable."""
        # An unreadable claim holds nothing: the next number takes over the name.
        held = from_json(self.place.read(path))
        owner = held.get("owner") if isinstance(held, dict) else None
        return owner if isinstance(owner, str) else None

    def lines(self) -> Mapping[str, frozenset[str]]:
        """Return the line digests of each log, by its prefixed path."""
        return {
            self.prefix + log: frozenset(map(content_sha, lines_in(data)))
            for log in itertools.starmap(log_path, self.ids())
            if (data := self.place.log(log)) is not None
        }


def lines_in(log: bytes | None) -> Sequence[bytes]:
    """Split a log into its non-empty lines, oldest first."""
    return [line for line in (log or b"").split(b"\n") if line.strip()]


def log_path(kind: str, logical_id: str) -> str:
    """Return the path of an artifact's log."""
    return f"{ARTIFACT_FOLDER}/{kind}s/{logical_id}/{LOG_NAME}"


def _told(entry: LogEntry) -> tuple[object, ...]:
    """Return the parts of a line that make it another one."""
    return entry.ref, entry.title, entry.description, entry.sources


def _claim_path(kind: str, live_name: str, number: int = 1) -> str:
    return f"{NAMES}/{live_name_key(kind, live_name)}.{number}.json"


def _claimed(kind: str, live_name: str, owner: str) -> bytes:
    return identity.canonical_json({"kind": kind, "live_name": live_name, "owner": owner})


def _matches(words: str, entries: Sequence[LogEntry]) -> Iterator[Sequence[LogEntry]]:
    """Yield the entries that match ``words``, once per way of matching, strictest first."""
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
    known = {name.casefold(): e for e in entries for name in (e.title, e.variable, e.live_name)}
    if near := nearest(words.casefold(), filter(None, known)):
        return f"There is no artifact {words!r}: did you mean {_called(known[near])}?"
    here = ", ".join(map(_called, entries[-_NEAR:])) or "nothing yet"
    return f"There is no artifact {words!r}. Published here: {here}."


def _called(entry: LogEntry) -> str:
    variable = f" ({entry.variable})" if entry.variable else ""
    return f"the {entry.kind.replace('_', ' ')} {entry.name!r}{variable}"


def _named_snapshot(words: str, entries: Sequence[LogEntry]) -> ArtifactRef | None:
    """Resolve ``words`` as a reference or a path of a snapshot; ``None`` if it is neither."""
    path = words.replace("\\", "/").removeprefix("./")
    with suppress(ValueError):
        return parse_reference(words)
    # Only its log tells of which data object a file of the pool is.
    return _ref_at(path) or next((entry.ref for entry in entries if entry.path == path), None)


def _ref_at(path: str) -> ArtifactRef | None:
    """Return the snapshot that lies at ``path``, if it is one of an artifact's own folder."""
    with suppress(ValueError):
        _, folder, logical_id, name = path.split("/")
        ref = ArtifactRef(folder.removesuffix("s"), logical_id, name.partition(".")[0])
        return ref if ref.workspace_file_path == path else None
    return None
