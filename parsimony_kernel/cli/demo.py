"""An agent notebook run from a shell with the built-in model."""

import argparse
import atexit
import os
import shlex
from importlib import import_module
from pathlib import Path
from threading import Thread
from typing import Any

from parsimony_kernel import KERNEL_NAME
from parsimony_kernel.cli import output
from parsimony_kernel.core.deferred import defer_grammar_of_addresses
from parsimony_kernel.core.errors import SessionError
from parsimony_kernel.storage import durable

TIMEOUT_S = 300

_NAME = "01_quickstart.ipynb"
_DATA = (Path("data") / "iowa-electricity.csv", Path("data") / "README.md")
_HERE = Path(__file__).parents[1]
# In an installation the quickstart lies in the package, in a checkout among the examples.
_PLACES = (_HERE / "quickstart", _HERE.parent / "notebooks")
_DEMO_FOLDER = Path("parsimony-demo")


class DemoError(SessionError):
    """Why a notebook was not run to its end. ``str()`` is one sentence with the remedy."""


def demo(arguments: argparse.Namespace) -> int:
    """Run an agent notebook with the built-in model."""
    run_demo(arguments.notebook, arguments.out)
    return output.DONE


def quickstart() -> Path:
    """The notebook that comes along, with its data beside it."""
    for place in _PLACES:
        if all((place / each).is_file() for each in (_NAME, *_DATA)):
            return place / _NAME
    raise DemoError("The quickstart is not in this installation: reinstall it, or name a notebook.")


def run_demo(notebook: Path | None = None, out: Path | None = None) -> Path:
    """Execute ``notebook`` in the Parsimony Agent kernel with the built-in model.

    Without one it is the quickstart, whose data is put beside what is executed. What is published
    goes to a workspace in the same folder.

    Args:
        out: where the executed notebook goes: a file if it ends in ``.ipynb``, else a folder; by
            default the folder ``executed`` beside the notebook, of the quickstart
            ``parsimony-demo``.

    Returns:
        The executed notebook. It is written as well where a cell fails, as far as it came.

    Raises:
        DemoError: the notebook is missing, cannot be read, fails or takes too long, the kernel does
            not start, or the folder cannot be written.
    """
    source = notebook or quickstart()
    if not source.is_file():
        raise DemoError(
            f"There is no notebook {str(source)!r}. Without a name the quickstart is run."
        )
    place = out or (_DEMO_FOLDER if notebook is None else source.parent / "executed")
    executed = place if place.suffix == ".ipynb" else place / source.name
    folder = executed.parent
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path in _DATA if notebook is None else ():
            durable.make_folder((folder / path).parent)
            durable.create(folder / path, durable.read(source.parent / path))
    except OSError as exc:
        raise _unwritable(folder, exc) from exc
    content = _read(source)
    output.say(f"Running {source} with the built-in rule-based model (no LLM) …")
    environ = {
        "PARSIMONY_MODEL": "offline",
        "PARSIMONY_WORKSPACE": str(folder.resolve()),
        "PARSIMONY_ARTIFACTS": "",
        "JPY_SESSION_NAME": str(executed.resolve()),
    }
    # What tells of the run in the end is imported while the kernel works on another core.
    Thread(target=import_module, args=("parsimony_kernel.artifacts.store",)).start()
    problem = _execute(content, source.name, folder if notebook is None else source.parent, environ)
    _write(content, executed)
    if problem:
        raise DemoError(f"{problem} What the cells before it gave is in {str(executed)!r}.")
    _tell(content, source, executed)
    return executed


def _execute(content: Any, name: str, folder: Path, environ: dict[str, str]) -> str:
    """Run the cells of ``content`` in ``folder`` and put their outputs into it; gives what stopped
    them. ``DemoError`` when none could run."""
    from jupyter_client.kernelspec import NoSuchKernel
    from nbclient import NotebookClient
    from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError

    client = NotebookClient(
        content,
        kernel_name=KERNEL_NAME,
        timeout=TIMEOUT_S,
        extra_arguments=["--log-level=ERROR"],
        resources={"metadata": {"path": str(folder)}},
    )
    try:
        client.execute(env={**os.environ, **environ})
    except NoSuchKernel as exc:
        raise DemoError(
            f"Jupyter does not know the kernel {KERNEL_NAME!r}. Install it with: "
            "jupyter parsimony install --sys-prefix"
        ) from exc
    except CellTimeoutError:
        return f"{name} was stopped: a cell ran for longer than {TIMEOUT_S} s."
    except DeadKernelError:
        return f"{name} stopped: the kernel ended while a cell ran."
    except CellExecutionError as exc:
        return f"{name} stopped: {_last_line(str(exc))}"
    except (RuntimeError, OSError) as exc:
        # Else the client, which has no kernel to end, fails once more as this process ends.
        atexit.unregister(client._cleanup_kernel)
        raise DemoError(
            f"The kernel {KERNEL_NAME!r} did not start: {_last_line(str(exc)).rstrip('.')}. "
            "See what it needs with: jupyter parsimony doctor"
        ) from exc
    return ""


def _last_line(text: str) -> str:
    return next((line for line in reversed(text.splitlines()) if line.strip()), text)


def _read(path: Path) -> Any:
    defer_grammar_of_addresses()
    import nbformat  # deferred: a second of imports that few commands need

    try:
        return nbformat.read(path, as_version=4)
    except (ValueError, OSError, nbformat.reader.NotJSONError) as exc:
        raise DemoError(f"{str(path)!r} cannot be read as a notebook: {exc}") from exc


def _write(content: Any, path: Path) -> None:
    import nbformat

    try:
        durable.replace(path, nbformat.writes(content).encode())
    except durable.StorageError as exc:
        raise _unwritable(path, exc) from exc


def _unwritable(path: Path, problem: OSError) -> DemoError:
    why = problem.strerror or str(problem).rstrip(".")
    return DemoError(
        f"The executed notebook cannot be written to {str(path)!r}: {why}. "
        "Name another place with --out."
    )


def _tell(content: Any, source: Path, executed: Path) -> None:
    """What each agent cell showed; then what ran, what was published, and how to open it."""
    from parsimony_kernel.artifacts.places import Folder
    from parsimony_kernel.artifacts.store import ArtifactStore

    cells = [cell for cell in content.cells if cell.cell_type == "code"]
    of_agent = [cell for cell in cells if cell.source.startswith("%%agent")]
    for cell in of_agent:
        shown = (each.get("data", {}).get("text/plain", "").strip() for each in cell.outputs)
        output.say("\n".join([cell.source, *filter(None, shown), ""]))
    entries = ArtifactStore(executed.parent, place=Folder(executed.parent)).list()
    published = [
        f"{entry.kind} {entry.title!r} ({executed.parent / entry.path})"
        for entry in entries
        if entry.kind != "notebook"
    ]
    output.say(
        f"Ran: {source.name}, {len(cells)} cells, {len(of_agent)} of them the agent's\n"
        f"Published: {', '.join(published) or 'nothing'}\n"
        f"Executed notebook: {executed}\n"
        f"Open it: jupyter lab {shlex.quote(str(executed))}, or in VS Code"
    )
