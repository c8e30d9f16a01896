"""A notebook in this process, and one with real kernels."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from .kernels import Desk
from .notebooks import Notebook


@pytest.fixture
def notebook(tmp_path: Path) -> Iterator[Notebook]:
    """A notebook in this process."""
    opened = Notebook(tmp_path)
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    """The kernel of an empty folder, which the tests of a file share."""
    opened = Desk(tmp_path_factory.mktemp("notebook"))
    yield opened
    opened.close()
