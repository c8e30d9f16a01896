"""The entry point of ``jupyter parsimony``: argument parsing and dispatch.

A usage error is one line with its remedy, and exit code 2.
"""

import argparse
import atexit
import gc
import os
import sys
import tomllib
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

from parsimony_agent.arguments import Parser, add_arguments, terms
from parsimony_agent.pending import Misuse
from parsimony_kernel import __version__
from parsimony_kernel.cli import output
from parsimony_kernel.core.errors import SessionError

PROGRAM = "jupyter parsimony"
EXIT_CODES = """\
exit codes:
  0  it is done, and nothing was found wrong
  1  it could not be done, or something was found wrong
  2  it was typed wrongly; nothing was done"""

_TABLE = tomllib.loads(Path(__file__).with_name("commands.toml").read_text(encoding="utf-8"))
_HELP: Any = {"add_help": True, "formatter_class": argparse.RawDescriptionHelpFormatter}
_MEANING_AT = 46
_KEYS_AT = 20
_FOLDER = {"read": "path", "default": Path(), "help": "the notebooks' folder (default: this one)"}
_JSON = {"action": "store_true", "help": "as one JSON object"}


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code; ``--help`` and ``--version`` exit at once."""
    atexit.register(gc.freeze)  # nothing is left to collect: the process ends 0.1 s sooner
    try:
        arguments = parser().parse_args(sys.argv[1:] if argv is None else argv)
        return int(arguments.run(arguments))
    except KeyboardInterrupt:
        return output.fail("Stopped.")
    except output.OutputLost as problem:
        # Otherwise the unflushed buffer would fail again at interpreter exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return output.fail(problem)
    except Misuse as wrong:
        return output.fail(wrong, output.MISUSED)
    except SessionError as problem:
        return output.fail(problem)


def _run(where: str, arguments: argparse.Namespace) -> int:
    """Import a command's function and run it; importing late keeps help fast."""
    folder = getattr(arguments, "folder", None)
    if folder is not None and not folder.is_dir():
        raise Misuse(f"There is no folder {str(folder)!r}: name another with --folder.")
    return int(resolve_name(f"parsimony_kernel.cli.{where}")(arguments))


def _epilog(examples: Sequence[tuple[str, str]]) -> str:
    """Render the end of a command's help: examples and exit codes."""
    rows = [(f"{PROGRAM} {typed}", meaning) for typed, meaning in examples]
    return f"for example:\n{terms(rows, _MEANING_AT)}\n\n{EXIT_CODES}"


def parser() -> Parser:
    """Build the parser of the whole command line."""
    whole = Parser(
        prog=PROGRAM,
        description="Parsimony Agent outside the notebook.",
        epilog=_epilog([spec["examples"][0] for spec in _TABLE.values()]),
        **_HELP,
    )
    whole.add_argument("--version", action="version", version=__version__)
    commands = whole.add_subparsers(metavar="COMMAND", required=True)
    whole.commands = commands.choices
    for name, spec in _TABLE.items():
        says, keys = spec["says"], spec.get("json", {})
        promised = f"with --json, one object with the keys:\n{terms(keys.items(), _KEYS_AT)}\n\n"
        parser = commands.add_parser(
            name,
            help=says,
            description=says[:1].upper() + says[1:] + ".",
            epilog=(promised if keys else "") + _epilog(spec["examples"]),
            **_HELP,
        )
        parser.set_defaults(run=partial(_run, spec["run"]))
        folder = {"--folder": _FOLDER} if "folder" in spec else {}
        as_json = {"--json": _JSON} if keys else {}
        add_arguments(parser, as_json | spec.get("arguments", {}) | folder)
    return whole


if __name__ == "__main__":
    sys.exit(main())
