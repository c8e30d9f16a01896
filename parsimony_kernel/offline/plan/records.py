"""The cells of a turn that have run: what each was for, what it made, and how it is told."""

import re

from parsimony_kernel.offline.codegen.cells import (
    DERIVE,
    DISTINCT,
    INCOMPLETE,
    JOIN,
    KEEP,
    KEEP_FIRST,
    LOAD,
    LOOK,
    MAX_BARS,
    SEARCH,
)
from parsimony_kernel.offline.plan.step import Product
from parsimony_kernel.offline.plan.turn import Turn
from parsimony_kernel.offline.transcript import Call
from parsimony_kernel.offline.words import spoken

_STAGES = (LOOK, SEARCH, DISTINCT, KEEP, KEEP_FIRST, DERIVE, JOIN)


def keep_calls(turn: Turn) -> list[Call]:
    """The cells that kept rows and worked, in order."""
    calls = [
        c
        for c in turn.transcript.code_calls
        if c.purpose.startswith((KEEP, KEEP_FIRST)) and c.ok and c.bound
    ]
    return list({c.purpose: c for c in calls}.values())


def final_keeps(turn: Turn) -> list[Call]:
    """The cells whose kept rows are the answer."""
    return [c for c in keep_calls(turn) if c.purpose.startswith(KEEP)]


def prepared_calls(turn: Turn) -> list[Call]:
    """The cells that made tables for the tasks and worked, in order."""
    headings = (f"{DERIVE} ", f"{JOIN} ")
    calls = [c for c in turn.transcript.code_calls if c.purpose.startswith(headings) and c.ok]
    return list({c.purpose: c for c in calls}.values())


def result_calls(turn: Turn) -> list[Call]:
    """The cells that answer, that worked, by their headings, in order."""
    calls = [c for c in turn.transcript.code_calls if c.ok and is_result(c)]
    return list({c.purpose: c for c in calls}.values())


def is_load(call: Call) -> bool:
    """Whether a cell reads a file."""
    return call.purpose.startswith(f"{LOAD} ") and " as " in call.purpose


def is_result(call: Call) -> bool:
    """Whether a cell answers, and does not only prepare."""
    return not is_load(call) and not call.purpose.startswith(tuple(f"{s} " for s in _STAGES))


def product_of(call: Call) -> Product:
    """What a cell made."""
    names = list(call.bound)
    charts = [n for n in names if re.search(r"_chart(_\d+)?$", n)]
    tables = [n for n in names if n not in charts]
    kinds = {str(s.get("name")): s.get("type") for s in call.summaries()}
    tables = [n for n in tables if kinds.get(n, "dataframe") == "dataframe"]
    title = call.purpose
    if title.startswith(f"{KEEP} "):
        title = title.removeprefix(f"{KEEP} the rows of ").replace(" where ", ": ")
    return Product(tables[0] if tables else None, charts[-1] if charts else None, title)


def findings(call: Call) -> list[str]:
    """What a cell printed, in a few lines."""
    return [" ".join(line.split())[:200] for line in call.printed[:4] if line.strip()]


def told(call: Call) -> str:
    """A finished cell as a sentence: what it is, under which names, and what it printed."""
    product = product_of(call)
    if call.purpose.startswith((KEEP, KEEP_FIRST)):
        kept = re.search(r"Rows kept: (\d+) of (\d+)", "\n".join(call.printed))
        of = f": {int(kept.group(1)):,} of {int(kept.group(2)):,}" if kept else ""
        what = call.purpose.partition(" rows of ")[2]
        return f"`{product.table}` holds the rows of {what}{of}."
    made = []
    rows = {str(s.get("name")): s.get("rows") for s in call.summaries()}
    if product.table is not None:
        count = rows.get(product.table)
        noun = "row" if count == 1 else "rows"
        made.append(f"`{product.table}`{f' ({count:,} {noun})' if isinstance(count, int) else ''}")
    if product.chart is not None:
        made.append(f"chart `{product.chart}`")
    if not made:
        made += [f"`{name}`" for name in call.bound]
    shown = rows.get(product.table or "")
    lines = findings(call)
    if shown == 0 and not any(line.startswith(INCOMPLETE) for line in lines):
        lines = ["There are no rows in it: no row has a value in every column that it needs"]
    cut = f".head({MAX_BARS}))" in call.code
    if cut and isinstance(shown, int) and shown > MAX_BARS:
        lines.append(f"The chart shows the first {MAX_BARS} of {shown:,} bars")
    text = f"{call.purpose}: {spoken(made)}" if made else call.purpose
    return f"{text}. {'; '.join(lines)}." if lines else f"{text}."
