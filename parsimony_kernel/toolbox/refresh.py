"""The tool that makes a published artifact again.

The code on record is a file that anybody who can write to the workspace can write as well. So it
is read before it runs, as the code of a cell is.
"""

from collections.abc import Callable, Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any

from parsimony_kernel.artifacts.publish import Publisher
from parsimony_kernel.artifacts.refresh import Clean, Refreshed, refresh_named
from parsimony_kernel.artifacts.reports import pinned_in
from parsimony_kernel.artifacts.store import (
    ArtifactStore,
    LogEntry,
    SnapshotError,
    UnknownArtifactError,
)
from parsimony_kernel.core.events import AgentEvent
from parsimony_kernel.gate.screening import screened
from parsimony_kernel.identity import ArtifactRef
from parsimony_kernel.toolbox.publish import announcement
from parsimony_kernel.tools import Tools, tool

# Behind the deadline of the code, which knows how to stop it and say so.
_TIMEOUT_S = 660.0


def refresh_tools(publisher: Publisher, emit: Callable[[AgentEvent], None], clean: Clean) -> Tools:
    """``refresh`` for what ``publisher`` publishes; ``clean`` begins a place to run code in."""

    @tool(
        description=(
            "Make a published dataset, chart or report again from its code and sources, in a clean "
            "kernel, and publish it if its content is another. `artifact` is its title, variable "
            "or id. A source that has changed, or any other content, is an error, unless "
            "`accept_changed_sources`: set that only where the person asked for the new data."
        ),
        tool_type="publish",
        effect="idempotent",
        timeout_s=_TIMEOUT_S,
        reaches=lambda inputs: tuple(_reaches(publisher, inputs)),
    )
    async def refresh(artifact: str, accept_changed_sources: bool = False) -> dict[str, Any]:
        done = await refresh_named(publisher, artifact, clean, accept=accept_changed_sources)
        for each in (*done.parts, done):
            if each.changed:
                entry = each.entry
                emit(
                    announcement(
                        entry.ref,
                        title=entry.title,
                        variable=entry.variable,
                        page=each.page,
                        live_name=entry.live_name,
                    )
                )
        return _answer(done)

    return Tools([refresh])


def _reaches(publisher: Publisher, inputs: Mapping[str, Any]) -> Iterator[str]:
    """What the code on record would do outside, of the artifact and of all that it shows.

    Each sentence names the code by its digest, so that leave for it is leave for no other.
    """
    store = publisher.store
    root = store.root.resolve()
    try:
        found = publisher.find(str(inputs.get("artifact", "")))
        entries = tuple(_with_parts(store, store.latest(found.kind, found.logical_id) or found))
    except (UnknownArtifactError, SnapshotError):
        return  # the tool says so itself, and runs nothing
    for entry in entries:
        path = PurePosixPath(entry.code_path)
        try:
            code = store.read(ArtifactRef("notebook", path.parent.name, path.stem))
        except (SnapshotError, ValueError):
            continue  # as above
        folder = root / (entry.folder or PurePosixPath(entry.notebook).parent)
        text = code.decode("utf-8", "surrogateescape")
        for reach in screened(text, workspace=root, folder=folder):
            yield f"The code of {entry.name!r} ({path.stem[:12]}): {reach.sentence}"


def _with_parts(store: ArtifactStore, entry: LogEntry) -> Iterator[LogEntry]:
    yield entry
    if entry.kind == "report":
        for ref in pinned_in(store.read(entry.ref).decode("utf-8", "replace")):
            part = store.latest(ref.kind, ref.logical_id)
            if part is not None:
                yield part


def _answer(done: Refreshed) -> dict[str, Any]:
    answer: dict[str, Any] = {
        "kind": done.entry.kind,
        "title": done.entry.title,
        "changed": done.changed,
        "content_sha": done.entry.content_sha,
        "path": done.entry.path,
    }
    if done.page:
        answer["page"] = done.page
    if done.sources:
        answer["changed_sources"] = list(done.sources)
    if done.parts:
        answer["parts"] = [
            {"title": part.entry.title, "changed": part.changed} for part in done.parts
        ]
    return answer
