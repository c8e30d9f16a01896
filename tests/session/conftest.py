"""A folder with data, and sessions that are closed behind the test."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from parsimony_kernel.execution.private import CodeExecutor
from parsimony_kernel.session.session import NotebookSession
from parsimony_kernel.testing.scripted import ScriptedModel, Step

from .session_steps import ENVIRON


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "sales.csv").write_text("region,amount\nnorth,1\nsouth,2\n")
    return tmp_path


@pytest.fixture
def opened() -> Iterator[list[NotebookSession]]:
    sessions: list[NotebookSession] = []
    yield sessions
    for session in sessions:
        session.close()


@pytest.fixture
def start(folder: Path, opened: list[NotebookSession]) -> Any:
    def build(steps: Sequence[Step] = (), executor: CodeExecutor | None = None) -> NotebookSession:
        session = NotebookSession(
            executor=executor or CodeExecutor(cwd=str(folder)),
            notebook="analysis.ipynb",
            folder=folder,
            model=ScriptedModel(steps),
            environ=ENVIRON,
        )
        opened.append(session)
        return session

    return build
