"""How commands are typed: their help, their arguments, and what is said to bad ones.

Trouble with what was typed is one line with its remedy and exit code 2.
"""

import argparse
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn, TypeAlias

from parsimony_agent.arguments import nearest, terms

PROGRAM = "jupyter parsimony"
EXIT_CODES = """\
exit codes:
  0  it is done, and nothing was found wrong
  1  it could not be done, or something was found wrong
  2  it was typed wrongly; nothing was done"""

# What is typed behind the program's name, and what that does.
Examples: TypeAlias = Sequence[tuple[str, str]]

_MEANING_AT = 46
_KEYS_AT = 20
_UNITS_S = {"h": 3_600, "d": 86_400, "w": 604_800}


class Parser(argparse.ArgumentParser):
    """An argument parser that names what was probably meant."""

    commands: "Commands | None" = None

    def error(self, message: str) -> NoReturn:
        said = " ".join(message.split()).rstrip(".")
        self.exit(2, f"{self.prog}: {said}. See: {self.prog} --help\n")

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        known = self.commands.choices if self.commands is not None else {}
        if known and args and not args[0].startswith("-") and args[0] not in known:
            self.error(
                f"there is no command {args[0]!r}.{nearest(args[0], known)} "
                f"It has {', '.join(known)}"
            )
        return super().parse_known_args(args, namespace)

    def add_commands(self, metavar: str) -> "Commands":
        """Where commands are added; one of them is required."""
        self.commands = self.add_subparsers(metavar=metavar, required=True)
        return self.commands


Commands: TypeAlias = "argparse._SubParsersAction[Parser]"


def add_command(commands: Commands, name: str, spec: Mapping[str, Any]) -> Parser:
    """A command with its help, from its table in ``commands.toml``."""
    says, keys = spec["says"], spec.get("json")
    parts = (
        [f"with --json, one object with the keys:\n{terms(keys.items(), _KEYS_AT)}"] if keys else []
    )
    parser = commands.add_parser(
        name,
        help=says,
        description=says[:1].upper() + says[1:] + ".",
        epilog="\n\n".join([*parts, epilog_of(spec["examples"])]),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    if "run" in spec:
        parser.set_defaults(run=partial(_run, spec["run"]))
    given: dict[str, Any] = dict(spec.get("arguments", {}))
    if "folder" in spec:
        given["--folder"] = _FOLDER
    if keys and "--json" not in given:
        given["--json"] = _JSON
    groups: dict[str, Any] = {}
    for argument, settings in given.items():
        kwargs = {**settings}
        if "type" in kwargs:
            kwargs["type"] = _TYPES[kwargs["type"]]
        group = kwargs.pop("group", None)
        if group and group not in groups:
            titled = parser.add_argument_group(group) if "default" in group else parser
            groups[group] = titled.add_mutually_exclusive_group()
        groups.get(group, parser).add_argument(argument, **kwargs)
    if "actions" in spec:
        actions = parser.add_commands("ACTION")
        for each, below in spec["actions"].items():
            add_command(actions, each, below)
    return parser


def _run(where: str, arguments: argparse.Namespace) -> int:
    """Import what runs a command, and run it: help needs none of it."""
    module, _, function = where.partition(":")
    code: int = getattr(import_module(f"parsimony_kernel.cli.{module}"), function)(arguments)
    return code


def epilog_of(examples: Examples) -> str:
    """The end of a command's help: its examples, and the exit codes."""
    rows = [(f"{PROGRAM} {typed}", meaning) for typed, meaning in examples]
    return f"for example:\n{terms(rows, _MEANING_AT)}\n\n{EXIT_CODES}"


def seconds(text: str) -> float:
    """A finite number of seconds that is not negative."""
    try:
        given = float(text)
    except ValueError:
        given = -1.0
    if not 0 <= given < float("inf"):
        raise argparse.ArgumentTypeError(
            f"{text!r} is no number of seconds from 0 up, for example 30"
        )
    return given


def count(text: str) -> int:
    """A whole number from 1 up."""
    if not (text.isascii() and text.isdigit() and len(text) < 10 and int(text)):
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number from 1 up, for example 20")
    return int(text)


def age(text: str) -> float:
    """Hours, days or weeks, in seconds: ``36h``, ``30d``, ``2w``."""
    number, unit = text[:-1], text[-1:]
    if not (number.isascii() and number.isdigit() and len(number) < 5 and unit in _UNITS_S):
        raise argparse.ArgumentTypeError(
            f"{text!r} is no age: give hours, days or weeks, for example 36h, 30d or 2w"
        )
    return float(int(number) * _UNITS_S[unit])


_TYPES: Mapping[str, Callable[[str], Any]] = {
    "path": Path,
    "seconds": seconds,
    "count": count,
    "age": age,
}
_FOLDER = {"type": "path", "default": Path(), "help": "the notebooks' folder (default: this one)"}
_JSON = {"action": "store_true", "help": "as one JSON object"}
