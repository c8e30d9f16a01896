"""When two words are the same word, written differently."""

from rapidfuzz import fuzz

_ENOUGH = 85.0


def alike(a: str, b: str) -> bool:
    """Whether one begins the other, or they differ by little more than a slip.

    Short words are the same only when they are equal.
    """
    if a == b:
        return True
    short, long = sorted((a, b), key=len)
    if len(short) >= 4 and long.startswith(short):
        return True
    return len(short) >= 5 and fuzz.ratio(a, b) >= _ENOUGH
