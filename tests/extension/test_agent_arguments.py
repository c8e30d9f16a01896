"""What can be written after the magics."""

import inspect
from typing import Any

import pytest

from parsimony_agent.arguments import (
    CELL_FLAGS,
    COMMANDS,
    CellRequest,
    Command,
    help_text,
    parse_cell,
    parse_command,
)
from parsimony_agent.magics import doer
from parsimony_agent.pending import Misuse
from parsimony_kernel.session.share import Share


@pytest.mark.parametrize(
    ("line", "body", "expected"),
    [
        ("", "plot {x} for $5\n", CellRequest("plot {x} for $5")),
        ("-m offline", "go", CellRequest("go", model="offline")),
        (
            "--model=offline --max-steps 3",
            "go",
            CellRequest("go", model="offline", max_iterations=3),
        ),
        ("-o result --record", "go", CellRequest("go", out="result", record=True)),
        ("--replay", "go", CellRequest("go", replay=True)),
        ("--share schema", "go", CellRequest("go", share="schema")),
        ("--context cars,a.csv", "go", CellRequest("go", context=("cars", "a.csv"))),
        ('--context "cars, By year"', "go", CellRequest("go", context=("cars", "By year"))),
        ("--no-context", "go", CellRequest("go", no_context=True)),
        ("--max-time 90", "go", CellRequest("go", max_time_s=90.0)),
        ("--budget 0.5", "go", CellRequest("go", max_cost_usd=0.5)),
        ("--budget $2", "go", CellRequest("go", max_cost_usd=2.0)),
        ("--max-tokens 20k", "go", CellRequest("go", max_tokens=20_000)),
        ("--max-tokens 512", "go", CellRequest("go", max_tokens=512)),
        ("--max-time 1.5m", "go", CellRequest("go", max_time_s=90.0)),
        ("--max-time=2h", "go", CellRequest("go", max_time_s=7200.0)),
        ('--model "my model"', "go", CellRequest("go", model="my model")),
        ("what's in cars.csv?", "", CellRequest("what's in cars.csv?")),
        ("first line", "  and a second\n", CellRequest("first line\nand a second")),
        ("-m offline plot it", "", CellRequest("plot it", model="offline")),
        ("-- -m is a flag, they say", "", CellRequest("-m is a flag, they say")),
        ("--help", "", CellRequest("", help=True)),
        ("", " \n ", CellRequest("")),
    ],
)
def test_flags_stand_before_the_request_and_the_request_is_literal(
    line: str, body: str, expected: CellRequest
) -> None:
    assert parse_cell(line, body) == expected


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("--modle x", "%%agent has no flag '--modle'. Did you mean '--model'? See %%agent --help."),
        ("-x", "%%agent has no flag '-x'."),
        ("--model", "%%agent --model needs a value, for example --model offline"),
        ("--model --max-steps 3", "%%agent --model needs a value"),
        ("--model=", "%%agent --model needs a value"),
        ("--max-steps many", "%%agent --max-steps got 'many'; it takes a whole number from 1 up"),
        ("--max-steps 0", "%%agent --max-steps got '0'"),
        ("--max-steps ²", "%%agent --max-steps got '²'"),
        ("--max-time soon", "%%agent --max-time got 'soon'; it takes a time above zero"),
        ("--budget 0", "%%agent --budget got '0'; it takes an amount of US dollars above zero"),
        ("--budget 1e9999", "%%agent --budget got '1e9999'"),
        ("--max-tokens -5", "%%agent --max-tokens got '-5'; it takes a whole number"),
        ("--max-tokens 0k", "%%agent --max-tokens got '0k'"),
        ("--max-time 0s", "%%agent --max-time got '0s'"),
        ("--share all", "%%agent --share got 'all'; it takes full, samples, schema or none."),
        ("--share", "%%agent --share needs a value, for example --share schema"),
        ("--context cars, prices", "%%agent --context got 'cars,'; it takes names with commas"),
        ("--context --share none", "%%agent --context needs a value, for example --context cars,"),
        ("--no-context --context cars", "%%agent takes --context or --no-context, and got both."),
        ("--record --replay", "%%agent takes --record or --replay, and got both."),
        ("plot it -m offline", "%%agent -m stands behind the words; flags go before them"),
    ],
)
def test_a_flag_that_cannot_be_used_is_one_sentence(line: str, sentence: str) -> None:
    with pytest.raises(Misuse) as caught:
        parse_cell(line, "go")
    assert str(caught.value).startswith(sentence)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("rest", "words", "flags"),
    [
        ("2", "2", {}),
        ("by year, what else?", "by year, what else?", {}),
        ("--turn 3 by year", "by year", {"turn": "3"}),
        ("--here --turn ab by year", "by year", {"turn": "ab", "here": True}),
        ("-- -5 degrees", "-5 degrees", {}),
    ],
)
def test_an_answer_is_words_after_its_flags(rest: str, words: str, flags: dict[str, Any]) -> None:
    parsed = parse_command(f"answer {rest}")
    assert parsed is not None
    assert (parsed.words, parsed.flags) == ((words,), flags)


@pytest.mark.parametrize("rest", ["", "--here", "--turn 2", "--trun 2 yes", "-5"])
def test_an_answer_without_words_or_with_another_flag_is_refused(rest: str) -> None:
    with pytest.raises(Misuse, match="%agent answer"):
        parse_command(f"answer {rest}")


@pytest.mark.parametrize(
    ("rest", "words", "flags"),
    [
        ("by year", ("by year",), {}),
        ("--share none by year", ("by year",), {"share": "none"}),
        ("--context cars", (), {"context": ("cars",)}),
        ("--no-context -- --share", ("--share",), {"no_context": True}),
    ],
)
def test_a_preview_takes_the_flags_of_sharing_before_its_words(
    rest: str, words: tuple[str, ...], flags: dict[str, Any]
) -> None:
    parsed = parse_command(f"context {rest}")
    assert parsed is not None
    assert (parsed.words, parsed.flags) == (words, flags)


def test_a_preview_of_one_context_and_of_none_is_refused() -> None:
    with pytest.raises(Misuse, match="%agent context takes --context or --no-context"):
        parse_command("context --context cars --no-context by year")


def test_a_cell_can_say_every_mode_of_sharing_that_there_is() -> None:
    (flag,) = (each for each in CELL_FLAGS if each.dest == "share")
    assert sorted(flag.choices) == sorted(Share)
    for mode in Share:
        assert parse_cell(f"--share {mode}", "go").share == mode


@pytest.mark.parametrize(
    ("name", "meant"), [("anwser", "answer"), ("rewind", "undo"), ("clear", "reset")]
)
def test_an_unknown_sub_command_gets_the_nearest_name(name: str, meant: str) -> None:
    with pytest.raises(Misuse) as caught:
        parse_command(f"{name} 2")
    assert f"no sub-command {name!r}. Did you mean {meant!r}?" in str(caught.value)


def test_an_empty_line_names_no_sub_command_and_help_has_three_spellings() -> None:
    assert parse_command("  ") is None
    for spelled in ("help", "-h", "--help"):
        parsed = parse_command(spelled)
        assert parsed is not None
        assert (parsed.command.name, parsed.words) == ("help", ())


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("history", ()),
        ("history 2", ("2",)),
        ("tools", ()),
        ("tools add area", ("add", "area")),
        ("tools  remove\tarea ", ("remove", "area")),
        ("metrics prometheus", ("prometheus",)),
    ],
)
def test_words_stand_behind_a_sub_command(line: str, words: tuple[str, ...]) -> None:
    parsed = parse_command(line)
    assert parsed is not None
    assert parsed.words == words


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("history 1 2", "%agent history takes at most one word, [TURN], and got '1 2'."),
        ("artifacts all", "%agent artifacts takes nothing, and got 'all'."),
        ("tools area", "%agent tools takes [--yes] [add|remove NAME|mcp:SERVER], and got 'area'."),
        ("tools add", "%agent tools takes [--yes] [add|remove NAME|mcp:SERVER], and got 'add'."),
        ("tools ad area", "and got 'ad area'. Did you mean 'add'?"),
        ("tools area", "For example: %agent tools add my_function"),
        (
            "tools add a b",
            "%agent tools takes at most 2 words, [--yes] [add|remove NAME|mcp:SERVER], and got",
        ),
        ("metrics prometeus", "got 'prometeus'. Did you mean 'prometheus'?"),
    ],
)
def test_words_that_do_not_fit_a_sub_command_are_one_sentence(line: str, sentence: str) -> None:
    with pytest.raises(Misuse) as caught:
        parse_command(line)
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.name)
def test_a_row_of_the_table_can_be_written_and_names_who_does_it(command: Command) -> None:
    parsed = parse_command(command.example or command.name)
    assert parsed is not None
    assert parsed.command is command
    does = inspect.signature(doer(command))
    does.bind(object(), *parsed.words, **parsed.flags)
    does.bind(object(), *parsed.words, **{flag.dest: True for flag in command.flags})
    assert inspect.iscoroutinefunction(doer(command)) is command.awaits
    if not command.needs:
        does.bind(object())


def test_help_names_every_flag_and_sub_command_under_the_magic_s_own_name() -> None:
    written = help_text("parsimony")
    text = " ".join(written.split())
    flags = [*CELL_FLAGS, *(flag for command in COMMANDS for flag in command.flags)]
    for flag in flags:
        assert flag.spelled in text
        assert flag.help in text
    for command in COMMANDS:
        assert f"\n  {command.name} " in written
        assert command.help in text
    order = [written.index(f"\n{group}:") for group in dict.fromkeys(c.group for c in COMMANDS)]
    assert order == sorted(order)
    assert written.index("\n  answer ") < written.index("\n  history ")
    assert "%agent" not in text
    assert max(map(len, written.splitlines())) <= 80
