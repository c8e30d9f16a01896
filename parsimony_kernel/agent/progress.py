"""Checkpoints of a run, for undoing a failed step and for rollback.

The namespace is recorded before each code call and each call of a notebook function that is a
tool. When the call fails, existing variables and workspace files are restored. A rollback restores
the variables of the state after a successful step. The transcript and outside effects are never
reverted.
"""

import inspect
from copy import copy
from dataclasses import replace
from typing import Any

from parsimony_kernel.agent.outcomes import adding, as_restored
from parsimony_kernel.agent.prompts import GONE_BACK
from parsimony_kernel.core.kinds import GUIDANCE, HELD, Effect, FailureKind
from parsimony_kernel.core.state import RunState
from parsimony_kernel.gate.gate import StepOutcome
from parsimony_kernel.lineage.checkpoint import Change, Checkpoints, PutBack
from parsimony_kernel.lineage.file_backups import Files
from parsimony_kernel.tools import Tool

_MOST_CHARS = 400
# The state fields that a rollback restores.
_KNOWN = ("repetition", "procedure_state", "subgoals", "done_subgoals")


class Progress:
    """The checkpoints of one run, if its executor supports them.

    They live in this process. A resumed run starts without any, since the person may have changed
    the namespace meanwhile.
    """

    def __init__(self, state: RunState, files: Files | None = None) -> None:
        make = getattr(state.code_executor, "checkpoints", None)
        self._store: Checkpoints | None = make() if callable(make) else None
        self._state, self._files = state, files
        # Checkpoints by id: the executor's number, and the state fields of ``_KNOWN``.
        self._passed: dict[str, tuple[int, dict[str, Any]]] = {}
        self._steps = self._before = self._files_before = 0
        # Whether the current state is a valid checkpoint, and whether the current call is undone
        # when it fails.
        self._is_good, self._is_tried = True, False

    def begin(self, tool: Tool | None) -> None:
        """Record the namespace before a call of ``tool``.

        A failed call is undone if it is code or a function of the notebook. Pass ``None`` for a
        call that changes nothing.
        """
        body = inspect.unwrap(tool.function) if tool and tool.tool_type == "function" else None
        is_own = getattr(body, "__module__", None) == "__main__"
        self._is_tried = is_own or (tool is not None and tool.tool_type == "code")
        if self._is_tried and self._files is not None:
            self._files_before = self._files.begin()
        if self._is_tried and self._store is not None:
            self._before = self._store.take()
            if self._is_good:
                self._record(self._before)
            if is_own:
                self._store.protect_call(body)

    def settle(self, outcome: StepOutcome) -> StepOutcome:
        """Mark a successful call as a checkpoint, or undo a failed one and say so in the outcome.

        New names are kept after a failure.
        """
        failure = outcome.failure
        if not self._is_tried or outcome.request is not None:
            return outcome
        if failure is None:
            self._steps, self._is_good = self._steps + 1, True
            return outcome
        if HELD in failure.metadata:
            self._hold()
        if failure.refusal in GUIDANCE or HELD in failure.metadata:
            return outcome
        self._is_good = False
        # Outside effects can't be undone, so the variables that go with them stay. And in an
        # invalidated kernel something may still be changing the state.
        if failure.kind is FailureKind.kernel_invalidated or failure.effect is not Effect.none:
            return outcome
        back = PutBack()
        if self._store is not None:
            back = self._store.put_back(self._before, keep_new=True)
        if self._files is not None:
            files = self._files.give_back(self._files.since(self._files_before))
            back = replace(back, restored=(*back.restored, *files))
        return adding(as_restored(outcome, back), "variables", in_words(back)) if back else outcome

    def _hold(self) -> None:
        """Save the changes of a call that waits for approval, so that they can be undone if the
        person declines."""
        paused = getattr(self._state.code_executor, "paused", None)
        if paused is None or self._store is None:
            return
        if self._files is not None:
            paused.files += self._files.since(self._files_before)
        if (change := self._store.change_since(self._before)) is not None:
            paused.changes.append(change)

    def declined(self) -> str:
        """Undo what a declined call did before it paused; return a description."""
        paused = getattr(self._state.code_executor, "paused", None)
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
        return " ".join(filter(None, (*map(in_words, back), outside)))

    @property
    def checkpoints(self) -> tuple[str, ...]:
        """The ids of the available checkpoints, oldest first.

        They include the current state, if it is valid.
        """
        if (store := self._store) is None:
            return ()
        self._passed = {name: each for name, each in self._passed.items() if each[0] in store}
        if self._is_good and f"step-{self._steps}" not in self._passed:
            self._record(store.take())
        return tuple(self._passed)

    def go_back(self, checkpoint_id: str | None = None) -> str:
        """Restore a checkpoint, by default the newest, and return a description for the model.

        Also restores the procedure's state, the plan and the repetition counts. Raises
        ``LookupError`` when there is no checkpoint, or none of that id.
        """
        known = self.checkpoints
        target = next(reversed(known), "") if checkpoint_id is None else checkpoint_id
        if self._store is None or target not in known:
            raise LookupError(f"there is no checkpoint {target!r}")
        number, facts = self._passed[target]
        back = self._store.put_back(number)  # this drops the later ones
        self._is_good = True
        for name, value in facts.items():
            setattr(self._state, name, copy(value))
        steps = target.removeprefix("step-")
        when = "before the first step of this run" if steps == "0" else f"after step {steps}"
        return f"The variables are as they were {when}. {in_words(back)}".rstrip()

    def end(self) -> Change | None:
        """Close the checkpoints; return the run's change of the variables, if there is any."""
        store, self._store = self._store, None
        return None if store is None else store.close()

    def _record(self, number: int) -> None:
        facts = {each: copy(getattr(self._state, each)) for each in _KNOWN}
        self._passed[f"step-{self._steps}"] = number, facts


def in_words(back: PutBack) -> str:
    """Describe what was restored, in a sentence or two; empty if nothing was."""
    sentences = []
    for each, words in GONE_BACK.items():
        if names := ", ".join(getattr(back, each)):
            sentences.append(words.format(names[:_MOST_CHARS] + "…" * (len(names) > _MOST_CHARS)))
    return " ".join(sentences)
