"""Encode live objects as snapshots: tables as Parquet, charts as Vega-Lite.

Rule: the same content, encoded by the same library versions, gives the same bytes. pandas, pyarrow,
altair and vl-convert are imported here on first use, and type checks don't import the package that
defines the type.
"""

import io
import re
import struct
import sys
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from parsimony_kernel.core.errors import SessionError
from parsimony_kernel.identity import canonical_json
from parsimony_kernel.lineage.classes import TABLES, package_among

_PNG = b"\x89PNG\r\n\x1a\n"
PNG_SCALE = 1.5
_FEW_ROWS = 10_000
# The same as a model sees of a table, so that a page shows the rows its text refers to.
HEAD_ROWS = 40
HEAD_COLUMNS = 12
_CELL_CHARS = 60

Spec = dict[str, Any]


class CodecError(SessionError, ValueError):
    """A value can't be published as asked. ``str()`` is one sentence with the remedy."""


class Parquet(bytes):
    """A table encoded as a Parquet file."""


def type_name(value: object) -> str:
    """Return the type of ``value`` with its top-level package: ``pandas.DataFrame``, ``list``."""
    cls = type(value)
    package = cls.__module__.partition(".")[0]
    return cls.__qualname__ if package == "builtins" else f"{package}.{cls.__qualname__}"


def is_table(value: object) -> bool:
    """Return whether ``value`` is a frame or a column of an imported library."""
    return _is_pandas(value) or bool(package_among(type(value), TABLES)) or _gives_arrow(value)


def is_chart(value: object) -> bool:
    """Return whether ``value`` is an Altair chart."""
    altair = sys.modules.get("altair")
    return altair is not None and isinstance(value, altair.TopLevelMixin)


def _is_pandas(value: object) -> bool:
    pandas = sys.modules.get("pandas")
    return pandas is not None and isinstance(value, pandas.DataFrame | pandas.Series)


def _gives_arrow(value: object) -> bool:
    """Return whether ``value`` exports an Arrow stream (the Arrow PyCapsule interface)."""
    return hasattr(type(value), "__arrow_c_stream__")


# -- tables


def encode_dataset(value: object, variable: str) -> Parquet:
    """Encode a table as Parquet, with the writer of its own library.

    A lazy table (a lazy frame, a relation, a table of a cluster) is computed; its result is
    streamed to a file if the library supports it, and else held in memory. A meaningful pandas
    index becomes columns: a named one, several levels, labels other than integers, and any index of
    a Series other than the default one. The row numbers of a frame are dropped.

    Args:
        value: a frame, a column or a lazy table of a library in ``TABLES``, or any object that
            exports an Arrow stream.
        variable: its name, for an unnamed column and for errors.

    Raises:
        CodecError: it isn't a table, can't be computed, or a column can't be stored.
    """
    write = _WRITERS.get(package_among(type(value), TABLES))
    if write is None and _is_pandas(value):
        return _encode_pandas(_flat_frame(value, variable), variable)
    if write is None and not _gives_arrow(value):
        pandas = "convert it to a DataFrame of pandas first"
        remedy = "publish it with return_chart" if is_chart(value) else pandas
        raise CodecError(
            f"{variable!r} is of type {type_name(value)!r}, not a DataFrame: {remedy}."
        )
    return _encode_by(write or _write_arrow, value, variable)


def _encode_pandas(frame: Any, variable: str) -> Parquet:
    import pyarrow.parquet  # deferred: a large library

    _check_columns(list(frame.columns), variable)
    sink = io.BytesIO()
    try:
        # For a small frame, starting threads takes longer than converting it.
        threads = 1 if len(frame) < _FEW_ROWS else None
        table = pyarrow.Table.from_pandas(frame, preserve_index=False, nthreads=threads)
        pyarrow.parquet.write_table(table, sink)
    except (pyarrow.ArrowException, NotImplementedError, OverflowError, TypeError) as exc:
        reason = " ".join("; ".join(map(str, exc.args)).split())  # the last names the column
        raise CodecError(
            f"{variable!r} holds values that Parquet cannot store together ({reason.rstrip('.')}): "
            f"convert that column to one type, for example {variable}['…'].astype(str)."
        ) from exc
    return Parquet(sink.getvalue())


def _encode_by(write: Callable[[Any, str, Path], object], value: object, variable: str) -> Parquet:
    """Encode ``value`` with a library's own writer, through a temporary file."""
    import pyarrow.parquet  # deferred: a large library

    with TemporaryDirectory() as folder:
        path = Path(folder) / "table.parquet"
        try:
            write(value, variable, path)
            names = pyarrow.parquet.read_schema(path).names
        except Exception as exc:  # boundary: user object - what the plan computes may do anything
            raise CodecError(
                f"{type_name(value)} can't write {variable!r} as Parquet ({_first_line(exc)}): "
                "collect it in code first, and publish the result."
            ) from exc
        _check_columns(names, variable)
        return Parquet(path.read_bytes())


# The writers of each library. Results of lazy tables are written to the file in batches.


def _write_polars(value: Any, variable: str, path: Path) -> None:
    if hasattr(value, "to_frame"):
        value = value.alias(value.name or variable).to_frame()
    (value.sink_parquet if hasattr(value, "sink_parquet") else value.write_parquet)(path)


def _write_arrow(value: Any, variable: str, path: Path) -> None:
    import pyarrow as pa  # deferred: a large library
    from pyarrow.parquet import ParquetWriter

    if isinstance(value, pa.Array | pa.ChunkedArray):
        value = pa.table([value], [variable])
    elif not _gives_arrow(value):  # a data set, or a scanner of one
        value = (value.scanner() if hasattr(value, "scanner") else value).to_reader()
    is_reader = isinstance(value, pa.RecordBatchReader)
    reader = value if is_reader else pa.RecordBatchReader.from_stream(value)
    with ParquetWriter(path, reader.schema) as writer:
        for batch in reader:  # its types may differ from the reader's
            writer.write_batch(batch.cast(reader.schema))


def _write_dask(value: Any, variable: str, path: Path) -> None:
    value = value.compute()
    if not hasattr(value, "columns"):  # the row numbers of a column begin anew in each partition
        value = value.to_frame(name=variable if value.name is None else value.name)
    path.write_bytes(_encode_pandas(_flat_frame(value, variable), variable))


_WRITERS: Mapping[str, Callable[[Any, str, Path], object]] = {
    "dask": _write_dask,
    "duckdb": lambda value, variable, path: value.write_parquet(str(path)),
    "ibis": lambda value, variable, path: value.as_table().to_parquet(path),
    "polars": _write_polars,
    "pyarrow": _write_arrow,
}


def _flat_frame(value: Any, variable: str) -> Any:
    import pandas as pd  # deferred: it is imported already when this runs

    index = value.index
    plain = isinstance(index, pd.RangeIndex) and index.start == 0 and index.step == 1
    numbered = index.nlevels == 1 and pd.api.types.is_integer_dtype(index.dtype)
    if isinstance(value, pd.Series):
        keep = index.name is not None or not plain
        frame = value.to_frame(variable if value.name is None else value.name)
    else:
        keep = any(name is not None for name in index.names) or not numbered
        frame = value.copy(deep=False)
    frame.attrs = {}  # metadata of other libraries, which may not be JSON
    frame.columns = pd.Index([_column_name(c) for c in frame.columns], dtype=object)
    if not keep:
        return frame.reset_index(drop=True)
    named = [None if name is None else _column_name(name) for name in index.names]
    return frame.rename_axis(index=named).reset_index(allow_duplicates=True)


def _column_name(name: object) -> str:
    if isinstance(name, tuple):  # a header of several levels
        return "_".join(str(part) for part in name if str(part))
    return str(name)


def _check_columns(names: Sequence[str], variable: str) -> None:
    if not names:
        raise CodecError(
            f"{variable!r} has no columns, so there is nothing to publish: give it at least one."
        )
    repeated = next((name for name in names if names.count(name) > 1), None)
    if repeated is not None:
        raise CodecError(
            f"{variable!r} has more than one column named {repeated!r}, counting an index that is "
            "kept: rename one of them."
        )


@dataclass(frozen=True)
class TableHead:
    """The head of a stored table: column names, column types, and rows as short strings.

    ``row_count`` and ``column_count`` are those of the whole table; an empty string is a missing
    value.
    """

    columns: tuple[str, ...]
    types: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    row_count: int
    column_count: int


def table_head(data: bytes, *, rows: int = HEAD_ROWS, columns: int = HEAD_COLUMNS) -> TableHead:
    """Read the first rows and columns of the Parquet file ``data``.

    Raises:
        CodecError: it isn't a Parquet file.
    """
    import pyarrow.parquet  # deferred: a large library

    try:
        file = pyarrow.parquet.ParquetFile(pyarrow.BufferReader(data))
        batch = next(file.iter_batches(batch_size=max(rows, 1)), None)
    except (pyarrow.ArrowException, OSError) as exc:
        raise CodecError(
            f"The table can't be read ({_first_line(exc)}): publish it again."
        ) from exc
    fields = list(file.schema_arrow)[:columns]
    cells = [
        [] if batch is None else list(map(_cell, batch.column(number)[:rows].to_pylist()))
        for number in range(len(fields))
    ]
    return TableHead(
        columns=tuple(field.name for field in fields),
        types=tuple(str(field.type) for field in fields),
        rows=tuple(zip(*cells, strict=True)),
        row_count=file.metadata.num_rows,
        column_count=len(file.schema_arrow),
    )


def decode_dataset(data: bytes) -> Any:
    """Read the Parquet file ``data`` as a pandas ``DataFrame``.

    This doesn't use ``pandas.read_parquet``, which reads a data set of files: its reader threads
    outlive the call and sometimes abort a process that exits soon afterwards with SIGABRT
    (pyarrow 26: 18 of 500 short processes; none of 450 with this code).
    """
    import pyarrow.parquet  # deferred: a large library

    return pyarrow.parquet.ParquetFile(pyarrow.BufferReader(data)).read().to_pandas()


def _cell(value: object) -> str:
    if value is None or value != value:
        return ""
    if isinstance(value, float):
        plain = not value or 1e-3 <= abs(value) < 1e15
        return f"{value:.4f}".rstrip("0").rstrip(".") if plain else f"{value:.4g}"
    text = " ".join(str(value).removesuffix(" 00:00:00").split())
    return text if len(text) <= _CELL_CHARS else f"{text[: _CELL_CHARS - 1]}…"


# -- charts


def encode_chart(value: object, variable: str) -> tuple[bytes, Spec]:
    """Encode an Altair chart or a Vega-Lite specification as canonical JSON.

    Raises:
        CodecError: it isn't a chart, isn't valid, or has too many rows.
    """
    if not is_chart(value) and not _is_spec(value):
        built = f"build one with alt.Chart({variable if is_table(value) else '…'}).mark_bar()"
        raise CodecError(
            f"{variable!r} is of type {type_name(value)!r}, not an Altair chart: "
            f"{'publish it with return_dataset, or ' if is_table(value) else ''}{built}.encode(…)."
        )
    import altair  # deferred: a large library
    import jsonschema  # type: ignore[import-untyped]

    chart: Any = value
    try:
        if _is_spec(value):
            altair.Chart.from_dict(chart)  # validates it
        spec: Spec = dict(chart) if _is_spec(value) else chart.to_dict()
        data = canonical_json(spec)
    except (altair.MaxRowsError, jsonschema.ValidationError, ValueError, TypeError) as exc:
        raise CodecError(
            f"The chart {variable!r} is not valid ({_first_line(exc)}): correct it, or aggregate "
            "its data first, and publish it again."
        ) from exc
    return data, spec


def _is_spec(value: object) -> bool:
    return isinstance(value, dict) and "vega-lite" in str(value.get("$schema", ""))


def render_png(spec: Spec, scale: float = PNG_SCALE) -> tuple[bytes | None, str]:
    """Render ``spec`` as PNG at ``scale`` pixels per point.

    Nothing is fetched: a chart with remote data has no picture.

    Returns:
        The picture and ``""``, or ``None`` and the reason in a sentence.
    """
    png, problem = _drawn("vegalite_to_png", spec, scale=scale)
    return (None if png is None else _packed(png)), problem


def _packed(png: bytes) -> bytes:
    """Recompress a PNG to about a sixth of its size: the renderer hardly compresses."""
    chunks, at = list[tuple[bytes, bytes]](), len(_PNG)
    while at < len(png):
        (size,) = struct.unpack_from(">I", png, at)
        chunks.append((png[at + 4 : at + 8], png[at + 8 : at + 8 + size]))
        at += size + 12  # plus length, type and checksum
    pixels = zlib.decompress(b"".join(data for kind, data in chunks if kind == b"IDAT"))
    packed = {b"IHDR": dict(chunks)[b"IHDR"], b"IDAT": zlib.compress(pixels, 9), b"IEND": b""}
    return _PNG + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in packed.items()
    )


def render_svg(spec: Spec) -> tuple[str | None, str]:
    """Render ``spec`` as SVG, or return ``None`` and the reason. Nothing is fetched."""
    return _drawn("vegalite_to_svg", spec)


# Characters not allowed in XML. The renderer draws SVG first, and one of them ends the process.
_NOT_IN_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")


def _printable(part: Any) -> Any:
    """Replace the characters in a specification that SVG can't contain by U+FFFD."""
    match part:
        case str():
            return _NOT_IN_XML.sub("\ufffd", part)
        case Mapping():
            return {_printable(key): _printable(value) for key, value in part.items()}
        case list() | tuple():
            return [_printable(each) for each in part]
    return part


def _drawn(how: str, spec: Spec, **given: Any) -> tuple[Any, str]:
    try:
        import vl_convert  # deferred: it starts a JavaScript engine

        return getattr(vl_convert, how)(_printable(spec), allowed_base_urls=[], **given), ""
    except (ImportError, ValueError) as exc:
        _, _, reason = str(exc).strip().partition("\n")  # the first line says that it failed
        return None, f"The chart could not be drawn: {_first_line(reason or exc)}."


def _first_line(said: object) -> str:
    lines = [line.strip() for line in str(said).splitlines() if line.strip()]
    text = lines[0] if lines else type(said).__name__
    return (text if len(text) <= 200 else f"{text[:199]}…").rstrip(".:")
