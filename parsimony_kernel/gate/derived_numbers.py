"""Numbers that follow from others: their sum, difference, product, ratio, change and share."""

from collections.abc import Iterator, Sequence
from itertools import combinations

MAX_OPERANDS = 24


def follows(value: float, unit: float, operands: Sequence[float]) -> bool:
    """Whether two of ``operands``, or all of them, come to ``value``, give or take ``unit``.

    What comes to nearly one of the two is that one, and no new number.
    """
    given = operands[:MAX_OPERANDS]
    near = 1.01 * unit + 1e-12 * abs(value)
    if any(abs(each - value) <= 2 * near for each in given):
        given = [each for each in given if abs(each - value) > 2 * near]
    return any(abs(each - value) <= near for each in _derived(given))


def _derived(operands: Sequence[float]) -> Iterator[float]:
    total = sum(operands)
    if len(operands) > 1:
        yield total
        yield total / len(operands)
    if total:
        yield from (each / total for each in operands)
    for a, b in combinations(operands, 2):
        yield a + b
        yield abs(a - b)
        yield a * b
        for each, other in ((a, b), (b, a)):
            if other:
                yield each / other
                yield abs(each / other - 1)
            if a + b:
                yield each / (a + b)
