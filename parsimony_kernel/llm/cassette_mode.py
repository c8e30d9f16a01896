"""The record and replay mode for model answers."""

from collections.abc import Mapping
from enum import StrEnum

from parsimony_kernel.core.errors import SessionError

VARIABLE = "PARSIMONY_CASSETTE"
# The path of a file that names the model behind the running cell's saved output. The pytest plugin
# sets it during a replay.
SAVED_BY = "PARSIMONY_SAVED_BY"


class CassetteMode(StrEnum):
    """Whether the answers of a turn are recorded, replayed, or neither."""

    record = "record"
    replay = "replay"
    off = "off"


def mode_in(environ: Mapping[str, str]) -> CassetteMode:
    """Parse ``PARSIMONY_CASSETTE``; ``SessionError`` for an unknown value."""
    value = environ.get(VARIABLE, "").strip().lower()
    try:
        return CassetteMode(value or CassetteMode.off)
    except ValueError:
        known = ", ".join(CassetteMode)
        raise SessionError(f"{VARIABLE} is {value!r}; it takes one of {known}.") from None
