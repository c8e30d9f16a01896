"""How far a run has come with every check passed, and going back there.

Before each piece of code, and each function of the notebook that is a tool, the namespace is
remembered. One that fails leaves the variables that existed as they were before it; a rollback
goes back to a state after a step that passed. The transcript and what happened outside stay; files
of the workspace come back where a step fails.
"""

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

from parsimony_kernel.core.events import AgentEvent, ArtifactPublished, LLMCallCompleted
from parsimony_kernel.core.state import RunState
from parsimony_kernel.lineage.checkpoint import Change, Checkpoints, PutBack
from parsimony_kernel.lineage.files import Files

_MOST_NAMES = 12
# What a run knows again once it has gone back.
_KNOWN = ("repetition", "procedure_state", "subgoals", "done_subgoals")


@dataclass(frozen=True)
class Checkpoint:
    """A state whose checks had passed, after so many steps. ``number`` is the executor's, and
    ``known`` what the run knew then."""

    steps: int
    number: int
    known: dict[str, Any]

    @property
    def id(self) -> str:
        return f"step-{self.steps}"


class Progress:
    """The checkpoints of one run, as far as its executor has any.

    They are this process's: a run that was suspended begins with none, since the person may have
    worked in the namespace meanwhile.
    """

    def __init__(self, state: RunState, files: Files | None = None) -> None:
        make = getattr(state.code_executor, "checkpoints", None)
        self._store: Checkpoints | None = make() if callable(make) else None
        self._state = state
        self._files = files
        self._passed: list[Checkpoint] = []
        self._steps = self._before = self._files_before = 0
        # Whether the state as it is now is one that checks have passed.
        self._is_good = True

    @property
    def checkpoints(self) -> tuple[str, ...]:
        """The ids of the states that can be gone back to, oldest first."""
        return tuple(each.id for each in self._reachable())

    def begin(self, function: Any = None) -> None:
        """Code, or ``function``, is about to run: there is a state to go back to."""
        if self._files is not None:
            self._files_before = self._files.begin()
        if self._store is None:
            return
        self._before = self._store.take()
        if self._is_good:
            self._record(self._before)
        if function is not None:
            self._store.protect_call(function)

    def passed(self) -> None:
        """What was begun has passed its checks."""
        self._steps += 1
        self._is_good = True

    def spoil(self) -> None:
        """Nobody knows what the state is now: something may still be changing it."""
        self._is_good = False

    def held(self) -> None:
        """What was begun waits for a person; what it has done so far goes if it may not go on."""
        paused = self._paused()
        if paused is None or self._store is None or self._before not in self._store:
            return
        if self._files is not None:
            paused.files += self._files.since(self._files_before)
        change = self._store.change_since(self._before)
        if change is not None:
            paused.changes.append(change)

    def declined(self) -> str:
        """Take back what the code that may not go on had done; what came of it, in words."""
        paused = self._paused()
        if paused is None:
            return ""
        self._state.code_executor.paused = None
        back = []
        if self._store is not None:
            self._store.take()
            back = [self._store.undo(change)[0] for change in reversed(paused.changes)]
        if self._files is not None:
            back.append(PutBack(restored=self._files.give_back(reversed(paused.files))))
        outside = f"What it did outside stays: {' '.join(paused.left)}" if paused.left else ""
        return " ".join(filter(None, (*map(told, back), outside)))

    def _paused(self) -> Any:
        return getattr(self._state.code_executor, "paused", None)

    def failed(self) -> PutBack:
        """What was begun has failed: what it did to names that existed before is taken back."""
        self._is_good = False
        files = () if self._files is None else self._files.put_back(self._files_before)
        if self._store is None or self._before not in self._store:
            return PutBack(restored=files)
        back = self._store.put_back(self._before, keep_new=True)
        return replace(back, restored=(*back.restored, *files))

    def go_back(self, checkpoint_id: str | None = None) -> str:
        """Go back to a state, by default the newest, and tell the model so.

        What the run knew then is known again: its procedure's place, its plan, and what it had
        been shown. ``LookupError`` when there is none, or none of that id.
        """
        found = [each for each in self._reachable() if checkpoint_id in (None, each.id)]
        if self._store is None or not found:
            raise LookupError(f"there is no checkpoint {checkpoint_id or ''!r}")
        target = found[-1]
        back = self._store.put_back(target.number)
        self._passed = [each for each in self._passed if each.number <= target.number]
        self._is_good = True
        for name, value in target.known.items():
            setattr(self._state, name, copy(value))
        when = f"after step {target.steps}" if target.steps else "before the first step of this run"
        return f"The variables are as they were {when}. {told(back)}".rstrip()

    def end(self) -> Change | None:
        """Forget all; what became of the variables is the value, if anything did."""
        self._passed.clear()
        store, self._store = self._store, None
        return None if store is None else store.close()

    def _reachable(self) -> list[Checkpoint]:
        """The states that can be gone back to, the one as it is now among them where checks have
        passed it."""
        if self._store is None:
            return []
        store = self._store
        self._passed = [each for each in self._passed if each.number in store]
        is_noted = bool(self._passed) and self._passed[-1].steps == self._steps
        if self._is_good and not is_noted:
            self._record(store.take())
        return self._passed

    def _record(self, number: int) -> None:
        known = {each: copy(getattr(self._state, each)) for each in _KNOWN}
        self._passed = [each for each in self._passed if each.steps != self._steps]
        self._passed.append(Checkpoint(self._steps, number, known))


def note(event: AgentEvent, state: RunState) -> None:
    """Note what a host has emitted: what is published is minted by this run, and what a model was
    asked beside it is spent by it."""
    turn = state.turn
    if isinstance(event, ArtifactPublished):
        minted = event.model_dump(include={"kind", "logical_id", "content_sha"})
        name = (event.kind, event.live_name or "")
        if minted not in turn.minted_refs:
            turn.minted_refs.append(minted)
        if event.live_name and name not in turn.minted_live_names:
            turn.minted_live_names.append(name)
    elif isinstance(event, LLMCallCompleted):
        state.cumulative_prompt_tokens += event.prompt_tokens
        state.cumulative_completion_tokens += event.completion_tokens
        state.cumulative_cost_usd += event.cost_usd or 0.0


def told(back: PutBack) -> str:
    """What going back did, in a sentence or two; empty when it did nothing."""
    parts = [
        (back.restored, "Put back as before: {}."),
        (back.removed, "Gone again: {}."),
        (back.kept, "New, and kept: {}."),
        (back.lost, "Perhaps changed, for there was no copy of all of it: {}."),
    ]
    return " ".join(sentence.format(_listed(names)) for names, sentence in parts if names)


def _listed(names: Sequence[str]) -> str:
    more = len(names) - _MOST_NAMES
    return ", ".join(names[:_MOST_NAMES]) + (f" and {more} more" if more > 0 else "")
