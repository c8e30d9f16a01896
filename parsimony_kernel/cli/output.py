"""What a command tells: text for a person, one JSON object for a program, a line of trouble.

What is done goes to the standard output, and why something could not be done to the standard
error.
"""

import json
import sys
from collections.abc import Mapping
from typing import Any

DONE, FAILED, MISUSED = 0, 1, 2


class OutputLost(Exception):
    """What a command says could not be written. ``str()`` is one sentence."""


def say(text: str) -> None:
    """Write ``text`` and a line end. ``OutputLost`` when that fails.

    A character that the output cannot encode is written as an escape.
    """
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    try:
        print(text.encode(encoding, "backslashreplace").decode(encoding), flush=True)
    except OSError as problem:
        raise OutputLost(
            f"The command was carried out, but its output cannot be written: {problem.strerror}."
        ) from problem


def as_json(value: Mapping[str, Any]) -> None:
    """Write ``value`` as one JSON object, in ASCII."""
    say(json.dumps(value, indent=2))


def fail(problem: Exception | str, code: int = FAILED) -> int:
    """Tell why it could not be done; gives the exit code of that: ``MISUSED`` where it was typed
    wrongly, and only the command can know."""
    print(str(problem), file=sys.stderr)
    return code
