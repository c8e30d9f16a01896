"""A permit in a kernel somewhere else: its code asks the run that it belongs to, and waits.

A question travels over the channel for input, as JSON: the name of a function of the permit and
its arguments. The answer is what the function gave, or why it could not.
"""

import json
import threading
import time
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from parsimony_kernel.core.reach import Reach, ReachKind
from parsimony_kernel.execution.permit import Permit
from parsimony_kernel.execution.statement_guard import Paused

# How long code waits for leave, in seconds; then it does without.
_WAIT_S = 2.0
_ASKED = frozenset({"allows", "sha", "leaving", "ended", "keep"})

Sent = dict[str, Any]

# On the side of the run


def sent(permit: Permit, *, is_here: bool) -> Sent:
    """``permit`` as a request takes it along.

    Args:
        is_here: the kernel runs on this machine and sees the same files.
    """
    workspace = str(permit.workspace) if is_here else None
    return {"workspace": workspace, "approved": permit.approved, "made": sorted(permit.made)}


def answers(permit: Permit) -> Callable[[str], str]:
    """Answers what the far side asks of ``permit``."""

    def answer(question: str) -> str:
        asked = json.loads(question)
        try:
            if asked["do"] not in _ASKED:
                raise ValueError(f"{asked['do']!r} is nothing that code may ask")
            given = [_reach(each) if type(each) is dict else each for each in asked["given"]]
            told = {"value": getattr(permit, asked["do"])(*given)}
        except Exception as exc:  # boundary: front end - it is raised where the code asked
            told = {"error": f"{type(exc).__name__}: {exc}"}
        return json.dumps({"number": asked["number"], **told})

    return answer


def settle(permit: Permit, came: Sent) -> Paused | None:
    """Write into ``permit`` what came of it there; the code that waits there, if any does."""
    permit.held = came["held"] and _reach(came["held"])
    permit.why_not, permit.open_end = came["why_not"], came["open_end"]
    permit.left += map(_reach, came["left"])
    permit.made.update(came["made"])
    paused = came["paused"]
    return paused and Paused(None, paused["sha"], left=tuple(paused["left"]))


def _reach(told: Sent) -> Reach:
    return Reach(**{**told, "kind": ReachKind(told["kind"])})


# In the kernel


class Asking:
    """Asks, while the kernel handles a request. Used from any of its threads."""

    def __init__(self, kernel: Any) -> None:
        self._kernel = kernel
        self._parent = kernel.get_parent("shell")
        self._ident = kernel._parent_ident["shell"]
        self._lock = threading.Lock()
        self._number = 0

    def __call__(self, do: str, *given: Any) -> Any:
        """The answer. ``PermissionError`` where none comes in time, or none can be given."""
        with self._lock:
            self._number += 1
            question = json.dumps({"do": do, "given": given, "number": self._number})
            session, socket = self._kernel.session, self._kernel.stdin_socket
            content = {"prompt": question, "password": False}
            session.send(socket, "input_request", content, self._parent, ident=self._ident)
            due = time.monotonic() + _WAIT_S
            while (left := due - time.monotonic()) > 0:
                if not socket.poll(int(left * 1000) + 1):
                    continue
                _, reply = session.recv(socket)
                answer = json.loads(reply["content"]["value"]) if reply else {}
                if answer.get("number") == self._number:
                    break
            else:
                raise PermissionError("the notebook that this code belongs to does not answer")
        if "error" in answer:
            raise PermissionError(f"this could not be put on record: {answer['error']}")
        return answer["value"]


def far_permit(told: Sent, folder: Path, ask: Asking) -> Permit:
    """The permit of a request, in the kernel.

    Args:
        folder: the workspace, where that is not the other side's.
    """
    is_here = told["workspace"] is not None
    return Permit(
        Path(told["workspace"]) if is_here else folder,
        lambda reach, lines: ask("allows", asdict(reach), sorted(lines)),
        lambda reach: ask("sha", asdict(reach)),
        told["approved"],
        lambda reach, text, reads: ask("leaving", asdict(reach), text, reads),
        partial(ask, "ended"),
        # What lies on another machine cannot be kept here.
        lambda path: is_here and ask("keep", path),
        set(told["made"]),
    )


def came_of(permit: Permit, paused: Paused | None) -> Sent:
    """What an answer tells of a permit."""
    return {
        "held": permit.held and asdict(permit.held),
        "why_not": permit.why_not,
        "open_end": permit.open_end,
        "left": [asdict(each) for each in permit.left],
        "made": sorted(permit.made),
        "paused": paused and {"sha": paused.sha, "left": paused.left},
    }
