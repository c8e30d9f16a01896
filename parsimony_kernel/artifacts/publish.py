"""Publishing: store a snapshot with its provenance: its producing code, sources and environment.

Rule: lineage comes only from the ledger, so a variable of unknown origin can't be published.
Everything here blocks; callers keep it off the event loop.
"""

import base64
import hashlib
import platform
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Literal

from parsimony_kernel import identity
from parsimony_kernel.analysis.parse import parse as parse_python
from parsimony_kernel.artifacts import codecs
from parsimony_kernel.artifacts.chart_words import describe_chart
from parsimony_kernel.artifacts.page import Exhibit, render_page, write_page
from parsimony_kernel.artifacts.reports import Report, compose, draft, parse
from parsimony_kernel.artifacts.store import (
    ArtifactStore,
    LogEntry,
    SnapshotError,
    SourceFile,
    reference,
)
from parsimony_kernel.core.clock import SYSTEM_CLOCK, Clock
from parsimony_kernel.core.outputs import FigureObject
from parsimony_kernel.identity import ArtifactRef
from parsimony_kernel.lineage.file_access import SourceState, source_state
from parsimony_kernel.lineage.ledger import InputRef, VariableOrigin
from parsimony_kernel.storage.durable import StorageError

MAX_HASHED_BYTES = 200 * 1024 * 1024
_LIBRARIES = ("pandas", "pyarrow", "altair", "numpy")


@cache
def environment(libraries: Sequence[str] = _LIBRARIES) -> Mapping[str, str]:
    """Return the versions of Python and of the installed ``libraries``.

    By default these are the libraries whose values are published.
    """
    versions = {"python": platform.python_version()}
    for name in libraries:
        with suppress(PackageNotFoundError):
            versions[name] = version(name)
    return versions


def producing_code(origins: Sequence[VariableOrigin]) -> str:
    """Join the cells that made a variable to one script, in the order in which they ran.

    A cell that bound several of the variables appears once per run of the cell.

    Args:
        origins: the ledger's ancestry of the variable, newest first.
    """
    oldest_first = origins[::-1]  # the sort is stable: this orders equal times
    ran = sorted(oldest_first, key=lambda origin: origin.at)
    cells = {(each.at, each.run_id, each.cell_id, each.code_sha): each for each in ran}
    return "\n".join(f"# %% {cell.actor}\n{cell.code.strip()}\n" for cell in cells.values())


def measured(source: str, folder: Path, read: Collection[SourceState] = ()) -> SourceFile:
    """Return ``source`` with its size in bytes and, up to ``MAX_HASHED_BYTES``, its digest.

    Addresses, folders, and missing or unreadable files have only their name.

    Args:
        source: a path or an address.
        folder: the folder that a relative path is relative to.
        read: its states at the end of the cells that read it, newest first. A file that differs
            now has an empty digest: its bytes aren't those that were read.
    """
    if "://" in source:
        return SourceFile(path=source)
    now = source_state(source, folder)
    found = [state for state in read if state.path == source]
    if any(state != now for state in found):
        sizes = (state.size_bytes for state in (*found, now) if state.size_bytes is not None)
        return SourceFile(path=source, size_bytes=next(sizes, None), sha256="")
    if now.size_bytes is None or now.size_bytes > MAX_HASHED_BYTES:
        return SourceFile(path=source, size_bytes=now.size_bytes)
    try:
        with (folder / source).open("rb") as stream:
            digest = hashlib.file_digest(stream, "sha256").hexdigest()
    except (OSError, ValueError):
        return SourceFile(path=source)
    is_whole = source_state(source, folder) == now
    return SourceFile(path=source, size_bytes=now.size_bytes, sha256=digest if is_whole else "")


def changed_note(sources: Collection[SourceFile]) -> str:
    """Return a warning that names the sources that changed since they were read; empty if none."""
    changed = dict.fromkeys(repr(each.path) for each in sources if each.sha256 == "")
    if not changed:
        return ""
    return (
        f"{', '.join(changed)}: changed since it was read. What is published was made from the "
        "earlier version: run its cell and publish again for the new one."
    )


_MAX_TITLE = 200
PAGES = "reports"

LiveName = tuple[str, str]
Kind = Literal["dataset", "chart", "notebook", "report"]


class PublishError(ValueError):
    """A value can't be published. ``str()`` is one sentence with the remedy."""


@dataclass(frozen=True)
class Published:
    """The result of publishing: a snapshot on disk.

    Args:
        entry: the newest line of its log.
        reused: whether the snapshot existed before.
        figure: the picture and description of a chart.
        note: warnings for the user, such as a stale source or a page that wasn't written.
        page: the path of a report's HTML page, relative to the workspace, with forward slashes.
    """

    entry: LogEntry
    reused: bool
    figure: FigureObject | None = None
    note: str = ""
    page: str = ""

    @property
    def ref(self) -> ArtifactRef:
        return self.entry.ref

    @property
    def path(self) -> str:
        """The path of the snapshot, relative to the workspace, with forward slashes."""
        return self.entry.path


class Publisher:
    """Publishes the artifacts of one notebook.

    A name that belongs to another notebook is taken over only by a run that has read the artifact
    of that name (``seen``), or, outside of shared stores, if that notebook no longer exists.

    Args:
        store: the workspace's artifacts.
        notebook_path: the notebook, relative to the workspace or absolute.
        clock: the time of the log lines.
        folder: the working folder of the code, which relative sources are relative to; by default
            the notebook's folder.
    """

    def __init__(
        self,
        store: ArtifactStore,
        *,
        notebook_path: str,
        clock: Clock = SYSTEM_CLOCK,
        folder: Path | None = None,
    ) -> None:
        self.store = store
        self._clock = clock
        self._notebook = _within(store.root, notebook_path)
        self._notebook_id = identity.notebook_logical_id(self._notebook)
        self._folder = folder or (store.root / notebook_path).parent

    def find(self, words: str) -> LogEntry:
        """Find an artifact by name; of several matches, this notebook's own wins.

        Raises:
            UnknownArtifactError: nothing matches, or several artifacts do.
        """
        return self.store.find(words, notebook=self._notebook)

    def publish(
        self,
        kind: Kind,
        value: object,
        *,
        title: str,
        run_id: str,
        description: str = "",
        variable: str = "",
        lineage: Iterable[VariableOrigin] = (),
        script: str | None = None,
        seen: Collection[LiveName] = (),
    ) -> Published:
        """Publish a table, a chart, a script or a report.

        A table is stored as Parquet, and an Altair chart as Vega-Lite, with a picture if one can be
        drawn. The id of a script is the base name of its title. A report's references are pinned to
        the newest snapshots, and its page is written; new data doesn't make it another report.

        Args:
            kind: ``dataset``, ``chart``, ``notebook`` (a script) or ``report``.
            value: the live object or an encoded dataset; the text of a script; the Markdown of a
                report.
            title: the title of the artifact.
            run_id: the publishing run.
            description: more about it, in free text.
            variable: the name of a dataset or chart.
            lineage: the ledger's ancestry of ``variable``, newest first.
            script: the code that makes ``variable`` from its sources, stored beside it; by
                default the cells of the lineage.
            seen: the kinds and live names of the artifacts that the run has read.

        Raises:
            PublishError: no title, the variable's origin is unknown, or a
                script isn't valid Python.
            CodecError: the value cannot be stored.
            ReportError: the body can't be published; see ``draft``.
            UnknownArtifactError: a report refers to an artifact that isn't published.
            SnapshotError: a snapshot that it refers to is missing or damaged.
            LiveNameCollisionError: the live name belongs to another notebook.
            StorageError: it could not be written.
        """
        title = title.strip()
        if not title:
            raise PublishError(f"The {kind} needs a title: say in a few words what it shows.")
        facts: dict[str, Any] = {"description": description, "run_id": run_id, "seen": seen}
        if kind == "notebook":
            _check_python(code := str(value), title)
            name = identity.notebook_logical_id(title)
            data = f"{code.strip()}\n".encode("utf-8", "surrogatepass")
            return self._publish(kind, name, data, title=title, live_name=name, **facts)
        if kind == "report":
            report = draft(title, str(value), lambda words: self.find(words).ref)
            shown = {f"{ref.kind}/{ref.logical_id}" for ref in report.shown}
            logical_id = identity.report_logical_id(title=report.title, embedded=shown)
            facts["live_name"] = identity.slug_from_title(report.title)
            return self._publish_report(logical_id, report, **facts)
        origins = list(lineage)
        if not origins:
            raise PublishError(
                f"The origin of {variable!r} is unknown, so it can't be published: run the code "
                "that makes it in this notebook first."
            )
        facts |= {"title": title, "variable": variable}
        return self._publish_variable(kind, value, origins, script, **facts)

    def keep(
        self, value: object, *, tool: str, arguments: Mapping[str, Any], run_id: str
    ) -> Published:
        """Store a table fetched by ``tool`` as a data object, with its provenance.

        Raises:
            CodecError: it can't be stored.
            ValueError: the arguments can't be represented as JSON.
            StorageError: it could not be written.
        """
        encoded = codecs.encode_dataset(value, tool)
        head = codecs.table_head(encoded, rows=0, columns=codecs.HEAD_COLUMNS)
        provenance = {
            "tool": tool,
            "arguments": dict(arguments),
            "notebook": self._notebook_id,
            "fetched_at": self._clock.now().isoformat(),
            "properties": {"rows": head.row_count, "columns": head.column_count},
        }
        given = ", ".join(f"{name}={told!r}" for name, told in arguments.items())
        return self._publish(
            "data_object",
            identity.data_object_logical_id(provenance=provenance),
            encoded,
            title=f"{tool}({given})"[:_MAX_TITLE],
            run_id=run_id,
            provenance=provenance,
        )

    def renew_report(self, entry: LogEntry) -> Published:
        """Republish a report with the newest snapshots of everything it shows.

        The text is unchanged, and the page tells when it was written. The report stays with the
        notebook that published it. If no snapshot is newer, the report's snapshot stays the same.

        Raises:
            ReportError, SnapshotError: the report, or a snapshot it shows, is damaged or missing.
            LiveNameCollisionError: its title belongs to another notebook by now.
            StorageError: it could not be written.
        """
        report = parse(self.store.read(entry.ref))
        pins = dict(report.pins)
        for name, ref in pins.items():
            if (newest := self.store.latest(ref.kind, ref.logical_id)) is not None:
                pins[name] = newest.ref
        kept = entry.model_dump(include={"description", "live_name", "notebook"})
        return self._publish_report(entry.logical_id, replace(report, pins=pins), **kept)

    def _publish_variable(
        self,
        kind: Kind,
        value: object,
        origins: Sequence[VariableOrigin],
        script: str | None,
        *,
        variable: str,
        **facts: Any,
    ) -> Published:
        read_from = sorted({source for origin in origins for source in origin.sources})
        datasets, others = self._identities(read_from)
        if kind == "dataset":
            spec = None
            is_stored = isinstance(value, codecs.Parquet)
            data: Any = value if is_stored else codecs.encode_dataset(value, variable)
            notebooks = {
                identity.notebook_logical_id(o.notebook_path or self._notebook) for o in origins
            }
            logical_id = identity.dataset_logical_id(
                notebook_ids=notebooks | {self._notebook_id},
                variable_name=variable,
                sources=[*datasets, *others],
            )
        else:
            data, spec = codecs.encode_chart(value, variable)
            logical_id = identity.chart_logical_id(
                notebook=self._notebook_id,
                variable_name=variable,
                source_datasets=datasets,
                sources=others,
            )
        states = [state for origin in origins for state in origin.source_states]
        sources = tuple(measured(each, self._folder, states) for each in read_from)
        code = (script or producing_code(origins)).encode("utf-8", "surrogatepass")
        code_ref = ArtifactRef(
            "notebook", self._notebook_id, identity.snapshot_sha("notebook", code)
        )
        published = self._publish(
            kind,
            logical_id,
            data,
            variable=variable,
            live_name=f"{self._notebook_id}/{variable}",
            code_path=code_ref.workspace_file_path,
            code=code,
            inputs=tuple(InputRef(name=o.name, version=o.version) for o in origins),
            sources=sources,
            folder=_within(self.store.root, str(self._folder)),
            environment=environment(),
            **facts,
        )
        figure, undrawn = (None, "") if spec is None else _figure(spec, published.entry)
        note = " ".join(filter(None, (changed_note(sources), undrawn)))
        return replace(published, figure=figure, note=note)

    def _publish_report(self, logical_id: str, report: Report, **facts: Any) -> Published:
        shown = {ref: self.store.find(reference(ref)) for ref in report.shown}
        exhibits = {
            ref: Exhibit(entry, self.store.read(ref), self.code_of(entry))
            for ref, entry in shown.items()
        }
        published = self._publish(
            "report",
            logical_id,
            compose(report),
            title=report.title,
            embedded=tuple(map(reference, exhibits)),
            **facts,
        )
        # A renewed report has no run: its sentences are those of the last run that wrote it.
        log = reversed(self.store.history("report", logical_id))
        worded_at = next((each.published_at for each in log if each.run_id), "")
        page = render_page(report, exhibits, published.entry, worded_at)
        try:
            path = write_page(self.store.root / PAGES, published.entry.live_name, page, logical_id)
        except StorageError as exc:
            # The report itself is stored: a missing page is a note, not a failure.
            return replace(published, note=f"The page was not written. {exc}")
        return replace(published, page=_within(self.store.root, str(path)))

    def code_of(self, entry: LogEntry) -> str:
        """Return the producing code of ``entry``; empty if it is no longer stored."""
        with suppress(SnapshotError):
            if entry.code_ref is not None:
                return self.store.read(entry.code_ref).decode("utf-8", "replace")
        return ""

    def _identities(self, sources: Iterable[str]) -> tuple[list[str], list[str]]:
        """Split ``sources`` into the logical ids of published datasets and the other sources.

        A snapshot of a data object counts as the object, whichever snapshot it is.
        """
        datasets, others = set[str](), list[str]()
        for source in sources:
            _, _, path = source.replace("\\", "/").partition(f"{identity.ARTIFACT_FOLDER}/")
            folder, _, rest = path.partition("/")
            if folder == "datasets" and "/" in rest:
                datasets.add(rest.partition("/")[0])
            elif folder == "objects" and (name := self.store.object_at(path)):
                others.append(f"data_object/{name}")
            else:
                others.append(source)
        return sorted(datasets), others

    def _publish(
        self,
        kind: str,
        logical_id: str,
        data: bytes,
        *,
        code: bytes | None = None,
        seen: Collection[LiveName] = (),
        **facts: Any,
    ) -> Published:
        """Publish ``data`` with ``facts`` as fields of its line, for this notebook by default."""
        entry = LogEntry(
            kind=kind,
            logical_id=logical_id,
            published_at=self._clock.now().isoformat(),
            **{"notebook": self._notebook, **facts},
        )
        read = {identity.live_name_key(known, name) for known, name in seen}
        has_read = identity.live_name_key(kind, entry.live_name) in read

        def gives_up(owner: str) -> bool:
            # A moved or deleted notebook gives up its names. In a shared store the owner may be
            # in another workspace, where its file can't be checked.
            return has_read or not (self.store.prefix or (self.store.root / owner).exists())

        return Published(*self.store.publish(entry, data, code=code, gives_up=gives_up))


def _figure(spec: codecs.Spec, entry: LogEntry) -> tuple[FigureObject, str]:
    """Return the figure of a chart, and why it has no picture, or ``""``."""
    png, note = codecs.render_png(spec)
    words = ": ".join(filter(None, (describe_chart(spec), entry.description)))
    drawn = None if png is None else base64.b64encode(png).decode("ascii")
    return FigureObject(
        name=entry.variable, title=entry.title, description=words, spec=spec, png_base64=drawn
    ), note


def _check_python(code: str, name: str) -> None:
    if not code.strip():
        raise PublishError(f"The script {name!r} is empty: give its code.")
    _, error = parse_python(code)
    if error is not None:
        reason = str(error).replace("<unknown>, ", "")
        raise PublishError(
            f"The script {name!r} isn't valid Python: {reason}; fix it, and leave out magics and "
            "shell commands."
        )


def _within(root: Path, path: str) -> str:
    """Return ``path`` relative to ``root`` if it is below it, with forward slashes."""
    whole = root / path
    inside = whole.is_relative_to(root)
    return (whole.relative_to(root) if inside else whole).as_posix()
