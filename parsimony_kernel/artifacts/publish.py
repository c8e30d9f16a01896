"""Publishing: the bytes of a thing, the code that made it, and what it was made from.

The rule of the place: lineage comes from the ledger and from nowhere else, so what nobody is
known to have made cannot be published. Everything here blocks; callers keep it off the loop.
"""

import base64
import unicodedata
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any

from parsimony_kernel.analysis.parse import parse as parse_python
from parsimony_kernel.artifacts.chart_words import describe_chart
from parsimony_kernel.artifacts.codecs import (
    HEAD_COLUMNS,
    encode_chart,
    encode_dataset,
    render_png,
    table_head,
)
from parsimony_kernel.artifacts.html import Exhibit, render_page, write_page
from parsimony_kernel.artifacts.provenance import (
    environment,
    producing_code,
    sources_of,
    split_datasets,
)
from parsimony_kernel.artifacts.reports import (
    Report,
    compose,
    draft,
    parse,
    pinned_anew,
    pinned_in,
    words_of,
)
from parsimony_kernel.artifacts.sources import measured, stale_note
from parsimony_kernel.artifacts.store import (
    ArtifactStore,
    LogEntry,
    SnapshotError,
    SourceFile,
    reference,
)
from parsimony_kernel.core.clock import SYSTEM_CLOCK, Clock
from parsimony_kernel.core.outputs import FigureObject
from parsimony_kernel.identity import (
    ARTIFACT_FOLDER,
    ArtifactRef,
    chart_logical_id,
    content_sha,
    data_object_logical_id,
    dataset_logical_id,
    live_name_key,
    notebook_logical_id,
    report_logical_id,
    slug_from_title,
    snapshot_sha,
)
from parsimony_kernel.lineage.ledger import InputRef, VariableOrigin
from parsimony_kernel.storage.durable import StorageError

MAX_TITLE = 200
PAGES = "reports"

LiveName = tuple[str, str]


class PublishError(ValueError):
    """A thing cannot be published. ``str()`` is one sentence with the remedy."""


@dataclass(frozen=True)
class Published:
    """A snapshot that is on the disk.

    ``path`` and ``page``, the HTML of a report, are relative to the workspace, with forward
    slashes. ``figure`` is what a chart shows; ``note`` says what is missing, if anything.
    """

    ref: ArtifactRef
    path: str
    title: str
    reused: bool
    figure: FigureObject | None = None
    note: str = ""
    page: str = ""
    live_name: str = ""


class Publisher:
    """Publishes what one notebook makes.

    Every method takes ``seen``: the kinds and live names of artifacts that the run has read. A
    name that belongs to another notebook is taken over by a run that has seen what it holds.

    Args:
        store: the workspace's artifacts.
        notebook_path: the notebook, relative to the workspace or absolute.
        clock: the time of the log lines.
        folder: what relative sources are relative to, and where the code ran; by default the
            notebook's folder.
        pages: where the pages of reports are written; by default ``reports`` in the workspace.
    """

    def __init__(
        self,
        store: ArtifactStore,
        *,
        notebook_path: str,
        clock: Clock = SYSTEM_CLOCK,
        folder: Path | None = None,
        pages: Path | None = None,
    ) -> None:
        self.store = store
        self._clock = clock
        self._notebook = _within(store.root, notebook_path)
        self._notebook_id = notebook_logical_id(self._notebook)
        self._folder = folder or (store.root / notebook_path).parent
        self._pages = pages or store.root / PAGES

    def find(self, words: str) -> LogEntry:
        """The artifact that ``words`` name; among several, this notebook's own.

        Raises:
            UnknownArtifactError: there is none, or there are several.
        """
        return self.store.find(words, notebook=self._notebook)

    def publish_dataset(
        self,
        value: object,
        *,
        variable: str,
        title: str,
        description: str = "",
        lineage: Iterable[VariableOrigin],
        run_id: str,
        script: str | None = None,
        seen: Collection[LiveName] = (),
    ) -> Published:
        """Publish a table as Parquet.

        Args:
            value: the live object.
            lineage: the ledger's ancestry of ``variable``, newest first.
            script: the code that makes ``variable`` from its sources, kept beside it; by
                default the cells of the lineage.

        Raises:
            PublishError: no title, or nothing is known about where the variable came from.
            CodecError: the value is no table that can be stored.
            LiveNameCollisionError: another notebook of the same name owns this variable's place.
            StorageError: it could not be written.
        """
        origins = _known_lineage(variable, lineage)
        title = _checked_title(title, repr(variable))
        encoded = encode_dataset(value, variable)
        notebooks = {self._id_of(origin) for origin in origins} | {self._notebook_id}
        datasets, others = self._what_it_is_made_from(origins)
        logical_id = dataset_logical_id(
            notebook_ids=notebooks, variable_name=variable, sources=[*datasets, *others]
        )
        sources = self._measured(origins)
        entry, reused = self._publish(
            self._entry("dataset", logical_id, encoded.data, title, description, run_id),
            encoded.data,
            seen,
            **self._provenance(variable, origins, script),
            sources=sources,
            canonical_sha=encoded.canonical_sha,
        )
        return _published(entry, reused, note=stale_note(sources))

    def keep(
        self, value: object, *, tool: str, arguments: Mapping[str, Any], run_id: str
    ) -> Published:
        """Keep a table that ``tool`` has fetched as a data object.

        Raises:
            CodecError: it cannot be stored.
            ValueError: the arguments are no JSON.
            StorageError: it could not be written.
        """
        encoded = encode_dataset(value, tool)
        head = table_head(encoded.data, rows=0, columns=HEAD_COLUMNS)
        provenance = {
            "tool": tool,
            "arguments": dict(arguments),
            "notebook": self._notebook_id,
            "fetched_at": self._clock.now().isoformat(),
            "properties": {"rows": head.row_count, "columns": head.column_count},
        }
        logical_id = data_object_logical_id(provenance=provenance)
        given = ", ".join(f"{name}={told!r}" for name, told in arguments.items())
        entry, reused = self._publish(
            self._entry(
                "data_object", logical_id, encoded.data, f"{tool}({given})"[:MAX_TITLE], "", run_id
            ),
            encoded.data,
            (),
            canonical_sha=encoded.canonical_sha,
            provenance=provenance,
        )
        return _published(entry, reused)

    def publish_chart(
        self,
        value: object,
        *,
        variable: str,
        title: str,
        description: str = "",
        lineage: Iterable[VariableOrigin],
        run_id: str,
        script: str | None = None,
        seen: Collection[LiveName] = (),
    ) -> Published:
        """Publish an Altair chart as Vega-Lite, with a picture where one can be made.

        Arguments and errors are those of ``publish_dataset``.
        """
        origins = _known_lineage(variable, lineage)
        title = _checked_title(title, repr(variable))
        encoded, spec = encode_chart(value, variable)
        datasets, others = self._what_it_is_made_from(origins)
        logical_id = chart_logical_id(
            notebook=self._notebook_id,
            variable_name=variable,
            source_datasets=datasets,
            sources=others,
        )
        sources = self._measured(origins)
        entry, reused = self._publish(
            self._entry("chart", logical_id, encoded.data, title, description, run_id),
            encoded.data,
            seen,
            **self._provenance(variable, origins, script),
            sources=sources,
            canonical_sha=encoded.canonical_sha,
        )
        png, note = render_png(spec)
        figure = FigureObject(
            name=variable,
            title=entry.title,
            description=": ".join(part for part in (describe_chart(spec), description) if part),
            spec=spec,
            png_base64=None if png is None else base64.b64encode(png).decode("ascii"),
        )
        note = " ".join(part for part in (stale_note(sources), note) if part)
        return _published(entry, reused, figure=figure, note=note)

    def publish_notebook(
        self,
        code: str,
        *,
        name: str,
        description: str = "",
        run_id: str,
        seen: Collection[LiveName] = (),
    ) -> Published:
        """Publish a script under ``name``, whose base name is its id.

        Raises:
            PublishError: no name, no code, or the code is no Python.
            LiveNameCollisionError: another notebook published a script of that name.
            StorageError: it could not be written.
        """
        name = _checked_title(name, "The script")
        return self._publish_script(
            notebook_logical_id(name), code, name, description, run_id, seen
        )

    def edit_notebook(
        self, which: str, old: str, new: str, *, run_id: str, seen: Collection[LiveName] = ()
    ) -> Published:
        """Publish the script ``which`` with ``new`` in the place of ``old``.

        An edit that this run has made already is not made again.

        Raises:
            PublishError: ``old`` does not stand in it exactly once, or what results is no Python.
            UnknownArtifactError, SnapshotError: the script is not there.
            LiveNameCollisionError, StorageError: as for ``publish_notebook``.
        """
        entry = self._to_edit(which, "notebook")
        code = self.store.read(entry.ref).decode("utf-8", "surrogateescape")
        again = bool(run_id) and entry.run_id == run_id
        changed = _edited(code, old, new, f"the script {entry.name!r}", again=again)
        return self._publish_script(
            entry.logical_id, changed, entry.title, entry.description, run_id, seen
        )

    def publish_report(
        self,
        title: str,
        body: str,
        *,
        description: str = "",
        language: str = "",
        run_id: str,
        seen: Collection[LiveName] = (),
    ) -> Published:
        """Publish Markdown with references to artifacts, and write its page.

        The references are pinned to the newest snapshots. The artifacts that it shows are part of
        what it is, their snapshots are not: with new data it is the same report.

        Raises:
            ReportError: the body cannot be published; ``draft`` says what it may hold.
            UnknownArtifactError: it refers to what is not published.
            PublishError: no title.
            SnapshotError: a snapshot that it refers to is missing or damaged.
            LiveNameCollisionError: another notebook has a report of this title.
            StorageError: it could not be written.
        """
        title = _checked_title(title, "The report")
        report = draft(title, body, self.find, language)
        shown = {f"{ref.kind}/{ref.logical_id}" for ref in pinned_in(report.body)}
        logical_id = report_logical_id(title=report.title, embedded=shown)
        live_name = report_live_name(report.title)
        return self._publish_report(logical_id, live_name, report, description, run_id, seen)

    def edit_report(
        self, which: str, old: str, new: str, *, run_id: str, seen: Collection[LiveName] = ()
    ) -> Published:
        """Publish the report ``which`` with ``new`` in the place of ``old``.

        It stays the same artifact, whatever it shows afterwards. References that were pinned keep
        their snapshots; one that is written anew is pinned to the newest.

        Raises:
            PublishError: ``old`` does not stand in its body exactly once.
            Others: as for ``publish_report``.
        """
        entry = self._to_edit(which, "report")
        was = parse(self.store.read(entry.ref))
        again = bool(run_id) and entry.run_id == run_id
        body = _edited(was.body, old, new, f"the report {entry.name!r}", again=again)
        report = draft(was.title, body, self.find, was.language)
        return self._publish_report(
            entry.logical_id, entry.live_name, report, entry.description, run_id, seen
        )

    def renew_report(self, entry: LogEntry) -> Published:
        """Publish the report of ``entry`` with the newest snapshots of all that it shows.

        The sentences stay as they are, and the page says of when they are.
        It stays with the notebook that published it. Where nothing that it shows is another, it
        is the same snapshot.

        Raises:
            ReportError, UnknownArtifactError, SnapshotError: the report, or what it shows, is
                damaged or missing.
            LiveNameCollisionError: its title belongs to another notebook by now.
            StorageError: it could not be written.
        """
        was = parse(self.store.read(entry.ref))

        def newest(ref: ArtifactRef) -> ArtifactRef:
            latest = self.store.latest(ref.kind, ref.logical_id)
            return latest.ref if latest is not None else ref

        report = draft(was.title, pinned_anew(was.body, newest), self.find, was.language)
        return self._publish_report(
            entry.logical_id,
            entry.live_name,
            report,
            entry.description,
            "",
            (),
            notebook=entry.notebook,
        )

    def _publish_script(
        self,
        logical_id: str,
        code: str,
        title: str,
        description: str,
        run_id: str,
        seen: Collection[LiveName],
    ) -> Published:
        _check_python(code, title)
        data = f"{code.strip()}\n".encode("utf-8", "surrogatepass")
        entry = self._entry("notebook", logical_id, data, title, description, run_id)
        entry, reused = self._publish(entry, data, seen, live_name=logical_id)
        return _published(entry, reused)

    def _publish_report(
        self,
        logical_id: str,
        live_name: str,
        report: Report,
        description: str,
        run_id: str,
        seen: Collection[LiveName],
        *,
        notebook: str = "",
    ) -> Published:
        exhibits = {ref: self._exhibit(ref) for ref in pinned_in(report.body)}
        data = compose(report)
        entry, reused = self._publish(
            self._entry("report", logical_id, data, report.title, description, run_id),
            data,
            seen,
            live_name=live_name,
            embedded=tuple(map(reference, exhibits)),
            notebook=notebook or self._notebook,
        )
        worded_at = self._worded_at(entry, report)
        page = render_page(report, exhibits, entry, worded_at=worded_at)
        published = _published(entry, reused)
        try:
            path = write_page(self._pages, live_name, page, logical_id)
        except StorageError as exc:
            # The report itself is on the disk, and that is told.
            return replace(published, note=f"The page was not written. {exc}")
        return replace(published, page=_within(self.store.root, str(path)))

    def _worded_at(self, entry: LogEntry, report: Report) -> str:
        """When the sentences of ``report`` were written, where the snapshot of ``entry`` is newer.

        An edit writes them anew, whatever of them it leaves.
        """
        words = words_of(report.body)
        oldest = entry
        for earlier in reversed(self.store.history(entry.kind, entry.logical_id).entries):
            if earlier.content_sha != oldest.content_sha:
                try:
                    was = parse(self.store.read(earlier.ref))
                    same = words_of(was.body) == words
                except (ValueError, SnapshotError):
                    break
                if not same:
                    break
            oldest = earlier
        return oldest.published_at if oldest.content_sha != entry.content_sha else ""

    def _exhibit(self, ref: ArtifactRef) -> Exhibit:
        entry = self.store.find(reference(ref))
        return Exhibit(entry, self.store.read(ref), self.code_of(entry))

    def code_of(self, entry: LogEntry) -> str:
        """The code that made the snapshot of ``entry``; empty where it is not kept any more."""
        path = PurePosixPath(entry.code_path)
        try:
            code = self.store.read(ArtifactRef("notebook", path.parent.name, path.stem))
        except (ValueError, SnapshotError):
            return ""
        return code.decode("utf-8", "replace")

    def _to_edit(self, which: str, kind: str) -> LogEntry:
        found = self.find(which)
        if found.kind != kind:
            raise PublishError(
                f"{which!r} is a {found.kind} and no {kind}: publish it again instead."
            )
        return self.store.latest(kind, found.logical_id) or found

    def _entry(
        self, kind: str, logical_id: str, data: bytes, title: str, description: str, run_id: str
    ) -> LogEntry:
        return LogEntry(
            kind=kind,
            logical_id=logical_id,
            content_sha=snapshot_sha(kind, data),
            published_at=self._clock.now().isoformat(),
            run_id=run_id,
            notebook=self._notebook,
            title=title,
            description=description,
        )

    def _what_it_is_made_from(
        self, origins: Sequence[VariableOrigin]
    ) -> tuple[list[str], list[str]]:
        """The ids of the datasets among the sources, and the others. Which snapshot of an artifact
        it was does not make of what is made from it another thing."""
        datasets, others = split_datasets(sources_of(origins))
        return datasets, [self._object_of(source) or source for source in others]

    def _object_of(self, source: str) -> str | None:
        _, pool, rest = source.replace("\\", "/").partition(f"{ARTIFACT_FOLDER}/objects/")
        logical_id = self.store.object_at(f"{pool}{rest}") if pool else None
        return None if logical_id is None else f"data_object/{logical_id}"

    def _measured(self, origins: Sequence[VariableOrigin]) -> tuple[SourceFile, ...]:
        read = [state for origin in origins for state in origin.source_states]
        return tuple(measured(source, self._folder, read) for source in sources_of(origins))

    def _provenance(
        self, variable: str, origins: Sequence[VariableOrigin], script: str | None
    ) -> dict[str, object]:
        code = (script or producing_code(origins)).encode("utf-8", "surrogatepass")
        return {
            "variable": variable,
            "live_name": f"{self._notebook_id}/{variable}",
            "code_path": self.store.put("notebook", self._notebook_id, code).workspace_file_path,
            "inputs": tuple(InputRef(name=o.name, version=o.version) for o in origins),
            "folder": _within(self.store.root, str(self._folder)),
            "environment": environment(),
        }

    def _publish(
        self, entry: LogEntry, data: bytes, seen: Collection[LiveName], **more: object
    ) -> tuple[LogEntry, bool]:
        entry = entry.model_copy(update=more)
        read = {live_name_key(kind, name) for kind, name in seen}
        has_read = live_name_key(entry.kind, entry.live_name) in read

        def gives_up(owner: str) -> bool:
            # A notebook that was moved or deleted leaves its names to whoever comes next.
            return has_read or not (self.store.root / owner).exists()

        return self.store.publish(entry, data, gives_up=gives_up)

    def _id_of(self, origin: VariableOrigin) -> str:
        return notebook_logical_id(origin.notebook_path or self._notebook)


def _published(entry: LogEntry, reused: bool, **more: Any) -> Published:
    return Published(entry.ref, entry.path, entry.title, reused, live_name=entry.live_name, **more)


# What a slug drops and nobody misses.
_SEPARATORS = frozenset(" \t\n,.:;?!'\"()[]/_-–—…„“”‘’«»¿¡")


def report_live_name(title: str) -> str:
    """The live name of the report called ``title``, which is the name of its page as well.

    Its slug; where that is cut, or drops more than accents and what separates words, with the
    beginning of the title's digest after it: ``A+`` and ``A`` are two names.
    """
    slug = slug_from_title(title)
    is_whole = slug_from_title(f"{title} x") == f"{slug}_x"
    drops = any(
        not (letter.isalnum() or letter in _SEPARATORS or unicodedata.combining(letter))
        for letter in title
    )
    return slug if is_whole and not drops else f"{slug}-{content_sha(title.encode())[:6]}"


def _known_lineage(variable: str, lineage: Iterable[VariableOrigin]) -> list[VariableOrigin]:
    origins = list(lineage)
    if not origins:
        raise PublishError(
            f"Nothing is known about where {variable!r} came from, so it cannot be "
            "published: run the code that makes it in this notebook first."
        )
    return origins


def _checked_title(title: str, whose: str) -> str:
    if not title.strip():
        raise PublishError(f"{whose} needs a title: say in a few words what it shows.")
    if len(title) > MAX_TITLE:
        raise PublishError(
            f"The title of {whose} has {len(title)} characters and {MAX_TITLE} are allowed: put "
            "the rest in the description."
        )
    return title.strip()


def _check_python(code: str, name: str) -> None:
    if not code.strip():
        raise PublishError(f"The script {name!r} is empty: give its code.")
    _, error = parse_python(code)
    if error is not None:
        line = f" (line {error.lineno})" if isinstance(error, SyntaxError) and error.lineno else ""
        reason = error.msg if isinstance(error, SyntaxError) else str(error)
        raise PublishError(
            f"The script {name!r} is no Python: {reason}{line}; correct it, and leave out magics "
            "and shell commands."
        )


def _edited(text: str, old: str, new: str, where: str, *, again: bool) -> str:
    """``text`` with ``new`` in the place of ``old``. ``again`` says that it may be done already."""
    if not old:
        raise PublishError(f"Say which text of {where} is to be replaced: it is empty.")
    if again and new and text.count(new) == 1 and old not in text.replace(new, ""):
        return text
    found = text.count(old)
    if found != 1:
        times = "not" if not found else f"{found} times"
        remedy = "read it, and copy the text exactly" if not found else "give more of its context"
        raise PublishError(f"{_start(old)!r} stands {times} in {where}: {remedy}.")
    return text.replace(old, new)


def _start(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:59]}…"


def _within(root: Path, path: str) -> str:
    """``path`` relative to ``root`` where it lies below it, with forward slashes."""
    whole = root / path
    inside = whole.is_relative_to(root)
    return (whole.relative_to(root) if inside else whole).as_posix()
