"""``install``: making the kernel known to Jupyter."""

import argparse
import sys

from parsimony_kernel import KERNEL_NAME
from parsimony_kernel.cli import output
from parsimony_kernel.cli.parser import Commands, Examples, add_command
from parsimony_kernel.cli.place import add_place

EXAMPLES: Examples = (
    ("install --user", "make the kernel known for this user"),
    ("install --sys-prefix --name my-agent", "for this environment, with a name"),
)


def add(commands: Commands) -> None:
    command = add_command(
        commands, "install", run, "make the kernel known to Jupyter", examples=EXAMPLES
    )
    add_place(command, default="--sys-prefix")
    command.add_argument("--name", help="the kernel's name")
    command.add_argument("--display-name", help="what front ends show")


def run(arguments: argparse.Namespace) -> int:
    from parsimony_kernel.kernel import install

    in_environment = not arguments.user and arguments.prefix is None
    try:
        placed = install.install(
            user=arguments.user,
            prefix=sys.prefix if in_environment else arguments.prefix,
            name=arguments.name or KERNEL_NAME,
            display_name=arguments.display_name or install.DISPLAY_NAME,
        )
    except install.InstallError as problem:
        return output.fail(problem)
    output.say(f"Installed in {placed}")
    return output.DONE
