"""A folder with data, and sessions on it."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from parsimony_kernel.execution.executor import CodeExecutor
from parsimony_kernel.session.session import NotebookSession
from parsimony_kernel.testing.scripted import Step


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "sales.csv").write_text("region,amount\nnorth,1\nsouth,2\n")
    return tmp_path


@pytest.fixture
def start(folder: Path, scripted: Callable[..., NotebookSession]) -> Any:
    def build(steps: Sequence[Step] = (), executor: CodeExecutor | None = None) -> NotebookSession:
        return scripted(*steps, executor=executor, folder=folder)

    return build
