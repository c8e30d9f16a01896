"""The contract of an executor. ``CodeExecutor``, the in-process default, is found here too."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

from parsimony_kernel.core.outputs import KernelOutput
from parsimony_kernel.execution.guard import Paused
from parsimony_kernel.lineage.checkpoint import Checkpoints
from parsimony_kernel.lineage.ledger import OriginLedger


class BaseCodeExecutor(ABC):
    """Runs Python in a namespace that lasts. Subclass it for another place to run.

    Failures of the code are values: an ``ExceptionObject`` in the output, a deadline included
    (its message contains ``timeout``). Cancelling the awaiting task stops the code and raises
    ``CancelledError``.
    """

    origin_ledger: OriginLedger
    # Whether code is stopped before it reaches outside.
    is_watched = False
    # Code that was stopped before it reached outside, and may go on.
    paused: Paused | None = None

    @abstractmethod
    async def execute(
        self,
        code: str,
        dry_run: bool = False,
        timeout_seconds: float | None = None,
        producer_notebook_path: str | None = None,
        seen_live_names: set[tuple[str, str]] | None = None,
    ) -> KernelOutput:
        """Run a cell of code; a trailing expression is displayed.

        Args:
            code: Python source, top-level ``await`` allowed.
            dry_run: leave nothing behind, see ``guard.leaving_nothing``: no binding, no
                change of what existed, no file, no lineage.
            timeout_seconds: the deadline; ``None`` for no limit.
            producer_notebook_path: the notebook on whose behalf it runs; assigned variables are
                stamped with it.
            seen_live_names: ``(kind, live_name)`` pairs that this run has read or written; those
                of the published tables that the code reads are added.
        """

    @abstractmethod
    async def eval(
        self, expr: str, dry_run: bool = False, timeout_seconds: float | None = None
    ) -> KernelOutput:
        """Evaluate one expression; a statement is an error in the output."""

    @abstractmethod
    async def set_cwd(self, cwd: str, session_id: str | None = None) -> None:
        """Run what follows in the folder ``cwd``."""

    @abstractmethod
    async def clear_namespace(self) -> None:
        """Forget every variable, back to the seed."""

    def variables(self) -> dict[str, Any]:
        """The user-visible bindings by name: no modules, no private names, nothing of IPython's.

        A fresh dict of live objects, or of what stands for them; empty where the executor cannot
        tell.
        """
        return {}

    def checkpoints(self) -> Checkpoints | None:
        """States of the namespace to go back to, kept up to date for as long as somebody holds
        them.

        ``None`` where the executor cannot go back.
        """
        return None


@dataclass(frozen=True)
class CellRequest:
    """Code to run, and how. The fields are the arguments of ``BaseCodeExecutor.execute``."""

    code: str
    dry_run: bool = False
    timeout_seconds: float | None = None
    producer_notebook_path: str | None = None
    is_expression: bool = False

    def __post_init__(self) -> None:
        seconds = self.timeout_seconds
        if seconds is not None and not seconds > 0:
            raise ValueError(f"timeout_seconds is {seconds!r}; give more than 0, or None")


class CellExecutor(BaseCodeExecutor):
    """An executor that runs statements and expressions the same way. Subclasses say where."""

    @abstractmethod
    async def run_cell(self, request: CellRequest) -> tuple[KernelOutput, set[tuple[str, str]]]:
        """Run a cell.

        Returns:
            What came of it, and the ``(kind, live_name)`` of each published table that it read.
        """

    async def execute(
        self,
        code: str,
        dry_run: bool = False,
        timeout_seconds: float | None = None,
        producer_notebook_path: str | None = None,
        seen_live_names: set[tuple[str, str]] | None = None,
    ) -> KernelOutput:
        request = CellRequest(code, dry_run, timeout_seconds, producer_notebook_path)
        output, read = await self.run_cell(request)
        if seen_live_names is not None:
            seen_live_names |= read
        return output

    async def eval(
        self, expr: str, dry_run: bool = False, timeout_seconds: float | None = None
    ) -> KernelOutput:
        request = CellRequest(expr.strip(), dry_run, timeout_seconds, is_expression=True)
        return (await self.run_cell(request))[0]
