"""How a table of two groupings is drawn as a heat map."""

from collections.abc import Sequence

from parsimony_kernel.llm.offline.analysis import Analysis
from parsimony_kernel.llm.offline.codegen.grouping import Key


def draw_heat_map(
    name: str, analysis: Analysis, keys: Sequence[Key], labels: Sequence[str]
) -> list[str] | None:
    """The steps that draw the table ``name`` as a heat map; none where it is no heat map."""
    return None
