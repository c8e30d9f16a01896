"""What can be written after ``%%agent`` and ``%agent``: two tables and their reader.

The tables are the only source of parsing, help, completion and suggestions. A request is never
split into words: flags stand before it, and what follows them is taken as it was typed.
"""

import difflib
import math
import re
import textwrap
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from parsimony_agent.pending import Misuse

_TERM_WIDTH = 24
_TIME_UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}
# As ``parsimony_kernel.session.share.Share`` spells them: loading the extension imports no kernel.
SHARES = ("full", "samples", "schema", "none")


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


def _approval(text: str) -> str:
    if text not in ("auto", "guarded", "always"):
        raise ValueError("auto, guarded or always")
    return text


def effort(text: str) -> str:
    """How long a model may think."""
    if text not in ("low", "medium", "high"):
        raise ValueError("low, medium or high")
    return text


def _share(text: str) -> str:
    if text not in SHARES:
        raise ValueError(f"{', '.join(SHARES[:-1])} or {SHARES[-1]}")
    return text


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


@dataclass(frozen=True, slots=True)
class Flag:
    """One flag. Without ``metavar`` it is a switch; ``read`` raises ValueError with what it needs.

    ``example`` completes the sentence that a missing value gets; ``completes`` says what a value
    may be, for completion: models, variables, turns, artifacts, tools, modes, context.
    """

    names: tuple[str, ...]
    dest: str
    help: str
    metavar: str = ""
    example: str = ""
    read: Callable[[str], Any] = str
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
    ``completes`` says what they may be, for completion. ``awaits`` says that ``run`` is a
    coroutine function, and its magic returns a coroutine.
    """

    name: str
    synopsis: str
    help: str
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

_SHARING = (
    Flag(
        ("--share",),
        "share",
        "what the model is told of your data: samples (names, types and a few values), schema "
        "(never a value), none (nothing but the request), or full (first rows of all tables too)",
        "MODE",
        "--share schema",
        _share,
        "modes",
    ),
    Flag(
        ("--context",),
        "context",
        "tell the model of these variables, data files and titles alone, with commas between, and "
        "of no earlier turn",
        "NAMES",
        "--context cars,data/cars.csv",
        _names,
        "context",
    ),
    Flag(
        ("--no-context",),
        "no_context",
        "tell the model of no variable, file, title or earlier turn",
    ),
)

CELL_FLAGS = (
    Flag(
        ("-m", "--model"),
        "model",
        "the model of this turn, or several: the next takes over where one fails",
        "NAME[,NAME]",
        "--model offline",
        completes="models",
    ),
    Flag(
        ("--effort",),
        "effort",
        "how long the model may think: low, medium or high, where it can be told",
        "HOW",
        "--effort high",
        effort,
    ),
    Flag(
        ("--max-steps",),
        "max_iterations",
        "ask before going beyond N calls of the model",
        "N",
        "--max-steps 20",
        _steps,
    ),
    Flag(
        ("--max-time",),
        "max_time_s",
        "ask before going beyond TIME: seconds, or 90s, 5m, 1h",
        "TIME",
        "--max-time 5m",
        seconds,
    ),
    Flag(
        ("--budget",),
        "max_cost_usd",
        "ask before the turn costs more than USD dollars",
        "USD",
        "--budget 0.50",
        dollars,
    ),
    Flag(
        ("--approve",),
        "approve",
        "ask before a step: auto (never), guarded (where it reaches outside), or always",
        "WHEN",
        "--approve always",
        _approval,
    ),
    Flag(
        ("--procedure",),
        "procedure",
        "a YAML file that says how the task is done: states and edges that can only be walked, "
        "a contract, rules, and what answers which failure",
        "FILE",
        "--procedure review.yaml",
    ),
    Flag(
        ("--max-tokens",),
        "max_tokens",
        "ask before the turn uses more than N tokens: 20000, or 20k",
        "N",
        "--max-tokens 20k",
        _tokens,
    ),
    *_SHARING,
    Flag(
        ("-o", "--out"),
        "out",
        "bind what the turn came to: its text, its datasets, charts and reports, its events",
        "NAME",
        "-o result",
    ),
    Flag(
        ("--dry-run",),
        "dry_run",
        "show what would be sent to the model, to the letter; send nothing",
    ),
    Flag(
        ("--record",),
        "record",
        "keep what the model answers in cassettes/, beside the notebook, to be replayed",
    ),
    Flag(
        ("--replay",),
        "replay",
        "ask no model: answer from the recording, or fail where it has none",
    ),
    HELP,
)

COMMANDS = (
    Command(
        "answer",
        "[--turn TURN] [--here] WORDS",
        "answer the pending question with words, or with the number of a choice",
        "handlers:answer",
        (
            Flag(
                ("--turn",),
                "turn",
                "which turn; the newest that asks",
                "TURN",
                "--turn 2",
                completes="turns",
            ),
            Flag(("--here",), "here", "go on in the cell that asked, and print it here as text"),
        ),
        awaits=True,
        words=None,
        needs="the answer: words, or the number of a choice",
        example="answer 2",
    ),
    Command(
        "show",
        "[TURN]",
        "draw a turn again, with buttons when it asks",
        "handlers:show",
        words=1,
        completes="turns",
        example="show 1",
    ),
    Command(
        "history",
        "[TURN]",
        "list the turns of this notebook, or tell one step by step: what was refused, what "
        "failed, and how it was recovered",
        "handlers:history",
        words=1,
        completes="turns",
        example="history 2",
    ),
    Command(
        "model",
        "[NAME]",
        "show the model of this notebook, or set it: a model's name, or a variable of yours that "
        "holds a model",
        "handlers:model",
        words=1,
        completes="models",
        example="model offline",
    ),
    Command(
        "code",
        "[--cells] [--to FILE] [TURN]",
        "show the code that worked in a turn, the newest by default",
        "handover:code",
        (
            Flag(("--cells",), "cells", "put it into the next cell too"),
            Flag(
                ("--to",),
                "to",
                "write it into a new notebook, a cell for each step",
                "FILE",
                "--to steps.ipynb",
            ),
        ),
        words=1,
        completes="turns",
        example="code --cells 2",
    ),
    Command(
        "fix",
        "[WORDS]",
        "let the agent mend what failed last in this notebook",
        "fixing:fix",
        awaits=True,
        words=None,
        example="fix keep the order of the rows",
    ),
    Command(
        "context",
        "[--share MODE] [--context NAMES] [--no-context] [WORDS]",
        "show what a turn with these words would send to the model, to the letter; nothing is sent",
        "context:context",
        _SHARING,
        words=None,
        example="context --share schema plot the mean by month",
    ),
    Command(
        "sent",
        "[--request N] [TURN]",
        "show what went to models in a turn, the newest by default: of each request, to the "
        "letter, what is new in it",
        "sending:sent",
        (
            Flag(
                ("--request",),
                "number",
                "show one request, whole",
                "N",
                "--request 2",
                _steps,
            ),
        ),
        words=1,
        completes="turns",
        example="sent 2",
    ),
    Command("artifacts", "", "list what was published", "handlers:artifacts"),
    Command(
        "tools",
        "[add|remove NAME]",
        "list the agent's tools, make a function of yours one, or take it away again",
        "handlers:tools",
        words=2,
        first=("add", "remove"),
        completes="variables",
        example="tools add my_function",
    ),
    Command(
        "why",
        "NAME",
        "tell and draw where a variable comes from, and what of it is out of date",
        "handlers:why",
        words=1,
        needs="the name of a variable",
        completes="variables",
        example="why df",
    ),
    Command(
        "slice",
        "NAME [FILE]",
        "show a short script that rebuilds a variable, or write it into a new file",
        "handlers:script",
        words=2,
        needs="the name of a variable",
        completes="variables",
        example="slice df df.py",
    ),
    Command(
        "diff",
        "[TURN]",
        "tell what a turn, the newest by default, did to your variables",
        "handlers:diff",
        words=1,
        completes="turns",
        example="diff 2",
    ),
    Command(
        "undo",
        "[TURN]",
        "put your variables, and the files of the workspace that it wrote to, back as they were "
        "before a turn, the newest by default; what you "
        "changed since then stays",
        "handlers:undo",
        words=1,
        completes="turns",
        example="undo 2",
    ),
    Command(
        "redo",
        "[TURN]",
        "do again what an undo has taken back",
        "handlers:redo",
        words=1,
        completes="turns",
        example="redo 2",
    ),
    Command(
        "refresh",
        "NAME",
        "make a published artifact again from its code and sources, in a clean kernel",
        "handlers:refresh",
        (
            Flag(
                ("--accept",),
                "accept",
                "publish what comes out although a source has changed",
            ),
            Flag(("--allow",), "allow", "let its code reach outside the notebook"),
        ),
        awaits=True,
        words=None,
        needs="an artifact: its title, variable or id",
        completes="artifacts",
        example="refresh monthly_mean",
    ),
    Command(
        "verify",
        "",
        "check that the journal and everything published are as they were written",
        "handlers:verify",
    ),
    Command(
        "procedure",
        "FILE",
        "check a file for --procedure and show what it says, with a drawing of its states",
        "handlers:procedure",
        words=1,
        needs="a file",
        example="procedure review.yaml",
    ),
    Command("next", "", "show what the newest turn may do next", "handlers:next_actions"),
    Command(
        "metrics",
        "[prometheus]",
        "show how the turns of this notebook went, in figures, or as text for Prometheus",
        "handlers:metrics",
        words=1,
        first=("prometheus",),
        example="metrics prometheus",
    ),
    Command("cost", "", "show what each turn has used: calls, tokens, dollars", "cost:cost"),
    Command(
        "forget",
        "TURN",
        "tell later turns nothing of a turn",
        "forgetting:forget",
        words=1,
        needs="the number of a turn",
        completes="turns",
        example="forget 2",
    ),
    Command(
        "reset",
        "[--yes]",
        "forget every turn, take your tools away and go back to the first model; without --yes, "
        "say what that would do",
        "forgetting:reset",
        (Flag(("--yes",), "yes", "do it"),),
        example="reset --yes",
    ),
    Command("config", "", "show how the agent is set up here, and from where", "handlers:config"),
    Command(
        "doctor",
        "",
        "look at what the agent needs, and say what to do about what is missing",
        "handlers:doctor",
    ),
    Command("stop", "", "stop the turn that is running", "handlers:stop"),
    Command("help", "", "show this help", "handlers:usage"),
)

# Flags, by ``dest``, that cannot be meant together.
_APART = (("record", "replay"), ("context", "no_context"))

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
            f"{magic} has no sub-command {name!r}.{nearest(name, known)} "
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


def _columns(rows: list[tuple[str, str]]) -> str:
    """``rows`` as terms and what they mean, in 80 columns."""
    lines: list[str] = []
    for term, meaning in rows:
        told = textwrap.wrap(meaning, 80 - _TERM_WIDTH)
        if len(term) > _TERM_WIDTH - 4:
            lines.append(f"  {term}")
        else:
            lines.append(f"  {term:<{_TERM_WIDTH - 2}}{told.pop(0)}")
        lines.extend(" " * _TERM_WIDTH + line for line in told)
    return "\n".join(lines)


def help_text(name: str = "agent") -> str:
    """The help of both forms under the magic's ``name``, in 80 columns."""
    commands = [
        (f"{command.name} {command.synopsis}".strip(), command.help) for command in COMMANDS
    ]
    flags = [
        (f"{command.name} {flag.spelled}", flag.help)
        for command in COMMANDS
        for flag in command.flags
    ]
    return "\n".join(
        [
            f"%%{name} [flags]",
            "<request>",
            "",
            "Let an agent work on the request in this notebook. The request is taken",
            "literally. The agent runs Python here; what it makes stays in your variables.",
            "",
            "Flags, before the request:",
            _columns([(flag.spelled, flag.help) for flag in CELL_FLAGS]),
            "",
            f"%{name} <sub-command>",
            "",
            "Sub-commands; TURN is a number of the history or six characters of an id:",
            _columns(commands + flags),
            "",
            "Examples:",
            *(
                f"  {line}"
                for line in (
                    f"%%{name} --max-steps 10",
                    EXAMPLE.partition("\n")[2],
                    f"%%{name} --share schema --context cars,data/cars.csv",
                    "Which columns could explain the mileage?",
                    *(f"%{name} {command.example}" for command in COMMANDS if command.example),
                )
            ),
        ]
    )
