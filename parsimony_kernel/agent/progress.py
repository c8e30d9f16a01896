"""How far a run has come with every check passed, and going back there.

Before each piece of code, and each function of the notebook that is a tool, the namespace is
remembered. One that fails leaves the variables that existed as they were before it; a rollback
goes back to a state after a step that passed. The transcript and what happened outside stay; files
of the workspace come back where a step fails.
"""

import inspect
from copy import copy
from dataclasses import replace
from typing import Any

from parsimony_kernel.agent.outcomes import adding, as_restored
from parsimony_kernel.agent.prompts import GONE_BACK
from parsimony_kernel.core.kinds import HELD, Effect, FailureKind
from parsimony_kernel.core.refusals import GUIDANCE
from parsimony_kernel.core.state import RunState
from parsimony_kernel.gate.gate import StepOutcome
from parsimony_kernel.lineage.checkpoint import Change, Checkpoints, PutBack
from parsimony_kernel.lineage.files import Files
from parsimony_kernel.tools import Tool

_MOST_CHARS = 400
# What a run knows again once it has gone back.
_KNOWN = ("repetition", "procedure_state", "subgoals", "done_subgoals")


class Progress:
    """The checkpoints of one run, as far as its executor has any.

    They are this process's: a run that was suspended begins with none, since the person may have
    worked in the namespace meanwhile.
    """

    def __init__(self, state: RunState, files: Files | None = None) -> None:
        make = getattr(state.code_executor, "checkpoints", None)
        self._store: Checkpoints | None = make() if callable(make) else None
        self._state, self._files = state, files
        # The states whose checks had passed, by id: the executor's number, and what the run knew.
        self._passed: dict[str, tuple[int, dict[str, Any]]] = {}
        self._steps = self._before = self._files_before = 0
        # Whether the state as it is now is one that checks have passed, and whether the call that
        # runs is taken back when it fails.
        self._is_good, self._is_tried = True, False

    def begin(self, tool: Tool | None) -> None:
        """A call of ``tool`` is about to run. It is taken back when it fails if it is code, or a
        function of the notebook; ``None`` for one that changes nothing."""
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
        """What the call leaves behind: a state to go back to, or, when it failed, nothing but the
        names that are new. The outcome says what was taken back."""
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
        # Variables go with what happened outside: that is not taken back either. And nobody knows
        # what the state is where something may still be changing it.
        if failure.kind is FailureKind.kernel_invalidated or failure.effect is not Effect.none:
            return outcome
        back = PutBack()
        if self._store is not None:
            back = self._store.put_back(self._before, keep_new=True)
        if self._files is not None:
            files = self._files.put_back(self._files_before)
            back = replace(back, restored=(*back.restored, *files))
        return adding(as_restored(outcome, back), "variables", told(back)) if back else outcome

    def _hold(self) -> None:
        """The call waits for a person; what it has done so far goes if it may not go on."""
        paused = getattr(self._state.code_executor, "paused", None)
        if paused is None or self._store is None:
            return
        if self._files is not None:
            paused.files += self._files.since(self._files_before)
        if (change := self._store.change_since(self._before)) is not None:
            paused.changes.append(change)

    def declined(self) -> str:
        """Take back what the code that may not go on had done; what came of it, in words."""
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
        return " ".join(filter(None, (*map(told, back), outside)))

    @property
    def checkpoints(self) -> tuple[str, ...]:
        """The ids of the states that can be gone back to, oldest first; the one as it is now among
        them, where checks have passed it."""
        if (store := self._store) is None:
            return ()
        self._passed = {name: each for name, each in self._passed.items() if each[0] in store}
        if self._is_good and f"step-{self._steps}" not in self._passed:
            self._record(store.take())
        return tuple(self._passed)

    def go_back(self, checkpoint_id: str | None = None) -> str:
        """Go back to a state, by default the newest, and tell the model so.

        What the run knew then is known again: its procedure's place, its plan, and what it had
        been shown. ``LookupError`` when there is none, or none of that id.
        """
        known = self.checkpoints
        target = next(reversed(known), "") if checkpoint_id is None else checkpoint_id
        if self._store is None or target not in known:
            raise LookupError(f"there is no checkpoint {target!r}")
        number, facts = self._passed[target]
        back = self._store.put_back(number)  # with which the later ones are gone
        self._is_good = True
        for name, value in facts.items():
            setattr(self._state, name, copy(value))
        steps = target.removeprefix("step-")
        when = "before the first step of this run" if steps == "0" else f"after step {steps}"
        return f"The variables are as they were {when}. {told(back)}".rstrip()

    def end(self) -> Change | None:
        """Forget all; what became of the variables is the value, if anything did."""
        store, self._store = self._store, None
        return None if store is None else store.close()

    def _record(self, number: int) -> None:
        facts = {each: copy(getattr(self._state, each)) for each in _KNOWN}
        self._passed[f"step-{self._steps}"] = number, facts


def told(back: PutBack) -> str:
    """What going back did, in a sentence or two; empty when it did nothing."""
    said = []
    for each, words in GONE_BACK.items():
        if names := ", ".join(getattr(back, each)):
            said.append(words.format(names[:_MOST_CHARS] + "…" * (len(names) > _MOST_CHARS)))
    return " ".join(said)
