"""The executor interface: run Python code in a persistent namespace."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

from parsimony_kernel.core.outputs import KernelOutput
from parsimony_kernel.execution.guard import Paused
from parsimony_kernel.lineage.checkpoint import Checkpoints
from parsimony_kernel.lineage.ledger import OriginLedger


class BaseCodeExecutor(ABC):
    """Runs Python in a persistent namespace. Subclass it to run code elsewhere.

    Errors of the code are values: an ``ExceptionObject`` in the output, also for a deadline (its
    message contains ``timeout``). Cancelling the awaiting task stops the code and raises
    ``CancelledError``.
    """

    origin_ledger: OriginLedger
    # Whether this executor stops code before side effects that need approval.
    is_watched = False
    # Code stopped before a side effect, which can resume after approval.
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
            producer_notebook_path: the notebook that the code runs for; recorded as the origin of
                the variables that it assigns.
            seen_live_names: ``(kind, live_name)`` pairs that this run has read or written; the
                pairs of published tables that the code reads are added.

        Returns:
            The output, including errors of the code.
        """

    @abstractmethod
    async def eval(
        self, expr: str, dry_run: bool = False, timeout_seconds: float | None = None
    ) -> KernelOutput:
        """Evaluate one expression.

        Args:
            expr: Python source of an expression; a statement is an error in the output.
            dry_run: leave nothing behind, as for ``execute``.
            timeout_seconds: the deadline; ``None`` for no limit.
        """

    @abstractmethod
    async def set_cwd(self, cwd: str, session_id: str | None = None) -> None:
        """Set the working folder of later cells.

        Args:
            cwd: the path of the folder.
            session_id: not used by the executors here.
        """

    @abstractmethod
    async def clear_namespace(self) -> None:
        """Delete every variable, back to the initial namespace."""

    def variables(self) -> dict[str, Any]:
        """Return the user-visible variables: no modules, private names or IPython internals.

        Returns:
            A new dict of live objects or their stand-ins (``RemoteValue``); empty if the executor
            doesn't know.
        """
        return {}

    def checkpoints(self) -> Checkpoints | None:
        """Return checkpoints of the namespace; ``None`` when the executor can't restore state.

        They are kept up to date for as long as the caller holds a reference.
        """
        return None


@dataclass(frozen=True)
class CellRequest:
    """A request to run code. The fields are the arguments of ``BaseCodeExecutor.execute``."""

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
    """An executor that runs statements and expressions in the same way, by ``run_cell``."""

    @abstractmethod
    async def run_cell(self, request: CellRequest) -> tuple[KernelOutput, set[tuple[str, str]]]:
        """Run a cell.

        Returns:
            The output, and the ``(kind, live_name)`` of each published table that the cell read.
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
