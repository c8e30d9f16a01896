"""Publishing a variable: its bytes, the code that made it, and what it was made from.

The rule of the place: lineage comes from the ledger and from nowhere else, so what nobody is
known to have made cannot be published. Everything here blocks; callers keep it off the loop.
"""

import base64
import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

from parsimony_kernel.artifacts.chart_words import describe_chart
from parsimony_kernel.artifacts.codecs import Encoded, encode_chart, encode_dataset, render_png
from parsimony_kernel.artifacts.store import ArtifactStore, LogEntry, SourceFile
from parsimony_kernel.clock import SYSTEM_CLOCK, Clock
from parsimony_kernel.execution.outputs import FigureObject
from parsimony_kernel.identity import (
    ARTIFACT_FOLDER,
    ArtifactRef,
    chart_logical_id,
    dataset_logical_id,
    notebook_logical_id,
    snapshot_sha,
)
from parsimony_kernel.lineage.ledger import InputRef, VariableOrigin

MAX_HASHED_BYTES = 200 * 1024 * 1024
MAX_TITLE = 200


class PublishError(ValueError):
    """A variable cannot be published. ``str()`` is one sentence with the remedy."""


@dataclass(frozen=True)
class Published:
    """A snapshot that is on the disk.

    ``path`` is relative to the workspace, with forward slashes. ``figure`` is what a chart shows;
    ``note`` says what is missing from it, if anything.
    """

    ref: ArtifactRef
    path: str
    title: str
    reused: bool
    figure: FigureObject | None = None
    note: str = ""


class Publisher:
    """Publishes the variables of one notebook.

    Args:
        store: the workspace's artifacts.
        notebook_path: the notebook, relative to the workspace or absolute.
        clock: the time of the log lines.
        folder: what relative sources are relative to; by default the notebook's folder.
    """

    def __init__(
        self,
        store: ArtifactStore,
        *,
        notebook_path: str,
        clock: Clock = SYSTEM_CLOCK,
        folder: Path | None = None,
    ) -> None:
        self._store = store
        self._clock = clock
        self._notebook = _within(store.root, notebook_path)
        self._notebook_id = notebook_logical_id(self._notebook)
        self._folder = folder or (store.root / notebook_path).parent

    def publish_dataset(
        self,
        value: object,
        *,
        variable: str,
        title: str,
        description: str = "",
        lineage: Iterable[VariableOrigin],
        run_id: str,
    ) -> Published:
        """Publish a table as Parquet.

        Args:
            value: the live object.
            lineage: the ledger's ancestry of ``variable``, newest first.

        Raises:
            PublishError: no title, or nothing is known about where the variable came from.
            CodecError: the value is no table that can be stored.
            LiveNameCollisionError: another notebook of the same name owns this variable's place.
            StorageError: it could not be written.
        """
        origins = self._checked(variable, title, lineage)
        encoded = encode_dataset(value, variable)
        notebooks = {self._id_of(origin) for origin in origins} | {self._notebook_id}
        logical_id = dataset_logical_id(
            notebook_ids=notebooks, variable_name=variable, sources=_sources(origins)
        )
        entry, reused = self._publish(
            "dataset", logical_id, encoded, variable, title, description, origins, run_id
        )
        return Published(entry.ref, entry.path, entry.title, reused)

    def publish_chart(
        self,
        value: object,
        *,
        variable: str,
        title: str,
        description: str = "",
        lineage: Iterable[VariableOrigin],
        run_id: str,
    ) -> Published:
        """Publish an Altair chart as Vega-Lite, with a picture where one can be made.

        Arguments and errors are those of ``publish_dataset``.
        """
        origins = self._checked(variable, title, lineage)
        encoded, spec = encode_chart(value, variable)
        datasets, sources = _split_datasets(_sources(origins))
        logical_id = chart_logical_id(
            notebook=self._notebook_id,
            variable_name=variable,
            source_datasets=datasets,
            sources=sources,
        )
        entry, reused = self._publish(
            "chart", logical_id, encoded, variable, title, description, origins, run_id
        )
        png, note = render_png(spec)
        figure = FigureObject(
            name=variable,
            title=entry.title,
            description=": ".join(part for part in (describe_chart(spec), description) if part),
            spec=spec,
            png_base64=None if png is None else base64.b64encode(png).decode("ascii"),
        )
        return Published(entry.ref, entry.path, entry.title, reused, figure, note)

    def _checked(
        self, variable: str, title: str, lineage: Iterable[VariableOrigin]
    ) -> list[VariableOrigin]:
        if not title.strip():
            raise PublishError(f"{variable!r} needs a title: say in a few words what it shows.")
        if len(title) > MAX_TITLE:
            raise PublishError(
                f"The title of {variable!r} has {len(title)} characters and {MAX_TITLE} are "
                "allowed: put the rest in the description."
            )
        origins = list(lineage)
        if not origins:
            raise PublishError(
                f"Nothing is known about where {variable!r} came from, so it cannot be "
                "published: run the code that makes it in this notebook first."
            )
        return origins

    def _publish(
        self,
        kind: str,
        logical_id: str,
        encoded: Encoded,
        variable: str,
        title: str,
        description: str,
        origins: Sequence[VariableOrigin],
        run_id: str,
    ) -> tuple[LogEntry, bool]:
        code = producing_code(origins).encode("utf-8", "surrogatepass")
        entry = LogEntry(
            kind=kind,
            logical_id=logical_id,
            content_sha=snapshot_sha(kind, encoded.data),
            canonical_sha=encoded.canonical_sha,
            published_at=self._clock.now().isoformat(),
            run_id=run_id,
            notebook=self._notebook,
            variable=variable,
            title=title.strip(),
            description=description,
            live_name=f"{self._notebook_id}/{variable}",
            code_path=self._store.put("notebook", self._notebook_id, code).workspace_file_path,
            inputs=tuple(InputRef(name=o.name, version=o.version) for o in origins),
            sources=tuple(self._measured(source) for source in _sources(origins)),
        )
        return self._store.publish(entry, encoded.data, gives_up=self._is_gone)

    def _is_gone(self, owner: str) -> bool:
        # A notebook that was moved or deleted leaves its names to whoever comes next.
        return not (self._store.root / owner).exists()

    def _id_of(self, origin: VariableOrigin) -> str:
        return notebook_logical_id(origin.notebook_path or self._notebook)

    def _measured(self, source: str) -> SourceFile:
        if "://" in source:
            return SourceFile(path=source)
        path = self._folder / source
        try:
            size = path.stat().st_size
            if not path.is_file() or size > MAX_HASHED_BYTES:
                return SourceFile(path=source, size_bytes=size if path.is_file() else None)
            with path.open("rb") as stream:
                digest = hashlib.file_digest(stream, "sha256").hexdigest()
        except (OSError, ValueError):  # gone, unreadable, or no path at all: the name is kept
            return SourceFile(path=source)
        return SourceFile(path=source, size_bytes=size, sha256=digest)


def _within(root: Path, path: str) -> str:
    """``path`` relative to ``root`` where it lies below it, with forward slashes."""
    whole = root / path
    inside = whole.is_relative_to(root)
    return (whole.relative_to(root) if inside else whole).as_posix()


def _sources(origins: Iterable[VariableOrigin]) -> list[str]:
    return sorted({source for origin in origins for source in origin.sources})


def _split_datasets(sources: Iterable[str]) -> tuple[list[str], list[str]]:
    """The logical ids of the published datasets among ``sources``, and the other sources."""
    datasets, others = set(), []
    marker = f"{ARTIFACT_FOLDER}/datasets/"
    for source in sources:
        _, found, rest = source.replace("\\", "/").partition(marker)
        if found and "/" in rest:
            datasets.add(rest.partition("/")[0])
        else:
            others.append(source)
    return sorted(datasets), others


# One run of one cell: when, in which run, which cell, which code.
_CellRun = tuple[str, str, str, str]


def producing_code(origins: Sequence[VariableOrigin]) -> str:
    """The cells that made a variable as one script, each after what it reads, oldest first.

    A cell that bound several of the variables stands once for each time it ran.
    """
    cells: dict[_CellRun, VariableOrigin] = {}
    cell_of: dict[tuple[str, int], _CellRun] = {}
    for origin in origins:
        ran = (origin.at, origin.run_id, origin.cell_id, origin.code_sha)
        cells.setdefault(ran, origin)
        cell_of[(origin.name, origin.version)] = ran
    before: dict[_CellRun, set[_CellRun]] = {ran: set() for ran in cells}
    for origin in origins:
        ran = cell_of[(origin.name, origin.version)]
        read = {cell_of.get((ref.name, ref.version), ran) for ref in origin.inputs}
        before[ran] |= read - {ran}
    blocks = [f"# %% {cells[ran].actor}\n{cells[ran].code.strip()}\n" for ran in _in_order(before)]
    return "\n".join(blocks)


def _in_order(
    before: dict[_CellRun, set[_CellRun]],
) -> list[_CellRun]:
    sorter = TopologicalSorter(before)
    try:
        sorter.prepare()
    except CycleError:  # stamps that contradict one another: time decides
        return sorted(before)
    ordered: list[_CellRun] = []
    waiting: list[_CellRun] = []
    while sorter.is_active():
        waiting = sorted([*waiting, *sorter.get_ready()])
        ordered.append(waiting.pop(0))
        sorter.done(ordered[-1])
    return ordered
