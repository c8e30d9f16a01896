"""Values between a kernel somewhere else and here: small plain ones as JSON, tables as Arrow."""

import base64
import io
import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from parsimony_kernel.core.outputs import KernelOutputType
from parsimony_kernel.execution.inspection import comes_from, plain, type_name
from parsimony_kernel.lineage.classes import package_of

# What ``fetch`` brings at most, in bytes of Arrow or JSON.
FETCH_BYTES = 64_000_000
PLAIN_BYTES = 10_000
_PLAIN_DEPTH = 20


@dataclass(frozen=True)
class RemoteValue:
    """A variable that stays in its kernel: its name, its type in words, and a summary of what it
    was when it was last bound or changed.
    """

    name: str
    type: str
    summary: KernelOutputType
    _bring: Callable[[str, int], Any] = field(repr=False, compare=False)

    def fetch(self, max_bytes: int = FETCH_BYTES) -> Any:
        """The value that the variable has now: a table of pandas, polars or pyarrow as one, a
        chart as its dict, plain values as they are. Waits for code that runs.

        Raises ``RemoteKernelError`` when it is gone, of another type, or larger than
        ``max_bytes``; the message says what to do instead.
        """
        return self._bring(self.name, max_bytes)

    def __repr__(self) -> str:
        return f"<{self.name}: {self.type} in another kernel; .fetch() brings it>"


def encode_plain(value: Any, limit: int = PLAIN_BYTES) -> str | None:
    """``value`` as JSON where it consists of plain values and is small, else ``None``.

    No code of the user's runs: only exact built-in types are looked into.
    """
    room = [limit]
    if not _is_plain(value, room, _PLAIN_DEPTH):
        return None
    try:
        text = json.dumps(value)
    except (ValueError, RuntimeError):
        # An integer of too many digits, or a list that a thread changes meanwhile.
        return None
    return text if len(text) <= limit else None


def _is_plain(value: Any, room: list[int], depth: int) -> bool:
    kind = type(value)
    room[0] -= len(value) + 2 if kind is str else 2
    if room[0] < 0 or depth < 0:
        return False
    if value is None or kind in (bool, int, float, str):
        return True
    if kind is list:
        return all(_is_plain(each, room, depth - 1) for each in value.copy())
    if kind is dict:
        return all(
            type(key) is str and _is_plain(key, room, 0) and _is_plain(each, room, depth - 1)
            for key, each in value.copy().items()
        )
    return False


def type_in_words(value: Any) -> str:
    """The type of ``value`` with its package: ``pandas.DataFrame``, ``list``."""
    package = plain(package_of(type(value)))
    name = type_name(value)
    return name if package in ("", "builtins", "__main__") else f"{package}.{name}"


def encode(variables: Mapping[str, Any], name: str, limit: int) -> dict[str, str]:
    """The table or chart ``name`` as bytes in base64, with the form that they have.

    Raises ``LookupError``, ``TypeError`` or ``ValueError``, which say what to do instead.
    """
    if name not in variables:
        raise LookupError(f"no variable of the kernel is named {name!r} now")
    value = variables[name]

    def check(size: int, fold: int = 1) -> None:
        if size > fold * limit:
            raise ValueError(
                f"{name!r} holds {size / 1e6:,.0f} MB and at most {limit / 1e6:,.0f} MB are "
                "brought over: make the part or the sum that is needed with code, and fetch that"
            )

    form, table, text = "json", None, encode_plain(value, limit)
    if comes_from(value, "altair", "TopLevelMixin"):
        text = json.dumps(value.to_dict(), default=str)
    elif comes_from(value, "pandas", "DataFrame", "Series"):
        import pyarrow as pa

        form = "series" if comes_from(value, "pandas", "Series") else "pandas"
        frame = value.to_frame() if form == "series" else value
        # Bytes in Arrow may be fewer than in memory, but hardly by so much.
        check(int(frame.memory_usage(index=True, deep=False).sum()), 4)
        table = pa.Table.from_pandas(frame)
    elif comes_from(value, "polars", "DataFrame"):
        form, table = "polars", value.to_arrow()
    elif comes_from(value, "pyarrow", "Table", "RecordBatch"):
        form, table = "arrow", sys.modules["pyarrow"].table(value)
    elif text is None:
        raise TypeError(
            f"{name!r} is of the type {type_in_words(value)}, which does not leave its "
            "kernel: tables, Altair charts and plain values do. Turn it into one of these with code"
        )
    if table is None:
        data = str(text).encode()
    else:
        check(table.nbytes)
        sink = io.BytesIO()
        with sys.modules["pyarrow"].ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        data = sink.getvalue()
    check(len(data))
    return {"form": form, "data": base64.b64encode(data).decode()}


def decode(form: str, data: str) -> Any:
    """The value that ``encode`` has put into base64."""
    raw = base64.b64decode(data)
    if form == "json":
        return json.loads(raw)
    import pyarrow as pa

    with pa.ipc.open_stream(raw) as reader:
        table = reader.read_all()
    if form == "polars":
        try:
            import polars
        except ImportError:
            return table
        return polars.from_arrow(table)
    if form == "arrow":
        return table
    frame = table.to_pandas()
    return frame if form == "pandas" else frame.iloc[:, 0]
