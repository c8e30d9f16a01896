"""Run the example notebooks, save their outputs in place and print the changes: ``make notebooks``.

Each runs in an empty workspace, so that what is saved does not depend on what was run before.
Those that have a script in ``written_answers`` are recorded anew: a provider on this machine
answers, what it says is kept in ``cassettes/``, and what is saved is a replay of that. Only cells
whose outputs nobody compares show how they ran when they were recorded.

An output in which nothing but clocks and dice differ stays as it was saved. So a second run
changes nothing, and neither does a run in CI, unless what is saved is stale.
"""

import copy
import json
import os
import re
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient
from nbformat import NotebookNode
from written_answers import MODEL, PRICES, SCRIPTS

from parsimony_kernel.llm.cassette import FOLDER, difference, path_of
from parsimony_kernel.testing.provider import LoopbackProvider
from parsimony_kernel.testing.pytest_plugin import TIMES, without
from parsimony_kernel.view.html import NOTHING

HERE = Path(__file__).parent

_UNCOMPARED = "nbval-ignore-output"
_REPLAYED = re.compile(r"^(%%agent .*?)--replay\b", re.MULTILINE)
_FACTS = ("display", "elapsed_s", "run_id")
_MARKUP = ("text/html", "image/svg+xml")
_BREAK = re.compile(r"(?<=[;>])")
# What the kernel of a recording reads first, for nobody else has a price for the model.
_PRICE_LIST = f"""\
from parsimony_kernel.llm.litellm_model import import_litellm

price = dict(zip(("input_cost_per_token", "output_cost_per_token"), {PRICES!r}))
import_litellm().register_model({{{MODEL!r}: {{"litellm_provider": "openai", **price}}}})
"""


def main() -> None:
    """Refresh the notebooks beside this file, or those that are named."""
    chosen = [HERE / name for name in sys.argv[1:]] or sorted(HERE.glob("*.ipynb"))
    with ThreadPoolExecutor(max_workers=2) as pool:
        changes = [change for found in pool.map(refresh, chosen) for change in found]
    # A change of looks is the same in many cells, and is shown once.
    where: dict[str, list[str]] = {}
    for place, what in changes:
        where.setdefault(what, []).append(place)
    shown = ("\n".join((*places, what)) for what, places in where.items())
    print("\n\n".join(shown) or "Nothing changed.")


def refresh(path: Path) -> list[tuple[str, str]]:
    """Run the notebook ``path`` and save it; where it or its recording changed, and how."""
    before = nbformat.read(path, as_version=4)
    notebook = copy.deepcopy(before)
    cassette = path_of(path)
    recording = _read(cassette)
    if path.stem in SCRIPTS:
        recorded = record(path, notebook)
        run(notebook, JPY_SESSION_NAME=str(path), PARSIMONY_CASSETTE="replay")
        for cell, first in zip(notebook.cells, recorded.cells, strict=True):
            if _UNCOMPARED in cell.metadata.get("tags", ()):
                # A button to stop is gone by then, and when it came is luck.
                cell.outputs = [out for out in first.outputs if out.get("data") != NOTHING]
    else:
        run(notebook, JPY_SESSION_NAME=str(path))
    changes = settle(before, notebook)
    if changes:
        notebook.metadata = before.metadata
        nbformat.write(notebook, path)
    if recording != _read(cassette):
        changes[f"{FOLDER}/{cassette.name}"] = difference(recording, _read(cassette))
    return [(f"{path.name}, {cell}", what) for cell, what in changes.items()]


def _read(cassette: Path) -> str:
    return cassette.read_text(encoding="utf-8") if cassette.exists() else ""


def settle(before: NotebookNode, now: NotebookNode) -> dict[str, str]:
    """Give cells of ``now`` the outputs of ``before`` where clocks and dice alone made others.

    Returns:
        What differs otherwise, by the cell's number and first line.
    """
    changes = {}
    for old, new in zip(before.cells, now.cells, strict=True):
        if new.cell_type != "code":
            continue
        saved, given = _texts(old), _texts(new)
        names = sorted(name for name in saved | given if saved.get(name) != given.get(name))
        if not names:
            new.outputs = old.outputs
            continue
        # The shortest form of a record tells most.
        telling = min(names, key=lambda name: name not in ("text", "text/plain"))
        told = difference(saved.get(telling, ""), given.get(telling, ""))
        head = f"cell {new.execution_count}: {new.source.partition(chr(10))[0]}"
        changes[head] = f"Differs in {', '.join(names)}.\n{told}"
    return changes


def _texts(cell: NotebookNode) -> dict[str, str]:
    """What lasts of the cell's outputs: a text for each type of data and each other field."""
    texts = {"execution_count": str(cell.execution_count)}
    for output in cell.outputs:
        given = {**output, **output.get("data", {})}
        given.pop("data", None)
        for name, value in _lasting(given).items():
            text = value if isinstance(value, str) else json.dumps(value, indent=1, sort_keys=True)
            # Markup is one long line, of which a difference would show the beginning only.
            broken = _BREAK.sub("\n", text) if name in _MARKUP else text
            texts[name] = f"{texts.get(name, '')}{broken}\n"
    return texts


def _lasting(value: Any) -> Any:
    match value:
        case dict():
            return {name: _lasting(each) for name, each in value.items() if name not in _FACTS}
        case list():
            return [_lasting(each) for each in value]
        case str():
            return without(TIMES, value)
    return value


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
            coalesce_streams=True,
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
