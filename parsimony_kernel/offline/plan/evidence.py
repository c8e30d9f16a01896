"""What was found out about a table so far: samples, values that were looked for, counts.

Older answers may have been shortened; what is no longer there is looked up again.
"""

import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from parsimony_kernel.offline.codegen.cells import DISTINCT, LOOK, SEARCH
from parsimony_kernel.offline.codegen.loading import name_for_file
from parsimony_kernel.offline.codegen.python import literal
from parsimony_kernel.offline.plan.step import Task, Work
from parsimony_kernel.offline.plan.turn import Turn
from parsimony_kernel.offline.resolve.reading import Known
from parsimony_kernel.offline.resolve.subject import Subject
from parsimony_kernel.offline.schema import Column, Table
from parsimony_kernel.offline.words import fold, singular, stem_of, word_set

MAX_LOOKED = 8
_TIMES = word_set("date day month year time week")


def sampled(turn: Turn, task: Task, tables: Mapping[str, Table]) -> Table | None:
    """What is known of the task's table; samples may come from tables made of it."""
    table = tables.get(task.table)
    for other in tables.values():
        if table is not None and other.name != table.name:
            table = table.seen_through(other.columns) if _alike(table, other) else table
    return None if table is None else _with_searched(turn, table)


def _with_searched(turn: Turn, table: Table) -> Table:
    """The table with the text columns that a search has shown it to have."""
    held: dict[str, list[str]] = {}
    for found in _found_values(turn, table.name).values():
        held |= found
    typed = {c.name for c in table.columns if c.dtype}
    texts = {n: Column(n, "text", "str", tuple(v)) for n, v in held.items() if n not in typed}
    columns = tuple(texts.get(c.name, c) for c in table.columns)
    return replace(table, columns=columns).with_columns(texts.values())


def unseen(turn: Turn, table: Table) -> list[str]:
    """The columns to look at before anything is decided."""
    if table.rows == 0:
        return []
    looked = [
        c.code
        for c in turn.transcript.code_calls
        if c.ok and c.purpose == f"{LOOK} {table.name}" and c.result.get("outputs")
    ]
    hidden = [c for c in table.unseen if not any(literal(c.name) in x for x in looked)]
    hidden = [c for c in hidden if not table.is_doubled(c.name)]
    if len(hidden) > MAX_LOOKED:
        # A summary has room for few columns: those that the request may speak of.
        words = {singular(w) for w in fold(turn.transcript.request)} | _TIMES
        share = {c.name: _share(c.name, words) for c in hidden}
        needed = 1.0 if looked else 0.5
        hidden = [c for c in hidden if share[c.name] >= needed]
        hidden.sort(key=lambda c: -share[c.name])
        named = sum(share[c.name] == 1.0 for c in hidden)
        hidden = hidden[: max(MAX_LOOKED, min(named, 3 * MAX_LOOKED))]
    return [c.name for c in hidden]


def known_of(turn: Turn, work: Work, task: Task, *, settled: bool) -> Known:
    """What may be used to resolve a task."""
    return Known(
        answers=turn.answers,
        values=_found_values(turn, task.table),
        distinct=_counted_values(turn, task.narrowed or task.base or task.table),
        nouns=_nouns(turn, work, task),
        settled=settled,
    )


def _nouns(turn: Turn, work: Work, task: Task) -> frozenset[str]:
    paths = [s.path for s in work.sources if s.name == task.table]
    paths += [f for f in turn.files if name_for_file(f) == task.table]
    return frozenset(singular(w) for p in paths for w in fold(stem_of(p)))


def _found_values(turn: Turn, table: str) -> dict[str, dict[str, list[str]]]:
    """What searches found, by the words that were searched for."""
    found: dict[str, dict[str, list[str]]] = {}
    for call in turn.transcript.code_calls:
        if not call.ok or not call.purpose.startswith(f"{SEARCH} "):
            continue
        if not call.purpose.endswith(f" in {table}"):
            continue
        values = _last_json(call.printed)
        if values is None:
            continue
        held = {k: [str(x) for x in v] for k, v in values.items() if isinstance(v, list)}
        for words in _searched_words(call.code):
            found[words.casefold()] = held
    return found


def _counted_values(turn: Turn, table: str) -> dict[str, int]:
    counts: dict[str, Any] = {}
    for call in turn.transcript.code_calls:
        if call.ok and call.purpose == f"{DISTINCT} {table}":
            counts |= _last_json(call.printed) or {}
    return {k: v for k, v in counts.items() if isinstance(v, int)}


def day_first(turn: Turn, task: Task) -> frozenset[str]:
    """The columns whose dates begin with the day, as the person said."""
    table = sampled(turn, task, turn.tables)
    if table is None:
        return frozenset()
    subject = Subject(table, Known(answers=turn.answers))
    unclear = [c for c in table.dates if c.day_first_unclear]
    return frozenset(
        c.name for c in unclear if subject.day_question(c) in turn.answers and subject.day_first(c)
    )


def _alike(table: Table, other: Table) -> bool:
    return [c.name for c in table.columns] == [c.name for c in other.columns]


def _share(name: str, words: Collection[str]) -> float:
    """How much of a name stands in ``words``: 1 is all of it."""
    own = fold(name)
    return sum(singular(w) in words for w in own) / max(len(own), 1)


def _last_json(lines: Sequence[str]) -> dict[str, Any] | None:
    for line in reversed(lines):
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict):
            return value
    return None


def _searched_words(code: str) -> list[str]:
    found = re.search(r"^# Searched for: (.*)$", code, re.MULTILINE)
    try:
        words = json.loads(found.group(1)) if found else []
    except ValueError:
        return []
    return [str(w) for w in words]
