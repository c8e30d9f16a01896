"""Parse what follows ``%%agent`` and ``%agent``, by the tables of ``arguments.toml``.

The tables are the only source of parsing, help, completion and suggestions; ``jupyter parsimony``
uses them as well, through IPython's parser for magics. A request is never split into words: flags
come first, and the text after them is kept as typed. So IPython's ``parse_argstring`` cannot be
used: it splits everything, leaves quotes in the words, and fails at an apostrophe.

An argument is declared with argparse's keywords, and with some of our own: ``read`` or ``choices``
say how its value is parsed, ``completes`` what completion proposes, ``group`` makes arguments
mutually exclusive, and ``rest`` takes all remaining text as typed. A command is listed under its
heading in the help; ``run`` names its function if that differs from the command, and ``awaits``
marks a coroutine function.
"""

import argparse
import difflib
import re
import textwrap
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, NoReturn, TypeAlias

from IPython.core.magic_arguments import MagicArgumentParser

from parsimony_agent.pending import Misuse

Reader: TypeAlias = Callable[[str], Any]

_TABLES = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
# The model names that completion proposes.
MODEL_NAMES: list[str] = _TABLES["models"]


def _number(form: str, needs: str, units: Mapping[str, int], least: float = 1e-9) -> Reader:
    """Return a reader of numbers of the ``form``, whose two groups are the number and its unit."""

    def read(text: str) -> float:
        match = re.fullmatch(form, text, re.ASCII)
        number = float(match[1]) * units.get(match[2], 1) if match else -1.0
        if not least <= number < float("inf"):
            raise ValueError(needs)
        return number if "." in form else int(number)

    return read


_READERS: Mapping[str, Reader] = {
    **{name: _number(**row) for name, row in _TABLES["number"].items()},
    "path": Path,
    "text": str,
}

# Declarations of arguments by their names, in argparse's keywords and those of ``_OWN``.
Rows: TypeAlias = Mapping[str, Mapping[str, Any]]
_OWN = frozenset({"read", "choices", "completes", "group", "rest"})


def reader(row: Mapping[str, Any]) -> Reader:
    """Return the parser for the value that ``row`` declares.

    The parser raises ``ValueError`` with a description of valid values.
    """
    choices = row.get("choices")
    if not choices:
        name: str = row.get("read", "text")
        # Import a kernel function only when there is a value to parse.
        return _READERS.get(name, lambda text: resolve_name(name)(text))

    def one_of(text: str) -> str:
        if text.lower() not in choices:
            raise ValueError(" or ".join(filter(None, (", ".join(choices[:-1]), choices[-1]))))
        return text.lower()

    return one_of


def nearest(word: str, known: Iterable[str]) -> str:
    """Return ``" Did you mean 'x'?"`` for the nearest of ``known``; empty if none is near."""
    # Farther away only where it begins alike: "dome" is demo, "foo" is no tools.
    alike = [each for each in known if each[:1] == word[:1]]
    found = difflib.get_close_matches(word, list(known), n=1, cutoff=0.7)
    found = found or difflib.get_close_matches(word, alike, n=1, cutoff=0.5)
    return f" Did you mean {found[0]!r}?" if found else ""


def add_arguments(parser: argparse.ArgumentParser, rows: Rows) -> None:
    """Declare ``rows`` on ``parser``."""
    groups: dict[str, Any] = {}
    for spelled, row in rows.items():
        given: dict[str, Any] = {key: row[key] for key in row if key not in _OWN}
        if "read" in row or "choices" in row:
            given["type"] = _typed(row)
        group = row.get("group", "")
        if group and group not in groups:
            groups[group] = parser.add_mutually_exclusive_group()
        groups.get(group, parser).add_argument(*spelled.split(", "), **given)


def _typed(row: Mapping[str, Any]) -> Reader:
    read = reader(row)

    def typed(text: str) -> Any:
        try:
            return read(text)
        except ValueError as needed:
            near = nearest(text, row.get("choices", ()))
            raise argparse.ArgumentTypeError(f"got {text!r}; it takes {needed}.{near}") from None

    return typed


class Parser(MagicArgumentParser):
    """A parser that raises errors as one-line ``Misuse``.

    With ``commands``, the error for an unknown one suggests the nearest.
    """

    commands: "Mapping[str, Parser]" = {}  # noqa: RUF012 - replaced, never changed

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        if self.commands and args and not args[0].startswith("-") and args[0] not in self.commands:
            self.error(
                f"there is no command {args[0]!r}.{nearest(args[0], self.commands)} "
                f"It has {', '.join(self.commands)}"
            )
        return super().parse_known_args(args, namespace)

    def error(self, message: str) -> NoReturn:
        text = " ".join(message.split()).rstrip(".")
        raise Misuse(
            f"{self.prog}: {text}{'' if text.endswith('?') else '.'} See: {self.prog} --help"
        )


@dataclass(frozen=True, slots=True)
class Command:
    """One sub-command of ``%agent``, or, with an empty name, ``%%agent`` itself.

    ``run`` names its function in ``commands`` or ``overview``, which is called with the magics and
    the arguments by name and returns what to show. ``awaits`` marks a coroutine function, whose
    magic returns a coroutine. ``group`` is its heading in the help.
    """

    name: str
    group: str
    says: str
    run: str = ""
    awaits: bool = False
    arguments: Rows = field(default_factory=dict)

    @property
    def takes_text(self) -> bool:
        """Whether the text after its flags is taken as typed."""
        return any("rest" in row for row in self.arguments.values())

    @property
    def spelled(self) -> str:
        """The command with its arguments, as in a usage line."""
        return " ".join(self.parser(self.name).format_usage().split()).removeprefix("usage: ")

    def parser(self, prog: str) -> argparse.ArgumentParser:
        """Return the parser for the arguments after ``prog``."""
        description = self.says[:1].upper() + self.says[1:] + "."
        usage = None if self.name else f"{prog} [flags]".replace("%", "%%")
        made = Parser(prog, usage, description, formatter_class=argparse.HelpFormatter)
        made.allow_abbrev = False
        add_arguments(made, self.arguments)
        return made

    def parse(self, line: str, prog: str) -> dict[str, Any]:
        """Parse ``line`` into arguments by name.

        Raises:
            Misuse: it is invalid.
        """
        parser = self.parser(prog)
        if self.takes_text:
            words, rest = _leading(line.strip(), self.arguments, parser)
            words += ["--", rest] if rest else []
        else:
            words = [_said(found) for found in _WORD.finditer(line)]
        given = vars(parser.parse_args(words))
        return {name: value for name, value in given.items() if value not in (None, False)}


# A word, or a quoted text, with the space around it.
_WORD = re.compile(r"""\s*(?:"([^"]*)"|'([^']*)'|(\S+))\s*""")


def _said(found: re.Match[str]) -> str:
    return str(found[found.lastindex or 0])


def _word(text: str) -> tuple[str, str]:
    """Return the first word of ``text``, without quotes, and the text after it."""
    found = _WORD.match(text)
    return (_said(found), text[found.end() :]) if found else ("", "")


def _leading(text: str, rows: Rows, parser: argparse.ArgumentParser) -> tuple[list[str], str]:
    """Split ``text`` into its leading flags with their values, and the rest as typed."""
    flags = flags_of(rows)
    found: list[str] = []
    while text.startswith("-"):
        word, text = _word(text)
        name, equals, value = word.partition("=")
        if name == "--":
            return found, text
        if name not in flags:
            near = nearest(name, flags) or " Words that begin with a dash go behind ' -- '."
            parser.error(f"there is no flag {name!r}.{near}")
        if equals and not value:
            parser.error(f"{name} expects a value")
        found.append(word)
        if "action" not in flags[name] and not equals and text:
            value, text = _word(text)
            found.append(value)
    if late := [word for word in text.split() if word.partition("=")[0] in flags]:
        parser.error(
            f"{late[0]} stands behind the words; flags go before them, and ' -- ' goes before "
            "words that look like flags"
        )
    return found, text


def flags_of(rows: Rows) -> dict[str, Mapping[str, Any]]:
    """Return the rows that declare flags, by each of their names."""
    flags = ((spelled.split(", "), row) for spelled, row in rows.items() if spelled[0] == "-")
    return {name: row for spelled, row in flags for name in spelled}


_HELP = ("-h", "--help")
_REQUEST: Rows = {
    "text": {"rest": True, "nargs": "?", "metavar": "request", "help": "what you want, in words"}
}
CELL = Command("", "", "work on the request in this notebook", arguments=_TABLES["cell"] | _REQUEST)
# The rows of a cell's flags, by each of their names.
CELL_FLAGS = flags_of(_TABLES["cell"])


def _commands() -> Iterator[Command]:
    for group, rows in _TABLES["command"].items():
        for name, row in rows.items():
            shared = {flag: _TABLES["cell"][flag] for flag in row.pop("flags", ())}
            row = {"run": name} | row
            yield Command(name, group, arguments=shared | row.pop("arguments", {}), **row)


COMMANDS = {command.name: command for command in _commands()}

# Names of these commands in coding assistants.
_ELSEWHERE = {"rewind": "undo", "clear": "reset"}

EXAMPLE = "%%agent\nload FILE.csv and chart the mean of COLUMN by COLUMN"


@dataclass(frozen=True, slots=True)
class CellRequest:
    """A parsed agent cell: its request, and the values of its flags by name."""

    text: str
    flags: Mapping[str, Any] = field(default_factory=dict)


def parse_cell(line: str, body: str, magic: str = "%%agent") -> CellRequest:
    """Parse an agent cell; text on the magic's own line comes before the body.

    Raises:
        Misuse: a flag is unknown or lacks its value.
    """
    flags = CELL.parse(line, magic)
    return CellRequest("\n".join(filter(None, (flags.pop("text", ""), body.strip()))), flags)


def command_named(name: str, magic: str) -> Command:
    """Return the sub-command ``name``.

    Raises:
        Misuse: there is none; the message suggests the nearest.
    """
    if name not in COMMANDS:
        raise Misuse(
            f"{magic} has no sub-command {name!r}.{nearest(_ELSEWHERE.get(name, name), COMMANDS)} "
            f"{magic} help lists them. A request goes into a cell that begins with %{magic}."
        )
    return COMMANDS[name]


def parse_command(line: str, magic: str = "%agent") -> tuple[Command, dict[str, Any]]:
    """Parse ``line`` into a command (``help`` if it is empty) and its arguments.

    Raises:
        Misuse: it is invalid.
    """
    name, rest = _word(line)
    command = command_named("help" if name in ("", *_HELP) else name, magic)
    if rest.strip() in _HELP:
        return COMMANDS["help"], {"topic": name}
    return command, command.parse(rest, f"{magic} {command.name}")


def terms(rows: Iterable[tuple[str, str]], column: int = 24) -> str:
    """Format ``rows`` as terms and meanings in 80 columns, with the meanings from ``column`` on."""
    lines: list[str] = []
    for term, meaning in rows:
        if len(term) > column - 4:
            lines.append(f"  {term}")
            term = ""
        first = f"  {term}".ljust(column)
        lines += textwrap.wrap(meaning, 80, initial_indent=first, subsequent_indent=" " * column)
    return "\n".join(lines)


def help_text(name: str = "agent", *, whole: bool = False) -> str:
    """Format the help of both magics under ``name``, in 80 columns.

    By default the everyday commands, and the others by name; ``whole`` adds their usage and the
    flags of a cell.
    """
    groups: dict[str, list[Command]] = {}
    for command in COMMANDS.values():
        groups.setdefault(command.group, []).append(command)
    parts: list[str] = [_TABLES["about"].format(name=name)]
    for group, there in groups.items():
        listed = "  " + ", ".join(command.name for command in there)
        if whole or len(parts) == 1:
            listed = terms((command.spelled, command.says) for command in there)
        parts.append(f"{group}:\n{listed}")
    if whole:
        flags = _TABLES["cell"].items()
        rows = ((f"{each} {row.get('metavar', '')}".strip(), row["help"]) for each, row in flags)
        parts.append(f"Flags of %%{name}, before the request:\n{terms(rows)}")
    return "\n\n".join(parts)
