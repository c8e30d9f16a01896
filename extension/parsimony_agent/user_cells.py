"""What the user's own cells did to the namespace, for the origins of variables.

Two shallow snapshots around each cell. What goes wrong here is logged and never shown in that
cell. While there is no session what a cell did is kept as stand-ins that hold no data, and told
once there is one: looking at cells imports nothing heavy and keeps nothing alive that the user
has let go.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from parsimony_agent.cell import Cells, locate, working_folder
from parsimony_kernel.clock import SYSTEM_CLOCK
from parsimony_kernel.execution.run_scope import RunScope
from parsimony_kernel.lineage.analysis import analyse
from parsimony_kernel.lineage.snapshot import difference, visible

if TYPE_CHECKING:
    from parsimony_kernel.lineage.ledger import OriginLedger

_log = logging.getLogger(__name__)

Names = Mapping[str, Any]
_MOST_KEPT = 1_000
_IMMUTABLE = (bool, int, float, complex, str, bytes, tuple, frozenset, type(None))


@dataclass(frozen=True)
class UserCell:
    """One cell that ran: its code after IPython's transforms, and the names around it."""

    before: Names
    after: Names
    code: str
    scope: RunScope
    folder: Path
    at: str

    def without_data(self) -> UserCell:
        """The same with a stand-in for every object, and only the names that matter.

        Stand-ins keep what lineage asks of an object: whether it is another one, and whether
        it can change in place.
        """
        names = analyse(self.code)
        found = difference(self.before, self.after)
        mutated = {id(self.after[name]) for name in names.mutated & self.after.keys()}
        matter = {
            *found.changed,
            *found.deleted,
            *names.reads,
            *names.writes,
            *names.mutated,
            *(name for name, value in self.after.items() if id(value) in mutated),
        }
        stand_ins: dict[int, object] = {}

        def stripped(bindings: Names) -> Names:
            return {
                name: stand_ins.setdefault(
                    id(value), str(id(value)) if issubclass(type(value), _IMMUTABLE) else object()
                )
                for name in matter
                if (value := bindings.get(name, stand_ins)) is not stand_ins
            }

        return UserCell(
            stripped(self.before), stripped(self.after), self.code, self.scope, self.folder, self.at
        )


class UserCells:
    """Listens to the shell and stamps what its cells bound; the agent's cells stamp themselves."""

    def __init__(self, shell: Any, cells: Cells) -> None:
        self._shell = shell
        self._cells = cells
        self._ledger: OriginLedger | None = None
        # Cells nest: one may run another.
        self._open: list[tuple[Any, Names]] = []
        self._kept: list[UserCell] = []
        self._is_agent = False

    def install(self) -> None:
        self._shell.events.register("pre_run_cell", self._begin)
        self._shell.events.register("post_run_cell", self._end)

    def uninstall(self) -> None:
        for event, listener in (("pre_run_cell", self._begin), ("post_run_cell", self._end)):
            if listener in self._shell.events.callbacks[event]:
                self._shell.events.unregister(event, listener)

    def stamp_into(self, ledger: OriginLedger) -> None:
        """Stamp what was kept, and every cell from now on, into ``ledger``."""
        self._ledger = ledger
        kept, self._kept = self._kept, []
        for cell in kept:
            self._quietly(lambda cell=cell: self._stamp(ledger, cell))  # type: ignore[misc]

    def leave_out(self) -> None:
        """The cell that runs now holds a turn, which stamps what it does itself."""
        self._is_agent = True

    def _begin(self, info: Any) -> None:
        self._quietly(lambda: self._look_before(info))

    def _end(self, result: Any) -> None:
        self._quietly(lambda: self._look_after(result))

    def _quietly(self, look: Callable[[], None]) -> None:
        try:
            look()
        except KeyboardInterrupt:
            raise
        except BaseException:  # an observer: the cell is somebody else's, whatever is in it
            _log.debug("A cell could not be looked at", exc_info=True)

    def _look_before(self, info: Any) -> None:
        if not self._open:
            self._is_agent = False
        self._open.append((info, self._visible()))

    def _look_after(self, result: Any) -> None:
        info = getattr(result, "info", None)
        found = [place for place, (begun, _) in enumerate(self._open) if begun is info]
        if info is None or not found:
            # A cell that was cancelled ends without a result.
            self._open.clear()
            return
        _, before = self._open[found[-1]]
        del self._open[found[-1] :]
        if self._is_agent:
            return
        code = getattr(info, "transformed_cell", None) or self._transformed(info.raw_cell)
        where = locate(self._shell)
        scope = RunScope("", where.notebook, self._cells.key(info.raw_cell), actor="user")
        cell = UserCell(
            before, self._visible(), code, scope, working_folder(), SYSTEM_CLOCK.now().isoformat()
        )
        if self._ledger is not None:
            self._stamp(self._ledger, cell)
        elif len(self._kept) < _MOST_KEPT:
            self._kept.append(cell.without_data())

    def _visible(self) -> Names:
        return visible(self._shell.user_ns, self._shell.user_ns_hidden)

    def _transformed(self, source: str) -> str:
        try:
            return str(self._shell.transform_cell(source))
        except SyntaxError:
            return source

    def _stamp(self, ledger: OriginLedger, cell: UserCell) -> None:
        from parsimony_kernel.lineage.stamping import stamp_cell

        stamp_cell(ledger, cell.before, cell.after, cell.code, cell.scope, cell.folder, cell.at)
