"""A person's cells in a shell, and what they print."""

from collections.abc import Callable
from typing import Any

import pytest

Said = Callable[..., str]


@pytest.fixture
def said(shell: Any, capsys: pytest.CaptureFixture[str]) -> Said:
    """What a cell prints that ends well, or that ``fails``."""

    def run(cell: str, *, fails: bool = False) -> str:
        capsys.readouterr()
        is_fine = shell.run_cell(cell).success
        printed = capsys.readouterr().out
        assert is_fine is not fails, printed
        return printed

    return run
