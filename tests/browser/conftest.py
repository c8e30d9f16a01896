"""A JupyterLab for the browser tests, or a line that says why there is none."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from .lab import Lab, Server, browse, chromium, serve

ROOT = Path(__file__).parents[2]
PICTURES = ROOT / "tests" / "browser" / "screenshots"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """JupyterLab with the example data in its folder, for the tests of one module."""
    if chromium() is None:
        pytest.skip("no Chromium on this machine: install Debian's package `chromium`")
    with serve(tmp_path_factory.mktemp("lab")) as running:
        shutil.copytree(ROOT / "notebooks" / "data", running.root / "data")
        yield running


@pytest.fixture(scope="module")
def window(server: Server) -> Iterator[Lab]:
    """One page of headless Chromium for the tests of one module."""
    with browse(server, PICTURES) as page:
        yield page


@pytest.fixture
def lab(window: Lab) -> Iterator[Lab]:
    """The page with nothing open in it."""
    yield window
    window.close_all()
