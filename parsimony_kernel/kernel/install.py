"""Install the kernelspec where front ends look for it.

`pip install` includes the kernelspec; this is for Jupyter in another environment, and for a lost
kernelspec. `jupyter kernelspec uninstall` removes it.
"""

import json
import shutil
import sys
import tempfile
from pathlib import Path

from parsimony_kernel import KERNEL_NAME
from parsimony_kernel.core.errors import SessionError


class InstallError(SessionError):
    """The kernelspec could not be written. ``str()`` is one sentence with the remedy."""


def install(*, user: bool = False) -> Path:
    """Write a kernelspec that starts this interpreter, and return its folder.

    Args:
        user: Install for the user instead of this environment.

    Raises:
        InstallError: The folder can't be written.
    """
    from ipykernel.kernelspec import get_kernel_dict  # deferred: no kernel start needs these
    from jupyter_client.kernelspec import KernelSpecManager

    spec = {
        "argv": [sys.executable, "-m", "parsimony_kernel", "-f", "{connection_file}"],
        "display_name": "Parsimony Agent",
        "language": "python",
        "interrupt_mode": "signal",
        # Features of this ipykernel: debugging and, from 7.4 on, encrypted connections.
        "metadata": get_kernel_dict()["metadata"],
    }
    with tempfile.TemporaryDirectory() as made:
        source = Path(made)
        (source / "kernel.json").write_text(json.dumps(spec, indent=2) + "\n")
        for logo in _logos():
            shutil.copyfile(logo, source / logo.name)
        try:
            placed = KernelSpecManager().install_kernel_spec(
                made, kernel_name=KERNEL_NAME, user=user, prefix=None if user else sys.prefix
            )
        except OSError as exc:
            raise InstallError(
                f"The kernel cannot be written to {exc.filename!r}: {exc.strerror}. "
                "Use --user, or without it an environment that you can write to."
            ) from exc
    return Path(str(placed))


def _logos() -> list[Path]:
    """Find the kernelspec's logos, in the installed package or in the source tree."""
    shared = Path(sys.prefix) / "share" / "jupyter" / "kernels" / KERNEL_NAME
    source = Path(__file__).parents[2] / "kernelspec"
    found = (sorted(folder.glob("logo-*")) for folder in (shared, source))
    return next(filter(None, found), [])
