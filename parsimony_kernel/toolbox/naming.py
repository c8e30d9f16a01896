"""What is said where a variable was named that there is not."""

import difflib
from collections.abc import Iterable


def no_such_variable(name: str, variables: Iterable[str]) -> str:
    """One sentence with the nearest names, or with some of those that there are."""
    known = sorted(variables)
    near = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
    if near:
        return f"There is no variable {name!r}: did you mean {_either(near)}?"
    if not known:
        return f"There is no variable {name!r}: the notebook has none yet, run code first."
    told = ", ".join(repr(each) for each in known[:10])
    return f"There is no variable {name!r}: the notebook has {told}."


def _either(names: list[str]) -> str:
    quoted = [repr(name) for name in names]
    return quoted[0] if len(quoted) == 1 else f"{', '.join(quoted[:-1])} or {quoted[-1]}"
