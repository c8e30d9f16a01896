"""What is proposed behind the magics."""

import pytest

from parsimony_agent.arguments import COMMANDS
from parsimony_agent.completion import proposals


@pytest.mark.parametrize(
    ("line", "proposed", "not_proposed"),
    [
        ("%%agent --mo", "--model", "answer"),
        ("%%agent -m ", "offline", "--model"),
        ("%%agent --model off", "offline", "--max-steps"),
        ("%%agent --model offline ", "--max-steps", "offline"),
        ("%agent ", "answer", "--turn"),
        ("%agent an", "answer", "--turn"),
        ("%agent model ", "offline", "answer"),
        ("%agent tools ", "add", "offline"),
        ("%agent tools re", "remove", "--turn"),
        ("%agent metrics ", "prometheus", "add"),
        ("%agent answer --", "--turn", "offline"),
        ("%agent answer --here --t", "--turn", "offline"),
    ],
)
def test_the_place_decides_what_is_proposed(line: str, proposed: str, not_proposed: str) -> None:
    found = proposals(line)
    assert proposed in found
    assert not_proposed not in found


@pytest.mark.parametrize(
    "line",
    [
        "%agent history ",
        "%agent answer by year ",
        "%agent model offline ",
        "%agent tools add ",
        "agent ",
        "",
    ],
)
def test_where_nothing_can_stand_nothing_is_proposed(line: str) -> None:
    assert proposals(line) == []


def test_every_sub_command_is_proposed() -> None:
    assert proposals("%agent ") == [command.name for command in COMMANDS]
