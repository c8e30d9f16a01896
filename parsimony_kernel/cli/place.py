"""Where a kernelspec lies, as it is typed."""

import argparse


def add_place(command: argparse.ArgumentParser, *, default: str) -> None:
    """For whom: this user, this environment, or below a prefix."""
    where = command.add_argument_group(f"where (default: {default})").add_mutually_exclusive_group()
    where.add_argument("--user", action="store_true", help="for this user")
    where.add_argument("--sys-prefix", action="store_true", help="for this environment")
    where.add_argument("--prefix", help="below this installation prefix")
