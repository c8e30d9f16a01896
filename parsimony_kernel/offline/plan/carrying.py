"""What a request carries over from those before it.

"now by week" says how to group and nothing to compute; the newest request that asked something
says the rest. Only what is named takes another's place. What can be taken in two ways is asked,
and what it was taken for is told.
"""

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace

from parsimony_kernel.offline.answers import choose
from parsimony_kernel.offline.codegen.cells import SEARCH
from parsimony_kernel.offline.columns import ranked
from parsimony_kernel.offline.grammar.clauses import (
    Clause,
    Derive,
    Join,
    Load,
    Mention,
    Publish,
    Refresh,
    Report,
    Statement,
)
from parsimony_kernel.offline.grammar.request import parse
from parsimony_kernel.offline.missing import Declined
from parsimony_kernel.offline.phrases import help_steps
from parsimony_kernel.offline.plan.evidence import known_of
from parsimony_kernel.offline.plan.fragments import (
    dangles,
    goes_on,
    holders,
    is_column,
    is_whole,
    placed,
    repeats,
    says_only_again,
    with_years,
    without_table,
    without_words_for,
)
from parsimony_kernel.offline.plan.merging import merged_charts
from parsimony_kernel.offline.plan.overriding import as_table, readings
from parsimony_kernel.offline.plan.retelling import retold
from parsimony_kernel.offline.plan.step import Task, Work
from parsimony_kernel.offline.plan.targets import named_table
from parsimony_kernel.offline.plan.turn import Turn
from parsimony_kernel.offline.schema import Column
from parsimony_kernel.offline.transcript import Earlier, told_table
from parsimony_kernel.offline.words import fold, tokenize


@dataclass(frozen=True)
class _Before:
    """What was asked before, and the table that it was about as far as that was told."""

    statement: Statement
    table: str | None


def carry(turn: Turn, clauses: Sequence[Clause], columns: Sequence[str]) -> list[Clause]:
    """The clauses made whole; ``columns`` are the names that count as one word.

    Raises ``Missing`` for "now by week" where nothing was asked before that could be grouped.
    """
    return _carried(turn, clauses, columns, len(turn.transcript.earlier_requests))


def _carried(
    turn: Turn,
    clauses: Sequence[Clause],
    columns: Sequence[str],
    count: int,
    told: Earlier | None = None,
) -> list[Clause]:
    """``clauses`` that follow the first ``count`` requests; ``told`` is what they came to."""
    made: list[Clause] = []
    for clause in clauses:
        if not isinstance(clause, Statement) or (made and not clause.again):
            made.append(clause)
            continue
        said = with_years(clause) if not made else clause
        if said.unsupported or is_whole(said):
            made.append(clause)
            continue
        inside = [c for c in made if isinstance(c, Statement)][-1:]
        before = [_Before(s, None) for s in inside] or _asked(turn, columns, count)
        fits = any(goes_on(said, b.statement, names_table=False) for b in before)
        if clause.unsupported and not fits:
            made.append(clause)
            continue
        made.append(_completed(turn, said, before, columns, told))
    return made


def _asked(turn: Turn, columns: Sequence[str], count: int) -> list[_Before]:
    """What the newest of the first ``count`` requests asked that asked anything."""
    for index in reversed(range(count)):
        earlier = turn.transcript.earlier_requests[index]
        parsed = merged_charts(parse(tokenize(earlier.request), columns))
        try:
            clauses = _carried(turn, parsed, columns, index, earlier)
        except Declined:
            return []
        asked = [c for c in clauses if isinstance(c, Statement) and not c.unsupported]
        asked = [s for s in asked if s.has_structure or s.measures or s.conditions]
        if asked:
            found = [_Before(s, _table(turn, s, index)) for s in asked]
            return [replace(b, statement=without_table(b.statement, b.table)) for b in found]
        if any(isinstance(c, Load | Derive | Join | Statement) for c in clauses) or not clauses:
            return []
        assert all(isinstance(c, Publish | Report | Refresh) for c in clauses)
    return []


def _table(turn: Turn, statement: Statement, index: int) -> str | None:
    """The table that the request of ``index`` was about, where its summary tells it."""
    requests = turn.transcript.earlier_requests
    named = named_table(turn, statement.text, turn.frames)
    name = named or told_table(requests[index].summary)
    if name is None and statement.refers_back:
        until = replace(turn.transcript, earlier=tuple(r.summary for r in requests[:index]))
        name = next((n for n in reversed(until.mine) if n in turn.frames), None)
    return name if name in turn.frames else None


def _completed(
    turn: Turn,
    now: Statement,
    before: Sequence[_Before],
    columns: Sequence[str],
    told: Earlier | None,
) -> Statement:
    if not before:
        if dangles(now):
            raise _nothing_to_compute(now)
        return now
    table = _table_named(turn, now, before, columns)
    if not any(goes_on(now, b.statement, names_table=table is not None) for b in before):
        if dangles(now):
            raise _nothing_to_compute(now)
        return now
    options: dict[str, Statement] = {}
    for known in before:
        about = table or known.table or _table_with(turn, columns)
        pool = _pool(turn, about, columns)
        said = placed(deepcopy(now), pool, about)
        if table not in (None, known.table) and is_whole(replace(said, again=False)):
            return replace(said, again=False)
        if table is None and repeats(said) and not (says_only_again(now) or as_table(now)):
            raise _nothing_to_compute(now)
        if about is not None and _speaks_of_others(turn, said, pool):
            raise _nothing_to_compute(now)
        try:
            found = readings(_of_table(known, table), said, pool)
        except Declined:
            if columns:
                raise
            # Without columns nothing but the table is read off it.
            found = [deepcopy(known.statement)]
        for reading in found:
            _speak_of(turn, reading, now, known, table)
            options.setdefault(retold(reading), reading)
    if not options:
        raise _nothing_to_compute(now)
    if not columns:
        return next(iter(options.values()))
    seen = [o for o in options if _note(now, o) in _told(turn, told)]
    if len(seen) != 1 and told is None and _must_search(turn, options, columns):
        return max(options.values(), key=lambda s: len(s.conditions))
    wording = seen[0] if len(seen) == 1 else _chosen(turn, now, list(options), told)
    if told is None:
        turn.tell([_note(now, wording).removesuffix(".")])
    return options[wording]


def _table_named(
    turn: Turn, now: Statement, before: Sequence[_Before], columns: Sequence[str]
) -> str | None:
    """The table that ``now`` names; a name that is a column of the table before means that."""
    name = named_table(turn, now.text, turn.frames)
    pool = [c for b in before for c in _pool(turn, b.table or _table_with(turn, columns), columns)]
    return None if name is None or any(fold(c.name) == fold(name) for c in pool) else name


def _table_with(turn: Turn, columns: Sequence[str]) -> str | None:
    """The one table that has these columns and no others."""
    found = [n for n, t in turn.tables.items() if sorted({c.name for c in t.columns}) == columns]
    loaded = [n for n in found if n not in turn.results]
    return next(iter(loaded or found), None)


def _of_table(known: _Before, table: str | None) -> Statement:
    """What was asked before, without the words for its table where another one is named."""
    made = deepcopy(known.statement)
    return made if table is None else without_words_for(made, known.table)


def _speaks_of_others(turn: Turn, now: Statement, pool: Sequence[Column]) -> bool:
    """Whether it names columns of other tables that the table before does not have."""
    others = [c for t in turn.tables.values() for c in t.columns]
    named = [m for m in (*now.groups, *now.measures, *now.color) if m.unit is None]
    return any(is_column(m, others) and not ranked(m.text, pool) for m in named)


def _speak_of(
    turn: Turn, reading: Statement, now: Statement, known: _Before, table: str | None
) -> None:
    """Let ``reading`` say in its text which table it is about."""
    parts = (known.statement.text if table is None else "", now.text)
    reading.text = " ".join(part for part in parts if part)
    name = table or known.table
    if name is not None:
        reading.files, reading.refers_back = now.files, False
        if named_table(turn, reading.text, turn.frames) != name:
            reading.text += f" of {name}"


def _note(now: Statement, wording: str) -> str:
    return f"I took {now.text!r} to mean: {wording}."


def _told(turn: Turn, earlier: Earlier | None) -> str:
    """What was told in this turn, or of an earlier one: what it was taken for stands there."""
    return earlier.summary if earlier is not None else "\n".join(turn.transcript.said)


def _chosen(turn: Turn, now: Statement, options: Sequence[str], told: Earlier | None) -> str:
    if len(options) == 1:
        return options[0]
    if told is not None:
        raise Declined(f"I do not know how {now.text!r} was meant.", ["it was left open"])
    return choose(turn.answers, f"What do you mean by {now.text!r}?", options[:8])


def _must_search(turn: Turn, options: Mapping[str, Statement], columns: Sequence[str]) -> bool:
    """Whether it is not known yet which columns hold the values: they are looked for first.

    Every condition stands in the widest reading, so that all of them are looked for.
    """
    searched = any(c.purpose.startswith(f"{SEARCH} ") for c in turn.transcript.code_calls)
    if searched or len({len(s.conditions) for s in options.values()}) < 2:
        return False
    widest = max(options.values(), key=lambda s: len(s.conditions))
    words = [v for c in widest.conditions for v in c.values if isinstance(v, Mention)]
    table = named_table(turn, widest.text, turn.frames) or _table_with(turn, columns)
    pool = _pool(turn, table, columns)
    return any(not holders(m, pool) for m in words)


def _pool(turn: Turn, table: str | None, columns: Sequence[str]) -> list[Column]:
    """The columns that may be meant, with the values that were seen: the table's if it is known."""
    if table is not None and table in turn.tables:
        return [replace(c, samples=_seen(turn, table, c)) for c in turn.tables[table].columns]
    listed = [c for n in turn.frames if n in turn.tables for c in turn.tables[n].columns]
    return [c for c in listed if c.name in columns] or listed


def _seen(turn: Turn, table: str, column: Column) -> tuple[str, ...]:
    """The values of a column that were seen: in it, in what was made of it, by a search."""
    names = [c.name for c in turn.tables[table].columns]
    alike = [t for t in turn.tables.values() if [c.name for c in t.columns] == names]
    found = [s for t in alike for c in t.columns if c.name == column.name for s in c.samples]
    known = known_of(turn, Work(), Task(Statement(), table), settled=False)
    found += [v for held in known.values.values() for v in held.get(column.name, ())]
    return tuple(dict.fromkeys([*column.samples, *found]))


def _nothing_to_compute(now: Statement) -> Declined:
    return Declined(
        f"{now.text!r} does not say what to compute.",
        ["no request before it says the rest, as far as the offline model can tell"],
        ["Say it whole, for instance: 'mean temp_max by week'.", *help_steps(short=True)],
    )
