"""``demo``: an agent notebook, run with the offline model."""

import argparse
from pathlib import Path

from parsimony_kernel.cli import output
from parsimony_kernel.cli.parser import Commands, Examples, add_command

EXAMPLES: Examples = (
    ("demo", "run the quickstart notebook"),
    ("demo --out first-look.ipynb", "write it to that file"),
    ("demo notebooks/02_ask_user.ipynb --out /tmp/out", "run another one"),
)


def add(commands: Commands) -> None:
    command = add_command(
        commands, "demo", run, "run an agent notebook with the offline model", examples=EXAMPLES
    )
    command.add_argument(
        "notebook", nargs="?", type=Path, help="default: the quickstart, which comes along"
    )
    command.add_argument(
        "--out",
        type=Path,
        help="where the executed notebook goes: a file that ends in .ipynb, or a folder "
        "(default: parsimony-demo here, or the folder 'executed' beside the notebook)",
    )


def run(arguments: argparse.Namespace) -> int:
    from parsimony_kernel.cli import quickstart as demo

    try:
        demo.run(arguments.notebook, arguments.out, output.say)
    except demo.DemoError as problem:
        return output.fail(problem)
    return output.DONE
