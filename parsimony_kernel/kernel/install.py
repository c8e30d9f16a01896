"""Putting the kernel where front ends look for it, and taking it away.

`pip install` brings the kernelspec along; this is for another place, another name, or another
user than the environment's own.
"""

import json
import shutil
import sys
import tempfile
from importlib.resources import files
from itertools import pairwise
from pathlib import Path

from traitlets import TraitError

from parsimony_kernel import KERNEL_NAME

DISPLAY_NAME = "Parsimony Agent"

# The words in a kernelspec's argv that make it one of this kernel's, whatever its name.
_STARTS = ("-m", "parsimony_kernel")


class InstallError(Exception):
    """Why the kernelspec was not written or removed, in one sentence with the remedy."""


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


def uninstall(name: str = KERNEL_NAME, *, user: bool = False, prefix: str | None = None) -> Path:
    """Remove the kernelspec ``name`` and give the folder that it was in.

    Args:
        name: the kernel's name.
        user: the one of the user, and no other.
        prefix: the one below this installation prefix, and no other.

    Without a place it is the one that Jupyter starts under this name. Raises ``InstallError`` when
    there is none, when it starts something else than this kernel, or cannot be removed.
    """
    from jupyter_client.kernelspec import KernelSpecManager

    # A kernel that is only a part of ipykernel, and lies nowhere, is not looked for.
    manager = KernelSpecManager(ensure_native_kernel=False)
    if user:
        manager.kernel_dirs = [manager.user_kernel_dir]
    elif prefix is not None:
        manager.kernel_dirs = [str(Path(prefix).absolute() / "share" / "jupyter" / "kernels")]
    found, name = manager.find_kernel_specs(), name.lower()
    if name not in found:
        where = " in " + repr(manager.kernel_dirs[0]) if user or prefix is not None else ""
        known = ", ".join(sorted(found)) or "none"
        raise InstallError(f"No kernel is named {name!r}{where}. There are: {known}.")
    folder = Path(found[name])
    try:
        started = manager.get_kernel_spec(name).argv
    except (OSError, ValueError, TypeError, TraitError) as exc:
        raise InstallError(
            f"{str(folder)!r} cannot be read as a kernelspec, so that it is not known whose it is; "
            "it stays. Remove it yourself."
        ) from exc
    if _STARTS not in pairwise(started):
        raise InstallError(
            f"{str(folder)!r} is not Parsimony Agent but a kernel that starts "
            f"{' '.join(map(str, started))!r}; it stays. Use: jupyter kernelspec remove {name}"
        )
    try:
        return Path(manager.remove_kernel_spec(name))
    except OSError as exc:
        raise InstallError(f"{exc.filename!r} cannot be removed: {exc.strerror}.") from exc


def _logos() -> list[Path]:
    """The logos of the kernelspec that came with the package, or of the source tree."""
    shared = Path(sys.prefix) / "share" / "jupyter" / "kernels" / KERNEL_NAME
    source = Path(str(files("parsimony_kernel"))).parent / "kernelspec"
    for folder in (shared, source):
        found = sorted(folder.glob("logo-*"))
        if found:
            return found
    return []
