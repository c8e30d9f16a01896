"""Run the example notebooks and save their outputs in place: ``make notebooks``.

Each runs in an empty workspace, so that what is saved does not depend on what was run before.
Those that have a script in ``written_answers`` are recorded anew: a provider on this machine
answers, what it says is kept in ``cassettes/``, and what is saved is a replay of that. Only cells
whose outputs nobody compares show how they ran when they were recorded.
"""

import copy
import os
import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbformat import NotebookNode
from written_answers import MODEL, PRICES, SCRIPTS

from parsimony_kernel.llm.cassette import path_of
from parsimony_kernel.testing.provider import LoopbackProvider

HERE = Path(__file__).parent

_UNCOMPARED = "nbval-ignore-output"
_REPLAYED = re.compile(r"^(%%agent .*?)--replay\b", re.MULTILINE)
# What the kernel of a recording reads first, for nobody else has a price for the model.
_PRICE_LIST = f"""\
from parsimony_kernel.llm.litellm_model import import_litellm

price = dict(zip(("input_cost_per_token", "output_cost_per_token"), {PRICES!r}))
import_litellm().register_model({{{MODEL!r}: {{"litellm_provider": "openai", **price}}}})
"""


def main() -> None:
    """Refresh the notebooks beside this file, or those that are named."""
    chosen = [HERE / name for name in sys.argv[1:]] or sorted(HERE.glob("*.ipynb"))
    for path in chosen:
        print(f"{path.name}: {refresh(path)} cells")


def refresh(path: Path) -> int:
    """Run the notebook ``path`` and save it; the number of its cells with code."""
    notebook = nbformat.read(path, as_version=4)
    if path.stem in SCRIPTS:
        before = record(path, notebook)
        run(notebook, JPY_SESSION_NAME=str(path), PARSIMONY_CASSETTE="replay")
        for cell, first in zip(notebook.cells, before.cells, strict=True):
            if _UNCOMPARED in cell.metadata.get("tags", ()):
                cell.outputs = first.outputs
    else:
        run(notebook)
    notebook.metadata.pop("signature", None)
    nbformat.write(notebook, path)
    return sum(cell.cell_type == "code" for cell in notebook.cells)


def record(path: Path, notebook: NotebookNode) -> NotebookNode:
    """Record the answers of ``notebook``, the file ``path``; gives it as a person would see it."""
    recorded = copy.deepcopy(notebook)
    for cell in recorded.cells:
        cell.source = _REPLAYED.sub(rf"\1--record --model {MODEL}", cell.source)
    path_of(path).unlink(missing_ok=True)
    recording = {"JPY_SESSION_NAME": str(path), "PARSIMONY_CASSETTE": "record"}
    with provided(path.stem) as provider:
        run(recorded, **recording, **provider, PARSIMONY_DISPLAY="live")
    return recorded


@contextmanager
def provided(script: str) -> Iterator[dict[str, str]]:
    """What a kernel finds in its environment while a provider answers it by ``script``."""
    with tempfile.TemporaryDirectory() as site, LoopbackProvider(SCRIPTS[script]) as provider:
        Path(site, "sitecustomize.py").write_text(_PRICE_LIST, encoding="utf-8")
        yield {
            "LITELLM_LOG": "ERROR",
            "OPENAI_BASE_URL": provider.url,
            "PYTHONPATH": os.pathsep.join(filter(None, (site, os.environ.get("PYTHONPATH")))),
        }
        provider.assert_exhausted()


def run(notebook: NotebookNode, **environment: str) -> None:
    """Run every cell in an empty workspace; its outputs are put into ``notebook``."""
    with tempfile.TemporaryDirectory() as workspace:
        client = NotebookClient(
            notebook,
            kernel_name="parsimony-agent",
            timeout=120,
            record_timing=False,
            extra_arguments=["--log-level=ERROR"],
            resources={"metadata": {"path": str(HERE)}},
        )
        usual = {
            "PARSIMONY_WORKSPACE": workspace,
            "PARSIMONY_MODEL": "offline",
            "PARSIMONY_DISPLAY": "static",
        }
        client.execute(env={**os.environ, **usual, **environment})


if __name__ == "__main__":
    main()
