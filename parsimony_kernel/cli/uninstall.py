"""``uninstall``: taking the kernel away from Jupyter."""

import argparse
import sys

from parsimony_kernel import KERNEL_NAME
from parsimony_kernel.cli import output
from parsimony_kernel.cli.parser import Commands, Examples, add_command
from parsimony_kernel.cli.place import add_place

EXAMPLES: Examples = (
    ("uninstall", "take it away where Jupyter finds it"),
    ("uninstall --user --name my-agent", "that one of this user"),
)


def add(commands: Commands) -> None:
    command = add_command(
        commands, "uninstall", run, "take the kernel away from Jupyter", examples=EXAMPLES
    )
    add_place(command, default="where Jupyter finds it")
    command.add_argument("--name", help="the kernel's name")


def run(arguments: argparse.Namespace) -> int:
    from parsimony_kernel.kernel import install

    try:
        removed = install.uninstall(
            arguments.name or KERNEL_NAME,
            user=arguments.user,
            prefix=sys.prefix if arguments.sys_prefix else arguments.prefix,
        )
    except install.InstallError as problem:
        return output.fail(problem)
    output.say(f"Removed {removed}")
    return output.DONE
