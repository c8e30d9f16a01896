"""A namespace whose cells run and are recorded as a shell records them."""

import linecache
from pathlib import Path
from typing import Any

from parsimony_kernel.execution.run_scope import RunScope
from parsimony_kernel.lineage.ledger import CellRun, OriginLedger, stamp_effect
from parsimony_kernel.lineage.observe import CellEffect, before_cell, observe_cell, stopped_line

SCOPE = RunScope(run_id="r", notebook_path="nb.ipynb", cell_id="c", actor="user")


class Notebook:
    def __init__(self, cwd: Path | None = None) -> None:
        self.names: dict[str, Any] = {"__name__": "__main__"}
        self.ledger = OriginLedger()
        self.cwd = cwd or Path.cwd()

    def cell(self, code: str) -> CellEffect:
        filename = f"<cell {len(self.ledger.cell_runs())} {id(self)}>"
        linecache.cache[filename] = (len(code), None, code.splitlines(keepends=True), filename)
        looked = before_cell(code, self.names)
        error: BaseException | None = None
        try:
            exec(compile(code, filename, "exec"), self.names)
        except Exception as exc:
            error = exc
        before, after = looked.before.now(self.names), dict(self.names)
        effect = observe_cell(before, after, code, self.cwd, looked=looked)
        line = stopped_line(error, self.names)
        ended: dict[str, Any] = {"failed": error is not None, "stopped_at": line}
        stamp_effect(self.ledger, effect, code, SCOPE, "2024-05-01T00:00:00", **ended)
        return effect

    def ran(self, code: str) -> CellRun:
        """Run a cell; what is on record of it."""
        self.cell(code)
        return self.ledger.cell_runs()[-1]
