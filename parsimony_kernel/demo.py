"""Running an agent notebook from a shell, and saying what happened in it."""

import atexit
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from parsimony_kernel.artifacts.store import ArtifactStore

KERNEL = "parsimony-agent"
QUICKSTART = Path("notebooks") / "01_quickstart.ipynb"
TIMEOUT_S = 300


class DemoError(Exception):
    """Why the notebook did not run, in one sentence with the remedy."""


def run(notebook: Path, out: Path | None = None, say: Callable[[str], None] = print) -> Path:
    """Execute ``notebook`` in the Parsimony Agent kernel with the offline model.

    The executed copy is written to ``out``, by default the folder ``executed`` beside the
    notebook, and given. What is published goes to a workspace in that folder. Raises
    ``DemoError`` when the notebook is missing, cannot be read, fails or takes too long, when the
    kernel does not start, or when the folder cannot be written.
    """
    import nbformat  # deferred: seconds of imports that no other command needs
    from jupyter_client.kernelspec import NoSuchKernel
    from nbclient import NotebookClient
    from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError

    if not notebook.is_file():
        raise DemoError(
            f"There is no notebook {str(notebook)!r}. Run this in the project's folder, or "
            "name one."
        )
    folder = out or notebook.parent / "executed"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as exc:
        raise _unwritable(folder, exc) from exc
    try:
        content = nbformat.read(notebook, as_version=4)
    except (ValueError, OSError, nbformat.reader.NotJSONError) as exc:
        raise DemoError(f"{str(notebook)!r} cannot be read as a notebook: {exc}") from exc
    say(f"Running {notebook} with the embedded offline model …")
    environment = {
        **os.environ,
        "PARSIMONY_MODEL": "offline",
        "PARSIMONY_WORKSPACE": str(folder.resolve()),
    }
    executed = folder / notebook.name
    client = NotebookClient(
        content,
        kernel_name=KERNEL,
        timeout=TIMEOUT_S,
        extra_arguments=["--log-level=ERROR"],
        resources={"metadata": {"path": str(notebook.parent)}},
    )
    try:
        client.execute(env=environment)
    except NoSuchKernel as exc:
        raise DemoError(
            f"Jupyter does not know the kernel {KERNEL!r}: jupyter parsimony install --sys-prefix"
        ) from exc
    except CellTimeoutError as exc:
        raise DemoError(
            f"{notebook.name} was stopped: a cell ran for longer than {TIMEOUT_S} s. "
            f"What the cells before it gave is in {str(executed)!r}."
        ) from exc
    except (CellExecutionError, DeadKernelError) as exc:
        raise DemoError(f"{notebook.name} stopped: {_last_line(str(exc))}") from exc
    except (RuntimeError, OSError) as exc:
        # Else the client, which has no kernel to end, fails once more when this process ends.
        atexit.unregister(client._cleanup_kernel)
        raise DemoError(
            f"The kernel {KERNEL!r} did not start: {_last_line(str(exc)).rstrip('.')}. "
            "Look at what it needs with: jupyter parsimony doctor"
        ) from exc
    finally:
        # Of two troubles the first is told.
        unwritten = _write(content, executed)
    if unwritten is not None:
        raise _unwritable(folder, unwritten) from unwritten
    _tell(content, folder, executed, say)
    return executed


def _unwritable(folder: Path, problem: OSError) -> DemoError:
    return DemoError(
        f"The executed notebook cannot be written to {str(folder)!r}: "
        f"{problem.strerror or problem}. Name another folder with --out."
    )


def _write(content: Any, path: Path) -> OSError | None:
    import nbformat

    try:
        nbformat.write(content, path)
    except OSError as exc:
        return exc
    return None


def _last_line(text: str) -> str:
    return next((line for line in reversed(text.splitlines()) if line.strip()), text)


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
    say("To do the same yourself in JupyterLab: make lab, then open 01_quickstart.ipynb.")
