"""The code that brings two tables together, and looks first how their keys fit."""

from collections.abc import Sequence
from dataclasses import dataclass

from parsimony_kernel.offline.codegen.cells import JOIN, LOOK, Cell
from parsimony_kernel.offline.codegen.python import listed, literal
from parsimony_kernel.offline.resolve.joining import Pair
from parsimony_kernel.offline.words import spoken


@dataclass(frozen=True)
class Fit:
    """What the keys of two tables have to do with each other, in rows.

    ``pairs`` are the rows of an inner join; ``gaps`` are rows with a key that is missing.
    """

    left: int
    right: int
    pairs: int
    left_repeats: int
    right_repeats: int
    left_gaps: int
    right_gaps: int

    @property
    def validate(self) -> str:
        """What pandas is to check; for it, keys that are missing repeat as others do."""
        left = "many" if self.left_repeats or self.left_gaps > 1 else "one"
        right = "many" if self.right_repeats or self.right_gaps > 1 else "one"
        return f"{left}_to_{right}"


def look_at_keys(left: str, right: str, pairs: Sequence[Pair]) -> Cell:
    """Print, as JSON, how often keys repeat, are missing, and match."""
    ours, theirs = _names(pairs)
    code = (
        "import json\n\n"
        "print(json.dumps({\n"
        f'    "left": len({left}),\n'
        f'    "right": len({right}),\n'
        f'    "left_gaps": int({left}[{listed(ours)}].isna().any(axis=1).sum()),\n'
        f'    "right_gaps": int({right}[{listed(theirs)}].isna().any(axis=1).sum()),\n'
        f'    "left_repeats": int({_known(left, ours)}.duplicated({listed(ours)}).sum()),\n'
        f'    "right_repeats": int({_known(right, theirs)}.duplicated({listed(theirs)}).sum()),\n'
        f'    "pairs": int((\n'
        f"        {_known(left, ours)}.groupby({listed(ours)}, observed=True).size()\n"
        f"        * {_known(right, theirs)}.groupby({listed(theirs)}, observed=True).size()\n"
        "    ).sum()),\n"
        "}))"
    )
    return Cell(code, look_heading(left, right, pairs))


def look_heading(left: str, right: str, pairs: Sequence[Pair]) -> str:
    """The heading of the look at keys."""
    return f"{LOOK} how {left} and {right} match by {by(pairs)}"


def by(pairs: Sequence[Pair]) -> str:
    """The keys, as a person says them."""
    return spoken(a.name if a.name == b.name else f"{a.name} = {b.name}" for a, b in pairs)


def join(
    left: str, right: str, name: str, pairs: Sequence[Pair], how: str, fit: Fit, *, first: bool
) -> Cell:
    """Both tables as one, ``how`` as pandas calls it; ``first`` takes one row of a repeated key.

    A missing key matches nothing, also not another one.
    """
    ours, theirs = _names(pairs)
    other = right
    if fit.right_gaps and how in ("left", "inner"):
        other += f".dropna(subset={listed(theirs)})"
    if first:
        other += f".drop_duplicates({listed(theirs)})"
    base = left
    if fit.left_gaps and how == "right":
        base += f".dropna(subset={listed(ours)})"
    same = [a.name for a, _ in pairs] == [b.name for _, b in pairs]
    keys = [f"on={_key(ours)}"] if same else [f"left_on={_key(ours)}", f"right_on={_key(theirs)}"]
    checked = fit.validate if not first else fit.validate.rpartition("_")[0] + "_one"
    arguments = [other, f'how="{how}"', *keys, f'suffixes=("", "_{right}")']
    if checked != "many_to_many":
        arguments.append(f'validate="{checked}"')
    lines = "".join(f"    {each},\n" for each in arguments)
    code = (
        f"{name} = {base}.merge(\n{lines})\n"
        f'print("Rows of {left} and of {right}:", len({left}), "and", len({right}))\n'
        f'print("Rows together:", len({name}))\n'
        + _unmatched(left, ours, right, theirs)
        + _unmatched(right, theirs, left, ours)
        + f"{name}.head()"
    )
    return Cell(code, heading(left, right, pairs, how), name)


def heading(left: str, right: str, pairs: Sequence[Pair], how: str) -> str:
    """What the cell does."""
    return f"{JOIN} {left} and {right} by {by(pairs)} ({how} join)"


def _unmatched(table: str, keys: Sequence[str], other: str, others: Sequence[str]) -> str:
    known = f"{_known(other, others)}.set_index({listed(others)}).index"
    label = literal(f"Rows of {table} without a match:")
    return (
        f"print(\n    {label},\n"
        f"    int((~{table}.set_index({listed(keys)}).index.isin(\n"
        f"        {known}\n    )).sum()),\n)\n"
    )


def _known(table: str, keys: Sequence[str]) -> str:
    return f"{table}.dropna(subset={listed(keys)})"


def _names(pairs: Sequence[Pair]) -> tuple[list[str], list[str]]:
    return [a.name for a, _ in pairs], [b.name for _, b in pairs]


def _key(names: Sequence[str]) -> str:
    return literal(names[0]) if len(names) == 1 else listed(names)
