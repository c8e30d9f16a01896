"""The contract of an executor. ``CodeExecutor``, the in-process default, is found here too."""

from abc import ABC, abstractmethod
from typing import Any

from parsimony_kernel.core.outputs import KernelOutput
from parsimony_kernel.execution.statement_guard import Paused
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
            dry_run: leave nothing behind, see ``execution.dry_run``: no binding, no change of
                what existed, no file, no lineage.
            timeout_seconds: the deadline; ``None`` for no limit.
            producer_notebook_path: the notebook on whose behalf it runs; assigned variables are
                stamped with it.
            seen_live_names: ``(kind, live_name)`` pairs that this run has read or written; those
                of the published tables that the code reads are added.
        """

    @abstractmethod
    async def eval(
        self,
        expr: str,
        dry_run: bool = False,
        timeout_seconds: float | None = None,
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
