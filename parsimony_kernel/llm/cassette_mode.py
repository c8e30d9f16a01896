"""Whether answers of models are recorded, replayed, or neither."""

from collections.abc import Mapping
from enum import StrEnum

VARIABLE = "PARSIMONY_CASSETTE"
# Names a file that says which model made the saved output of the cell that runs. Set by the plugin
# for pytest, beside a replay.
SAVED_BY = "PARSIMONY_SAVED_BY"


class CassetteMode(StrEnum):
    """What happens to the answers of a turn."""

    record = "record"
    replay = "replay"
    off = "off"


def mode_in(environ: Mapping[str, str]) -> CassetteMode:
    """What ``PARSIMONY_CASSETTE`` says; ``ValueError`` with the remedy when it cannot be meant."""
    said = environ.get(VARIABLE, "").strip().lower()
    try:
        return CassetteMode(said or CassetteMode.off)
    except ValueError:
        known = ", ".join(CassetteMode)
        raise ValueError(f"{VARIABLE} is {said!r}; it takes one of {known}.") from None
