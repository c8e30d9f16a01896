"""A namespace in which a person's and an agent's cells run."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from parsimony_kernel.execution.private import CodeExecutor
from parsimony_kernel.execution.run_scope import RunScope, run_scope

USER = RunScope("", "n.ipynb", "mine", actor="user")
AGENT = RunScope("run 1", "n.ipynb", "cell")


class Desk:
    """A private namespace, and the states that it goes back to."""

    def __init__(self, folder: Path | None = None) -> None:
        self.executor = CodeExecutor(cwd=folder)
        self.checkpoints = self.executor.checkpoints()

    async def run(self, *cells: str) -> None:
        """Run a person's cells."""
        for code in cells:
            await self._execute(code, USER)

    async def act(self, *cells: str) -> str:
        """Run an agent's cells; the name of the last one's error."""
        return [await self._execute(code, AGENT) for code in cells][-1]

    async def _execute(self, code: str, scope: RunScope) -> str:
        with run_scope(scope):
            output = await self.executor.execute(code)
        return "" if output.error is None else output.error.name

    async def ask(self, expression: str) -> str:
        """What an expression gives, as text."""
        output = await self.executor.eval(f"repr({expression})")
        assert output.error is None, output.error
        return str(output.outputs[0].for_model())

    @property
    def names(self) -> Mapping[str, Any]:
        return self.executor.variables()
