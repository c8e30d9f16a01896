"""A namespace in which a person's and an agent's cells run."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from parsimony_kernel.execution.base import InProcessExecutor
from parsimony_kernel.execution.executor import CodeExecutor
from parsimony_kernel.execution.run_scope import RunScope, run_scope
from parsimony_kernel.lineage.checkpoint import Change, PutBack
from parsimony_kernel.session.past import Changes

USER = RunScope("", "n.ipynb", "mine", actor="user")
AGENT = RunScope("run 1", "n.ipynb", "cell", 3)


class Desk:
    """A namespace, by default a private one, and the states and turns that it goes back to."""

    def __init__(
        self, folder: Path | None = None, executor: InProcessExecutor | None = None
    ) -> None:
        self.executor: InProcessExecutor = executor or CodeExecutor(cwd=folder)
        self.checkpoints = self.executor.checkpoints()
        self.changes = Changes()

    async def mine(self, code: str) -> None:
        """Run a person's cell, which must not fail."""
        assert await self._execute(code, USER) == ""

    async def turn(self, run_id: str, *steps: str) -> None:
        """Run a turn of the agent's, whose steps must not fail."""
        self.checkpoints.take()
        for code in steps:
            assert await self._execute(code, RunScope(run_id, "n.ipynb", run_id)) == ""
            self.checkpoints.take()
        if (change := self.checkpoints.close()) is not None:
            self.changes.add(run_id, change)

    def undo(self, run_id: str) -> PutBack:
        return self.changes.undo(run_id, self.executor)

    def redo(self, run_id: str) -> PutBack:
        return self.changes.undo(run_id, self.executor, redo=True)

    def __getitem__(self, name: str) -> Any:
        return self.names[name]

    async def run(self, *cells: str) -> None:
        """Run a person's cells."""
        for code in cells:
            await self._execute(code, USER)

    async def act(self, *cells: str) -> str:
        """Run an agent's cells; the name of the last one's error."""
        return [await self._execute(code, AGENT) for code in cells][-1]

    async def change(self, *cells: str) -> Change:
        """Run an agent's cells as a turn; what they changed."""
        self.checkpoints.take()
        await self.act(*cells)
        change = self.checkpoints.close()
        assert change is not None
        return change

    async def _execute(self, code: str, scope: RunScope) -> str:
        with run_scope(scope):
            output = await self.executor.execute(code)
        return "" if output.error is None else output.error.name

    def ask(self, expression: str) -> str:
        """What an expression gives, as text; no cell, which would be looked at and recorded."""
        return repr(eval(expression, {"np": np, **self.executor.namespace()}))

    @property
    def names(self) -> Mapping[str, Any]:
        return self.executor.variables()
