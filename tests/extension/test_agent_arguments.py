"""What can be written after the magics."""

import inspect
from typing import Any

import pytest
from IPython.core.completer import provisionalcompleter
from IPython.core.interactiveshell import InteractiveShell

from parsimony_agent.arguments import (
    CELL_FLAGS,
    COMMANDS,
    CellRequest,
    Command,
    help_text,
    parse_cell,
    parse_command,
)
from parsimony_agent.extension import install, proposals, uninstall
from parsimony_agent.magics import doer
from parsimony_agent.pending import Misuse


def given(line: str) -> dict[str, Any]:
    """The arguments of a sub-command."""
    return parse_command(line)[1]


@pytest.mark.parametrize(
    ("line", "body", "expected"),
    [
        ("", "plot {x} for $5\n", CellRequest("plot {x} for $5")),
        ("-m offline", "go", CellRequest("go", {"model": "offline"})),
        (
            "--model=offline --max-steps 3",
            "go",
            CellRequest("go", {"model": "offline", "max_steps": 3}),
        ),
        ("--effort low --record", "go", CellRequest("go", {"effort": "low", "record": True})),
        ("--replay", "go", CellRequest("go", {"replay": True})),
        ("--share schema", "go", CellRequest("go", {"share": "schema"})),
        ("--max-time 90", "go", CellRequest("go", {"max_time": 90.0})),
        ("--budget 0.5", "go", CellRequest("go", {"budget": 0.5})),
        ("--budget $2", "go", CellRequest("go", {"budget": 2.0})),
        ("--max-tokens 20k", "go", CellRequest("go", {"max_tokens": 20_000})),
        ("--max-tokens 512", "go", CellRequest("go", {"max_tokens": 512})),
        ("--max-time 1.5m", "go", CellRequest("go", {"max_time": 90.0})),
        ("--max-time=2h", "go", CellRequest("go", {"max_time": 7200.0})),
        ('--model "my model"', "go", CellRequest("go", {"model": "my model"})),
        ("what's in cars.csv?", "", CellRequest("what's in cars.csv?")),
        ("first line", "  and a second\n", CellRequest("first line\nand a second")),
        ("-m offline plot it", "", CellRequest("plot it", {"model": "offline"})),
        ("-- -m is a flag, they say", "", CellRequest("-m is a flag, they say")),
        ("--help", "", CellRequest("", {"help": True})),
        ("", " \n ", CellRequest("")),
    ],
)
def test_flags_precede_literal_request(line: str, body: str, expected: CellRequest) -> None:
    assert parse_cell(line, body) == expected


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("--modle x", "there is no flag '--modle'. Did you mean '--model'? See: %%agent --help"),
        ("-x", "there is no flag '-x'."),
        ("--model", "argument -m/--model: expected one argument"),
        ("--model --max-steps 3", "argument -m/--model: expected one argument"),
        ("--model=", "--model expects a value"),
        ("--max-steps many", "--max-steps: got 'many'; it takes a whole number from 1 up"),
        ("--max-steps 0", "--max-steps: got '0'"),
        ("--max-steps ²", "--max-steps: got '²'"),
        ("--max-time soon", "--max-time: got 'soon'; it takes a time above zero"),
        ("--budget 0", "--budget: got '0'; it takes an amount of US dollars above zero"),
        ("--budget 1e9999", "--budget: got '1e9999'"),
        ("--max-tokens -5", "--max-tokens: got '-5'; it takes a whole number"),
        ("--max-tokens 0k", "--max-tokens: got '0k'"),
        ("--max-time 0s", "--max-time: got '0s'"),
        ("--share all", "--share: got 'all'; it takes full, samples, schema or none"),
        ("--share smaples", "Did you mean 'samples'?"),
        ("--share", "--share: expected one argument"),
        ("--record --replay", "--replay: not allowed with argument --record"),
        ("plot it -m offline", "-m stands behind the words; flags go before them"),
    ],
)
def test_invalid_flag_is_one_sentence(line: str, sentence: str) -> None:
    with pytest.raises(Misuse) as caught:
        parse_cell(line, "go")
    assert str(caught.value).startswith("%%agent: ")
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("rest", "words", "flags"),
    [
        ("2", "2", {}),
        ("by year, what else?", "by year, what else?", {}),
        ("--turn 3 by year", "by year", {"turn": "3"}),
        ("-- -5 degrees", "-5 degrees", {}),
    ],
)
def test_answer_is_text_after_flags(rest: str, words: str, flags: dict[str, Any]) -> None:
    assert given(f"answer {rest}") == {"words": words, **flags}


@pytest.mark.parametrize("rest", ["", "--turn 2", "--trun 2 yes", "-5"])
def test_answer_without_text_or_with_unknown_flag_is_refused(rest: str) -> None:
    with pytest.raises(Misuse, match="%agent answer"):
        parse_command(f"answer {rest}")


def test_preview_accepts_share_flags() -> None:
    assert given("context --share none by year") == {"share": "none", "words": "by year"}
    assert given("context --share none -- --share") == {"share": "none", "words": "--share"}


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        *(("anwser", "answer"), ("hist", "history"), ("rewind", "undo"), ("clear", "reset")),
        *((far, "") for far in ("foo", "plot", "list", "run")),
    ],
)
def test_an_unknown_sub_command_gets_a_name_that_is_near(name: str, meant: str) -> None:
    with pytest.raises(Misuse) as caught:
        parse_command(f"{name} 2")
    near = f" Did you mean {meant!r}?" if meant else ""
    assert f"no sub-command {name!r}.{near} %agent help lists them." in str(caught.value)


def test_empty_line_has_no_subcommand_and_help_three_spellings() -> None:
    for spelled in ("  ", "help", "-h", "--help"):
        assert parse_command(spelled) == (COMMANDS["help"], {})
    for spelled in ("help code", "code --help", "code -h"):
        assert parse_command(spelled) == (COMMANDS["help"], {"topic": "code"})


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("history", {}),
        ("history 2", {"turn": "2"}),
        ("history --from old.ipynb", {"from": "old.ipynb"}),
        ("code 2 --cells", {"turn": "2", "cells": True}),
        ('procedure "my task.yaml"', {"file": "my task.yaml"}),
        ("tools", {}),
        ("tools add area", {"do": "add", "name": "area"}),
        ("tools  remove\tarea ", {"do": "remove", "name": "area"}),
    ],
)
def test_words_follow_subcommand(line: str, expected: dict[str, Any]) -> None:
    assert given(line) == expected


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("history 1 2", "%agent history: unrecognized arguments: 2. See: %agent history --help"),
        ("artifacts all", "%agent artifacts: unrecognized arguments: all"),
        ("code --cell", "%agent code: unrecognized arguments: --cell"),
        ("why", "%agent why: the following arguments are required: NAME"),
        ("tools ad area", "got 'ad'; it takes add or remove. Did you mean 'add'?"),
        ("tools add a b", "%agent tools: unrecognized arguments: b"),
    ],
)
def test_wrong_words_are_one_sentence(line: str, sentence: str) -> None:
    with pytest.raises(Misuse) as caught:
        parse_command(line)
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_table_row_names_its_handler(command: Command) -> None:
    does = inspect.signature(doer(command.run))
    names = [each.lstrip("-").replace("-", "_") for each in command.arguments]
    does.bind(object(), **dict.fromkeys(names))
    required = [n for n, row in command.arguments.items() if n[0] != "-" and "nargs" not in row]
    does.bind(object(), **dict.fromkeys(required))
    assert inspect.iscoroutinefunction(doer(command.run)) is command.awaits


def test_full_help_names_every_flag_and_subcommand() -> None:
    written = help_text("parsimony", whole=True)
    text = " ".join(written.split())
    for command in COMMANDS.values():
        assert f"\n  {command.name}" in written
        assert command.says in text
        for flag in command.arguments:
            assert not flag.startswith("-") or flag in text
    for row in CELL_FLAGS.values():
        assert row["help"] in text
    order = [
        written.index(f"\n{group}:") for group in dict.fromkeys(c.group for c in COMMANDS.values())
    ]
    assert order == sorted(order)
    assert written.index("\n  answer ") < written.index("\n  history ")
    assert "%agent" not in text
    assert max(map(len, written.splitlines())) <= 80


def test_short_help_fits_a_screen() -> None:
    written = help_text()
    assert len(written.splitlines()) <= 40
    assert max(map(len, written.splitlines())) <= 80
    for command in COMMANDS.values():
        assert command.name in written
        assert (command.says in " ".join(written.split())) is (command.group == "Every day")


# What is proposed behind the magics.


def proposed_behind(line: str) -> list[str]:
    return proposals(line, ["cars"])


@pytest.mark.parametrize(
    ("line", "proposed", "not_proposed"),
    [
        ("%%agent --mo", "--model", "answer"),
        ("%%agent -m ", "offline", "--model"),
        ("%%agent --model off", "offline", "--max-steps"),
        ("%%agent --model offline ", "--max-steps", "offline"),
        ("%%agent --share ", "schema", "--share"),
        ("%%agent --share sch", "schema", "cars"),
        ("%%agent --effort ", "high", "--effort"),
        ("%%agent --approve ", "ask", "cars"),
        ("%agent context ", "--share", "cars"),
        ("%agent context --share ", "none", "--share"),
        ("%agent ", "answer", "--turn"),
        ("%agent an", "answer", "--turn"),
        ("%agent model ", "offline", "answer"),
        ("%agent tools ", "add", "offline"),
        ("%agent tools re", "remove", "--turn"),
        ("%agent answer --", "--turn", "offline"),
        ("%agent why c", "cars", "--turn"),
        ("%agent tools add ", "cars", "offline"),
    ],
)
def test_completion_depends_on_position(line: str, proposed: str, not_proposed: str) -> None:
    found = proposed_behind(line)
    assert proposed in found
    assert not_proposed not in found


@pytest.mark.parametrize("line", ["%agent verify ", "agent ", ""])
def test_nothing_is_completed_where_nothing_fits(line: str) -> None:
    assert proposed_behind(line) == []


def test_every_subcommand_is_completed() -> None:
    assert proposed_behind("%agent ") == list(COMMANDS)


@pytest.mark.parametrize(
    ("text", "proposed"),
    [("%agent hist", ["history"]), ("%%agent --rec", ["--record"]), ("%timeit art", [])],
)
def test_shell_completes_after_magics_only(text: str, proposed: list[str]) -> None:
    shell = InteractiveShell()
    install(shell)
    try:
        with provisionalcompleter():
            found = [each.text for each in shell.Completer.completions(text, len(text))]
        assert [
            each for each in found if each in ("history", "artifacts") or "--" in each
        ] == proposed
    finally:
        uninstall(shell)
    assert shell.Completer.custom_matchers == []
