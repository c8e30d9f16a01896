"""Build the release and try it as a person gets it: `make release-check`.

The source distribution is built, the wheel from it, and the wheel is installed into a fresh
environment of each Python that is supported. There the quickstart runs, the doctor looks, and the
contract tests pass. They lie in a folder without the packages, so that nothing but the wheel can
be what they import.
"""

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TextIO

ROOT = Path(__file__).parents[2]
BUILD = ROOT / "build" / "release"
PYTHONS = ("3.11", "3.12", "3.13")
# What the contract tests read beside the package.
FOLDERS = ("tests", "benchmarks", "notebooks", "docs")
BESIDE = (*FOLDERS, "pyproject.toml", "README.md", "SECURITY.md", "CONTRIBUTING.md")
CONTRACT = "contract and (kernel or not slow) and not (browser or exhaustive)"
WHERE = (
    "import parsimony_kernel, parsimony_agent as a; print(parsimony_kernel.__file__, a.__file__)"
)


def find_python(version: str) -> str | None:
    """An interpreter of ``version`` on the PATH or among pyenv's, which can make environments."""
    places = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python{version}"))
    on_path = shutil.which(f"python{version}")
    for candidate in [*map(str, reversed(places)), *([on_path] if on_path else [])]:
        tried = [candidate, "-c", "import ensurepip, venv"]
        if subprocess.run(tried, capture_output=True, check=False).returncode == 0:
            return candidate
    return None


def run(*command: str | Path, cwd: Path, log: TextIO | None = None) -> None:
    """Run ``command`` in ``cwd``, told to ``log``; ``CalledProcessError`` where it fails."""
    print("$", *command, file=log, flush=True)
    subprocess.run(command, cwd=cwd, check=True, env=environment(), stdout=log, stderr=log)


def environment() -> dict[str, str]:
    """This environment without what leads back to the checkout or to an interpreter's own."""
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYTHON", "PARSIMONY_", "VIRTUAL_ENV", "PYENV_"))
    }


def build(into: Path) -> Path:
    """The wheel, built from the source distribution that is built first."""
    run(sys.executable, "-m", "build", "--outdir", into, ROOT, cwd=ROOT)
    (wheel,) = into.glob("*.whl")
    return wheel


def check(python: str, wheel: Path, home: Path, tests: list[str], log: TextIO) -> None:
    """Install ``wheel`` for ``python`` below ``home``, and try it there."""
    run(python, "-m", "venv", home / "venv", cwd=home, log=log)
    bin_ = home / "venv" / ("Scripts" if os.name == "nt" else "bin")
    # The same packages from the same index; uv takes seconds where pip takes minutes.
    uv = shutil.which("uv")
    pip = (bin_ / "python", "-m", "pip", "install", "--disable-pip-version-check")
    install = (uv, "pip", "install", "--python", bin_ / "python") if uv else pip
    run(*install, "--quiet", wheel, cwd=home, log=log)
    (packages,) = (home / "venv").glob("**/site-packages")
    empty = home / "empty"
    empty.mkdir()
    run(bin_ / "jupyter", "parsimony", "demo", cwd=empty, log=log)
    run(bin_ / "jupyter", "parsimony", "doctor", cwd=empty, log=log)

    run(*install, "--quiet", f"{wheel}[test]", cwd=home, log=log)
    copy = home / "copy"
    copy.mkdir()
    for name in BESIDE:
        place = ROOT / name
        if place.is_dir():
            ignored = shutil.ignore_patterns("__pycache__", ".ockham", "executed")
            shutil.copytree(place, copy / name, ignore=ignored)
        else:
            shutil.copy(place, copy / name)
    asked = subprocess.run(
        [bin_ / "python", "-c", WHERE], cwd=copy, capture_output=True, text=True, check=True
    )
    for file in asked.stdout.split():
        if not Path(file).is_relative_to(packages):
            raise ValueError(f"The tests would import {file}, which is not of the wheel.")
    pytest = (bin_ / "python", "-m", "pytest", "-n", "2", "--dist", "loadfile", "--durations=10")
    run(*pytest, "-m", CONTRACT, *tests, cwd=copy, log=log)


def is_fine(version: str, wheel: Path, tests: list[str]) -> bool:
    """Whether the release works on ``version``, or there is none; says which."""
    python = find_python(version)
    if python is None:
        print(f"Python {version} was not found: not checked.", flush=True)
        return True
    home = BUILD / version
    home.mkdir()
    with (home / "log.txt").open("w", encoding="utf-8") as log:
        try:
            check(python, wheel, home, tests, log)
        except (subprocess.CalledProcessError, ValueError) as problem:
            trouble = f"{problem}\n{log.name} ends with:\n"
            told = Path(log.name).read_text(encoding="utf-8").splitlines()[-60:]
            print(f"Python {version}: {trouble}" + "\n".join(told), flush=True)
            return False
    print(f"Python {version} is fine.", flush=True)
    return True


def main() -> int:
    """Check the release on each Python; the exit code is not 0 where something fails."""
    reading = argparse.ArgumentParser(description=__doc__)
    reading.add_argument("--python", action="append", choices=PYTHONS, help="only this version")
    reading.add_argument("tests", nargs="*", default=["tests"], help="only these tests")
    given = reading.parse_args()
    versions = given.python or PYTHONS
    if not any(map(find_python, versions)):
        raise SystemExit(f"None of Python {', '.join(versions)} was found: nothing was checked.")
    shutil.rmtree(BUILD, ignore_errors=True)
    wheel = build(BUILD / "dist")
    fine = [is_fine(version, wheel, given.tests) for version in versions]
    return 0 if all(fine) else 1


if __name__ == "__main__":
    sys.exit(main())
