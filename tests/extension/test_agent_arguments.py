"""What can be written after the magics."""

import pytest

from parsimony_agent.arguments import (
    CELL_FLAGS,
    COMMANDS,
    AnswerRequest,
    CellRequest,
    help_text,
    parse_answer,
    parse_cell,
    split_command,
    words_of,
)
from parsimony_agent.pending import Misuse


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
        ("plot it -m offline", "%%agent -m stands behind the words; flags go before them"),
    ],
)
def test_a_flag_that_cannot_be_used_is_one_sentence(line: str, sentence: str) -> None:
    with pytest.raises(Misuse) as caught:
        parse_cell(line, "go")
    assert str(caught.value).startswith(sentence)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("rest", "expected"),
    [
        ("2", AnswerRequest("2")),
        ("by year, what else?", AnswerRequest("by year, what else?")),
        ("--turn 3 by year", AnswerRequest("by year", turn="3")),
        ("--here --turn ab by year", AnswerRequest("by year", turn="ab", here=True)),
        ("-- -5 degrees", AnswerRequest("-5 degrees")),
    ],
)
def test_an_answer_is_words_after_its_flags(rest: str, expected: AnswerRequest) -> None:
    assert parse_answer(rest) == expected


@pytest.mark.parametrize("rest", ["", "--here", "--turn 2", "--trun 2 yes", "-5"])
def test_an_answer_without_words_or_with_another_flag_is_refused(rest: str) -> None:
    with pytest.raises(Misuse, match="%agent answer"):
        parse_answer(rest)


def test_an_unknown_sub_command_gets_the_nearest_name() -> None:
    with pytest.raises(Misuse) as caught:
        split_command("anwser 2")
    assert "no sub-command 'anwser'. Did you mean 'answer'?" in str(caught.value)


def test_an_empty_line_names_no_sub_command_and_help_has_three_spellings() -> None:
    assert split_command("  ") == (None, "")
    for spelled in ("help", "-h", "--help"):
        command, rest = split_command(spelled)
        assert command is not None
        assert (command.name, rest) == ("help", "")


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
    command, rest = split_command(line)
    assert command is not None
    assert words_of(command, rest) == words


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("history 1 2", "%agent history takes at most one word, [TURN], and got '1 2'."),
        ("artifacts all", "%agent artifacts takes nothing, and got 'all'."),
        ("tools area", "%agent tools takes [add|remove NAME], and got 'area'."),
        ("tools add", "%agent tools takes [add|remove NAME], and got 'add'."),
        ("tools ad area", "and got 'ad area'. Did you mean 'add'?"),
        ("tools area", "For example: %agent tools add my_function"),
        ("tools add a b", "%agent tools takes at most 2 words, [add|remove NAME], and got"),
        ("metrics prometeus", "got 'prometeus'. Did you mean 'prometheus'?"),
    ],
)
def test_words_that_do_not_fit_a_sub_command_are_one_sentence(line: str, sentence: str) -> None:
    command, rest = split_command(line)
    assert command is not None
    with pytest.raises(Misuse) as caught:
        words_of(command, rest)
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)


def test_every_example_of_a_sub_command_can_be_written() -> None:
    for command in COMMANDS:
        if command.example:
            named, rest = split_command(command.example)
            assert named is command
            assert command.words is None or words_of(command, rest)


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
        assert f"%parsimony {command.example}" in text
    assert "%agent" not in text
    assert max(map(len, written.splitlines())) <= 80
