"""Record what the user's own cells do to the namespace, for the origins of variables.

Takes two shallow snapshots around each cell and analyses what it could change in place. Errors here
are logged and never shown in that cell. Until there is a session, effects are kept as names:
observing cells imports nothing heavy and keeps no object alive that the user has released.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any

from parsimony_agent.cell import Cells, notebook_path, working_folder
from parsimony_kernel.core.audit import leave, listen
from parsimony_kernel.core.clock import SYSTEM_CLOCK
from parsimony_kernel.execution.run_scope import RunScope
from parsimony_kernel.lineage.file_access import Watch
from parsimony_kernel.lineage.observe import Looked, before_cell, observe_cell, stopped_line
from parsimony_kernel.lineage.snapshot import Snapshot

if TYPE_CHECKING:
    from parsimony_kernel.lineage.ledger import OriginLedger

_log = logging.getLogger(__name__)

_MOST_KEPT = 1_000
# The shell runs the body of %%capture as a nested cell; the outer cell's text contains it.
_CAPTURING = "run_cell_magic('capture'"


def _quietly(look: Callable[..., None]) -> Callable[..., None]:
    """Decorate a listener so that its errors are logged and never reach the observed cell."""

    @wraps(look)
    def looked(*given: Any, **more: Any) -> None:
        try:
            look(*given, **more)
        except KeyboardInterrupt:
            raise
        except BaseException:  # boundary: subscriber - the cell goes on
            _log.debug("A cell could not be looked at", exc_info=True)

    return looked


@dataclass
class _Begun:
    """A running cell: IPython's info, its code, and the state before it.

    ``is_body`` marks the body of a magic that runs as a nested cell of another.
    """

    info: Any
    code: str
    looked: Looked
    watch: Watch
    is_body: bool = False


class UserCells:
    """Listen to the shell and stamp what user cells bind; agent cells stamp their own effects."""

    def __init__(self, shell: Any, cells: Cells) -> None:
        self._shell = shell
        self._cells = cells
        self._ledger: OriginLedger | None = None
        # A stack, since one cell may run another.
        self._open: list[_Begun] = []
        self._kept: list[Callable[[OriginLedger], None]] = []
        self._is_agent = False

    def install(self) -> None:
        self._shell.events.register("pre_run_cell", self._begin)
        self._shell.events.register("post_run_cell", self._end)

    def uninstall(self) -> None:
        for event, listener in (("pre_run_cell", self._begin), ("post_run_cell", self._end)):
            if listener in self._shell.events.callbacks[event]:
                self._shell.events.unregister(event, listener)

    def stamp_into(self, ledger: OriginLedger) -> None:
        """Write the kept effects into ``ledger``, and those of every later cell as it ends."""
        self._ledger = ledger
        kept, self._kept = self._kept, []
        for stamp in kept:
            _quietly(stamp)(ledger)

    def leave_out(self) -> None:
        """Exclude the running cell: it holds a turn, which stamps its own effects."""
        self._is_agent = True
        self._stop_watching(self._open)

    @contextmanager
    def apart(self) -> Iterator[None]:
        """Exclude what happens in this block from the effects of the running cell.

        The cell's effects so far are recorded first. The block's own effects are already on record:
        an undo, a redo, an agent's code.
        """
        if self._open:
            self._record(self._open[0], failed=False)
        try:
            yield
        finally:
            for begun in self._open:
                begun.looked = self._looked(begun.code)

    @_quietly
    def _begin(self, info: Any) -> None:
        if not self._open:
            self._is_agent = False
        code = getattr(info, "transformed_cell", None) or self._transformed(info.raw_cell)
        looked = self._looked(code)
        is_body = any(_CAPTURING in begun.code for begun in self._open)
        watch = Watch(self._shell.user_ns)
        listen(watch.hear)
        self._open.append(_Begun(info, code, looked, watch, is_body))

    def _looked(self, code: str) -> Looked:
        """Return the state before ``code`` runs."""
        try:
            return before_cell(code, self._shell.user_ns)
        except Exception:  # boundary: user object - what a cell binds
            _log.debug("The variables of a cell could not be looked at", exc_info=True)
            return Looked(self._shell.user_ns, before=Snapshot(self._shell.user_ns))

    @_quietly
    def _end(self, result: Any) -> None:
        info = getattr(result, "info", None)
        found = [
            at for at, begun in enumerate(self._open) if info is not None and begun.info is info
        ]
        # A cancelled cell ends without a result, and ends every nested cell too.
        first = found[-1] if found else 0
        ended = self._open[first:]
        del self._open[first:]
        self._stop_watching(ended)
        # Nested cells count as part of the first.
        if ended and not (found and getattr(result, "error_before_exec", None)):
            failed = not found or getattr(result, "error_in_exec", None) is not None
            self._record(ended[0], failed=failed, result=result if found else None)

    @_quietly
    def _record(self, begun: _Begun, *, failed: bool, result: Any = None) -> None:
        if self._is_agent or begun.is_body:
            return
        folder = working_folder()
        effect = observe_cell(
            begun.looked.before.now(self._shell.user_ns),
            self._shell.user_ns.copy(),
            begun.code,
            folder,
            looked=begun.looked,
            opened=begun.watch.read,
            written=begun.watch.written,
            shown=(getattr(result, "result", None), *self._last_outputs()),
            hidden=self._shell.user_ns_hidden,
        )
        code, at = begun.code, SYSTEM_CLOCK.now().isoformat()
        key = self._cells.key(begun.info.raw_cell)
        scope = RunScope("", notebook_path(self._shell).name, key, actor="user")
        stopped_at = stopped_line(getattr(result, "error_in_exec", None), self._shell.user_ns)

        # Capture only names and text, so that no object of the cell is kept alive.
        def stamp(ledger: OriginLedger) -> None:
            from parsimony_kernel.lineage.ledger import stamp_effect

            stamp_effect(ledger, effect, code, scope, at, failed=failed, stopped_at=stopped_at)

        if self._ledger is not None:
            stamp(self._ledger)
        elif len(self._kept) < _MOST_KEPT:
            self._kept.append(stamp)

    def _stop_watching(self, cells: list[_Begun]) -> None:
        for each in cells:
            leave(each.watch.hear)

    def _last_outputs(self) -> list[Any]:
        hook = vars(self._shell.displayhook)
        return [hook.get(name) for name in ("_", "__", "___")]

    def _transformed(self, source: str) -> str:
        try:
            return str(self._shell.transform_cell(source))
        except SyntaxError:
            return source
