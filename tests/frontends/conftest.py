"""Places outside JupyterLab: other kernels, batches, terminals."""

import asyncio
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from nbclient import NotebookClient
from nbformat import v4

from parsimony_kernel.testing.kernel_process import LiveKernel, live_kernel

from .overlays import environment_of

_DATA = Path(__file__).parents[2] / "notebooks" / "data"


def furnish(folder: Path) -> Path:
    """``folder`` with the data and the models that notebooks under test work with."""
    shutil.copytree(_DATA, folder / "data")
    shutil.copy(Path(__file__).with_name("actors.py"), folder)
    return folder


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A notebook's folder."""
    return furnish(tmp_path / "place")


def notebook_of(*sources: str) -> Any:
    """A notebook for our kernel with a code cell for each of ``sources``."""
    spec = {"name": "parsimony-agent", "display_name": "Parsimony Agent", "language": "python"}
    cells = [v4.new_code_cell(source) for source in sources]
    return v4.new_notebook(cells=cells, metadata={"kernelspec": spec})


def execute(notebook: Any, folder: Path, **environ: str) -> None:
    """Run ``notebook`` in ``folder`` as batches do: no input is taken and no cell is named.

    ``CellExecutionError`` when a cell fails.
    """
    environment = {**os.environ, "IPYTHONDIR": str(folder / ".ipython"), **environ}
    client = NotebookClient(notebook, resources={"metadata": {"path": str(folder)}})
    # In an event loop of its own: the one that nbclient keeps for the process also hears signals
    # that earlier tests sent to themselves, and ends the kernel for them.
    asyncio.run(client.async_execute(env=environment))


def kernel_under(name: str, version: str, folder: Path, **environ: str) -> Iterator[LiveKernel]:
    """The kernel ``name`` as ``version`` of ipykernel runs it, in ``folder``, ready for cells."""
    environ = {
        **environ,
        "IPYTHONDIR": str(folder / ".ipython"),
        "PARSIMONY_MODEL": "offline",
        **environment_of(version),
    }
    with live_kernel(furnish(folder), name=name, environ=environ) as kernel:
        if name == "python3":
            assert kernel.run("%load_ext parsimony_agent").status == "ok"
        assert kernel.run("from actors import asking, endless, silent").status == "ok"
        yield kernel
