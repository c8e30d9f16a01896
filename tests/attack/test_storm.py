"""What was acknowledged is there, however many of those who write are killed."""

import json
import secrets
import subprocess
import sys
from pathlib import Path

import pytest

ROUNDS = [
    ("writers", 150),
    ("verifies", 1000),
    ("publishers", 100),
    ("resumes", 500),
    ("races", 40),
]


@pytest.mark.exhaustive
@pytest.mark.parametrize(("act", "rounds"), ROUNDS)
def test_nothing_acknowledged_is_lost(act: str, rounds: int) -> None:
    seed = secrets.randbelow(1_000_000)
    typed = [sys.executable, "-m", "tests.attack.storm", act, str(rounds), str(seed)]
    done = subprocess.run(
        typed, cwd=Path(__file__).parents[2], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{' '.join(typed[1:])}\n{done.stderr[-4000:]}"
    print(done.stdout)
    assert json.loads(done.stdout)["seed"] == seed
