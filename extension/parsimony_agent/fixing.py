"""``%agent fix``: the agent mends what failed last in the notebook."""

import linecache
import sys
import traceback
from pathlib import Path

from parsimony_agent.arguments import CellRequest
from parsimony_agent.desk import Desk
from parsimony_agent.options import options_of
from parsimony_agent.pending import OneLine, Silent, TurnError
from parsimony_kernel.session.share import Share
from parsimony_kernel.session.turns import MENDING
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
    share = options_of(CellRequest("fix"), desk.settings).share
    request = described(error, words, tells_values=share in (Share.full, Share.samples))
    await desk.turns.ask(CellRequest(request), desk.cells.next_turn(f"fix {request}"), desk.stop)


def _last_error() -> BaseException | None:
    # Python 3.12 renamed it; IPython sets both where they are.
    error = getattr(sys, "last_exc", None) or getattr(sys, "last_value", None)
    return error if isinstance(error, BaseException) and not _is_ours(error) else None


def _is_ours(error: BaseException) -> bool:
    return isinstance(error, OneLine | Silent)


def described(error: BaseException, words: str = "", *, tells_values: bool = True) -> str:
    """The request: what failed, where, and the code that it went through.

    The words of an error can hold values from the data: without ``tells_values`` only its type is
    told.
    """
    parts = [
        f"{MENDING} Mend it, so that it does what it was meant to do, run the mended code, and say "
        "in a sentence what was wrong.",
        words.strip(),
        f"The error: {shortened(plain(_said(error, tells_values=tells_values)), _MOST_WORDS)}",
    ]
    cells = _cells_of(error)
    if cells:
        code, line = cells[0]
        parts.append(f"The code of the cell, which failed in line {line}:\n{_fenced(code)}")
        within, deepest = cells[-1]
        if within != code:
            parts.append(
                f"It went into another cell, where line {deepest} raised:\n{_fenced(within)}"
            )
    return "\n\n".join(filter(None, parts))


def _said(error: BaseException, *, tells_values: bool) -> str:
    if not tells_values:
        return f"{type(error).__name__} (its words stay in the notebook)"
    if isinstance(error, SyntaxError):
        # Its own words name a file that stands for the cell.
        return f"{type(error).__name__}: {error.msg}"
    return "".join(traceback.format_exception_only(type(error), error)).strip()


def _fenced(code: str) -> str:
    return f"```python\n{code[:_MOST_CODE].rstrip()}\n```"


def _cells_of(error: BaseException) -> list[tuple[str, int]]:
    """Where in cells the error went through, from the outermost: the cell's code and the line."""
    found: list[tuple[str, int]] = []
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_globals.get("__name__") == "__main__":
            found.append((trace.tb_frame.f_code.co_filename, trace.tb_lineno))
        trace = trace.tb_next
    if isinstance(error, SyntaxError) and error.filename:
        found = [(error.filename, error.lineno or 1)]
    return [(source, line) for name, line in found if (source := _source(name))]


def _source(name: str) -> str:
    """The text of the cell that is called ``name``; empty where that is a file, as of ``%run``."""
    # A kernel calls its cells like files of a temporary folder, and writes none.
    return "" if Path(name).exists() else "".join(linecache.getlines(name))
