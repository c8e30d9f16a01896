"""A JupyterLab for the browser tests, or a line that says why there is none."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from .lab import Lab, browse, chromium, serve

ROOT = Path(__file__).parents[2]


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    """JupyterLab with the example data in its folder, in headless Chromium."""
    if chromium() is None:
        pytest.skip("no Chromium on this machine: install Debian's package `chromium`")
    with serve(tmp_path) as server:
        shutil.copytree(ROOT / "notebooks" / "data", server.root / "data")
        with browse(server, ROOT / "tests" / "browser" / "screenshots") as page:
            yield page
