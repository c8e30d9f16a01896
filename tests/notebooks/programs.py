"""Python in a process of its own."""

import os
import subprocess
import sys
from pathlib import Path

_PATIENCE_S = 600


def python(*arguments: str, folder: Path, **environ: str) -> subprocess.CompletedProcess[str]:
    """What Python with ``arguments`` says in ``folder``, and how it ends."""
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env={**os.environ, **environ},
        capture_output=True,
        text=True,
        timeout=_PATIENCE_S,
        check=False,
    )
