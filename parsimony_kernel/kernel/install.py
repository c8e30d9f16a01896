"""Put the kernel where front ends look for it.

`pip install` brings the kernelspec along; this is for another place, another name, or another
user than the environment's own. `jupyter kernelspec uninstall` takes it away.
"""

import json
import shutil
import sys
import tempfile
from importlib.resources import files
from pathlib import Path

from parsimony_kernel import KERNEL_NAME
from parsimony_kernel.core.errors import SessionError

DISPLAY_NAME = "Parsimony Agent"


class InstallError(SessionError):
    """Why the kernelspec was not written. ``str()`` is one sentence with the remedy."""


def spec(display_name: str = DISPLAY_NAME) -> dict[str, object]:
    """The kernel.json that starts the kernel with this interpreter."""
    from ipykernel.kernelspec import get_kernel_dict  # deferred: no kernel start needs it

    return {
        "argv": [sys.executable, "-m", "parsimony_kernel", "-f", "{connection_file}"],
        "display_name": display_name,
        "language": "python",
        "interrupt_mode": "signal",
        # What this ipykernel can do: to be debugged, and, from 7.4 on, to be spoken to encrypted.
        "metadata": get_kernel_dict()["metadata"],
    }


def install(
    *,
    user: bool = False,
    prefix: str | None = None,
    name: str = KERNEL_NAME,
    display_name: str = DISPLAY_NAME,
) -> Path:
    """Write a kernelspec that starts this interpreter, and give its folder.

    Args:
        user: for the user rather than for everybody on the machine.
        prefix: below this installation prefix.
        name: the kernel's name, of letters, digits, ``-``, ``.`` and ``_``.

    Raises ``InstallError`` when the name is no kernel's or the place cannot be written.
    """
    from jupyter_client.kernelspec import KernelSpecManager  # deferred: no kernel start needs it

    with tempfile.TemporaryDirectory() as made:
        source = Path(made)
        (source / "kernel.json").write_text(json.dumps(spec(display_name), indent=2) + "\n")
        for logo in _logos():
            shutil.copyfile(logo, source / logo.name)
        try:
            placed = KernelSpecManager().install_kernel_spec(
                made, kernel_name=name, user=user, prefix=prefix
            )
        except ValueError as exc:
            raise InstallError(
                f"{name!r} cannot name a kernel: use letters, digits, '-', '.' and '_'."
            ) from exc
        except OSError as exc:
            raise InstallError(
                f"The kernel cannot be written to {exc.filename!r}: {exc.strerror}. "
                "Use --user or --sys-prefix."
            ) from exc
    return Path(str(placed))


def _logos() -> list[Path]:
    """The logos of the kernelspec that came with the package, or of the source tree."""
    shared = Path(sys.prefix) / "share" / "jupyter" / "kernels" / KERNEL_NAME
    source = Path(str(files("parsimony_kernel"))).parent / "kernelspec"
    found = (sorted(folder.glob("logo-*")) for folder in (shared, source))
    return next(filter(None, found), [])
