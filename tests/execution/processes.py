"""Whether a process that code has started still runs."""

import os
import select


def lives(pid: int, seconds: float = 0) -> bool:
    """Whether the process still runs, after ``seconds`` at most that it is given to end."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return False
    try:
        return not select.select([handle], [], [], seconds)[0]
    finally:
        os.close(handle)
