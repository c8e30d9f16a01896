"""The pages of the reference that are made from the code: run it after a change of the tables.

    python docs/generate.py            writes them
    python docs/generate.py --check    exits with 1 where one differs from what would be written

They are kept in the repository, so that a change of a table is seen in its review.
"""

import argparse
import os
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from parsimony_agent.arguments import CELL_FLAGS, COMMANDS, EXAMPLE
from parsimony_agent.settings import FILE, SETTINGS
from parsimony_kernel.cli import main as cli
from parsimony_kernel.core.causes import CAUSES
from parsimony_kernel.core.kinds import FailureKind, default_action_for
from parsimony_kernel.core.policy import DefaultPolicy
from parsimony_kernel.offline.marks import table as patterns
from parsimony_kernel.view.outline import ACTION_WORDS, KIND_WORDS

FOLDER = Path(__file__).parent / "reference"
NOTE = "<!-- Made by docs/generate.py from the tables of the code: change those. -->\n"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(map(cell, line)) + " |" for line in lines)


def cell(text: str) -> str:
    """Text for a cell: one line, no column of its own."""
    return " ".join(text.split()).replace("|", "\\|")


def magics() -> str:
    """What can be written after ``%%agent`` and ``%agent``."""
    flags = [(f"`{flag.spelled}`", flag.help) for flag in CELL_FLAGS]
    parts = [
        "# Magics",
        "## `%%agent`",
        "Flags stand before the request, which is taken literally.",
        f"```\n{EXAMPLE}\n```",
        table(("flag", "what it does"), flags),
        "## `%agent`",
        "`TURN` is a number of the history, or six characters of an id. Tab completes "
        "sub-commands, flags, models, variables, turns and artifacts.",
        table(
            ("sub-command", "what it does"),
            [
                (f"`%agent {' '.join(filter(None, (each.name, each.synopsis)))}`", each.help)
                for each in COMMANDS
            ],
        ),
    ]
    for command in COMMANDS:
        if command.flags or command.example:
            parts.append(f"### `{command.name}`")
            parts.append(f"{command.help[0].upper()}{command.help[1:]}.")
            if command.example:
                parts.append(f"```\n%agent {command.example}\n```")
            if command.flags:
                told = [(f"`{flag.spelled}`", flag.help) for flag in command.flags]
                parts.append(table(("flag", "what it does"), told))
    return "\n\n".join(parts)


def command_line() -> str:
    """``jupyter parsimony``, as its own help tells it."""
    parser = cli.parser()
    parts = ["# Command line", _help(parser)]
    commands = parser.commands
    assert commands is not None
    for name, command in commands.choices.items():
        parts += [f"## `{name}`", _help(command)]
    return "\n\n".join(parts)


def _help(parser: argparse.ArgumentParser) -> str:
    # The folder that help gives as the default is the one it is asked in.
    return f"```text\n{re.sub(r'[ ]+$', '', parser.format_help(), flags=re.M).rstrip()}\n```"


def configuration() -> str:
    """What can be set, and where."""
    rows = [
        (
            f"`{setting.name}`<br>`{setting.variable}`",
            f"`{setting.default}`" if setting.default else "",
            f"`{setting.example}`",
            setting.help,
        )
        for setting in SETTINGS
    ]
    return "\n\n".join(
        [
            "# Configuration",
            "What is asked for stands first: a flag of the cell, then `%config ParsimonyAgent`, "
            "then the environment, then Jupyter's and IPython's configuration files, then the "
            "default. `%agent config` shows what holds, and from where.",
            table(
                ("setting, and in the environment", "default", "for example", "what it does"), rows
            ),
            "```\n%config ParsimonyAgent.budget = 0.50\n```",
            f"`jupyter parsimony --generate-config` writes `{FILE}` with all of them into "
            "Jupyter's configuration folder. A file of that name beside a notebook is not read.",
        ]
    )


def failures() -> str:
    """Every kind of failure, and every cause with what is done about it."""
    kinds = []
    for kind in FailureKind:
        action = default_action_for(kind)
        tries = DefaultPolicy().retry_budget(kind)
        counted = f", {tries} times at most" if tries > 1 else ", once" if tries else ""
        done = f"{ACTION_WORDS[action.value]}{counted}"
        kinds.append((KIND_WORDS[kind.value], f"`{kind.value}`", done))
    causes = []
    for cause in CAUSES:
        refusal = None if cause.refusal is None else cause.refusal.value
        type_ = None if cause.type is None else cause.type.name
        called = (f"`{name}`" for name in (cause.kind.value, type_, refusal) if name)
        causes.append((cause.name, "<br>".join(called), cause.how))
    return "\n\n".join(
        [
            "# Failures",
            "Every failure is one of thirteen kinds, and goes through one funnel, which "
            "[Recovery](../explain/recovery.md) explains. A step that succeeds gives every kind "
            "its full count back.",
            "## Kinds",
            table(
                ("what the record says", "kind", "what is done when nothing else is said"), kinds
            ),
            "## Causes",
            "Below its kind stands the cause, which a [procedure](../how-to/procedures.md) can "
            "give a strategy of its own, and the name of the refusal, where the gate refuses the "
            "call before it runs.",
            table(("what failed", "kind, cause, refusal", "what is done"), dict.fromkeys(causes)),
        ]
    )


def offline() -> str:
    """What the offline model understands."""
    requests = [
        (", then ".join(f"`{row[key]}`" for key in ("after", "example") if key in row), row["says"])
        for row in patterns()["row"]
        if "example" in row
    ]
    return "\n\n".join(
        [
            "# What the built-in model understands",
            "The model `offline` is built in and rule-based: no LLM, no key, no network. It "
            "answers a request only when it can account for every word of it: as a word of the "
            "table below, a column, a value or a table. Column names are matched loosely; where "
            "several fit, it asks. Anything else is declined in one line that names the word, with "
            "two requests that work on your own columns.",
            "A text file is read as it is written: separator, decimal mark, thousands, encoding "
            "and the order of day and month are found, shown in the code that loads it, and asked "
            "about where two readings fit. A workbook with several sheets asks for one.",
            table(("a request", "what it does"), requests),
        ]
    )


PAGES: dict[str, Callable[[], str]] = {
    "magics.md": magics,
    "command-line.md": command_line,
    "configuration.md": configuration,
    "failures.md": failures,
    "offline-model.md": offline,
}


def main(argv: Sequence[str] | None = None) -> int:
    """Write the pages, or only check them; gives the exit code."""
    parser = argparse.ArgumentParser(description="The reference, from the code.")
    parser.add_argument("--check", action="store_true", help="write nothing; 1 on a difference")
    is_check = parser.parse_args(argv).check
    os.environ["COLUMNS"] = "80"  # the width of help
    differing = []
    for name, page in PAGES.items():
        text = f"{NOTE}\n{page()}\n"
        place = FOLDER / name
        if place.is_file() and place.read_text(encoding="utf-8") == text:
            continue
        differing.append(name)
        if not is_check:
            place.write_text(text, encoding="utf-8")
    for name in differing:
        print(f"{'differs' if is_check else 'written'}: reference/{name}")
    return 1 if is_check and differing else 0


if __name__ == "__main__":
    sys.exit(main())
