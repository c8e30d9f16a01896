"""The test suites of ipykernel and nbclient, with the stock kernel and with ours.

    python tests/frontends/stock_suites.py [--only ipykernel] [--folder build/stock-suites]

makes an environment where it is missing, downloads the sources of the versions that are installed
there (the wheels hold no tests), runs each suite with both kernels, and compares test by test.
What differs is run again with both, alone: some tests of the suites fail by luck. The exit code is
1 if something still differs. Ours is started under the name ``python3``, and where a test makes a
kernel in its own process, it makes ours.

The file is also the plugin that it gives to pytest.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tarfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "build" / "stock-suites"
SUITES = ("ipykernel", "nbclient")
KERNELS = ("stock", "ours")
NEEDED = (
    *("pytest>=9", "pytest-asyncio>=1.3", "pytest-timeout", "pytest-cov", "flaky", "trio"),
    *("matplotlib", "ipyparallel", "testpath", "xmltodict", "nbconvert"),
)
# Told to the plugin, in the process that runs a suite.
KERNEL, OUTCOMES = "STOCK_SUITES_KERNEL", "STOCK_SUITES_OUTCOMES"
LIMIT_S = 60
_WORSE = ("passed", "skipped", "failed")

Outcomes = dict[str, str]


# -- the plugin


def pytest_configure() -> None:
    """Put our kernel in the place of IPython's."""
    if os.environ[KERNEL] == "ours":
        import ipykernel.ipkernel

        from parsimony_kernel.kernel.app import ParsimonyKernel

        ipykernel.ipkernel.IPythonKernel = ParsimonyKernel


def pytest_runtest_logreport(report: Any) -> None:
    """Write down how a phase of a test went."""
    with open(os.environ[OUTCOMES], "a", encoding="utf-8") as file:
        file.write(json.dumps([report.nodeid, report.outcome]) + "\n")


# -- the program


def prepare(folder: Path) -> Path:
    """The interpreter of an environment with this package and what the suites need."""
    python = folder / "venv" / "bin" / "python"
    done = folder / "installed"
    if not done.exists():
        subprocess.run([sys.executable, "-m", "venv", folder / "venv"], check=True)
        pip = (python, "-m", "pip", "install", "--quiet")
        subprocess.run([*pip, "--editable", ROOT, *NEEDED], check=True)
        done.touch()
    spec = folder / "jupyter" / "kernels" / "python3"
    spec.mkdir(parents=True, exist_ok=True)
    started = json.loads((ROOT / "kernelspec" / "kernel.json").read_text(encoding="utf-8"))
    started["argv"][0] = str(python)
    (spec / "kernel.json").write_text(json.dumps(started), encoding="utf-8")
    return python


def sources(suite: str, python: Path, folder: Path) -> Path:
    """The unpacked source distribution of the version that is installed."""
    asked = f"import importlib.metadata as m; print(m.version('{suite}'))"
    told = subprocess.run([python, "-c", asked], capture_output=True, text=True, check=True)
    name = f"{suite}-{told.stdout.strip()}"
    if not (folder / name).is_dir():
        get = (python, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", suite)
        subprocess.run([*get, "--dest", folder, name.replace("-", "==")], check=True)
        with tarfile.open(folder / f"{name}.tar.gz") as archive:
            archive.extractall(folder, filter="data")
    return folder / name


def run(python: Path, suite: Path, kernel: str, tests: Sequence[str] = ("tests",)) -> Outcomes:
    """How each test of ``suite`` went with ``kernel``, the worst of its phases."""
    home = suite.parent / "home"
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir()
    outcomes = suite.parent / "outcomes.jsonl"
    outcomes.unlink(missing_ok=True)
    environ = {
        **{name: value for name, value in os.environ.items() if not name.startswith("PYTEST")},
        "HOME": str(home),
        "PATH": f"{python.parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(Path(__file__).parent),
        KERNEL: kernel,
        OUTCOMES: str(outcomes),
        **({"JUPYTER_PATH": str(suite.parent / "jupyter")} if kernel == "ours" else {}),
    }
    pytest = (python, "-m", "pytest", "-q", "-p", "stock_suites", "-p", "no:cacheprovider")
    options = ("--timeout", str(LIMIT_S), "-o", "asyncio_default_fixture_loop_scope=function")
    log = suite.parent / f"{suite.name}-{kernel}.log"
    with log.open("a", encoding="utf-8") as said:
        subprocess.run(
            [*pytest, *options, *tests],
            cwd=suite,
            env=environ,
            stdout=said,
            stderr=said,
            check=False,
        )
    found: Outcomes = {}
    for line in outcomes.read_text(encoding="utf-8").splitlines():
        test, outcome = json.loads(line)
        found[test] = max(found.get(test, "passed"), outcome, key=_WORSE.index)
    return found


def compare(python: Path, suite: Path) -> bool:
    """Run ``suite`` with both kernels and say what came of it; whether it is the same."""
    stock, ours = (run(python, suite, kernel) for kernel in KERNELS)
    differing = sorted(test for test in {*stock, *ours} if stock.get(test) != ours.get(test))
    for kernel, outcomes in zip(KERNELS, (stock, ours), strict=True):
        counts = Counter(outcomes.values())
        told = ", ".join(f"{counts[each]} {each}" for each in _WORSE)
        print(f"{suite.name} with {kernel}: {told}", flush=True)
    if differing:
        print(f"Run again, since they differ: {', '.join(differing)}", flush=True)
        stock, ours = (run(python, suite, kernel, differing) for kernel in KERNELS)
    really = [test for test in differing if stock.get(test) != ours.get(test)]
    for test in really:
        print(f"{test}: {stock.get(test)} with stock, {ours.get(test)} with ours", flush=True)
    return not really


def main() -> int:
    """Compare what is chosen; the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", choices=SUITES)
    parser.add_argument("--folder", type=Path, default=FOLDER)
    given = parser.parse_args()
    folder = given.folder.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    python = prepare(folder)
    suites = [given.only] if given.only else SUITES
    same = [compare(python, sources(suite, python, folder)) for suite in suites]
    return 0 if all(same) else 1


if __name__ == "__main__":
    sys.exit(main())
