"""Versions of ipykernel beside the one that is installed, each in a folder of its own.

A version is downloaded once and kept under the environment, alone: what it needs is installed.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

INSTALLED = "installed"
_KEPT = Path(sys.prefix) / "overlays"
_PATIENCE_S = 60.0


def overlay(version: str) -> Path:
    """The folder of ``version``, which a kernel finds by ``PYTHONPATH``.

    Skips the test where it is not kept and cannot be downloaded.
    """
    kept = _KEPT / f"ipykernel-{version}"
    if kept.is_dir():
        return kept
    _KEPT.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=_KEPT) as made:
        folder = Path(made) / "packages"
        wanted = ["--no-deps", "--target", str(folder), f"ipykernel=={version}"]
        try:
            done = subprocess.run(
                [sys.executable, "-m", "pip", "install", "--quiet", "--retries=1", *wanted],
                capture_output=True,
                text=True,
                timeout=_PATIENCE_S,
                check=False,
            )
            trouble = done.stderr.strip().rpartition("\n")[2] if done.returncode else ""
        except subprocess.TimeoutExpired:
            trouble = "it took too long"
        if trouble:
            pytest.skip(f"ipykernel {version} cannot be downloaded here: {trouble}")
        _keep(folder, kept)
    return kept


def _keep(folder: Path, kept: Path) -> None:
    """Give ``folder`` its place, unless somebody else has filled it meanwhile."""
    try:
        folder.rename(kept)
    except OSError:
        if not kept.is_dir():
            raise
        shutil.rmtree(folder)


def environment_of(version: str) -> dict[str, str]:
    """What a process is given that is to find ``version`` before the installed ipykernel."""
    if version == INSTALLED:
        return {}
    paths = [str(overlay(version)), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {"PYTHONPATH": os.pathsep.join(paths)}
