"""Variables of a kernel somewhere else, as they are seen from here."""

import base64
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from parsimony_kernel.core.outputs import KernelOutputType

# What ``fetch`` brings at most, in bytes of Arrow or JSON.
FETCH_BYTES = 64_000_000


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


def value_from(name: str, told: dict[str, Any], bring: Callable[[str, int], Any]) -> Any:
    """What stands for a variable here: a plain value itself, else a ``RemoteValue``."""
    if "plain" in told:
        return json.loads(told["plain"])
    from pydantic import TypeAdapter

    summary = TypeAdapter(KernelOutputType).validate_python(told["summary"])
    return RemoteValue(name, told["type"], summary, bring)


def brought(form: str, data: str) -> Any:
    """The value whose bytes came in base64."""
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
