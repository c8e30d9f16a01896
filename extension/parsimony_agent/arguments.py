"""What can be written after ``%%agent`` and ``%agent``, read by the tables of ``arguments.toml``.

The tables are the only source of parsing, help, completion and suggestions. A request is never
split into words: flags stand before it, and what follows them is taken as it was typed.
"""

import difflib
import math
import re
import textwrap
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from parsimony_agent.pending import Misuse

_TIME_UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}


def _steps(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise ValueError("a whole number from 1 up, for example 20")
    return int(text)


def seconds(text: str) -> float:
    """A time in seconds, above zero."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smh]?)", text)
    value = float(match[1]) * _TIME_UNITS[match[2]] if match else 0.0
    if not value or not math.isfinite(value):
        raise ValueError("a time above zero: seconds, or with a unit, for example 90, 5m or 1h")
    return value


def dollars(text: str) -> float:
    """An amount of US dollars above zero."""
    match = re.fullmatch(r"\$?(\d+(?:\.\d+)?)", text)
    value = float(match[1]) if match else 0.0
    if not value or not math.isfinite(value):
        raise ValueError("an amount of US dollars above zero, for example 0.50")
    return value


def one_of(*words: str) -> Callable[[str], str]:
    """A reader of one of ``words``, in either case."""

    def read(text: str) -> str:
        if text.lower() not in words:
            raise ValueError(f"{', '.join(words[:-1])} or {words[-1]}")
        return text.lower()

    return read


def _names(text: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(","))
    if not all(names):
        raise ValueError("names with commas between, in quotes where one has a space")
    return names


def _tokens(text: str) -> int:
    match = re.fullmatch(r"(\d{1,12})(k?)", text, re.ASCII)
    value = int(match[1]) * (1000 if match[2] else 1) if match else 0
    if not value:
        raise ValueError("a whole number from 1 up, for example 20000 or 20k")
    return value


_READERS: Mapping[str, Callable[[str], Any]] = {
    "names": _names,
    "seconds": seconds,
    "steps": _steps,
    "text": str,
    "tokens": _tokens,
    "dollars": dollars,
}


def reader(row: Mapping[str, Any]) -> Callable[[str], Any]:
    """How the value that a row of a table describes is read."""
    choices = row.get("choices")
    return one_of(*choices) if choices else _READERS[row.get("read", "text")]


@dataclass(frozen=True, slots=True)
class Flag:
    """One flag. Without ``metavar`` it is a switch; ``read`` raises ValueError with what it needs.

    ``example`` completes the sentence that a missing value gets; ``choices`` are all that a value
    may be, else ``completes`` says what, for completion: models, turns, context.
    """

    names: tuple[str, ...]
    dest: str
    help: str
    metavar: str = ""
    example: str = ""
    read: Callable[[str], Any] = str
    choices: tuple[str, ...] = ()
    completes: str = ""

    @property
    def spelled(self) -> str:
        """The names as help writes them."""
        return ", ".join(self.names) + (f" {self.metavar}" if self.metavar else "")


@dataclass(frozen=True, slots=True)
class Command:
    """One sub-command of ``%agent``.

    ``run`` is who does it, ``module:function`` of this package: it is called with the ``Desk``,
    the words, and the flags by ``dest``, and gives what is shown. ``words`` is the most that may
    stand behind it, ``None`` where they are one text; ``needs`` says what the first of them is
    where it may not be left out, ``first`` what it may be: then they are all there or none is.
    ``group`` is the heading of the help that it stands under.
    ``completes`` says what they may be, for completion. ``awaits`` says that ``run`` is a
    coroutine function, and its magic returns a coroutine.
    """

    name: str
    group: str
    help: str
    synopsis: str = ""
    run: str = ""
    flags: tuple[Flag, ...] = ()
    awaits: bool = False
    words: int | None = 0
    needs: str = ""
    first: tuple[str, ...] = ()
    completes: str = ""
    example: str = ""


@dataclass(frozen=True, slots=True)
class Parsed:
    """A sub-command with its words, and what its flags said by ``dest``."""

    command: Command
    words: tuple[str, ...] = ()
    flags: Mapping[str, Any] = field(default_factory=dict)


HELP = Flag(("-h", "--help"), "help", "show this help and run nothing")

_TABLES = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))


def _flag(dest: str, row: dict[str, Any]) -> Flag:
    names = row.pop("names", [f"--{dest.replace('_', '-')}"])
    choices = tuple(row.get("choices", ()))
    return Flag(tuple(names), dest, **row | {"choices": choices, "read": reader(row)})


_CELL_FLAGS = {dest: _flag(dest, row) for dest, row in _TABLES["flag"].items()}
CELL_FLAGS = (*_CELL_FLAGS.values(), HELP)


def _command(group: str, name: str, row: dict[str, Any]) -> Command:
    """``flags`` are the command's own, or the names of flags of a cell."""
    own = row.pop("flags", {})
    flags = (_flag(each, own[each]) if isinstance(own, dict) else _CELL_FLAGS[each] for each in own)
    words = {"words": None} if row.get("words") == "text" else {}
    first = tuple(row.pop("first", ()))
    return Command(name, group, **row | words, first=first, flags=tuple(flags))


COMMANDS = tuple(
    _command(group, name, row)
    for group, rows in _TABLES["command"].items()
    for name, row in rows.items()
)

# Flags, by ``dest``, that cannot be meant together.
_APART = (("record", "replay"), ("context", "no_context"))

# What coding assistants call some of them.
_ELSEWHERE = {"rewind": "undo", "clear": "reset"}

EXAMPLE = "%%agent\nLoad data/cars.csv and chart the mean horsepower by year."


@dataclass(frozen=True, slots=True)
class CellRequest:
    """A parsed agent cell: its words and what its flags said."""

    text: str
    help: bool = False
    model: str | None = None
    effort: str | None = None
    max_iterations: int | None = None
    max_time_s: float | None = None
    max_cost_usd: float | None = None
    max_tokens: int | None = None
    approve: str | None = None
    procedure: str | None = None
    share: str | None = None
    context: tuple[str, ...] | None = None
    no_context: bool = False
    out: str = ""
    dry_run: bool = False
    record: bool = False
    replay: bool = False


def nearest(word: str, known: Iterable[str]) -> str:
    """``" Did you mean 'x'?"`` for the nearest of ``known``, or nothing when none is near."""
    found = difflib.get_close_matches(word, list(known), n=1, cutoff=0.5)
    return f" Did you mean {found[0]!r}?" if found else ""


def _word(text: str) -> tuple[str, str]:
    """The first word of ``text``, quotes taken off, and what follows it."""
    text = text.lstrip()
    if text[:1] in {'"', "'"}:
        end = text.find(text[0], 1)
        if end > 0:
            return text[1:end], text[end + 1 :]
    head, _, tail = text.partition(" ")
    return head, tail


def _scan(line: str, flags: tuple[Flag, ...], magic: str) -> tuple[dict[str, Any], str]:
    """The flags that ``line`` begins with, by ``dest``, and the words after them."""
    by_name = {name: flag for flag in flags for name in flag.names}
    values: dict[str, Any] = {}
    rest = line.replace("\t", " ").strip()
    while rest.startswith("-"):
        token, tail = _word(rest)
        name, equals, value = token.partition("=")
        if name == "--":
            return values, tail.strip()
        if name not in by_name:
            raise Misuse(
                f"{magic} has no flag {name!r}.{nearest(name, by_name)} See {magic} --help."
                if HELP in flags
                else f"{magic} has no flag {name!r}.{nearest(name, by_name)} "
                "Words that begin with a dash go behind ' -- '."
            )
        flag = by_name[name]
        if not flag.metavar:
            values[flag.dest], rest = True, tail.strip()
            continue
        if not equals:
            value, tail = _word(tail)
        if not value or (not equals and value in by_name):
            raise Misuse(f"{magic} {name} needs a value, for example {flag.example}")
        try:
            values[flag.dest] = flag.read(value)
        except ValueError as needed:
            raise Misuse(f"{magic} {name} got {value!r}; it takes {needed}.") from None
        rest = tail.strip()
    late = [word for word in rest.split() if word.partition("=")[0] in by_name]
    if late:
        raise Misuse(
            f"{magic} {late[0]} stands behind the words; flags go before them, and ' -- ' goes "
            "before words that look like flags."
        )
    return values, rest


def _check_apart(values: Mapping[str, Any], flags: tuple[Flag, ...], magic: str) -> None:
    spelled = {flag.dest: flag.names[-1] for flag in flags}
    for one, other in _APART:
        if one in values and other in values:
            raise Misuse(f"{magic} takes {spelled[one]} or {spelled[other]}, and got both.")


def parse_cell(line: str, body: str, magic: str = "%%agent") -> CellRequest:
    """What an agent cell says. ``Misuse`` when a flag is unknown or lacks its value.

    Words on the magic's own line belong to the request and stand before the body's.
    """
    values, words = _scan(line, CELL_FLAGS, magic)
    _check_apart(values, CELL_FLAGS, magic)
    text = "\n".join(part for part in (words, body.strip()) if part)
    return CellRequest(text=text, **values)


def command_named(name: str) -> Command | None:
    """The sub-command ``name``, or ``None``."""
    return next((command for command in COMMANDS if command.name == name), None)


def parse_command(line: str, magic: str = "%agent") -> Parsed | None:
    """What ``line`` says, ``None`` when it is empty. ``Misuse`` when it cannot be meant."""
    name, _, rest = line.strip().replace("\t", " ").partition(" ")
    if not name:
        return None
    if name in HELP.names:
        name = "help"
    command = command_named(name)
    if command is None:
        known = [each.name for each in COMMANDS]
        raise Misuse(
            f"{magic} has no sub-command {name!r}.{nearest(_ELSEWHERE.get(name, name), known)} "
            f"It has {', '.join(known)}. A request goes into a cell that begins with %{magic}."
        )
    named = f"{magic} {command.name}"
    rest = rest.strip()
    flags, rest = _scan(rest, command.flags, named) if command.flags else ({}, rest)
    _check_apart(flags, command.flags, named)
    words = tuple(rest.split()) if command.words is not None else (rest,) if rest else ()
    _check_words(command, words, rest, named, f"For example: {magic} {command.example}")
    return Parsed(command, words, flags)


def _check_words(
    command: Command, words: tuple[str, ...], rest: str, named: str, example: str
) -> None:
    if command.needs and not words:
        raise Misuse(f"{named} needs {command.needs}. {example}")
    if command.words is not None and len(words) > command.words:
        counted = "one word" if command.words == 1 else f"{command.words} words"
        takes = f"at most {counted}, {command.synopsis}" if command.words else "nothing"
        raise Misuse(f"{named} takes {takes}, and got {rest!r}.")
    if words and command.first and (words[0] not in command.first or len(words) != command.words):
        near = "" if words[0] in command.first else nearest(words[0], command.first)
        raise Misuse(f"{named} takes {command.synopsis}, and got {rest!r}.{near} {example}")


def terms(rows: Iterable[tuple[str, str]], column: int = 24) -> str:
    """``rows`` as terms and what they mean, in 80 columns, the meanings from ``column`` on."""
    lines: list[str] = []
    for term, meaning in rows:
        told = textwrap.wrap(meaning, 80 - column)
        if len(term) > column - 4:
            lines.append(f"  {term}")
        else:
            lines.append(f"  {term:<{column - 2}}{told.pop(0)}")
        lines.extend(" " * column + line for line in told)
    return "\n".join(lines)


def help_text(name: str = "agent") -> str:
    """The help of both forms under the magic's ``name``, in 80 columns: every day's work first."""
    groups: dict[str, list[tuple[str, str]]] = {}
    of_commands = []
    for command in COMMANDS:
        row = (f"{command.name} {command.synopsis}".strip(), command.help)
        groups.setdefault(command.group, []).append(row)
        of_commands += [(f"{command.name} {flag.spelled}", flag.help) for flag in command.flags]
    commands = [f"{group}:\n{terms(rows)}\n" for group, rows in groups.items()]
    return "\n".join(
        [
            f"%%{name} [flags]",
            "<request>",
            "",
            "The agent works on the request, which is taken literally, in this notebook.",
            "What it makes stays in your variables. For example:",
            "",
            f"%%{name} --max-steps 10",
            EXAMPLE.partition("\n")[2],
            "",
            f"%{name} <sub-command>; TURN is a number of the history (default: newest).",
            "",
            *commands,
            f"Flags of %%{name}, before the request:",
            terms([(flag.spelled, flag.help) for flag in CELL_FLAGS]),
            "",
            "Flags of sub-commands:",
            terms(of_commands),
        ]
    )
