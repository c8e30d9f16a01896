"""Tools that publish artifacts, read them and list them.

Rule: an artifact that a run has read here counts as seen, and a run may only take over another
notebook's artifact name if it has seen the artifact.
"""

import asyncio
import json
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from posixpath import dirname, relpath
from typing import Any, Literal

from parsimony_kernel.artifacts.chart_words import describe_chart
from parsimony_kernel.artifacts.codecs import encode_dataset, table_head
from parsimony_kernel.artifacts.publish import LiveName, Published, Publisher
from parsimony_kernel.artifacts.reports import parse
from parsimony_kernel.artifacts.store import SHORT_ID, LogEntry, UnknownArtifactError
from parsimony_kernel.core.events import AgentEvent, ArtifactPublished
from parsimony_kernel.execution.base import BaseCodeExecutor
from parsimony_kernel.execution.factory import is_remote
from parsimony_kernel.execution.frames import is_plan
from parsimony_kernel.execution.guard import computing
from parsimony_kernel.identity import SnapshotKind
from parsimony_kernel.lineage.script import SliceError, slice_of
from parsimony_kernel.toolbox.run_tools import no_such_variable
from parsimony_kernel.tools import Tools, tool

_LAST_MOMENT_S = 0.3
MAX_TEXT = 8_000
MAX_CODE = 2_000
MAX_LISTED = 30
_ROWS = 5
_COLUMNS = 40
_SOURCES = 10


def publish_tools(
    executor: BaseCodeExecutor,
    publisher: Publisher,
    emit: Callable[[AgentEvent], None],
    run_id: Callable[[], str],
    *,
    seen: set[LiveName] | None = None,
) -> Tools:
    """Build the tools that publish ``executor``'s variables and read what is published.

    A publishing tool emits ``ArtifactPublished`` once the snapshot is on disk. It returns ``kind``,
    ``logical_id``, ``content_sha``, ``path`` and ``reused``, and ``page`` for a report.

    Args:
        executor: holds the variables.
        publisher: writes and finds artifacts.
        emit: receives the events.
        run_id: returns the id of the current run.
        seen: kinds and live names that the run has read or written; extended here.
    """
    known = set() if seen is None else seen

    # What stands below a tool's name is what the model reads.
    publishing = tool(tool_type="publish", idempotent=True)
    looking = tool(effect="none")

    async def announced(work: Callable[..., Published]) -> dict[str, Any]:
        of_this_run = partial(work, run_id=run_id(), seen=known)
        writing = asyncio.ensure_future(asyncio.to_thread(of_this_run))
        try:
            published = await asyncio.shield(writing)
        except asyncio.CancelledError:
            # The thread can't be stopped; a snapshot it completes in time is still announced.
            await asyncio.wait({writing}, timeout=_LAST_MOMENT_S)
            if writing.done() and writing.exception() is None:
                emit(_event(writing.result()))
            raise
        emit(_event(published))
        if published.entry.live_name:
            known.add((published.ref.kind, published.entry.live_name))
        return _answer(published)

    async def publish(
        kind: Literal["dataset", "chart"], variable: str, title: str, description: str
    ) -> dict[str, Any]:
        variables = executor.variables()
        if variable not in variables:
            raise UnknownArtifactError(no_such_variable(variable, variables))
        value = variables[variable]

        def content() -> Any:
            if kind == "dataset" and is_plan(value):
                with computing(publisher.store.root):
                    return encode_dataset(value, variable)
            return value.fetch() if is_remote(value) else value

        def work(**of_this_run: Any) -> Published:
            return publisher.publish(
                kind,
                content(),
                variable=variable,
                title=title,
                description=description,
                lineage=tuple(executor.origin_ledger.ancestry(variable)),
                script=_script_of(executor, variable),
                **of_this_run,
            )

        return await announced(work)

    @publishing
    async def return_dataset(variable: str, title: str, description: str = "") -> dict[str, Any]:
        """Publish a DataFrame as a dataset that lasts, with its code and sources.

        `description`: what its rows and columns are.
        """
        return await publish("dataset", variable, title, description)

    @publishing
    async def return_chart(variable: str, title: str, description: str = "") -> dict[str, Any]:
        """Publish an Altair chart: shown to the person, and kept with its code and sources.

        `description`: what it shows, for who cannot see it.
        """
        return await publish("chart", variable, title, description)

    @publishing
    async def return_report(title: str, body: str, description: str = "") -> dict[str, Any]:
        """Publish a report for people: Markdown, kept and written as one HTML page.

        Show a published chart or dataset with ![Caption](artifact:name) alone on a line, by its
        variable, title or id. No heading for the title, no HTML, no code that runs, no other
        images.
        """
        told: dict[str, Any] = {"title": title, "description": description}
        return await announced(partial(publisher.publish, "report", body, **told))

    @publishing
    async def return_notebook(name: str, code: str = "", description: str = "") -> dict[str, Any]:
        """Publish Python as a script that lasts, `name` like clean_sales.

        Without `code`, the cells that you ran in this turn.
        """
        ran = code if code.strip() else _cells_of(executor, run_id())
        told: dict[str, Any] = {"title": name, "description": description}
        return await announced(partial(publisher.publish, "notebook", ran, **told))

    @looking
    async def read_artifact(name: str, start: int = 0) -> dict[str, Any]:
        """What is published under a title, variable, id or path.

        Columns and first rows, what a chart shows, a report's text, a script's code, with where it
        came from. `start`: the character to go on from in a long text.
        """

        def read() -> tuple[LogEntry, dict[str, Any]]:
            entry = publisher.find(name)
            return entry, _content(publisher, entry, max(start, 0))

        entry, content = await asyncio.to_thread(read)
        if entry.live_name:
            known.add((entry.kind, entry.live_name))
        return content

    @looking
    async def list_artifacts(kind: SnapshotKind | None = None) -> dict[str, Any]:
        """What is published in this workspace, newest first.

        To make one again from its code and sources, the person runs %agent refresh TITLE.
        """
        entries = await asyncio.to_thread(publisher.store.list)
        chosen = [e for e in reversed(entries) if kind in (None, e.kind)]
        answer: dict[str, Any] = {"artifacts": [_line(entry) for entry in chosen[:MAX_LISTED]]}
        if len(chosen) > MAX_LISTED:
            answer["more"] = len(chosen) - MAX_LISTED
        return answer

    returning = return_dataset, return_chart, return_report, return_notebook
    return Tools([*returning, read_artifact, list_artifacts])


def _script_of(executor: BaseCodeExecutor, variable: str) -> str | None:
    """Return the code that makes a variable; ``None`` to keep the cells of its lineage instead."""
    with suppress(SliceError):
        return slice_of(executor.origin_ledger, variable)
    return None


def _cells_of(executor: BaseCodeExecutor, run_id: str) -> str:
    """Join the cells that the agent ran in the run ``run_id``, oldest first."""
    cells = [
        cell.code.strip()
        for cell in executor.origin_ledger.cell_runs()
        if cell.actor == "agent" and cell.run_id == run_id
    ]
    return "\n\n".join(f"# %%\n{code}" for code in cells)


def announcement(entry: LogEntry, **more: Any) -> ArtifactPublished:
    """Build the event for ``entry``, whose snapshot is on disk."""
    told = ("kind", "logical_id", "content_sha", "path", "title", "variable", "live_name")
    return ArtifactPublished(**{name: getattr(entry, name) for name in told}, **more)


def _event(published: Published) -> ArtifactPublished:
    figure, folder = published.figure, dirname(published.entry.notebook) or "."
    return announcement(
        published.entry,
        reused=published.reused,
        page=published.page and relpath(published.page, folder),
        figure=None if figure is None else figure.model_dump(mode="json"),
    )


def _answer(published: Published) -> dict[str, Any]:
    told = announcement(published.entry, reused=published.reused)
    answer = told.model_dump(include={"kind", "logical_id", "content_sha", "path", "reused"})
    more = {"page": published.page, "note": published.note}
    return answer | {name: said for name, said in more.items() if said}


def _line(entry: LogEntry) -> dict[str, str]:
    told = entry.model_dump(include={"kind", "title", "variable", "notebook"})
    told |= {"id": entry.logical_id[:SHORT_ID], "published_at": entry.published_at[:19]}
    return {key: value for key, value in told.items() if value}


def _content(publisher: Publisher, entry: LogEntry, start: int) -> dict[str, Any]:
    """Summarise the content of an artifact and its provenance."""
    data = publisher.store.read(entry.ref)
    answer: dict[str, Any] = {**_line(entry), "path": entry.path}
    answer["id"] = entry.logical_id
    if entry.description:
        answer["description"] = entry.description
    match entry.kind:
        case "dataset" | "data_object":
            answer |= _table(data)
        case "chart":
            answer["shows"] = describe_chart(json.loads(data))
        case "report":
            answer |= _text(parse(data).body, start)
        case _:
            answer |= _text(data.decode("utf-8", "replace"), start)
    if entry.sources:
        answer["sources"] = [source.path for source in entry.sources[:_SOURCES]]
    if code := publisher.code_of(entry):
        answer["code"] = code if len(code) <= MAX_CODE else f"{code[:MAX_CODE]}…"
    return answer


def _table(data: bytes) -> dict[str, Any]:
    head = table_head(data, rows=_ROWS, columns=_COLUMNS)
    answer: dict[str, Any] = {
        "rows": head.row_count,
        "columns": dict(zip(head.columns, head.types, strict=True)),
        "first_rows": [list(row) for row in head.rows],
    }
    if head.column_count > len(head.columns):
        answer["more_columns"] = head.column_count - len(head.columns)
    return answer


def _text(text: str, start: int) -> dict[str, Any]:
    shown = text[start : start + MAX_TEXT]
    answer: dict[str, Any] = {"text": shown}
    if start + len(shown) < len(text):
        answer["next_start"] = start + len(shown)
    return answer
