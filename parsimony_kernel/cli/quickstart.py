"""Running an agent notebook from a shell, and saying what happened in it."""

import os
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

from parsimony_kernel import KERNEL_NAME
from parsimony_kernel.artifacts.store import ArtifactStore
from parsimony_kernel.cli import headless
from parsimony_kernel.storage import durable

_NAME = "01_quickstart.ipynb"
_DATA = (Path("data") / "iowa-electricity.csv", Path("data") / "README.md")
_HERE = Path(__file__).parents[1]
# In an installation it lies in the package, in a checkout among the examples.
_PLACES = (_HERE / "quickstart", _HERE.parent / "notebooks")
_FOLDER = Path("parsimony-demo")


class DemoError(Exception):
    """Why the notebook did not run, in one sentence with the remedy."""


def quickstart() -> Path:
    """The notebook that comes along, with its data beside it."""
    for place in _PLACES:
        if all((place / each).is_file() for each in (_NAME, *_DATA)):
            return place / _NAME
    raise DemoError("The quickstart is not in this installation: reinstall it, or name a notebook.")


def run(
    notebook: Path | None = None, out: Path | None = None, say: Callable[[str], None] = print
) -> Path:
    """Execute ``notebook`` in the Parsimony Agent kernel with the offline model.

    Without one it is the quickstart, whose data is put beside what is executed. The executed
    notebook is given. It is written to ``out``: that file if it ends in ``.ipynb``, else into
    that folder; by default into the folder ``executed`` beside the notebook, of the quickstart
    into ``parsimony-demo``. What is published goes to a workspace in the same folder. Raises
    ``DemoError`` when the notebook is missing, cannot be read, fails or takes too long, when the
    kernel does not start, or when the folder cannot be written.
    """
    source = notebook or quickstart()
    if not source.is_file():
        raise DemoError(
            f"There is no notebook {str(source)!r}. Without a name the quickstart is run."
        )
    executed = _target(source, out or (_FOLDER if notebook is None else source.parent / "executed"))
    folder = executed.parent
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if notebook is None:
            for path in _DATA:
                durable.make_folder((folder / path).parent)
                durable.create(folder / path, durable.read(source.parent / path))
    except (OSError, durable.StorageError) as exc:
        raise _unwritable(folder, exc) from exc
    try:
        content = headless.read(source)
    except headless.HeadlessError as exc:
        raise DemoError(str(exc)) from exc
    say(f"Running {source} with the embedded offline model …")
    environ = {
        **os.environ,
        "PARSIMONY_MODEL": "offline",
        "PARSIMONY_WORKSPACE": str(folder.resolve()),
        "JPY_SESSION_NAME": str(executed.resolve()),
    }
    beside = folder if notebook is None else source.parent
    unwritten: durable.StorageError | None = None
    try:
        headless.execute(content, source.name, folder=beside, environ=environ, kernel=KERNEL_NAME)
    except headless.HeadlessError as exc:
        kept = f" What the cells before it gave is in {str(executed)!r}." if exc.began else ""
        raise DemoError(f"{exc}{kept}") from exc
    finally:
        # Of two troubles the first is told.
        try:
            headless.write(content, executed)
        except durable.StorageError as exc:
            unwritten = exc
    if unwritten is not None:
        raise _unwritable(folder, unwritten) from unwritten
    _tell(content, folder, executed, say)
    return executed


def _target(source: Path, out: Path) -> Path:
    """The file that the executed notebook is written to."""
    return out if out.suffix == ".ipynb" else out / source.name


def _unwritable(folder: Path, problem: OSError | durable.StorageError) -> DemoError:
    why = getattr(problem, "strerror", None) or str(problem).rstrip(".")
    return DemoError(
        f"The executed notebook cannot be written to {str(folder)!r}: {why}. "
        "Name another place with --out."
    )


def _tell(content: Any, folder: Path, executed: Path, say: Callable[[str], None]) -> None:
    for cell in content.cells:
        if cell.cell_type == "code" and cell.source.startswith("%%agent"):
            for output in cell.outputs:
                text = output.get("data", {}).get("text/plain")
                if text:
                    say(text)
            say("")
    published = [entry for entry in ArtifactStore(folder).list() if entry.kind != "notebook"]
    say("Published:" if published else "Nothing was published.")
    for entry in published:
        say(f"  {entry.kind}: {entry.title}\n    {folder / entry.path}")
    say(f"\nThe executed notebook is {executed}.")
    say(f"To go on with it, open it in VS Code, or: jupyter lab {shlex.quote(str(executed))}")
