"""A process that strace kills, or refuses a call, at every system call of a publish and a suspend.

Every call that changes a disk, and of the others every 25th, in ``make test-all`` all; a refusal is
for want of space or an error of the disk in turn. All of them, with both errors:
``python -m tests.durability.kills``.
"""

import json
import os
import subprocess
import sys

import pytest

from tests.durability import tracing
from tests.tiers import every

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(tracing.why_not()), reason=tracing.why_not() or "it can be traced"),
]


@every(25)
@pytest.mark.parametrize("act", ["publish", "suspend"])
def test_kill_at_any_system_call_loses_nothing(act: str, stride: int) -> None:
    counts = _tried("--only", "kills", "--stride", str(stride), act)[f"{act} killed"]
    assert counts["at calls that write"] > 50
    assert counts["killed"] == counts["points"] > counts["at calls that write"]


@every(25)
@pytest.mark.parametrize("act", ["publish", "suspend"])
def test_refused_system_call_is_reported_and_loses_nothing(act: str, stride: int) -> None:
    counts = _tried("--only", "refusals", "--stride", str(stride), act)[f"{act} refused"]
    assert counts["points"] >= counts["told"] > 50


def _tried(*arguments: str) -> dict[str, dict[str, int]]:
    done = subprocess.run(
        [sys.executable, "-m", "tests.durability.kills", *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    assert done.returncode == 0, done.stderr
    print(done.stdout)
    counts: dict[str, dict[str, int]] = json.loads(done.stdout)
    return counts
