"""``jupyter parsimony``: what can be done outside a notebook."""

import argparse
import os
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from parsimony_kernel import __version__
from parsimony_kernel.cli import output
from parsimony_kernel.cli.parser import PROGRAM, Parser, add_command, epilog_of

_TABLE = tomllib.loads(Path(__file__).with_name("commands.toml").read_text(encoding="utf-8"))


class GenerateConfig(argparse.Action):
    """Writes the configuration file and ends the program."""

    def __init__(self, **given: Any) -> None:
        super().__init__(nargs=0, help="write a configuration file to edit, and stop", **given)

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        from parsimony_kernel.cli import setup

        parser.exit(_reported(setup.generate_config, argparse.Namespace()))


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; gives the exit code."""
    arguments = parser().parse_args(sys.argv[1:] if argv is None else argv)
    folder = getattr(arguments, "folder", None)
    if folder is not None and not folder.is_dir():
        return output.misuse(f"There is no folder {str(folder)!r}: name another with --folder.")
    return _reported(arguments.run, arguments)


def _reported(run: Any, arguments: argparse.Namespace) -> int:
    """The exit code of a command, with what stops it in one line."""
    try:
        code: int = run(arguments)
    except KeyboardInterrupt:
        return output.fail("Stopped.")
    except output.OutputLost as problem:
        # What is still in the buffer would fail once more when the interpreter ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return output.fail(problem)
    except _expected() as problem:
        return output.fail(problem)
    return code


def _expected() -> tuple[type[Exception], ...]:
    """What may keep a command from its work. Imported only when something was raised."""
    from parsimony_kernel.cli.notebooks import HeadlessError
    from parsimony_kernel.kernel.install import InstallError
    from parsimony_kernel.session.turns import SessionError

    return (SessionError, HeadlessError, InstallError)


def parser() -> Parser:
    """The whole command line."""
    whole = Parser(
        prog=PROGRAM,
        description="Parsimony Agent outside the notebook.",
        epilog=epilog_of([spec["examples"][0] for spec in _TABLE.values()]),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    whole.add_argument("--version", action="version", version=__version__)
    whole.add_argument("--generate-config", action=GenerateConfig)
    commands = whole.add_commands("COMMAND")
    for name, spec in _TABLE.items():
        add_command(commands, name, spec)
    return whole


if __name__ == "__main__":
    sys.exit(main())
