"""``jupyter parsimony``: what is done with the agent outside a notebook.

The commands are put together here, and what stops each of them is told; a command is a module of
``commands``.
"""

import argparse
import os
import sys
from collections.abc import Sequence

from parsimony_kernel import __version__
from parsimony_kernel.cli import (
    demo,
    doctor,
    install,
    keys,
    metrics,
    output,
    purge,
    refresh,
    replay,
    resume,
    runs,
    show,
    uninstall,
    verify,
)
from parsimony_kernel.cli.config import GenerateConfig
from parsimony_kernel.cli.parser import PROGRAM, Parser, epilog_of

# In the order of help. Each has ``add(commands)``, ``run(arguments)`` and its ``EXAMPLES``.
COMMANDS = (
    demo,
    install,
    uninstall,
    doctor,
    runs,
    show,
    resume,
    verify,
    refresh,
    replay,
    purge,
    metrics,
    keys,
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; gives the exit code."""
    arguments = parser().parse_args(sys.argv[1:] if argv is None else argv)
    folder = getattr(arguments, "folder", None)
    if folder is not None and not folder.is_dir():
        return output.misuse(f"There is no folder {str(folder)!r}: name another with --folder.")
    try:
        code: int = arguments.run(arguments)
    except KeyboardInterrupt:
        code = output.fail("Stopped.")
    except output.OutputLost as problem:
        # What is still in the buffer would fail once more when the interpreter ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = output.fail(problem)
    return code


def parser() -> Parser:
    """The whole command line."""
    whole = Parser(
        prog=PROGRAM,
        description="Parsimony Agent outside the notebook.",
        epilog=epilog_of([command.EXAMPLES[0] for command in COMMANDS]),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    whole.add_argument("--version", action="version", version=__version__)
    whole.add_argument("--generate-config", action=GenerateConfig)
    commands = whole.add_commands("COMMAND")
    for command in COMMANDS:
        command.add(commands)
    return whole


if __name__ == "__main__":
    sys.exit(main())
