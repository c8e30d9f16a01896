"""Numbers that follow from the rows of a table: sums, shares, differences, ratios and squares."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import accumulate, combinations, pairwise, permutations

from parsimony_kernel.gate.printed import Table

FEW = 8
MAX_ROWS = 60
MAX_COLUMNS = 8

# A number, and whether it is a ratio.
Derived = tuple[bool, float]


def of_table(table: Table, named: Collection[int], *, alone: bool = False) -> Iterator[Derived]:
    """What follows from the rows that are ``named``, with the others or ``alone``; from any where
    none is."""
    columns: dict[str, dict[int, float]] = {}
    for r, row in enumerate(table[:MAX_ROWS]):
        for at, (name, value) in enumerate(row.cells[:MAX_COLUMNS]):
            columns.setdefault(name or str(at), {})[r] = value
    totals = {name: sum(column.values()) for name, column in columns.items()}
    size = len(table[:MAX_ROWS])
    every = [{c: v[r] for c, v in columns.items() if r in v} for r in range(size)]
    rows = [r for r in sorted(named) if r < MAX_ROWS] or list(range(size))
    beside = {each for r in named for each in (r - 1, r, r + 1)}
    for name, column in columns.items():
        chosen, total = [column[r] for r in rows if r in column], totals[name]
        yield from of_numbers(chosen, total)
        if named and not alone:
            near = [v for r, v in column.items() if len(column) <= FEW or r in beside]
            yield from of_numbers([*near, total - sum(chosen)], total)
            yield from ((False, total), (False, total / len(column)))
    lines = [every[r] for r in rows]
    chosen_sum = {c: sum(v.get(r, 0.0) for r in rows) for c, v in columns.items()}
    for line in [*lines, chosen_sum] + ([] if alone else [totals, *every[: 2 * FEW]]):
        yield from of_numbers(list(line.values()), sum(line.values()))
    if 1 < len(lines) <= (6 if named else 4):
        for one, other in permutations([_ratios(line, totals) for line in lines], 2):
            for a, b in zip(one, other, strict=False):
                yield from _of_pair(a, b)


def of_numbers(values: Sequence[float], total: float) -> Iterator[Derived]:
    """What follows from numbers of one kind, which are a part of ``total``."""
    few = len(values) <= FEW
    ordered = sorted(values)
    runs = (
        (k, s)
        for line in (values, ordered, ordered[::-1])
        for k, s in enumerate(accumulate(line), 1)
    )
    some = ((k, sum(each)) for k in range(2, len(values) + 1) for each in combinations(values, k))
    for k, each in (*((1, v) for v in values), *(some if few else runs)):
        yield True, each / (total or 1)
        if k > 1:
            yield from ((False, each), (False, each / k), (True, each))
    for v in values:
        yield from ((False, v * v), (True, v * v), (False, abs(v) ** 0.5))
    ends = [*values[:1], *values[-1:], *ordered[:2], *ordered[-2:]]
    for a, b in permutations(values, 2) if few else (*pairwise(values), *permutations(ends, 2)):
        yield from (*_of_pair(a, b), *_of_pair(b, a), (False, a * b))


def _of_pair(a: float, b: float) -> Iterator[Derived]:
    yield from ((False, a - b), (True, a - b), (True, (a - b) / 100))
    if b:
        yield from ((True, a / b), (True, a / b - 1))


def _ratios(line: dict[str, float], totals: dict[str, float]) -> Iterable[float]:
    """Shares of their columns and of their line, ratios and differences."""
    whole = sum(line.values()) or 1
    pairs = [x for a, b in permutations(line.values(), 2) for x in (a / (b or 1), a - b)]
    return [*pairs, *(x for c, v in line.items() for x in (v / (totals[c] or 1), v / whole))]
