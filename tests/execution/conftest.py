"""The executors of this process."""

import pytest

from parsimony_kernel.execution.base import InProcessExecutor
from parsimony_kernel.execution.executor import CodeExecutor, NotebookExecutor


@pytest.fixture(params=["private", "notebook"])
def executor(request: pytest.FixtureRequest) -> InProcessExecutor:
    """An executor of each kind, with nothing in its namespace."""
    if request.param == "private":
        return CodeExecutor()
    return NotebookExecutor(request.getfixturevalue("shell"))
