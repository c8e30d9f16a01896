"""``jupyter parsimony``: what can be done outside a notebook, and how it is typed.

Trouble with what was typed is one line with its remedy and exit code 2.
"""

import argparse
import os
import sys
import tomllib
from collections.abc import Mapping, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn, TypeAlias

from parsimony_agent.arguments import add_arguments, nearest, terms
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
_MEANING_AT = 46
_KEYS_AT = 20
_FOLDER = {"read": "path", "default": Path(), "help": "the notebooks' folder (default: this one)"}
_JSON = {"action": "store_true", "help": "as one JSON object"}


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; gives the exit code."""
    arguments = parser().parse_args(sys.argv[1:] if argv is None else argv)
    folder = getattr(arguments, "folder", None)
    if folder is not None and not folder.is_dir():
        return output.misuse(f"There is no folder {str(folder)!r}: name another with --folder.")
    try:
        code: int = arguments.run(arguments)
    except KeyboardInterrupt:
        return output.fail("Stopped.")
    except output.OutputLost as problem:
        # What is still in the buffer would fail once more when the interpreter ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return output.fail(problem)
    except SessionError as problem:
        return output.fail(problem)
    return code


class Parser(argparse.ArgumentParser):
    """An argument parser that names what was probably meant."""

    commands: "Commands | None" = None

    def error(self, message: str) -> NoReturn:
        said = " ".join(message.split()).rstrip(".")
        end = "" if said.endswith("?") else "."
        self.exit(2, f"{self.prog}: {said}{end} See: {self.prog} --help\n")

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        known = self.commands.choices if self.commands is not None else {}
        if known and args and not args[0].startswith("-") and args[0] not in known:
            self.error(
                f"there is no command {args[0]!r}.{nearest(args[0], known)} "
                f"It has {', '.join(known)}"
            )
        return super().parse_known_args(args, namespace)

    def add_commands(self, metavar: str, table: Mapping[str, Mapping[str, Any]]) -> None:
        """Declare the commands of ``table``; one of them is required."""
        self.commands = self.add_subparsers(metavar=metavar, required=True)
        for name, spec in table.items():
            _add_command(self.commands, name, spec)


Commands: TypeAlias = "argparse._SubParsersAction[Parser]"


def _add_command(commands: Commands, name: str, spec: Mapping[str, Any]) -> None:
    says, keys = spec["says"], spec.get("json")
    parts = (
        [f"with --json, one object with the keys:\n{terms(keys.items(), _KEYS_AT)}"] if keys else []
    )
    parser = commands.add_parser(
        name,
        help=says,
        description=says[:1].upper() + says[1:] + ".",
        epilog="\n\n".join([*parts, _epilog(spec["examples"])]),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    if "run" in spec:
        parser.set_defaults(run=partial(_run, spec["run"]))
    folder = {"--folder": _FOLDER} if "folder" in spec else {}
    as_json = {"--json": _JSON} if keys else {}
    add_arguments(parser, as_json | spec.get("arguments", {}) | folder)
    if "actions" in spec:
        parser.add_commands("ACTION", spec["actions"])


def _run(where: str, arguments: argparse.Namespace) -> int:
    """Import what runs a command, and run it: help needs none of it."""
    module, _, function = where.partition(":")
    code: int = getattr(import_module(f"parsimony_kernel.cli.{module}"), function)(arguments)
    return code


def _epilog(examples: Sequence[tuple[str, str]]) -> str:
    """The end of a command's help: what is typed with what that does, and the exit codes."""
    rows = [(f"{PROGRAM} {typed}", meaning) for typed, meaning in examples]
    return f"for example:\n{terms(rows, _MEANING_AT)}\n\n{EXIT_CODES}"


def parser() -> Parser:
    """The whole command line."""
    whole = Parser(
        prog=PROGRAM,
        description="Parsimony Agent outside the notebook.",
        epilog=_epilog([spec["examples"][0] for spec in _TABLE.values()]),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    whole.add_argument("--version", action="version", version=__version__)
    whole.add_commands("COMMAND", _TABLE)
    return whole


if __name__ == "__main__":
    sys.exit(main())
