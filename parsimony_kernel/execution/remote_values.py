"""Transfer values from a kernel to here: small plain ones as JSON, tables as Arrow."""

import base64
import io
import json
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from parsimony_kernel.core.outputs import KernelOutputType
from parsimony_kernel.execution.inspection import comes_from, plain, type_name
from parsimony_kernel.lineage.classes import package_of

# The largest value that ``fetch`` transfers by default, in bytes of Arrow or JSON.
FETCH_BYTES = 64_000_000
_SCALARS = (bool, int, float, str, type(None))
_SCALAR_CHARS = 10_000


@dataclass(frozen=True)
class RemoteValue:
    """A variable that stays in its kernel.

    Holds its name, its type in words, and a summary of it from when it last changed.
    """

    name: str
    type: str
    summary: KernelOutputType
    _bring: Callable[[str, int], Any] = field(repr=False, compare=False)

    def fetch(self, max_bytes: int = FETCH_BYTES) -> Any:
        """Transfer the variable's current value, after running code has ended.

        Args:
            max_bytes: the largest value to transfer, in bytes of Arrow or JSON.

        Returns:
            A table of pandas as the same, one of polars or pyarrow as a pyarrow table, an Altair
            chart as its dict, a plain value as it is.

        Raises:
            RemoteKernelError: when it is gone, of another type, or larger than ``max_bytes``; the
                message says what to do instead.
        """
        return self._bring(self.name, max_bytes)

    def __repr__(self) -> str:
        return f"<{self.name}: {self.type} in another kernel; .fetch() brings it>"


def encode_scalar(value: Any) -> str | None:
    """Return a number, a short text, a truth value or ``None`` as JSON; else ``None``."""
    is_short = type(value) in _SCALARS and (type(value) is not str or len(value) <= _SCALAR_CHARS)
    return encode_plain(value) if is_short else None


def encode_plain(value: Any) -> str | None:
    """Return ``value`` as JSON if it is plain, else ``None``."""
    # Not plain, an integer with too many digits, nested too deep, or changed by a thread.
    with suppress(TypeError, ValueError, RuntimeError):
        plain_size(value)
        return json.dumps(value)
    return None


def plain_size(value: Any) -> int:
    """Return how many characters ``value`` takes at least as JSON; ``TypeError`` if it isn't plain.

    Runs no code of the user's: only exact built-in types are inspected.
    """
    if type(value) is str:
        return len(value)
    if type(value) is list:
        return len(value) + sum(plain_size(each) for each in value)
    if type(value) is dict and all(type(key) is str for key in value):
        return sum(len(key) + plain_size(each) for key, each in value.items())
    if type(value) not in _SCALARS:
        raise TypeError
    return 1


def type_in_words(value: Any) -> str:
    """Return the type of ``value`` with its package: ``pandas.DataFrame``, ``list``."""
    package = plain(package_of(type(value)))
    name = type_name(value)
    return name if package in ("", "builtins", "__main__") else f"{package}.{name}"


def encode(variables: Mapping[str, Any], name: str, limit: int) -> dict[str, str]:
    """Encode the variable ``name`` as base64, with its format.

    Args:
        variables: the variables of the kernel.
        name: the variable to encode: a table, a chart or a plain value.
        limit: the largest result, in bytes.

    Returns:
        ``form`` ("json", "pandas", "series" or "arrow") and ``data``, in base64.

    Raises:
        LookupError: when there is no such variable.
        TypeError: when its type can't be transferred.
        ValueError: when it is larger than ``limit``.
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

    with suppress(TypeError, RuntimeError):
        check(plain_size(value))
    form, table, text = "json", None, encode_plain(value)
    if comes_from(value, "altair", "TopLevelMixin"):
        text = json.dumps(value.to_dict(), default=str)
    elif comes_from(value, "pandas", "DataFrame", "Series"):
        import pyarrow as pa

        form = "series" if comes_from(value, "pandas", "Series") else "pandas"
        frame = value.to_frame() if form == "series" else value
        # Arrow may take fewer bytes than memory, but hardly less than a quarter.
        check(int(frame.memory_usage(index=True, deep=False).sum()), 4)
        table = pa.Table.from_pandas(frame)
    elif comes_from(value, "polars", "DataFrame"):
        form, table = "arrow", value.to_arrow()
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
    """Decode a value encoded by ``encode``."""
    raw = base64.b64decode(data)
    if form == "json":
        return json.loads(raw)
    import pyarrow as pa

    with pa.ipc.open_stream(raw) as reader:
        table = reader.read_all()
    if form == "arrow":
        return table
    frame = table.to_pandas()
    return frame if form == "pandas" else frame.iloc[:, 0]
