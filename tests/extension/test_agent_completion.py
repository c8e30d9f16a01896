"""What is proposed behind the magics."""

import pytest
from IPython.core.completer import provisionalcompleter
from IPython.core.interactiveshell import InteractiveShell

from parsimony_agent.arguments import COMMANDS
from parsimony_agent.completion import proposals
from parsimony_agent.extension import install, uninstall


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


@pytest.mark.parametrize(
    "line",
    [
        "%agent verify ",
        "agent ",
        "",
    ],
)
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
