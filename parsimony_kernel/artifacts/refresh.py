"""Making a published artifact again from the code and the sources that it names.

The code runs in a place that has nothing else in it. What comes out is compared by its content
and not by its bytes, so that another version of a library is no change; only a change is
appended. Whatever is not as it was when it was published is told, never passed over.
"""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Protocol

from parsimony_kernel.artifacts.codecs import CodecError, encode_chart, encode_dataset
from parsimony_kernel.artifacts.publish import Publisher, PublishError
from parsimony_kernel.artifacts.reports import ReportError, pinned_in
from parsimony_kernel.artifacts.sources import measured
from parsimony_kernel.artifacts.store import (
    ArtifactStore,
    LogEntry,
    SnapshotError,
    UnknownArtifactError,
)
from parsimony_kernel.clock import SYSTEM_CLOCK, Clock
from parsimony_kernel.execution.outputs import ExceptionObject, KernelOutput
from parsimony_kernel.identity import ArtifactRef, LiveNameCollisionError, snapshot_sha

TIMEOUT_S = 600.0
_ENCODERS: Mapping[str, Callable[[object, str], Any]] = {
    "dataset": encode_dataset,
    "chart": lambda value, name: encode_chart(value, name)[0],
}


class RefreshError(Exception):
    """An artifact cannot be made again. ``str()`` says why, and what to do."""


# The foreseen ways in which refreshing fails, beside those of the disk.
NOT_REFRESHED = (
    RefreshError,
    UnknownArtifactError,
    SnapshotError,
    PublishError,
    ReportError,
    LiveNameCollisionError,
)


class CleanExecutor(Protocol):
    """A place to run code in that holds nothing of anybody's. Executors are."""

    async def execute(self, code: str, *, timeout_seconds: float | None = None) -> KernelOutput: ...

    async def set_cwd(self, cwd: str) -> None: ...

    async def value(self, name: str) -> Any: ...


# Begins a clean place and ends it.
Clean = Callable[[], AbstractAsyncContextManager[CleanExecutor]]


@dataclass(frozen=True)
class Refreshed:
    """What refreshing found.

    ``changed`` says that the content is another; ``entry`` is the line that is the newest now.
    ``sources`` are those whose bytes are not what they were. Of a report, ``parts`` are the
    artifacts that it shows and ``page`` is what was written for people, relative to the workspace.
    """

    entry: LogEntry
    changed: bool
    sources: tuple[str, ...] = ()
    parts: tuple["Refreshed", ...] = ()
    page: str = ""


async def refresh_named(
    publisher: Publisher,
    words: str,
    clean: Clean,
    *,
    accept: bool = False,
    timeout_s: float = TIMEOUT_S,
    clock: Clock = SYSTEM_CLOCK,
) -> Refreshed:
    """Refresh the artifact that ``words`` name: what it shows as well, where it is a report.

    A report is published and written anew only where something that it shows is another.

    Raises: those of ``NOT_REFRESHED``, and StorageError.
    """
    store = publisher.store
    found = await asyncio.to_thread(publisher.find, words)
    entry = store.latest(found.kind, found.logical_id) or found

    async def again(part: LogEntry) -> Refreshed:
        return await refresh(store, part, clean, accept=accept, timeout_s=timeout_s, clock=clock)

    if entry.kind != "report":
        return await again(entry)
    parts = []
    for ref in pinned_in(store.read(entry.ref).decode("utf-8", "replace")):
        part = store.latest(ref.kind, ref.logical_id)
        if part is not None and part.kind in _ENCODERS:
            parts.append(await again(part))
    published = await asyncio.to_thread(publisher.renew_report, entry)
    newest = store.latest("report", entry.logical_id) or entry
    sources = tuple(dict.fromkeys(source for part in parts for source in part.sources))
    return Refreshed(newest, not published.reused, sources, tuple(parts), published.page)


async def refresh(
    store: ArtifactStore,
    entry: LogEntry,
    clean: Clean,
    *,
    accept: bool = False,
    timeout_s: float = TIMEOUT_S,
    clock: Clock = SYSTEM_CLOCK,
) -> Refreshed:
    """Run the code of ``entry`` again, and append what comes out if it is something else.

    Args:
        clean: begins a clean place, once everything is known to be there.
        accept: take sources that have changed for granted. Without it they are a failure, and
            nothing is appended.

    Raises:
        RefreshError: a source is gone or has changed, the code is gone, raises, is too slow, or
            does not make the variable any more.
        SnapshotError: the code's snapshot is missing or damaged.
        StorageError: it could not be written.
    """
    encode = _ENCODERS.get(entry.kind)
    if encode is None or not entry.code_path or not entry.variable:
        raise RefreshError(
            f"A {entry.kind} is not made by code that is on record: publish it again instead."
        )
    script = await asyncio.to_thread(_script, store, entry)
    folder = store.root / (entry.folder or PurePosixPath(entry.notebook).parent)
    if not folder.is_dir():
        raise RefreshError(f"The folder {str(folder)!r}, in which the code ran, is gone.")
    changed = await asyncio.to_thread(_changed, entry, folder, accept)
    async with clean() as executor:
        await executor.set_cwd(str(folder))
        output = await executor.execute(script, timeout_seconds=timeout_s)
        if output.error is not None:
            raise RefreshError(_told(output.error, entry, changed))
        try:
            value = await executor.value(entry.variable)
        except KeyError:
            raise RefreshError(
                f"The code of {entry.title!r} does not bind {entry.variable!r} any more: run the "
                "notebook again and publish anew."
            ) from None
    try:
        encoded = await asyncio.to_thread(encode, value, entry.variable)
    except CodecError as exc:
        raise RefreshError(f"What the code makes now cannot be published: {exc}") from exc
    if encoded.canonical_sha == entry.canonical_sha:
        return Refreshed(entry, False, changed)
    newer = entry.model_copy(
        update={
            "content_sha": snapshot_sha(entry.kind, encoded.data),
            "canonical_sha": encoded.canonical_sha,
            "published_at": clock.now().isoformat(),
            "run_id": "",
            "sources": tuple(measured(source.path, folder) for source in entry.sources),
        }
    )
    published, _ = await asyncio.to_thread(store.publish, newer, encoded.data)
    return Refreshed(published, True, changed)


def _script(store: ArtifactStore, entry: LogEntry) -> str:
    path = PurePosixPath(entry.code_path)
    ref = ArtifactRef("notebook", path.parent.name, path.stem)
    return store.read(ref).decode("utf-8", "surrogateescape")


def _changed(entry: LogEntry, folder: Path, accept: bool) -> tuple[str, ...]:
    """The sources that are not what they were. ``RefreshError`` where that is not accepted."""
    now = [(source, measured(source.path, folder)) for source in entry.sources]
    gone = [was.path for was, at in now if was.size_bytes is not None and at.size_bytes is None]
    if gone:
        raise RefreshError(
            f"{_listed(gone)}: gone or not readable, and {entry.title!r} is made from it; put it "
            "back where it was."
        )
    changed = tuple(
        was.path
        for was, at in now
        if was.size_bytes is not None and (was.size_bytes, was.sha256) != (at.size_bytes, at.sha256)
    )
    if changed and not accept:
        raise RefreshError(
            f"{_listed(changed)}: changed since {entry.title!r} was published; only if that is "
            "accepted (--accept, or accept_changed_sources) is what comes out published."
        )
    return changed


def _told(error: ExceptionObject, entry: LogEntry, changed: tuple[str, ...]) -> str:
    where = f" at {error.source_line!r}" if error.source_line else ""
    why = f" ({_listed(changed)}: changed since)" if changed else ""
    return (
        f"The code of {entry.title!r} fails now: {error.name}: {error.message.rstrip('.')}{where}"
        f"{why}; mend it in the notebook and publish anew."
    )


def _listed(paths: tuple[str, ...] | list[str]) -> str:
    return ", ".join(repr(path) for path in paths)


def in_words(done: Refreshed) -> str:
    """What refreshing an artifact, and what it shows, has found: for people, a line each."""
    lines = [_of_one(each) for each in (*done.parts, done)]
    if done.page:
        lines.append(f"Its page is {done.page}.")
    return "\n".join(lines)


def _of_one(done: Refreshed) -> str:
    what = f"The {done.entry.kind} {done.entry.name!r}"
    if not done.changed:
        return f"{what} is as it was published: nothing to append."
    sources = f", from {_listed(done.sources)} as changed" if done.sources else ""
    return f"{what} is another now{sources}: published as {done.entry.path}."
