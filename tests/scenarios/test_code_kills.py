"""Code that reaches outside, in a process that is killed at any moment, is never just repeated."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest


@pytest.mark.slow
def test_effect_without_recorded_end_is_asked_about(tmp_path: Path) -> None:
    with tempfile.TemporaryDirectory() as temporary:
        done = subprocess.run(
            [sys.executable, "-m", "tests.scenarios.code_kills", tmp_path],
            cwd=Path(__file__).parents[2],
            env={**os.environ, "TMPDIR": temporary},
            capture_output=True,
            text=True,
            timeout=240,
            check=True,
        )
    counts = json.loads(done.stdout)
    assert counts["kills"] >= 30
    assert counts["without an end"] >= 10
    assert counts["asked"] >= counts["without an end"]
    assert counts["ran again"] == 0
