"""Who reaches outside is stopped or refused; who does not is left alone. Cells are really run."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow

# What fails before it is asked about where no network is.
UNRESOLVED = {"socket-udp-ntp"}


def _run(name: str, folder: Path) -> dict[str, dict[str, Any]]:
    """What became of each cell of a corpus; the temporary folder is another one."""
    with tempfile.TemporaryDirectory() as temporary:  # short: sockets lie in it
        done = subprocess.run(
            [sys.executable, "-m", "tests.corpora.watched_shell", name, folder / "place"],
            cwd=Path(__file__).parents[2],
            # litellm names its own tokenizers there where a test before has imported it.
            env=os.environ | {"TMPDIR": temporary, "MPLBACKEND": "agg", "TIKTOKEN_CACHE_DIR": ""},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=540,
            check=False,
        )
    assert done.returncode == 0, done.stderr[-3_000:]
    told = [json.loads(each) for each in done.stdout.splitlines() if each.startswith('{"id"')]
    return {each["id"]: each for each in told}


def test_reaching_cells_are_asked_about_or_refused(tmp_path: Path) -> None:
    came = _run("reaching", tmp_path)
    assert len(came) >= 240
    silent = {
        name
        for name, told in came.items()
        if not told["preview"] and not told["held"] and "may not reach" not in told["error"]
    }
    assert silent <= UNRESOLVED
    # What the preview lets by is stopped, and the other way round there is little left.
    assert sum(bool(told["held"]) for told in came.values()) >= 0.9 * len(came)


def test_harmless_cells_are_left_alone(tmp_path: Path) -> None:
    came = _run("harmless", tmp_path)
    assert len(came) >= 190
    alarms = [t for t in came.values() if t["preview"] or t["held"] or t["error"]]
    assert alarms == []
