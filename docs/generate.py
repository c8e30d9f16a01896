"""The pages of the reference that are made from the code: run it after a change of the tables.

    python docs/generate.py            writes them
    python docs/generate.py --check    exits with 1 where one differs from what would be written

They are kept in the repository, so that a change of a table is seen in its review.
"""

import argparse
import asyncio
import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

from parsimony_agent.arguments import CELL_FLAGS, COMMANDS, EXAMPLE
from parsimony_agent.settings import FILE, SETTINGS
from parsimony_kernel.cli import main as cli
from parsimony_kernel.core.causes import CAUSES
from parsimony_kernel.core.kinds import FailureKind, default_action_for
from parsimony_kernel.core.policy import DefaultPolicy
from parsimony_kernel.execution.private import CodeExecutor
from parsimony_kernel.gate.approval import Approval
from parsimony_kernel.offline.marks import table as patterns
from parsimony_kernel.session.session import NotebookSession
from parsimony_kernel.session.share import ANSWERS, Share
from parsimony_kernel.session.turns import TurnOptions
from parsimony_kernel.testing.scripted import ScriptedModel, call
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


# What is looked for in the requests of a turn, by what it is. Nothing of it stands in the request
# or in what the model says.
TOLD = {
    "names of variables": "VARIABLE",
    "names of columns": "SALARY",
    "types of columns": "datetime64",
    "how many rows a table has": "4217",
    "values of variables, and samples of columns": "CANARY_SCALAR",
    "first rows of tables that the request names": "rows_begin",
    "names of data files": "unmentioned.csv",
    "first lines of data files that the request names": "CANARY_LINE",
    "what code prints": "CANARY_PRINTED",
    "tables that code shows": "CANARY_SHOWN",
    "charts that a step showed, as pictures": "image/png",
    "what kind of error a step met": "ValueError",
    "the words of an error": "CANARY_ERROR",
    "what your own tools answer": "CANARY_ANSWER",
    "names of your own tools": "idle_tool",
    "defaults of your own tools": "CANARY_DEFAULT",
    "titles of what is published": "TITLE_OF_IT",
    "what earlier requests came to": "CANARY_SUMMARY",
    "your instructions in AGENTS.md": "CANARY_INSTRUCTION",
}
# The same of a turn whose request names nothing.
TOLD_UNNAMED = {"first rows of all other tables": "rows_begin"}
_SETUP = """
import pandas as pd
PEOPLE = pd.DataFrame({"SALARY": range(4217), "DAY": pd.Timestamp("2026-01-01")})
VARIABLE = "CANARY_SCALAR"
def own_tool(word: str = "CANARY_DEFAULT") -> str:
    "Answers."
    return "CANARY_" + "ANSWER"
def idle_tool() -> str:
    "Answers."
    return ""
"""
_STEPS = (
    "print('CANARY_' + 'PRINTED')",
    "pd.DataFrame({'x': ['CANARY_' + 'SHOWN']})",
    "int('CANARY_' + 'ERROR')",
    "import altair as alt\nalt.Chart(pd.DataFrame({'x': [1, 2]})).mark_bar().encode(x='x:Q')",
)


class Seeing(ScriptedModel):
    """A model that takes pictures."""

    sees_pictures = True


async def requests_under(mode: Share, folder: Path) -> tuple[str, str]:
    """All that a turn sends to a model under ``mode``, and what another does that names nothing."""
    (folder / "ledger.csv").write_text("id,word\n1,CANARY_LINE\n")
    (folder / "unmentioned.csv").write_text("id\n1\n")
    (folder / "AGENTS.md").write_text("CANARY_INSTRUCTION\n")
    executor = CodeExecutor(cwd=str(folder))
    first = (
        call("run_code", code="import pandas as pd\nmade = pd.DataFrame({'x': [1]})"),
        call("return_dataset", variable="made", title="TITLE_OF_IT"),
    )
    steps = [call("run_code", code=code) for code in _STEPS]
    done = call("return_done", summary="CANARY_SUMMARY")
    model = Seeing([*first, done, *steps, call("own_tool"), done, done])
    session = NotebookSession(
        executor=executor,
        notebook="n.ipynb",
        folder=folder,
        model=model,
        environ={"PARSIMONY_SUSPENSION_SECRET": "for the page"},
    )
    try:
        await executor.execute(_SETUP)
        session.tools.add("own_tool")
        session.tools.add("idle_tool")
        options = TurnOptions(share=mode, approve=Approval.auto)
        for request in ("publish it", "go over the PEOPLE and ledger.csv", "go on"):
            async for _ in session.turn(request, cell_key=request, options=options):
                pass
    finally:
        session.close()
    told = [json.dumps(vars(each), ensure_ascii=False, default=str) for each in model.requests]
    return "\n".join(told[len(first) + 1 : -1]), told[-1]


def share_modes() -> str:
    """What a turn sends to a model under each mode, found in what it did send."""
    sent: dict[Share, tuple[str, str]] = {}
    with TemporaryDirectory() as place, patch.dict(os.environ, {"JUPYTER_DATA_DIR": place}):
        for mode in Share:
            folder = Path(place) / mode.value
            folder.mkdir()
            sent[mode] = asyncio.run(requests_under(mode, folder))
    rows = [
        (what, *("sent" if canary in sent[mode][turn] else "–" for mode in Share))
        for turn, looked_for in enumerate((TOLD, TOLD_UNNAMED))
        for what, canary in looked_for.items()
    ]
    return "\n\n".join(
        [
            "# What each share mode sends",
            "Found by sending: this page is made by turns under each mode, on data in which every "
            "kind of thing has a mark of its own, which is looked for in their requests. What the "
            "modes mean, and how to choose one, is in "
            "[What a model sees](../how-to/what-a-model-sees.md).",
            table(("what", *(f"`--share {mode.value}`" for mode in Share)), rows),
            "Your request is always sent, and so are the model's own words and code. With the "
            "model `offline` nothing is sent under any mode.",
            "Of the answers of the agent's own tools, `schema` tells these fields alone:",
            table(
                ("tool", "what is told"), [(f"`{name}`", _told(ANSWERS[name])) for name in ANSWERS]
            ),
        ]
    )


def _told(what: object) -> str:
    """What is told of a tool's answer under ``schema``."""
    if what is None:
        return "all of it"
    return ", ".join(what) if isinstance(what, tuple) else "shape"


PAGES: dict[str, Callable[[], str]] = {
    "magics.md": magics,
    "command-line.md": command_line,
    "configuration.md": configuration,
    "failures.md": failures,
    "offline-model.md": offline,
    "share-modes.md": share_modes,
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
