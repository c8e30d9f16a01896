"""The example notebooks, run again and compared with what is saved, as a user's CI would."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
SANITIZE = ROOT / "parsimony_kernel" / "testing" / "sanitize.cfg"


@pytest.mark.kernel
@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_gives_the_outputs_that_are_saved_in_it(notebook: Path, tmp_path: Path) -> None:
    folder = tmp_path / "notebooks"
    shutil.copytree(ROOT / "notebooks", folder, ignore=shutil.ignore_patterns(".*", "executed"))
    compared = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-p",
            "no:cacheprovider",
            "--nbval",
            f"--nbval-sanitize-with={SANITIZE}",
            notebook.name,
        ],
        cwd=folder,
        env={**os.environ, "PARSIMONY_WORKSPACE": str(folder)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert compared.returncode == 0, compared.stdout[-6_000:]


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_saved_with_outputs_and_without_errors(notebook: Path) -> None:
    saved = nbformat.read(notebook, as_version=4)
    cells = [cell for cell in saved.cells if cell.cell_type == "code"]
    assert cells
    for cell in cells:
        assert cell.outputs, cell.source
        assert not [out for out in cell.outputs if out.output_type == "error"], cell.source
    assert saved.metadata.kernelspec.name == "parsimony-agent"
