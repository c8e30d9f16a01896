"""Notebooks with agent cells under pytest: ``pytest --nbval notebooks/``.

Each notebook has a workspace of its own, empty at first, and no provider is asked: a cell gets the
answers of the recording beside its notebook, or those of the built-in model where its saved output
says that this model made it. Any other agent cell fails. What is volatile is not compared.

Every run of pytest loads this, so it imports nothing but what pytest has imported.
"""

import os
import re
import tempfile
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import Any

import pytest

# What a notebook says before it first asks a model, which a replay does not.
_NOTICE = (
    r"From\s+this\s+turn\s+on,\s+requests\s+in\s+this\s+notebook\s+are\s+sent\s+to\s"
    r".*?shows\s+what\s+would\s+be\s+sent(?:;.*?\s+sends\s+less)?\."
)
# What clocks, dice and this machine's Python make: in history, why, sent and cost, and where a
# model is waited for.
TIMES = {
    r"(?<=· )\d{4}(-\d\d){2} \d\d:\d\d|\d{4}(-\d\d){2} \d\d:\d\d(?=</td></tr>|$)": "STARTED",
    r"(Request \d+, )\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC": r"\1SENT",
    r"(\$[\d.,]+|free|unknown)(</td><td[^>]*>| +)\d+ s(?=</td></tr>|$)": r"\1\2TIME",
    r"again after \d+ s, attempt": "again after WAIT, attempt",
    r"(?<= · )[\d,]+\.\d s": "TIME",
    r'\d{4}-\d\d-\d\d, \w+(?="|&quot;)': "TODAY",
    r'python 3\.\d+\.\d+, pandas [^"&]*(?="|&quot;)': "VERSIONS",
}
# Besides, what other versions of libraries make, and what is said only while one records.
VOLATILE = TIMES | {
    r"(\w+/[0-9a-f]{64}[/@])[0-9a-f]{64}": r"\1CONTENT",
    r'(?s:<section class="pk-section pk-notes"[^>]*><p class="pk-note">'
    rf"{_NOTICE}</p></section>)": "",
    rf'(?s:(<p class="pk-note"[^>]*>|\s*){_NOTICE}(</p>)?)': "",
}
_OURS = re.compile(r"\b(?:agent|parsimony)|\.ockham\b")
_MODELS = pytest.StashKey[str]()
# What is read first, the chart, the work, and what could be clicked.
_WITH_CONTROLS = 4


def without(patterns: Mapping[str, str], text: str) -> str:
    """Return ``text`` with what the patterns find replaced."""
    for pattern, replacement in patterns.items():
        text = re.sub(pattern, replacement, text, flags=re.MULTILINE)
    return text


def pytest_configure(config: pytest.Config) -> None:
    """Prepare for notebooks, where nbval runs them."""
    if not any(getattr(config.option, name, False) for name in ("nbval", "nbval_lax")):
        return
    folder = tempfile.TemporaryDirectory(prefix="parsimony-", ignore_cleanup_errors=True)
    config.add_cleanup(folder.cleanup)
    config.pluginmanager.register(_Notebooks(Path(folder.name)), "parsimony-notebooks")
    # nbval leaves the standard error of kernels open.
    config.addinivalue_line("filterwarnings", f"ignore:unclosed file .*{os.devnull}")
    # Cells stand on one another, so one worker of pytest-xdist gets all of a notebook.
    if getattr(config.option, "dist", "no") in ("load", "worksteal"):
        config.option.dist = "loadfile"


class _Notebooks:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._workspaces: dict[Path, Path] = {}

    # After whatever shuffles tests.
    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Keep the cells of a notebook together and in order; compare what lasts of agent cells."""
        begins: dict[Path, int] = {}

        def place(numbered: tuple[int, Any]) -> tuple[int, int]:
            index, item = numbered
            if not _is_cell(item):
                return index, 0
            return begins.setdefault(item.path, index), item.cell_num

        items[:] = [item for _, item in sorted(enumerate(items), key=place)]
        for item in filter(_is_cell, items):
            _compare_what_lasts(item)

    # Around pytest's own hook, with which nbval starts the kernel of a notebook's first cell.
    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Generator[None]:
        """Tell the kernel which notebook it runs, and which model made the cell that is next."""
        if not _is_cell(item):
            return (yield)
        from parsimony_kernel.llm.cassette_mode import SAVED_BY, VARIABLE

        workspace = self._workspaces.setdefault(
            item.path, self._folder / str(len(self._workspaces))
        )
        workspace.mkdir(exist_ok=True)
        saved_by = self._folder / "saved-by"
        saved_by.write_text(item.stash.get(_MODELS, ""), encoding="utf-8")
        with pytest.MonkeyPatch.context() as environ:
            environ.setenv(VARIABLE, "replay")
            environ.setenv(SAVED_BY, str(saved_by))
            environ.setenv("JPY_SESSION_NAME", str(item.path))
            environ.setenv("PARSIMONY_WORKSPACE", str(workspace))
            environ.delenv("PARSIMONY_ARTIFACTS", raising=False)
            environ.setenv("PARSIMONY_DISPLAY", "static")
            return (yield)


def _is_cell(item: Any) -> bool:
    return item.path.suffix == ".ipynb" and hasattr(item, "cell_num")


def _models_of(cell: Any) -> str:
    """The models that made the saved output of the cell, as far as it says so."""
    told = (output.get("metadata", {}).get("parsimony", {}) for output in cell.outputs)
    return ", ".join(sorted({facts["model"] for facts in told if "model" in facts}))


def _compare_what_lasts(item: Any) -> None:
    if not _OURS.search(item.cell.source):
        return
    item.stash[_MODELS] = _models_of(item.cell)
    if len(item.cell.outputs) == _WITH_CONTROLS and _is_blank(item.cell.outputs[-1]):
        item.cell.outputs.pop()
    theirs = item.sanitize
    item.sanitize = lambda text: theirs(without(VOLATILE, text) if isinstance(text, str) else text)


def _is_blank(output: Any) -> bool:
    """Whether ``output`` shows nothing, as controls do that could be clicked in a live record."""
    return "data" in output and not any(str(each).strip() for each in output["data"].values())
