"""The size of a whole text.

A record that outgrows its budget loses its middle, never its request or its outcome, and says so.
"""

from collections.abc import Callable, Sequence

TEXT_BYTES = 256 * 1024


def fit(pieces: Sequence[str], said: Callable[[str], str], limit: int = TEXT_BYTES) -> list[str]:
    """``pieces`` within ``limit`` bytes of UTF-8; what is left out is told by ``said``."""
    sizes = [len(piece.encode("utf-8", "replace")) + 2 for piece in pieces]
    if sum(sizes) <= limit:
        return list(pieces)
    half = (limit - 200) // 2
    first, room = 0, half
    while first < len(pieces) and sizes[first] <= room:
        room -= sizes[first]
        first += 1
    last, room = len(pieces), half
    while last > first and sizes[last - 1] <= room:
        last -= 1
        room -= sizes[last]
    left_out = last - first
    parts = "1 part" if left_out == 1 else f"{left_out:,} parts"
    note = f"{parts} of this record left out here to keep it small"
    return [*pieces[:first], said(note), *pieces[last:]]
