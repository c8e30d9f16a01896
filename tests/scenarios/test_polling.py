"""Asking again for what changes is no loop, in code as in tools; the same answer again is one."""

from collections.abc import Callable

import pytest

from parsimony_kernel.core.events import ToolEvent
from parsimony_kernel.core.kinds import FailureKind
from parsimony_kernel.session.session import NotebookSession
from parsimony_kernel.testing.scripted import call

START = "import itertools\ncount = itertools.count()"


@pytest.mark.parametrize(
    ("code", "times"),
    [
        ("n = next(count)\nprint('ready' if n > 9 else f'waiting {n}')", 12),
        ("print('waiting')", 2),
        ("n = next(count)\nraise ValueError(n)", 3),
    ],
    ids=["the answer changes", "the same answer", "fails anew each time"],
)
async def test_polling_continues_while_output_changes(
    scripted: Callable[..., NotebookSession], code: str, times: int
) -> None:
    done = call("return_done", summary="It is ready.")
    session = scripted(call("run_code", code=START), *[call("run_code", code=code)] * 12, done)
    events = [event async for event in session.turn("wait until it is ready", cell_key="a")]
    ran = [
        each
        for each in events
        if isinstance(each, ToolEvent)
        and each.completed
        and each.tool_name == "run_code"
        and not (each.failure and each.failure.kind is FailureKind.loop_detected)
    ]
    assert len(ran) == 1 + times
