"""Worker processes of a cell: they compute, and reach no further than what needs no question.

A forked one has the hook of its parent. One that is spawned gets its own with what it is told
first, when it starts; nobody could be asked there, so reaching outside is an error.
"""

import builtins
import multiprocessing.process
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

from parsimony_kernel.execution.guard import keeper_here
from parsimony_kernel.execution.permit import Permit
from parsimony_kernel.execution.reaching import EVENTS, Judge, caller

# Who prepares the data of a new process: Python, and the library behind joblib's.
_SPAWNING = (
    "multiprocessing.spawn",
    "joblib.externals.loky.backend.spawn",
    "loky.backend.spawn",
)
_PACKAGES = Path(__file__).resolve().parents[2]
_is_watching = False


def refusal(what: str) -> PermissionError:
    """What code in a worker is told that would have to ask."""
    return PermissionError(f"a worker process may not reach {what}: do it in the cell itself")


def guard_worker(workspace: str, made: Iterable[str]) -> None:
    """From now on this process reaches nothing that a person would be asked about."""
    judge = Judge(Path(workspace), tuple, set(made))

    def hear(event: str, arguments: tuple[Any, ...]) -> None:
        if event in EVENTS:
            found = judge.target(event, arguments, caller("", workspace))
            if found is not None:
                raise refusal(found[1])

    sys.addaudithook(hear)


class _Guarding:
    """Installs the hook where it is unpickled, before the package can be found there."""

    def __init__(self, permit: Permit) -> None:
        self._given = (str(permit.workspace), tuple(permit.made))

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[str]]:
        workspace, made = self._given
        return builtins.exec, (
            f"import sys; sys.path.append({str(_PACKAGES)!r})\n"
            "from parsimony_kernel.execution.worker import guard_worker\n"
            f"guard_worker({workspace!r}, {made!r})",
        )


def watch_workers() -> None:
    """Let every process that a cell starts from now on begin with the hook."""
    global _is_watching
    if _is_watching:
        return
    _is_watching = True
    start = multiprocessing.process.BaseProcess.start

    def start_guarded(process: multiprocessing.process.BaseProcess) -> None:
        permit = getattr(keeper_here(), "permit", None)
        with ExitStack() as changed:
            for name in _SPAWNING:
                # The first process of all imports it while it starts, which is too late.
                if name.rpartition(".")[0] in sys.modules and isinstance(permit, Permit):
                    changed.enter_context(_telling(import_module(name), permit))
            start(process)

    setattr(multiprocessing.process.BaseProcess, "start", start_guarded)  # noqa: B010


@contextmanager
def _telling(spawning: Any, permit: Permit) -> Iterator[None]:
    prepare = spawning.get_preparation_data

    def with_hook(*arguments: Any, **named: Any) -> dict[str, Any]:
        return {"parsimony": _Guarding(permit), **prepare(*arguments, **named)}

    spawning.get_preparation_data = with_hook
    try:
        yield
    finally:
        spawning.get_preparation_data = prepare
