"""What a report says of each thing that it shows: numbers that code printed, and no others."""

import re

from parsimony_kernel.offline.plan.records import findings, product_of, result_calls
from parsimony_kernel.offline.plan.step import Exhibit
from parsimony_kernel.offline.plan.turn import Turn
from parsimony_kernel.offline.transcript import Call

MAX_FINDINGS = 4
_SPECIAL = re.compile(r"([\\`*_{}\[\]()<>#$^~|@!])")


def observed(turn: Turn, exhibit: Exhibit) -> str:
    """A paragraph on ``exhibit`` as Markdown; empty where nothing was observed of it."""
    return _found([c for c in result_calls(turn) if exhibit.variable in c.bound])


def observed_beside(turn: Turn) -> str:
    """A paragraph on the numbers that no table and no chart shows, as Markdown."""
    made = ((call, product_of(call)) for call in result_calls(turn))
    return _found([call for call, product in made if not (product.table or product.chart)])


def plain(text: str) -> str:
    """``text`` as Markdown that says just that, in one line."""
    return _SPECIAL.sub(r"\\\1", " ".join(text.split()))


def _found(calls: list[Call]) -> str:
    lines = dict.fromkeys(line.rstrip(".") for call in calls for line in findings(call))
    # The text stays when what it shows is refreshed.
    told = "; ".join(map(plain, list(lines)[:MAX_FINDINGS]))
    return f"Found when this was written: {told}." if told else ""
