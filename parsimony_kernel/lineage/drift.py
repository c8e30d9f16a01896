"""Objects of libraries that are another since a change though nobody changed them.

A figure notes that it was drawn, a graph that it was asked for its edges. Where no cell of a
person's changes such an object, as far as its text tells, the change can still be taken back.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from parsimony_kernel.analysis.read import read
from parsimony_kernel.lineage.copies import Copies, Copy
from parsimony_kernel.lineage.kinds.lookup import is_of_library
from parsimony_kernel.lineage.ledger import CellRun
from parsimony_kernel.lineage.put_back import State
from parsimony_kernel.lineage.suspects import suspects


@dataclass(frozen=True)
class Drift:
    """What became of the objects of libraries that a change changed.

    Args:
        same: the names of those that nobody has changed since.
        changed: those that a person has.
        held: the ids of all that the former held.
        images: what of that is another all the same, as it is now.
    """

    same: frozenset[str] = frozenset()
    changed: frozenset[str] = frozenset()
    held: frozenset[int] = frozenset()
    images: Mapping[int, Copy] = field(default_factory=dict)


def drift_of(
    before: State, images: Mapping[int, Copy], runs: Sequence[CellRun], now: Mapping[str, Any]
) -> Drift:
    """What became of the objects of libraries that a change changed.

    Args:
        before: what stood before the change.
        images: what it changed, as it was when the change was done.
        runs: the cells that ran since.
        now: what names are bound to.
    """
    copies = before.copies
    ended = Copies({**copies.by_id, **images})
    held = {
        name: copies.reachable([now[name]]) | ended.reachable([now[name]])
        for name in before.versions.keys() & now.keys()
        if (copy := copies.by_id.get(id(now[name]))) is not None and is_of_library(copy.kind)
    }
    if not held:
        return Drift()
    texts = [read(run.code) for run in runs if run.actor == "user"]
    used = {
        name
        for what in texts
        for name in suspects(what, now).likely | (what.receivers & now.keys())
    }
    values = [now[name] for name in used]
    reached = copies.reachable(values) | ended.reachable(values)
    other = {key for key in set[int]().union(*held.values()) if ended.by_id[key].is_changed}
    changed = {
        name
        for name, found in held.items()
        if not found.isdisjoint(reached) and not found.isdisjoint(other)
    }
    same = held.keys() - changed
    theirs = set[int]().union(*(held[name] for name in same))
    if not used:
        # Nobody had a hand in it: so it is for what only unchanged parts lead to.
        theirs |= {key for key, image in images.items() if is_of_library(image.kind)}
    drifted = {key: ended.by_id[key].again() for key in theirs & other - reached}
    return Drift(frozenset(same), frozenset(changed), frozenset(theirs), drifted)
