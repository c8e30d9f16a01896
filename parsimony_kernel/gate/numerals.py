"""The ways to read a number as people and programs write it.

Separators are not assumed to be of one language: every reading that makes sense is given.
"""

import re
from collections.abc import Iterable, Sequence

SIGNIFICANT = 3
SPACES = "\u00a0\u202f\u2009 "

_LAST_GROUP = re.compile(r"[0-9]{3}(?:\.[0-9]+)?")


def readings_of(token: str) -> list[tuple[str, ...]]:
    """The ways to read ``token``, each one number or several; none when it is no number.

    Points, commas, spaces and apostrophes stand for decimals in one language, for thousands in
    another, and between the members of a list.
    """
    parts = re.split(f"['’_{SPACES}]", token)
    if len(parts) > 1:
        joined = _joined(parts)
        apart = [readings_of(part) for part in parts]
        separate = _without_years(number for each in apart if each for number in each[0])
        return [*([(joined,)] if joined else []), *([separate] if separate else [])]
    points, commas = token.count("."), token.count(",")
    if token.startswith("."):
        return [("0" + token,)] if points == 1 and not commas else []
    if not points and not commas:
        return [(token,)]
    if points and commas:
        last = max(token.rfind("."), token.rfind(","))
        grouping = "," if token[last] == "." else "."
        grouped = _joined(token[:last].split(grouping))
        if grouped and token.count(token[last]) == 1:
            return [(f"{grouped}.{token[last + 1 :]}",)]
        return [tuple(each for each in token.split(",") if each.count(".") < 2)]
    separator = "." if points else ","
    groups = token.split(separator)
    grouped = _joined(groups)
    readings: list[tuple[str, ...]] = [(grouped,)] if grouped else []
    if len(groups) == 2:
        listed = separator == "," and all(len(each) >= SIGNIFICANT for each in groups)
        return [
            *readings,
            (f"{groups[0]}.{groups[1]}",),
            *([_without_years(groups)] if listed else []),
        ]
    # Three parts with points that are no thousands are a version or a date.
    return readings if separator == "." else [*readings, _without_years(groups)]


def is_year(token: str) -> bool:
    """Whether ``token`` may be a year of our time."""
    return len(token) == 4 and token.isdigit() and 1900 <= int(token) <= 2100


def _without_years(numbers: Iterable[str]) -> tuple[str, ...]:
    return tuple(each for each in numbers if not is_year(each))


def _joined(groups: Sequence[str]) -> str | None:
    """The number that groups of digits make, by thousands or as in India."""
    first, *rest = groups
    if not rest:
        return first if first.isdigit() else None
    sizes = {len(each) if each.isdigit() else 0 for each in rest[:-1]}
    is_grouped = re.fullmatch(r"[1-9][0-9]{0,2}", first) and _LAST_GROUP.fullmatch(rest[-1])
    if not is_grouped:
        return None
    return "".join(groups) if sizes <= {3} or sizes == {2} else None
