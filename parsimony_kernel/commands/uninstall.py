"""``uninstall``: taking the kernel away from Jupyter."""

import argparse
import sys

from parsimony_kernel.commands import output
from parsimony_kernel.commands.parser import Commands, Examples, add_command
from parsimony_kernel.commands.place import add_place

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
            arguments.name or install.NAME,
            user=arguments.user,
            prefix=sys.prefix if arguments.sys_prefix else arguments.prefix,
        )
    except install.InstallError as problem:
        return output.fail(problem)
    output.say(f"Removed {removed}")
    return output.DONE
