"""A notebook read, run without a front end and written, and why that did not go, in a sentence."""

import atexit
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from parsimony_kernel.storage import durable

TIMEOUT_S = 300


class HeadlessError(Exception):
    """What went wrong, in one sentence with the remedy; ``began`` says that cells have run."""

    def __init__(self, why: str, *, began: bool = False) -> None:
        super().__init__(why)
        self.began = began


def read(path: Path) -> Any:
    """The notebook at ``path``. ``HeadlessError`` when it cannot be read as one."""
    import nbformat  # deferred: seconds of imports that few commands need

    try:
        return nbformat.read(path, as_version=4)
    except (ValueError, OSError, nbformat.reader.NotJSONError) as exc:
        raise HeadlessError(f"{str(path)!r} cannot be read as a notebook: {exc}") from exc


def execute(
    content: Any,
    name: str,
    *,
    folder: Path,
    kernel: str,
    environ: Mapping[str, str],
    goes_on: bool = False,
) -> None:
    """Run the cells of ``content`` in ``folder``; their outputs are put into it.

    With ``goes_on`` a cell that raises does not end it. Raises ``HeadlessError`` when the kernel
    is not known, does not start or dies, when a cell raises, or takes longer than ``TIMEOUT_S``.
    """
    from jupyter_client.kernelspec import NoSuchKernel
    from nbclient import NotebookClient
    from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError

    client = NotebookClient(
        content,
        kernel_name=kernel,
        timeout=TIMEOUT_S,
        allow_errors=goes_on,
        extra_arguments=["--log-level=ERROR"],
        resources={"metadata": {"path": str(folder)}},
    )
    try:
        client.execute(env=dict(environ))
    except NoSuchKernel as exc:
        raise HeadlessError(
            f"Jupyter does not know the kernel {kernel!r}. Ours is installed with: "
            "jupyter parsimony install --sys-prefix"
        ) from exc
    except CellTimeoutError as exc:
        raise HeadlessError(
            f"{name} was stopped: a cell ran for longer than {TIMEOUT_S} s.", began=True
        ) from exc
    except CellExecutionError as exc:
        raise HeadlessError(f"{name} stopped: {_last_line(str(exc))}", began=True) from exc
    except DeadKernelError as exc:
        raise HeadlessError(
            f"{name} stopped: the kernel ended while a cell ran.", began=True
        ) from exc
    except (RuntimeError, OSError) as exc:
        # Else the client, which has no kernel to end, fails once more as this process ends.
        atexit.unregister(client._cleanup_kernel)
        raise HeadlessError(
            f"The kernel {kernel!r} did not start: {_last_line(str(exc)).rstrip('.')}. "
            "Look at what it needs with: jupyter parsimony doctor"
        ) from exc


def write(content: Any, path: Path) -> None:
    """Write a notebook in one step. ``StorageError`` when that cannot be done."""
    import nbformat

    durable.replace(path, nbformat.writes(content).encode())


def _last_line(text: str) -> str:
    return next((line for line in reversed(text.splitlines()) if line.strip()), text)
