"""Refresh: rebuild a published artifact from its recorded code and sources.

The code runs in a clean executor. A new snapshot is appended only if its bytes differ and the
difference is accepted. Any difference from the time of publishing is reported.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from functools import partial
from pathlib import PurePosixPath
from typing import Any, Protocol

from parsimony_kernel.artifacts.codecs import CodecError, encode_chart, encode_dataset
from parsimony_kernel.artifacts.publish import Publisher, environment, measured
from parsimony_kernel.artifacts.reports import parse
from parsimony_kernel.artifacts.store import ArtifactStore, LogEntry, SourceFile, reference
from parsimony_kernel.core.clock import SYSTEM_CLOCK
from parsimony_kernel.core.errors import SessionError
from parsimony_kernel.core.outputs import ExceptionObject, KernelOutput
from parsimony_kernel.identity import snapshot_sha
from parsimony_kernel.lineage.file_access import source_state
from parsimony_kernel.storage.workspace import require_trust

TIMEOUT_S = 600.0
_ENCODERS: Mapping[str, Callable[[object, str], bytes]] = {
    "dataset": encode_dataset,
    "chart": lambda value, name: encode_chart(value, name)[0],
}


class RefreshError(SessionError):
    """An artifact can't be rebuilt. ``str()`` gives the reason and the remedy."""


class CleanExecutor(Protocol):
    """An executor with an empty namespace."""

    async def execute(self, code: str, *, timeout_seconds: float | None = None) -> KernelOutput: ...

    async def set_cwd(self, cwd: str) -> None: ...

    async def value(self, name: str) -> Any: ...


# Starts a clean executor and shuts it down.
Clean = Callable[[], AbstractAsyncContextManager[CleanExecutor]]


@dataclass(frozen=True)
class Refreshed:
    """The outcome of a refresh.

    A missing or damaged snapshot is restored if the rebuild gives the same bytes.

    Attributes:
        entry: the newest line of the log.
        changed: whether the content differs.
        sources: the sources whose bytes differ.
        parts: the outcomes of the artifacts that a report shows.
        page: the path of a report's page, relative to the workspace.
    """

    entry: LogEntry
    changed: bool
    sources: tuple[str, ...] = ()
    parts: tuple["Refreshed", ...] = ()
    page: str = ""


async def refresh_named(
    publisher: Publisher, words: str, clean: Clean, *, accept: bool = False, trust: bool = False
) -> Refreshed:
    """Re-run the code of a dataset or chart and append the result if its content differs.

    A report runs no code: every dataset and chart that it shows is refreshed, and it is published
    again if a snapshot of it is newer. If one of them fails, the refreshed ones stay published.

    Args:
        publisher: finds the artifact.
        words: its name.
        clean: starts a clean executor, after all inputs were found.
        accept: accept changes. Without it, a changed source is an error, and so is changed content
            of any cause: an address, a folder or a file too large to hash, another library version,
            or non-deterministic code. Nothing is appended then.
        trust: run the code of a workspace that isn't trusted, this time.

    Raises:
        RefreshError: a source is missing or changed, the content differs, there is no code on
            record, or the code raises, is too slow, or no longer defines the variable.
        SnapshotError: the code's snapshot is missing or damaged.
        StorageError: a read or write failed, or the workspace isn't trusted.
        SessionError: there is no such artifact, or its content can't be published.
    """
    store = publisher.store
    found = await asyncio.to_thread(publisher.find, words)
    if not trust:
        require_trust(store.place.address)
    entry = store.latest(found.kind, found.logical_id) or found
    if entry.kind == "report":
        report = parse(await asyncio.to_thread(store.read, entry.ref))
        shown = [store.latest(ref.kind, ref.logical_id) for ref in report.shown]
        names = [reference(each.ref) for each in shown if each and each.kind in _ENCODERS]
        again = partial(refresh_named, publisher, clean=clean, accept=accept, trust=True)
        parts = [await again(each) for each in names]
        renewed = await asyncio.to_thread(publisher.renew_report, entry)
        sources = tuple(dict.fromkeys(source for part in parts for source in part.sources))
        is_new = renewed.ref != entry.ref
        return Refreshed(renewed.entry, is_new, sources, tuple(parts), renewed.page)
    encode = _ENCODERS.get(entry.kind)
    if encode is None or entry.code_ref is None or not entry.variable:
        raise RefreshError(
            f"The {entry.kind} {entry.name!r} has no code on record that makes it: publish it "
            "again instead."
        )
    code = await asyncio.to_thread(store.read, entry.code_ref)
    folder = store.root / (entry.folder or PurePosixPath(entry.notebook).parent)
    if not folder.is_dir():
        raise RefreshError(f"The folder {str(folder)!r}, in which the code ran, is gone.")
    paths = [source.path for source in entry.sources]
    now = tuple(await asyncio.to_thread(lambda: [measured(each, folder) for each in paths]))
    changed = _changed(entry, now, accept)
    states = [source_state(each, folder) for each in paths]
    async with clean() as executor:
        await executor.set_cwd(str(folder))
        output = await executor.execute(
            code.decode("utf-8", "surrogateescape"), timeout_seconds=TIMEOUT_S
        )
        if output.error is not None:
            raise RefreshError(_told(output.error, entry, changed))
        try:
            value = await executor.value(entry.variable)
        except KeyError:
            raise RefreshError(
                f"The code of {entry.title!r} no longer defines {entry.variable!r}: run the "
                "notebook and publish it again."
            ) from None
    if states != [source_state(each, folder) for each in paths]:
        raise RefreshError(
            f"A source of {entry.title!r} changed while its code ran: refresh it again."
        )
    try:
        data = await asyncio.to_thread(encode, value, entry.variable)
    except CodecError as exc:
        raise RefreshError(f"The result can't be published: {exc}") from exc
    news = {
        "content_sha": snapshot_sha(entry.kind, data),
        "published_at": SYSTEM_CLOCK.now().isoformat(),
        "run_id": "",
        "sources": now,
        "environment": environment(),
    }
    made = entry.model_copy(update=news)
    published = await asyncio.to_thread(_outcome, store, entry, made, data, accept)
    return Refreshed(published, published.ref != entry.ref, changed)


def _outcome(
    store: ArtifactStore, entry: LogEntry, made: LogEntry, data: bytes, accept: bool
) -> LogEntry:
    """Publish the rebuilt ``data`` if it is new and accepted; raise if it isn't accepted."""
    newest = store.latest(entry.kind, entry.logical_id) or entry
    if newest != entry and newest.ref != made.ref:
        raise RefreshError(
            f"{entry.title!r} was published by somebody else while its code ran: refresh it again."
        )
    if newest.ref != made.ref and not accept:
        raise RefreshError(_unexplained(entry, made.environment))
    is_known = newest.sources == made.sources or not accept
    if newest.ref == made.ref and is_known and store.is_whole(newest.ref):
        return newest
    return store.publish(made, data)[0]


def _changed(entry: LogEntry, now: Sequence[SourceFile], accept: bool) -> tuple[str, ...]:
    """Return the changed sources; ``RefreshError`` for missing or unaccepted ones."""
    both = list(zip(entry.sources, now, strict=True))
    gone = [was.path for was, at in both if was.size_bytes is not None and at.size_bytes is None]
    if gone:
        raise RefreshError(
            f"{_listed(gone)}: missing or unreadable, and {entry.title!r} is made from it. Put it "
            "back."
        )
    changed = tuple(was.path for was, at in both if was != at)
    if changed and not accept:
        raise RefreshError(
            f"{_listed(changed)}: changed since {entry.title!r} was made. To publish the new "
            "result, accept it with --accept."
        )
    return changed


def _unexplained(entry: LogEntry, environment: Mapping[str, str]) -> str:
    """Return the error for changed content without a known changed source, with likely causes."""
    why = [f"{source.path!r} cannot be compared" for source in entry.sources if not source.sha256]
    why += [
        f"{name} {was} is {environment.get(name, 'gone')} now"
        for name, was in entry.environment.items()
        if environment.get(name) != was
    ]
    return (
        f"The content of {entry.title!r} differs now, though no known source has changed "
        f"({', '.join(why) or 'the code may give different results each time'}): accept it with "
        "--accept to publish it."
    )


def _told(error: ExceptionObject, entry: LogEntry, changed: tuple[str, ...]) -> str:
    where = f" at {error.source_line!r}" if error.source_line else ""
    why = f" ({_listed(changed)}: changed since)" if changed else ""
    return (
        f"The code of {entry.title!r} now fails: {error.name}: {error.message.rstrip('.')}{where}"
        f"{why}. Fix it in the notebook and publish it again."
    )


def _listed(paths: Sequence[str]) -> str:
    return ", ".join(repr(path) for path in paths)


def in_words(done: Refreshed) -> str:
    """Render the outcome of a refresh for people, one line per artifact."""
    page = [f"Its page is {done.page}."] if done.page else []
    return "\n".join([*map(_of_one, (*done.parts, done)), *page])


def _of_one(done: Refreshed) -> str:
    what = f"The {done.entry.kind} {done.entry.name!r}"
    if not done.changed:
        return f"{what} is unchanged."
    sources = f" ({_listed(done.sources)} changed)" if done.sources else ""
    return f"{what} changed{sources}; published as {done.entry.path}."
