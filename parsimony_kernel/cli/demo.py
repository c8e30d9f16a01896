"""The quickstart notebook, run from a shell with the built-in model."""

import argparse
import asyncio
import os
import shlex
import shutil
import sys
from contextlib import suppress
from pathlib import Path
from queue import Empty
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
# The quickstart is in the package when installed, in ``notebooks`` in a checkout.
_PLACES = (_HERE / "quickstart", _HERE.parent / "notebooks")
_FOLDER = Path("parsimony-demo")


def quickstart() -> Path:
    """Return the path of the packaged notebook, which has its data beside it.

    Raises:
        SessionError: The notebook or its data is missing.
    """
    for place in _PLACES:
        if all((place / each).is_file() for each in (_NAME, *_DATA)):
            return place / _NAME
    raise SessionError("The quickstart is not in this installation: reinstall it.")


def demo(_: argparse.Namespace) -> int:
    """Execute the quickstart in the Parsimony Agent kernel with the built-in model.

    Data, artifacts and the executed notebook go to ``parsimony-demo``. If a cell fails, the
    partly executed notebook is written too.

    Raises:
        SessionError: A cell fails or times out, the kernel doesn't start, or the folder can't be
            written.
    """
    source, executed = quickstart(), _FOLDER / _NAME
    try:
        _FOLDER.mkdir(exist_ok=True)
        for path in _DATA:
            durable.make_folder((_FOLDER / path).parent)
            durable.create(_FOLDER / path, durable.read(source.parent / path))
        output.say(f"Running {source} with the built-in rule-based model (no LLM) …")
        content, problem = asyncio.run(_execute(source, executed))
    except OSError as exc:
        why = exc.strerror or str(exc).rstrip(".")
        raise SessionError(f"{str(_FOLDER)!r} cannot be written: {why}. Run it elsewhere.") from exc
    if problem:
        raise SessionError(f"{problem} What the cells before it gave is in {str(executed)!r}.")
    _tell(content, source, executed)
    return output.DONE


async def _execute(source: Path, executed: Path) -> tuple[Any, str]:
    """Run the cells of ``source`` in the folder of ``executed``, and write it with their outputs.

    Returns:
        The notebook, and why a cell failed; empty on success.

    Raises:
        SessionError: The kernel can't be started.
    """
    from jupyter_client.manager import AsyncKernelManager

    kernel, problem = AsyncKernelManager(kernel_name=KERNEL_NAME), ""
    try:
        runner = await _started(kernel, source, executed.parent.resolve())
        import nbformat
        from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError

        try:
            await runner.async_execute()
        except CellTimeoutError:
            problem = f"{executed.name} was stopped: a cell ran for longer than {TIMEOUT_S} s."
        except (DeadKernelError, CellExecutionError) as exc:
            problem = f"{executed.name} stopped: {_last_line(exc)}"
        durable.replace(executed, nbformat.writes(runner.nb).encode())
        return runner.nb, problem
    finally:
        await kernel.shutdown_kernel(now=True)


async def _started(kernel: Any, source: Path, folder: Path) -> Any:
    """Start ``kernel`` in ``folder``; return the client that executes ``source`` in it."""
    from jupyter_client.kernelspec import NoSuchKernel

    environ = {
        **os.environ,
        "PARSIMONY_MODEL": "offline",
        "PARSIMONY_WORKSPACE": str(folder),
        "PARSIMONY_ARTIFACTS": "",
        "JPY_SESSION_NAME": str(folder / source.name),
    }
    options = ["--log-level=ERROR", "--HistoryManager.hist_file=:memory:"]
    try:
        await kernel.start_kernel(extra_arguments=options, cwd=str(folder), env=environ)
        # Import what the rest needs, and the summary, while the kernel starts on another core.
        defer_grammar_of_addresses()
        import nbformat
        from nbclient import NotebookClient

        import parsimony_kernel.artifacts.store  # noqa: F401

        # Killed at the end: all that lasts is on the disk, and a kernel takes its time to end.
        content = nbformat.read(source, as_version=4)
        runner = NotebookClient(content, timeout=TIMEOUT_S, shutdown_kernel="immediate")
        runner.km, runner.kc = kernel, kernel.client()
        runner.kc.start_channels(stdin=False)
        for _ in range(300):  # a minute
            runner.kc.kernel_info()
            with suppress(Empty):
                # From here on no output is missed. Its own ``wait_for_ready`` takes 0.2 s more.
                await runner.kc.get_iopub_msg(timeout=0.2)
                runner.kc.execute("%agent reset --yes", silent=True, stop_on_error=False)
                return runner
            if not await kernel.is_alive():
                break
        runner.kc.stop_channels()
        raise RuntimeError("it does not answer")
    except NoSuchKernel as exc:
        raise SessionError(
            f"Jupyter does not know the kernel {KERNEL_NAME!r}. Install it with: "
            "jupyter parsimony install"
        ) from exc
    except (RuntimeError, OSError) as exc:
        raise SessionError(
            f"The kernel {KERNEL_NAME!r} did not start: {_last_line(exc).rstrip('.')}. "
            "See what it needs with: jupyter parsimony doctor"
        ) from exc


def _last_line(problem: Exception) -> str:
    return str(problem).strip().rpartition("\n")[2]


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
        f"Open it: {_jupyter()} {shlex.quote(str(executed))}, or in VS Code"
    )


def _jupyter() -> str:
    """Return what opens this environment's JupyterLab from a shell."""
    own = Path(sys.executable).with_name("jupyter")
    found = shutil.which("jupyter")
    is_other = own.exists() and (found is None or not own.samefile(found))
    as_root = " --allow-root" if hasattr(os, "geteuid") and os.geteuid() == 0 else ""
    return f"{shlex.quote(os.path.relpath(own)) if is_other else 'jupyter'} lab{as_root}"
