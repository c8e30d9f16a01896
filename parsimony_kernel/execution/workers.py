"""Worker processes of a cell: side effects that need approval are refused there.

A forked worker inherits the audit hook. A spawned worker installs its own from its preparation
data before anything else, so this module imports only the standard library. A worker can't ask for
approval: a side effect is an error there, and the cell that started it reports it as well.
"""

import builtins
import multiprocessing.process
import os
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

from parsimony_kernel.execution import side_effects
from parsimony_kernel.execution.native import watch_native_code
from parsimony_kernel.execution.side_effects import Caller, Judge, Target

# Modules that prepare the data of a new process: Python's, and loky, which joblib uses.
_SPAWNING = ("multiprocessing.spawn", "joblib.externals.loky.backend.spawn", "loky.backend.spawn")
_PACKAGES = Path(__file__).resolve().parents[2]


class Keeper:
    """The approval check of one capture's code, and of the worker processes that it starts.

    Args:
        judge: classifies the audit events of the code.
        refusals: a file to which each worker appends what it may not reach; created when the
            first one starts.
    """

    def __init__(self, judge: Judge, refusals: str = "") -> None:
        self.judge, self.refusals = judge, refusals

    def check(self, event: str, found: Target, by: Caller) -> None:
        """Raise to prevent a side effect; in a worker, whatever it is."""
        self.refuse(found[1])

    def starting(self) -> None:
        """Prepare for a worker that is about to start."""
        if not self.refusals:
            handle, self.refusals = tempfile.mkstemp(prefix="parsimony-")
            os.close(handle)

    def refused(self) -> str:
        """Return a line for each refusal so far, without duplicates; later ones aren't recorded."""
        if not self.refusals:
            return ""
        noted, self.refusals = Path(self.refusals), ""
        lines = noted.read_text(encoding="utf-8").splitlines(keepends=True)
        noted.unlink()
        return "".join(dict.fromkeys(lines))

    def refuse(self, what: str) -> NoReturn:
        """Raise ``PermissionError`` in a worker for a side effect, and record the refusal."""
        with suppress(OSError):  # the cell that started it has ended, and nobody reads it
            notes = os.open(self.refusals, os.O_WRONLY | os.O_APPEND)
            os.write(notes, f"A worker process may not reach {what}.\n".encode())
            os.close(notes)
        raise PermissionError(f"a worker process may not reach {what}: do it in the cell itself")

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[str]]:
        # Unpickling installs the hook in the worker, whose path may lack this package until then.
        judge = self.judge
        given = (str(judge.workspace), tuple(judge.made), judge.is_dry, self.refusals)
        return builtins.exec, (
            f"import sys; sys.path.append({str(_PACKAGES)!r})\n"
            "from parsimony_kernel.execution.workers import guard_worker\n"
            f"guard_worker(*{given!r})",
        )


def guard_worker(workspace: str, made: tuple[str, ...], is_dry: bool, refusals: str) -> None:
    """Install an audit hook in this process that refuses side effects that need approval."""
    keeper = Keeper(Judge(Path(workspace), made=set(made), is_dry=is_dry), refusals)

    def hear(event: str, arguments: tuple[Any, ...]) -> None:
        if event in side_effects.EVENTS:
            by = keeper.judge.caller()
            found = keeper.judge.target(event, arguments, by)
            if found is not None:
                keeper.check(event, found, by)

    sys.addaudithook(hear)
    side_effects.watch_environment(1)
    watch_native_code()


def watch_workers(here: Callable[[], Keeper | None]) -> None:
    """Make every process that a cell starts install the hook first.

    Args:
        here: returns the keeper of the running cell.
    """
    start = multiprocessing.process.BaseProcess.start

    def start_guarded(process: multiprocessing.process.BaseProcess) -> None:
        keeper = here()
        if keeper is not None:
            keeper.starting()
            for name in _SPAWNING:
                # The first process of all imports it while it starts, which is too late.
                if name.rpartition(".")[0] in sys.modules:
                    _hand(import_module(name), here)
        start(process)

    if start.__name__ != start_guarded.__name__:
        setattr(multiprocessing.process.BaseProcess, "start", start_guarded)  # noqa: B010


def _hand(spawning: Any, here: Callable[[], Keeper | None]) -> None:
    """Let a module that prepares new processes add the hook from now on.

    It stays: threads of a cell may start several processes at once, as Dask does.
    """
    prepare = spawning.get_preparation_data

    def with_hook(*arguments: Any, **named: Any) -> dict[str, Any]:
        return {"parsimony": here(), **prepare(*arguments, **named)}

    if prepare.__name__ != with_hook.__name__:
        spawning.get_preparation_data = with_hook
