"""What `pip install` brings."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]


def test_wheel_contains_packages_and_kernelspec_only(tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", tmp_path, ROOT],
        check=True,
        capture_output=True,
        timeout=120,
    )
    (wheel,) = tmp_path.glob("parsimony_kernel-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    shared = "data/share/jupyter/kernels/parsimony-agent/"
    spec = {name.partition(shared)[2] for name in names if shared in name}
    assert spec == {"kernel.json", "logo-32x32.png", "logo-64x64.png", "logo-svg.svg"}
    shown = {name.partition("labextensions/")[2] for name in names if "labextensions/" in name}
    files = ("install.json", "package.json", "static/remoteEntry.js")
    assert shown == {f"parsimony-agent/{name}" for name in files}
    tops = {name.partition("/")[0] for name in names}
    assert {top for top in tops if "-" not in top} == {"parsimony_kernel", "parsimony_agent"}
    assert "parsimony_kernel/__main__.py" in names
    quickstart = {name.partition("quickstart/")[2] for name in names if "quickstart/" in name}
    assert quickstart == {"01_quickstart.ipynb", "data/README.md", "data/iowa-electricity.csv"}
