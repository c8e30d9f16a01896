"""Tables that are brought together, before the tasks that use them."""

import json
from collections.abc import Sequence

from parsimony_kernel.offline import recovery
from parsimony_kernel.offline.answers import choose
from parsimony_kernel.offline.codegen import joining as code
from parsimony_kernel.offline.codegen.cells import JOIN
from parsimony_kernel.offline.grammar.clauses import Join, Mention, Statement
from parsimony_kernel.offline.missing import STOP, Declined, Stopped
from parsimony_kernel.offline.phrases import help_steps
from parsimony_kernel.offline.plan.evidence import sampled
from parsimony_kernel.offline.plan.files import file_by_name
from parsimony_kernel.offline.plan.preparing import looks_of, prepare_join
from parsimony_kernel.offline.plan.sources import add_source
from parsimony_kernel.offline.plan.step import Prepared, Step, Task, Work
from parsimony_kernel.offline.plan.targets import file_spoken_of, named_table
from parsimony_kernel.offline.plan.turn import Turn
from parsimony_kernel.offline.resolve.joining import Pair, pairs_of
from parsimony_kernel.offline.schema import Table
from parsimony_kernel.offline.words import is_data_file, spoken


def add_join(turn: Turn, clause: Join, current: str | None, work: Work) -> str:
    """Put ``clause`` into the work; returns the table that later statements are about."""
    named = [_table(turn, mention, work) for mention in (*clause.left, *clause.right)]
    if len(named) < 2:
        named = _completed(turn, named, current, work)
    if named[0] == named[1]:
        raise Declined(
            f"A table is joined with another one, and both are `{named[0]}`.",
            ["there is only one table"],
            [
                "Name two tables: 'join orders and customers on customer_id'.",
                *help_steps(short=True),
            ],
        )
    return prepare_join(turn, clause, (named[0], named[1]), work)


def join(turn: Turn, work: Work) -> Step | None:
    """The step that brings two tables together; none when all is done, or must wait."""
    done = {
        name
        for call in turn.transcript.code_calls
        if call.ok and call.purpose.startswith(f"{JOIN} ")
        for name in call.bound
    }
    coming = {p.name for p in work.preparing} - set(turn.tables)
    for prepared in work.preparing:
        if not isinstance(prepared.clause, Join) or prepared.name in done:
            continue
        if not coming & set(prepared.made_of):
            return _step(turn, prepared)
    return None


def _step(turn: Turn, prepared: Prepared) -> Step:
    assert isinstance(prepared.clause, Join)
    looks = looks_of(turn, prepared.made_of)
    if looks:
        return turn.run(f"I look at {spoken(f'`{n}`' for n in prepared.made_of)}.", looks)
    tables = [sampled(turn, Task(Statement(), n), turn.tables) for n in prepared.made_of]
    left, right = tables
    assert left is not None
    assert right is not None
    pairs = pairs_of(left, right, prepared.clause.keys, turn.answers)
    fit = _fit(turn, left, right, pairs)
    if fit is None:
        cell = code.look_at_keys(left.name, right.name, pairs)
        return turn.run(f"I check how `{left.name}` and `{right.name}` match.", [cell])
    how = prepared.clause.how or "left"
    first = _check(turn, left, right, pairs, how, fit)
    if prepared.clause.how is None:
        kept = f"every row of `{left.name}` is kept, and of `{right.name}` what matches"
        turn.tell([f"I made a left join: {kept}"])
    if fit.right_repeats and not fit.left_repeats and not first:
        turn.tell([f"A row of `{left.name}` is there once for each of its rows in `{right.name}`"])
    both = {c.name for c in left.columns} & {c.name for c in right.columns}
    twice = sorted(both - {a.name for a, b in pairs if a.name == b.name})
    if twice:
        renamed = spoken(f"{n}_{right.name}" for n in twice[:6])
        turn.tell([f"Both tables have {spoken(twice[:6])}; of `{right.name}` it is {renamed}"])
    failed = [c for c in turn.transcript.code_calls if c.failed and c.bound[:1] == (prepared.name,)]
    if failed:
        raise recovery.gave_up(failed[-1])
    cell = code.join(left.name, right.name, prepared.name, pairs, how, fit, first=first)
    return turn.run(f"I join `{left.name}` and `{right.name}`.", [cell])


def _fit(turn: Turn, left: Table, right: Table, pairs: Sequence[Pair]) -> code.Fit | None:
    """What a look at the keys found; none before there was one."""
    heading = code.look_heading(left.name, right.name, pairs)
    for call in reversed(turn.transcript.code_calls):
        if call.failed and call.purpose == heading:
            raise recovery.gave_up(call)
        if not call.ok or call.purpose != heading:
            continue
        for line in call.printed:
            try:
                return code.Fit(**json.loads(line))
            except (ValueError, TypeError):
                continue
    return None


def _check(
    turn: Turn, left: Table, right: Table, pairs: Sequence[Pair], how: str, fit: code.Fit
) -> bool:
    """Whether one row of ``right`` is taken for each key; asks where rows multiply."""
    names = code.by(pairs)
    if not fit.pairs:
        raise Declined(
            f"No row of `{left.name}` matches one of `{right.name}` by {names}.",
            [f"the values of {names} have nothing in common"],
            ["Name other columns to join by, or bring the values into the same form first."],
        )
    if how == "outer" and fit.left_gaps and fit.right_gaps:
        raise Declined(
            f"{names} is missing in rows of both tables, and pandas would match these in an "
            "outer join.",
            [f"{fit.left_gaps} and {fit.right_gaps} rows have no {names}"],
            ["Ask for a left, right or inner join, or leave the rows out first."],
        )
    if not (fit.left_repeats and fit.right_repeats):
        return False
    question = (
        f"{names} repeats in both tables, so that rows would multiply: {fit.left:,} and "
        f"{fit.right:,} rows become {fit.pairs:,} pairs. What shall I do?"
    )
    every, once = "Join every pair", f"Take the first row of {right.name} for each {names}"
    chosen = choose(turn.answers, question, [once, every, STOP])
    if chosen == STOP:
        raise Stopped
    if chosen == once:
        turn.tell([f"Of `{right.name}`, only the first row for each {names} was used"])
    return chosen == once


# -- which tables --------------------------------------------------------------------------------


def _table(turn: Turn, mention: Mention, work: Work) -> str:
    if is_data_file(mention.text):
        return add_source(turn, work, file_by_name(turn, mention.text))
    known = list(dict.fromkeys([*turn.frames, *work.made]))
    if mention.text in known:
        return mention.text
    named = named_table(turn, mention.text, known)
    if named is not None:
        return named
    file = file_spoken_of(turn, Statement(text=mention.text))
    if file is not None:
        return add_source(turn, work, file)
    raise Declined(
        f"There is no table called {mention.text!r}.",
        [f"the tables are {spoken(f'`{n}`' for n in known[:6]) or 'none'}"],
        ["Name two tables: 'join orders and customers on customer_id'.", *help_steps(short=True)],
    )


def _completed(turn: Turn, named: Sequence[str], current: str | None, work: Work) -> list[str]:
    """Two tables: what the request has come to, or the only two that there are."""
    if len(named) == 1 and current is not None:
        return [current, named[0]]
    originals = [n for n in turn.frames if n not in turn.results]
    pool = list(dict.fromkeys([*originals, *work.made]))
    if not named and len(pool) == 2:
        return pool
    others = [n for n in pool if n not in named]
    if len(named) == 1 and len(others) == 1:
        return [others[0], named[0]]
    if len(others) + len(named) < 2:
        raise Declined(
            "There are no two tables to join.",
            [f"the tables are {spoken(f'`{n}`' for n in pool) or 'none'}"],
            ["Load both, then say: 'join orders and customers on customer_id'."],
        )
    if len(named) == 1:
        question = f"Which table shall I join with `{named[0]}`?"
        return [choose(turn.answers, question, others[:8]), named[0]]
    first = choose(turn.answers, "Which table shall I join first?", others[:8])
    rest = [n for n in others if n != first]
    question = f"Which table shall I join with `{first}`?"
    return [first, choose(turn.answers, question, rest[:8])]
