"""What a report says of each thing that it shows: numbers that code printed, and no others."""

from parsimony_kernel.llm.offline.plan.step import Exhibit
from parsimony_kernel.llm.offline.plan.turn import Turn


def observed(turn: Turn, exhibit: Exhibit) -> str:
    """A paragraph on ``exhibit`` as Markdown; empty where nothing was observed of it."""
    return ""
