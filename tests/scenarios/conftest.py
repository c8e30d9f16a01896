"""A real kernel in which the agent answers from a script."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from parsimony_kernel.testing.kernel_process import LiveKernel

from .kernels import Desk
from .notebooks import Notebook

Use = Callable[[str], None]


@pytest.fixture
def notebook(tmp_path: Path) -> Iterator[Notebook]:
    """A notebook in this process."""
    opened = Notebook(tmp_path)
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveKernel]:
    """The Parsimony Agent kernel in an empty folder."""
    desk = Desk(tmp_path_factory.mktemp("notebook"))
    yield desk.kernel
    desk.close()


@pytest.fixture
def use(kernel: LiveKernel) -> Use:
    """Answer the next turns by the model that this expression makes in the kernel."""

    def choose(model: str) -> None:
        assert kernel.run(f"_use({model})").status == "ok"

    return choose
