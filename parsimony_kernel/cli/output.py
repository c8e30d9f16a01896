"""Output of commands: text for people, one JSON object for programs, one line per error.

Results go to standard output, errors to standard error.
"""

import json
import sys
from argparse import Namespace
from collections.abc import Mapping
from typing import Any

DONE, FAILED, MISUSED = 0, 1, 2


class OutputLost(Exception):
    """A command's output could not be written. ``str()`` is one sentence."""


def say(text: str) -> None:
    """Write ``text`` and a newline; characters that the output can't encode are escaped.

    Raises:
        OutputLost: Writing failed.
    """
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    try:
        print(text.encode(encoding, "backslashreplace").decode(encoding), flush=True)
    except OSError as problem:
        raise OutputLost(
            f"The command was carried out, but its output cannot be written: {problem.strerror}."
        ) from problem


def give(arguments: Namespace, facts: Mapping[str, Any], text: str, *, ok: bool = True) -> int:
    """Write ``facts`` as JSON if asked to, else ``text``; return the exit code for ``ok``."""
    if arguments.json:
        as_json(facts)
    else:
        say(text)
    return DONE if ok else FAILED


def as_json(value: Mapping[str, Any]) -> None:
    """Write ``value`` as one JSON object, in ASCII."""
    say(json.dumps(value, indent=2))


def fail(problem: Exception | str, code: int = FAILED) -> int:
    """Print an error to standard error and return its exit code.

    Commands pass ``MISUSED`` for usage errors that the parser can't detect.
    """
    print(str(problem), file=sys.stderr)
    return code
