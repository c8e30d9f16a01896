"""The quickstart notebook, run from a shell with the built-in model."""

import argparse
import atexit
import os
import shlex
import shutil
import sys
from contextlib import closing
from importlib import import_module
from pathlib import Path
from threading import Thread
from typing import Any

from parsimony_kernel import KERNEL_NAME
from parsimony_kernel.cli import output
from parsimony_kernel.core.deferred import defer_grammar_of_addresses
from parsimony_kernel.core.errors import SessionError
from parsimony_kernel.storage import durable
from parsimony_kernel.storage.journal import SqliteJournal
from parsimony_kernel.storage.workspace import journal_path

TIMEOUT_S = 300

_NAME = "01_quickstart.ipynb"
_DATA = (Path("data") / "iowa-electricity.csv", Path("data") / "README.md")
_HERE = Path(__file__).parents[1]
# The quickstart is in the package when installed, in ``notebooks`` in a checkout.
_PLACES = (_HERE / "quickstart", _HERE.parent / "notebooks")
_FOLDER = Path("parsimony-demo")


class DemoError(SessionError):
    """The demo failed. ``str()`` is the reason with the remedy."""


def quickstart() -> Path:
    """Return the path of the packaged notebook, which has its data beside it.

    Raises:
        DemoError: The notebook or its data is missing.
    """
    for place in _PLACES:
        if all((place / each).is_file() for each in (_NAME, *_DATA)):
            return place / _NAME
    raise DemoError("The quickstart is not in this installation: reinstall it.")


def demo(_: argparse.Namespace) -> int:
    """Execute the quickstart in the Parsimony Agent kernel with the built-in model.

    Data, artifacts and the executed notebook go to ``parsimony-demo``. If a cell fails, the
    partly executed notebook is written too.

    Raises:
        DemoError: A cell fails or times out, the kernel doesn't start, or the folder can't be
            written.
    """
    defer_grammar_of_addresses()
    import nbformat  # deferred: a second of imports that few commands need

    source, executed = quickstart(), _FOLDER / _NAME
    try:
        _FOLDER.mkdir(exist_ok=True)
        for path in _DATA:
            durable.make_folder((_FOLDER / path).parent)
            durable.create(_FOLDER / path, durable.read(source.parent / path))
        _forget()
        content = nbformat.read(source, as_version=4)
        output.say(f"Running {source} with the built-in rule-based model (no LLM) …")
        # Import what the summary needs while the kernel works on another core.
        Thread(target=import_module, args=("parsimony_kernel.artifacts.store",)).start()
        problem = _execute(content, executed)
        durable.replace(executed, nbformat.writes(content).encode())
    except OSError as exc:
        why = exc.strerror or str(exc).rstrip(".")
        raise DemoError(f"{str(_FOLDER)!r} cannot be written: {why}. Run it elsewhere.") from exc
    if problem:
        raise DemoError(f"{problem} What the cells before it gave is in {str(executed)!r}.")
    _tell(content, source, executed)
    return output.DONE


def _forget() -> None:
    """Hide the turns of earlier demo runs from the new one."""
    path = journal_path(_FOLDER)
    if path.is_file():
        with closing(SqliteJournal(path)) as journal:
            journal.forget(_NAME, [row.run_id for row in journal.turns(_NAME)])


def _execute(content: Any, executed: Path) -> str:
    """Run the cells of ``content`` in the folder of ``executed``, adding their outputs to it.

    Returns:
        Why a cell failed; empty on success.

    Raises:
        DemoError: The kernel can't be started.
    """
    from jupyter_client.kernelspec import NoSuchKernel
    from nbclient import NotebookClient
    from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError

    folder = executed.parent.resolve()
    environ = {
        "PARSIMONY_MODEL": "offline",
        "PARSIMONY_WORKSPACE": str(folder),
        "PARSIMONY_ARTIFACTS": "",
        "JPY_SESSION_NAME": str(folder / executed.name),
    }
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
            "jupyter parsimony install"
        ) from exc
    except CellTimeoutError:
        return f"{executed.name} was stopped: a cell ran for longer than {TIMEOUT_S} s."
    except (DeadKernelError, CellExecutionError) as exc:
        return f"{executed.name} stopped: {_last_line(str(exc))}"
    except (RuntimeError, OSError) as exc:
        # Otherwise the client's exit handler fails too, as it has no kernel to shut down.
        atexit.unregister(client._cleanup_kernel)
        raise DemoError(
            f"The kernel {KERNEL_NAME!r} did not start: {_last_line(str(exc)).rstrip('.')}. "
            "See what it needs with: jupyter parsimony doctor"
        ) from exc
    return ""


def _last_line(text: str) -> str:
    return next((line for line in reversed(text.splitlines()) if line.strip()), text)


def _tell(content: Any, source: Path, executed: Path) -> None:
    """Print the output of each agent cell, then a summary, artifacts, and how to open them."""
    from parsimony_kernel.artifacts.places import Folder
    from parsimony_kernel.artifacts.store import ArtifactStore

    cells = [cell for cell in content.cells if cell.cell_type == "code"]
    of_agent = [cell for cell in cells if cell.source.startswith("%%agent")]
    for cell in of_agent:
        # The answer and its figure; the third output is the work, which a notebook folds.
        shown = (each.get("data", {}).get("text/plain", "").strip() for each in cell.outputs[:2])
        output.say("\n".join([cell.source, *filter(None, shown), ""]))
    entries = ArtifactStore(executed.parent, place=Folder(executed.parent)).list()
    published = [f"{each.kind} {each.title!r}" for each in entries if each.kind != "notebook"]
    output.say(
        f"Ran: {source.name}, {len(cells)} cells, {len(of_agent)} of them the agent's\n"
        f"Published: {', '.join(published) or 'nothing'}\n"
        f"Executed notebook: {executed}\n"
        f"Open it: {_jupyter()} lab {shlex.quote(str(executed))}, or in VS Code"
    )


def _jupyter() -> str:
    """Return what runs this environment's ``jupyter`` from a shell."""
    own = Path(sys.executable).with_name("jupyter")
    found = shutil.which("jupyter")
    is_other = own.exists() and (found is None or not own.samefile(found))
    return shlex.quote(os.path.relpath(own)) if is_other else "jupyter"
