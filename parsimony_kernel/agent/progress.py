"""How far a run has come with every check passed, and going back there.

After each piece of code that succeeded the namespace is remembered. Code that fails leaves the
person's variables as they were before it; a rollback goes back further. The transcript, files and
what happened outside stay.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from parsimony_kernel.agent.state import RunState
from parsimony_kernel.lineage.checkpoint import Change, Checkpoints, PutBack

_MOST_NAMES = 12


@dataclass(frozen=True)
class Checkpoint:
    """A state whose checks had passed. ``number`` is the executor's, the rest the run's."""

    id: str
    number: int
    repetition: tuple[dict[str, Any], ...]


class NoCheckpoint(LookupError):
    """There is no such state to go back to."""


class Progress:
    """The checkpoints of one run, as far as its executor has any.

    They are this process's: a run that was suspended begins with none, since the person may have
    worked in the namespace meanwhile.
    """

    def __init__(self, state: RunState) -> None:
        self._state = state
        self._store: Checkpoints | None = getattr(state.code_executor, "checkpoints", None)
        self._taken: list[Checkpoint] = []

    @property
    def checkpoints(self) -> tuple[str, ...]:
        """The ids of the states that can be gone back to, oldest first."""
        return tuple(each.id for each in self._taken)

    def end(self) -> Change | None:
        """Forget them all; what became of the variables is the value, if anything did."""
        self._taken.clear()
        return None if self._store is None else self._store.close()

    def begin(self) -> None:
        """Code is about to run: there is a state to go back to."""
        if not self._taken:
            self.passed()

    def passed(self) -> None:
        """The state as it is now is one that checks have passed."""
        if self._store is not None:
            taken = Checkpoint(
                f"step-{len(self._taken)}", self._store.take(), tuple(self._state.repetition)
            )
            self._taken.append(taken)

    def failed(self) -> PutBack:
        """Code failed: what it did to variables that existed before is taken back."""
        if self._store is None or not self._taken:
            return PutBack()
        return self._store.put_back(self._taken[-1].number, keep_new=True)

    def go_back(self, checkpoint_id: str | None = None) -> str:
        """Go back to a state, by default the newest, and tell the model so.

        ``NoCheckpoint`` when there is none, or none of that id.
        """
        found = [n for n, each in enumerate(self._taken) if checkpoint_id in (None, each.id)]
        if self._store is None or not found:
            named = f" {checkpoint_id!r}" if checkpoint_id else ""
            raise NoCheckpoint(f"there is no checkpoint{named}")
        target = self._taken[found[-1]]
        back = self._store.put_back(target.number)
        del self._taken[found[-1] + 1 :]
        # What was taken back may be done again.
        self._state.repetition = list(target.repetition)
        when = "before the first code of this run" if not found[-1] else f"after step {found[-1]}"
        return f"The variables are as they were {when}. {told(back)}".rstrip()


def told(back: PutBack) -> str:
    """What going back did, in a sentence or two; empty when it did nothing."""
    parts = [
        (back.restored, "Put back as before: {}."),
        (back.removed, "Gone again: {}."),
        (back.kept, "New, and kept: {}."),
        (back.lost, "Perhaps half changed, for there was no copy: {}."),
    ]
    return " ".join(sentence.format(_listed(names)) for names, sentence in parts if names)


def _listed(names: Sequence[str]) -> str:
    more = len(names) - _MOST_NAMES
    return ", ".join(names[:_MOST_NAMES]) + (f" and {more} more" if more > 0 else "")
