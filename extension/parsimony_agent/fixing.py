"""``%agent fix``: the agent mends what failed last in the notebook."""

import linecache
import sys
import traceback
from types import TracebackType

from parsimony_agent.arguments import CellRequest
from parsimony_agent.desk import Desk
from parsimony_agent.pending import OneLine, Silent, TurnError
from parsimony_kernel.view.escape import plain, shortened

_MOST_CODE = 8_000
_MOST_WORDS = 2_000


async def fix(desk: Desk, words: str = "") -> None:
    """Run a turn whose request is to mend the error that the notebook showed last.

    ``words`` say more of what is wanted. ``TurnError`` when no cell has failed.
    """
    error = _last_error()
    if error is None:
        raise TurnError(
            "No cell of this notebook has failed since the kernel started, so there is nothing to "
            f"mend. Run the cell that fails, then {desk.magic} fix."
        )
    request = described(error, words)
    await desk.turns.ask(CellRequest(request), desk.cells.next_turn(f"fix {request}"), desk.stop)


def _last_error() -> BaseException | None:
    # Python 3.12 renamed it; IPython sets both where they are.
    error = getattr(sys, "last_exc", None) or getattr(sys, "last_value", None)
    return error if isinstance(error, BaseException) and not _is_ours(error) else None


def _is_ours(error: BaseException) -> bool:
    return isinstance(error, OneLine | Silent)


def described(error: BaseException, words: str = "") -> str:
    """The request: what failed, where, and the code it was in."""
    code, line = _cell_of(error.__traceback__)
    said = "".join(traceback.format_exception_only(type(error), error)).strip()
    parts = [
        "A cell of this notebook failed. Mend it, so that it does what it was meant to do, run "
        "the mended code, and say in a sentence what was wrong.",
        words.strip(),
        f"The error: {shortened(plain(said), _MOST_WORDS)}",
    ]
    if code:
        where = f", which failed in line {line}" if line else ""
        parts.append(f"The code of the cell{where}:\n```python\n{code}\n```")
    return "\n\n".join(filter(None, parts))


def _cell_of(trace: TracebackType | None) -> tuple[str, int]:
    """The source of the outermost cell that the error went through, and the line in it."""
    while trace is not None:
        name = trace.tb_frame.f_code.co_filename
        source = "".join(linecache.getlines(name))
        if (
            source
            and not name.endswith(".py")
            and trace.tb_frame.f_globals.get("__name__") == "__main__"
        ):
            return source[:_MOST_CODE].rstrip(), trace.tb_lineno
        trace = trace.tb_next
    return "", 0
