"""What every executor prints, shows, binds and raises for a cell: the rows of ``cells.toml``."""

import tomllib
from pathlib import Path
from typing import Any

import pytest

from parsimony_kernel.execution.base import BaseCodeExecutor
from tests.contracts.told import text

_ROWS = tomllib.loads(Path(__file__).with_name("cells.toml").read_text(encoding="utf-8"))["cell"]
ROWS: dict[str, dict[str, Any]] = {row["id"]: row for row in _ROWS}


@pytest.mark.parametrize("what", ROWS)
async def test_cell_prints_shows_and_ends_as_listed(executor: BaseCodeExecutor, what: str) -> None:
    row = ROWS[what]
    for code in row.get("before", ()):
        assert (await executor.execute(code)).error is None
    output = await executor.execute(row["code"], timeout_seconds=60)
    error, expected = output.error, row.get("error", [])
    said = [] if error is None else [error.name, error.line, error.message]
    assert said[: len(expected) or None] == expected
    assert (output.stdout, output.stderr) == (row.get("stdout", ""), row.get("stderr", ""))
    assert [text(each) for each in output.shown if each is not error] == row.get("shown", [])
    assert list(output.changed) == row.get("changed", [])
    assert text((await executor.execute("1 + 1")).outputs[0]) == "2"
