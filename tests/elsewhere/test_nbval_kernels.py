"""The example notebooks, compared with what is saved in them under an older ipykernel.

Under the installed one they are compared beside the other tests of notebooks.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

from parsimony_kernel.llm.cassette import path_of

from .conftest import notebook_of
from .overlays import environment_of

pytestmark = pytest.mark.kernel

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
SANITIZE = ROOT / "parsimony_kernel" / "testing" / "sanitize.cfg"
VERSIONS = ["6.31.0"]


def compare(folder: Path, notebook: str, version: str) -> subprocess.CompletedProcess[str]:
    """``notebook`` in ``folder`` by nbval, in kernels of this ipykernel."""
    how = (
        ["--parsimony-replay"]
        if path_of(folder / notebook).exists()
        else [f"--nbval-sanitize-with={SANITIZE}"]
    )
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--nbval", *how, notebook],
        cwd=folder,
        env={**os.environ, **environment_of(version), "PARSIMONY_WORKSPACE": str(folder)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.mark.parametrize("version", VERSIONS)
def test_notebooks_are_compared_in_the_ipykernel_that_is_meant(
    version: str, tmp_path: Path
) -> None:
    for told, code in ((version, pytest.ExitCode.OK), ("1.0", pytest.ExitCode.TESTS_FAILED)):
        notebook = notebook_of("import ipykernel\nipykernel.__version__")
        notebook.cells[0].execution_count = 1
        notebook.cells[0].outputs = [
            nbformat.v4.new_output("execute_result", {"text/plain": repr(told)})
        ]
        nbformat.write(notebook, tmp_path / "version.ipynb")
        compared = compare(tmp_path, "version.ipynb", version)
        assert compared.returncode == code, compared.stdout[-4_000:]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_gives_what_is_saved_in_it_under_an_older_ipykernel(
    notebook: Path, version: str, tmp_path: Path
) -> None:
    folder = tmp_path / "notebooks"
    shutil.copytree(ROOT / "notebooks", folder, ignore=shutil.ignore_patterns(".*", "executed"))
    compared = compare(folder, notebook.name, version)
    assert compared.returncode == 0, compared.stdout[-6_000:]
