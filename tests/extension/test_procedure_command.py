"""What ``%agent procedure`` tells of a file, checked as a turn would check it."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from parsimony_agent.overview import procedure
from parsimony_kernel.session.session import NotebookSession
from parsimony_kernel.session.turn_values import SessionError

Start = Callable[..., NotebookSession]

TEXT = """
states: [new, loaded]
start: new
final: [loaded]
edges:
  - {action: run_code, from: new, to: loaded}
forbid_tools: [return_chart]
max_words: 50
constraints:
  - Be kind.
"""


def told_of(session: NotebookSession, file: str) -> Any:
    magics: Any = SimpleNamespace(session=session)
    return procedure(magics, file)


def test_enforced_rules_and_reminders_are_listed(scripted: Start, tmp_path: Path) -> None:
    (tmp_path / "r.yaml").write_text(TEXT)
    told = told_of(scripted(), "r.yaml")
    rows = [" ".join(line.split()) for line in told["text/plain"].splitlines()]
    assert rows[1:] == [
        "edge run_code: new → loaded",
        "rule, enforced forbid_tools: return_chart",
        "rule, enforced max_words: 50",
        "a reminder Be kind.",
    ]


@pytest.mark.parametrize("text", ["states: [a]\nstart: b\n", "polcy: {}\n"])
def test_task_file_errors_are_reported(scripted: Start, tmp_path: Path, text: str) -> None:
    (tmp_path / "r.yaml").write_text(text)
    with pytest.raises(SessionError, match=r"r\.yaml"):
        told_of(scripted(), "r.yaml")


@pytest.mark.parametrize("name", ["gone.yaml", "a\0b.yaml", "x" * 999])
def test_missing_file_is_named(scripted: Start, name: str) -> None:
    with pytest.raises(SessionError, match="cannot be read") as caught:
        told_of(scripted(), name)
    assert repr(name) in str(caught.value)
