"""Putting the kernel where front ends look for it, and taking it away.

`pip install` brings the kernelspec along; this is for another place, another name, or another
user than the environment's own.
"""

import json
import shutil
import sys
import tempfile
from importlib.resources import files
from pathlib import Path

NAME = "parsimony-agent"
DISPLAY_NAME = "Parsimony Agent"


class InstallError(Exception):
    """Why the kernelspec was not written or removed, in one sentence with the remedy."""


def spec(
    display_name: str = DISPLAY_NAME, *, interpreter: str = sys.executable
) -> dict[str, object]:
    """The kernel.json that starts the kernel with ``interpreter``."""
    return {
        "argv": [interpreter, "-m", "parsimony_kernel", "-f", "{connection_file}"],
        "display_name": display_name,
        "language": "python",
        "interrupt_mode": "signal",
        "metadata": {"debugger": True},
    }


def install(
    *,
    user: bool = False,
    prefix: str | None = None,
    name: str = NAME,
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


def uninstall(name: str = NAME) -> Path:
    """Remove the kernelspec ``name`` and give the folder that it was in."""
    from jupyter_client.kernelspec import KernelSpecManager, NoSuchKernel

    manager = KernelSpecManager()
    try:
        return Path(str(manager.remove_kernel_spec(name)))
    except (NoSuchKernel, KeyError) as exc:
        known = ", ".join(sorted(manager.find_kernel_specs())) or "none"
        raise InstallError(f"No kernel is named {name!r}. There are: {known}.") from exc
    except OSError as exc:
        raise InstallError(f"{exc.filename!r} cannot be removed: {exc.strerror}.") from exc


def _logos() -> list[Path]:
    """The logos of the kernelspec that came with the package, or of the source tree."""
    shared = Path(sys.prefix) / "share" / "jupyter" / "kernels" / NAME
    source = Path(str(files("parsimony_kernel"))).parent / "kernelspec"
    for folder in (shared, source):
        found = sorted(folder.glob("logo-*"))
        if found:
            return found
    return []
