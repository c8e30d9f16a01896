"""The example notebooks, compared with what is saved in them by plain ``pytest --nbval``."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

from .conftest import notebook_of
from .overlays import INSTALLED, environment_of

pytestmark = pytest.mark.kernel

EXAMPLES = Path(__file__).parents[2] / "notebooks"
OLDER = "6.31.0"


def compare(folder: Path, version: str, *options: str) -> subprocess.CompletedProcess[str]:
    """The notebooks in ``folder`` by nbval, in kernels of this ipykernel."""
    return subprocess.run(
        [sys.executable, "-m", "pytest", "--nbval", *options, folder.name],
        cwd=folder.parent,
        env={**os.environ, **environment_of(version)},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


def test_notebooks_are_compared_in_intended_ipykernel(tmp_path: Path) -> None:
    cells = notebook_of(*["import ipykernel\nipykernel.__version__"] * 2)
    for cell, told in zip(cells.cells, (OLDER, "1.0"), strict=True):
        cell.execution_count = 1
        cell.outputs = [nbformat.v4.new_output("execute_result", {"text/plain": repr(told)})]
    nbformat.write(cells, tmp_path / "version.ipynb")
    compared = compare(tmp_path, OLDER)
    assert "1 failed, 1 passed" in compared.stdout, compared.stdout[-4_000:]


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The examples as they are in a fresh clone, under settings as strict as ours."""
    folder = tmp_path_factory.mktemp("clone")
    shutil.copytree(EXAMPLES, folder / "notebooks", ignore=shutil.ignore_patterns(".*", "executed"))
    strict = ("[pytest]", "filterwarnings = error", "asyncio_default_fixture_loop_scope = function")
    (folder / "pytest.ini").write_text("\n".join(strict))
    return folder / "notebooks"


@pytest.mark.parametrize(
    ("version", "options"),
    [(INSTALLED, ()), (INSTALLED, ("-n", "2")), (OLDER, ())],
    ids=["plain", "again, with workers", "again, under an older ipykernel"],
)
def test_every_cell_reproduces_saved_output(
    version: str, options: tuple[str, ...], clone: Path
) -> None:
    def files() -> dict[Path, bytes]:
        return {path: path.read_bytes() for path in clone.rglob("*") if path.is_file()}

    before = files()
    compared = compare(clone, version, *options)
    assert compared.returncode == 0, compared.stdout[-6_000:]
    assert "100 passed" in compared.stdout
    assert files() == before
