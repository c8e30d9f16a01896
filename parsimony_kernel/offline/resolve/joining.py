"""Which columns of two tables belong together."""

from collections.abc import Mapping, Sequence

from parsimony_kernel.offline.answers import choose
from parsimony_kernel.offline.columns import candidates
from parsimony_kernel.offline.grammar.clauses import Mention
from parsimony_kernel.offline.missing import Declined
from parsimony_kernel.offline.resolve.subject import names_of
from parsimony_kernel.offline.schema import Column, Table
from parsimony_kernel.offline.words import canonical, fold, spoken

Pair = tuple[Column, Column]


def shared(left: Table, right: Table) -> list[Pair]:
    """The columns that have the same name and the same kind of values in both tables."""
    pairs = []
    for column in left.columns:
        others = [
            c for c in right.columns if canonical(fold(c.name)) == canonical(fold(column.name))
        ]
        exact = [c for c in others if c.name == column.name] or others
        if len(exact) == 1 and fits(column, exact[0]):
            pairs.append((column, exact[0]))
    return pairs


def fits(column: Column, other: Column) -> bool:
    """Whether values of these columns can be the same as they are."""
    measured = any(c.kind == "number" and "float" in c.dtype.lower() and not c.is_code
                   for c in (column, other))  # fmt: skip
    if measured:
        return column.kind == other.kind and bool({"id", "key"} & set(fold(column.name)))
    return _kind(column) == _kind(other)


def pairs_of(
    left: Table, right: Table, keys: Sequence[Mention], answers: Mapping[str, str]
) -> list[Pair]:
    """The columns to join by: those that are stated, else the one that both tables have."""
    if keys:
        return [_stated(left, right, key) for key in keys]
    found = shared(left, right)
    if len(found) == 1:
        return found
    question = f"By which column shall I join `{left.name}` and `{right.name}`?"
    if not found:
        raise Declined(
            f"`{left.name}` and `{right.name}` have no column in common to join them by.",
            [
                f"`{left.name}` has {spoken(names_of(left.columns))}",
                f"`{right.name}` has {spoken(names_of(right.columns))}",
            ],
            [f"Say the columns: 'join {left.name} and {right.name} on a = b'."],
        )
    names = [pair[0].name for pair in found[:6]]
    every = f"all of them: {', '.join(names)}"
    chosen = choose(answers, question, [*names, every], "Both tables have these columns.")
    return found if chosen == every else [p for p in found if p[0].name == chosen]


def _stated(left: Table, right: Table, key: Mention) -> Pair:
    first, equal, second = key.text.partition(" = ")
    pair = (_column(left, first), _column(right, second if equal and key.quoted else first))
    if equal and key.quoted and None in pair:
        pair = (_column(left, second), _column(right, first))
    missing = [t.name for t, c in zip((left, right), pair, strict=True) if c is None]
    if pair[0] is None or pair[1] is None:
        raise Declined(
            f"{spoken(f'`{n}`' for n in missing)} has no column called {key.text!r} to join by.",
            [f"{key.text!r} is not in both tables"],
            [f"Say the columns: 'join {left.name} and {right.name} on a = b'."],
        )
    if _kind(pair[0]) != _kind(pair[1]):
        raise Declined(
            f"{pair[0].name!r} of `{left.name}` and {pair[1].name!r} of `{right.name}` hold "
            "different kinds of values, so nothing would match.",
            [f"{pair[0].name!r} is {pair[0].dtype}", f"{pair[1].name!r} is {pair[1].dtype}"],
            ["Convert one of them to the type of the other first."],
        )
    return pair[0], pair[1]


def _column(table: Table, name: str) -> Column | None:
    exact = table.column(name)
    if exact is not None:
        return None if table.is_doubled(name) else exact
    near = [m for m in candidates(name, table.columns) if not m.extra and m.score >= 97]
    return near[0].column if len(near) == 1 else None


def _kind(column: Column) -> str:
    """What values are, as far as it matters whether they can be equal."""
    if column.kind in ("number", "date", "boolean"):
        return column.kind
    return "text"
