"""A real kernel in which the agent answers from a script."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from parsimony_kernel.testing.kernel_process import LiveKernel, live_kernel

from .notebooks import Notebook

_SETUP = """
from parsimony_agent import extension
from parsimony_agent.cell import open_in
from parsimony_kernel.testing.scripted import ScriptedModel, call, calls, say
from parsimony_kernel.testing.scripted import HangingModel


def _use(model):
    def opened(shell):
        session = open_in(shell)
        session._model = model
        return session

    extension.uninstall(get_ipython())
    extension.install(get_ipython(), session_factory=opened)
"""

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
    folder: Path = tmp_path_factory.mktemp("notebook")
    environ = {"IPYTHONDIR": str(folder / ".ipython"), "PARSIMONY_MODEL": "offline"}
    with live_kernel(folder, environ=environ) as running:
        assert running.run(_SETUP).status == "ok"
        yield running


@pytest.fixture
def use(kernel: LiveKernel) -> Use:
    """Answer the next turns by the model that this expression makes in the kernel."""

    def choose(model: str) -> None:
        assert kernel.run(f"_use({model})").status == "ok"

    return choose
