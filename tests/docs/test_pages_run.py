"""The cells of the pages are run from top to bottom, and what a page quotes of them is shown."""

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from parsimony_kernel.testing.kernel_process import live_kernel

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
FENCE = re.compile(r"^```(?P<language>\w*)[^\n]*\n(?P<text>.*?)^```", re.M | re.S)
# What a page takes for granted, as a cell before its first.
POWER = "%%agent\nload data/iowa-electricity.csv as power"
CELLS = {
    POWER: "budgets-approval ci-nbval housekeeping read-elsewhere",
    "": (
        "frames mcp memory other-agents platforms procedures publish what-a-model-sees your-tools"
    ),
}
BEFORE = {f"how-to/{name}.md": cell for cell, names in CELLS.items() for name in names.split()}
# These need what no test has: a provider, a proxy, a server of models, a hub; and one that has a
# test of its own, with a gateway and a cluster.
_NOT_RUN = "jupyterhub local-endpoints proxies-certificates real-model remote-kernels scale"
NOT_RUN = {f"how-to/{name}.md" for name in _NOT_RUN.split()}
PAGES = sorted(
    str(page.relative_to(DOCS))
    for folder in ("tutorial", "how-to")
    for page in (DOCS / folder).glob("*.md")
)


def cells(page: str) -> Iterator[tuple[str, list[str]]]:
    """Each cell of a page, and the texts that the page quotes of what it shows."""
    source, quoted = BEFORE.get(page, ""), list[str]()
    for found in FENCE.finditer((DOCS / page).read_text(encoding="utf-8")):
        language, text = found["language"], found["text"]
        if language == "text":
            quoted.append(text)
        elif language in ("sh", "bash"):
            if source:
                yield source, quoted
            source, quoted = "", []  # what stands below it is not of a cell
        elif language == "python" or (not language and text.startswith("%")):
            if source:
                yield source, quoted
            source, quoted = text.rstrip("\n"), []
    if source:
        yield source, quoted


def words(text: str) -> str:
    """``text`` without what is another thing on each day, and without its layout."""
    return " ".join(re.sub(r" · \d{4}-\d\d-\d\d \d\d:\d\d", "", text).split())


def test_every_page_with_cells_is_run_or_listed() -> None:
    how_to = {page for page in PAGES if page.startswith("how-to/")}
    assert how_to == set(BEFORE) | NOT_RUN


@pytest.mark.kernel
@pytest.mark.parametrize("page", [page for page in PAGES if page not in NOT_RUN])
def test_page_cells_produce_quoted_output(page: str, tmp_path: Path) -> None:
    shutil.copytree(ROOT / "notebooks" / "data", tmp_path / "data")
    for name, text in files(page):
        (tmp_path / name).write_text(text, encoding="utf-8")
    environ = {"PARSIMONY_DISPLAY": "static", "PARSIMONY_WORKSPACE": str(tmp_path)}
    with live_kernel(tmp_path, environ=environ) as kernel:
        for number, (source, quoted) in enumerate(cells(page)):
            cell = kernel.run(source, cell_id=f"cell-{number}")
            assert cell.status == "ok", f"{source}\n{cell.text}"
            for text in quoted:
                assert words(text) in words(cell.text), f"{source}\n{cell.text}"


def files(page: str) -> Iterator[tuple[str, str]]:
    """The files that a page shows, by the name that its cells give them."""
    text = (DOCS / page).read_text(encoding="utf-8")
    shown = [found["text"] for found in FENCE.finditer(text) if found["language"] == "yaml"]
    named = sorted(set(re.findall(r"^%+agent .*?(\w+\.yaml)", text, re.M)))
    if shown and named:
        yield named[0], shown[0]
