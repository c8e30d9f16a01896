"""Columns that are computed from others, before the tasks that use them."""

from collections.abc import Iterable

from parsimony_kernel.offline import recovery
from parsimony_kernel.offline.answers import choose
from parsimony_kernel.offline.codegen import deriving as code
from parsimony_kernel.offline.codegen.cells import DERIVE, Cell
from parsimony_kernel.offline.codegen.python import identifier, unique
from parsimony_kernel.offline.grammar.clauses import Derive, Mention, Statement
from parsimony_kernel.offline.grammar.expressions import leaves
from parsimony_kernel.offline.missing import Declined, not_understood
from parsimony_kernel.offline.plan.evidence import day_first, sampled
from parsimony_kernel.offline.plan.preparing import looks_of
from parsimony_kernel.offline.plan.step import Prepared, Step, Task, Work
from parsimony_kernel.offline.plan.targets import named_table, target
from parsimony_kernel.offline.plan.turn import Turn
from parsimony_kernel.offline.resolve.deriving import is_span, resolve
from parsimony_kernel.offline.resolve.reading import Known
from parsimony_kernel.offline.resolve.subject import Subject
from parsimony_kernel.offline.words import fold, is_data_file


def add_derive(turn: Turn, clause: Derive, current: str | None, work: Work) -> str:
    """Put ``clause`` into the work; returns the table that later statements are about."""
    if clause.expression is None or clause.name is None:
        raise Declined(
            f"I do not see how the column is to be computed: {clause.text!r}.",
            ["it takes columns, numbers, + - * / with room around them, and brackets"],
            ["Say it whole, for instance: 'add a column power = Horsepower / Weight_in_lbs'."],
        )
    mentions = [leaf for leaf in leaves(clause.expression) if isinstance(leaf, Mention)]
    files = [m.text for m in clause.words if is_data_file(m.text)]
    places = " ".join(m.text for m in clause.words if m.text not in files)
    if places and named_table(turn, places, [*turn.frames, *work.made]) is None:
        raise not_understood([places])
    said = Statement(text=places or clause.text, measures=mentions, files=files)
    base = target(turn, said, current, work)
    column = clause.name
    table = turn.tables.get(base)
    same = [c.name for c in table.columns if fold(c.name) == fold(column)] if table else []
    if table is not None and same:
        other = unique(f"new_{column}", (c.name for c in table.columns))
        question = f"`{base}` has a column {same[0]!r} already. What shall I do with the new one?"
        chosen = choose(turn.answers, question, [f"call it {other}", f"replace {same[0]}"])
        column = other if chosen.startswith("call it") else same[0]
    link = "_" if any(p.name == base for p in work.preparing) else "_with_"
    wanted = identifier(f"{base}{link}{'_'.join(fold(column))}")
    name = unique(wanted, turn.taken(work) - turn.free(work))
    work.preparing.append(Prepared(clause, (base,), name, column))
    return name


def derive(turn: Turn, work: Work) -> Step | None:
    """The step that adds a column that was asked for; none when all is done."""
    waiting = [p for p in work.preparing if isinstance(p.clause, Derive)]
    for prepared in _not_done(turn, waiting):
        looks = looks_of(turn, prepared.made_of)
        if looks:
            return turn.run(f"I look at `{prepared.made_of[0]}`.", looks)
        cell = _cell(turn, prepared)
        return turn.run(f"I add the column {prepared.column!r}.", [cell])
    return None


def _not_done(turn: Turn, waiting: Iterable[Prepared]) -> list[Prepared]:
    done = {
        name
        for call in turn.transcript.code_calls
        if call.ok and call.purpose.startswith(f"{DERIVE} ")
        for name in call.bound
    }
    return [p for p in waiting if p.name not in done]


def _cell(turn: Turn, prepared: Prepared) -> Cell:
    assert isinstance(prepared.clause, Derive)
    assert prepared.column is not None
    base = prepared.made_of[0]
    task = Task(Statement(), base)
    table = sampled(turn, task, turn.tables)
    if table is None:
        raise Declined(
            f"I know nothing of the table `{base}`.",
            [f"`{base}` is not there"],
            ["Load it, then ask again."],
        )
    subject = Subject(table, Known(answers=turn.answers))
    notes: list[str] = []
    tree = resolve(subject, prepared.clause.expression, notes)
    span = is_span(tree)
    if span:
        notes.append(f"{prepared.column!r} is in days")
    turn.tell(notes)
    failed = [c for c in turn.transcript.code_calls if c.failed and c.bound[:1] == (prepared.name,)]
    options = recovery.analysis_options(failed, day_first(turn, task))
    return code.derive(table, prepared.name, prepared.column, tree, options, span=span)
