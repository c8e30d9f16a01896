"""Looking at what a run needs, and saying what to do about what is missing.

Each check gives one finding; none of them changes anything or leaves the machine.
"""

import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at."""

    name: str
    ok: bool
    says: str


def examine(folder: Path, environ: Mapping[str, str] = os.environ) -> tuple[Finding, ...]:
    """All findings for notebooks in ``folder``."""
    checks: tuple[Callable[[], Finding], ...] = (
        _python,
        _kernelspec,
        _extension,
        lambda: _model(environ),
        lambda: _workspace(folder, environ),
        lambda: _keys(environ),
    )
    return tuple(check() for check in checks)


def _python() -> Finding:
    version = ".".join(map(str, sys.version_info[:3]))
    fits = (3, 11) <= sys.version_info[:2] <= (3, 13)
    return Finding("python", fits, f"{version} at {sys.executable}; 3.11 to 3.13 are supported")


def _kernelspec() -> Finding:
    from jupyter_client.kernelspec import KernelSpecManager

    from parsimony_kernel.kernel.install import NAME

    found = KernelSpecManager().find_kernel_specs()
    if NAME in found:
        return Finding("kernel", True, f"{NAME} in {found[NAME]}")
    return Finding("kernel", False, "not found by Jupyter: jupyter parsimony install --sys-prefix")


def _extension() -> Finding:
    if find_spec("parsimony_agent") is not None:
        return Finding("extension", True, "%load_ext parsimony_agent works in this environment")
    return Finding("extension", False, "the package is installed without it: reinstall it")


def _model(environ: Mapping[str, str]) -> Finding:
    from parsimony_kernel.llm.resolve import check_models

    name = environ.get("PARSIMONY_MODEL") or "offline"
    failure = check_models(name, environ)
    if failure is None:
        return Finding("model", True, name)
    return Finding("model", False, failure.explanation)


def _workspace(folder: Path, environ: Mapping[str, str]) -> Finding:
    from parsimony_kernel.journal.workspace import find_workspace

    workspace = find_workspace(folder, environ)
    if workspace.is_dir() and os.access(workspace, os.W_OK):
        return Finding("workspace", True, str(workspace / ".ockham"))
    return Finding(
        "workspace",
        False,
        f"{str(workspace)!r} cannot be written: make it writable, or set PARSIMONY_WORKSPACE",
    )


def _keys(environ: Mapping[str, str]) -> Finding:
    from jupyter_core.paths import jupyter_data_dir

    from parsimony_kernel.agent.failure.keyring import (
        ENVIRONMENT_VARIABLE,
        Keyring,
        KeyringError,
    )

    folder = Path(jupyter_data_dir()) / "parsimony" / "keys"
    given = bool(environ.get(ENVIRONMENT_VARIABLE, "").strip())
    # The keyring creates the key that it is asked for; so it is asked only where there is one.
    if not given and not _is_filled(folder / "current"):
        return _no_key(folder)
    try:
        key = Keyring.open(folder, environ).current()
    except KeyringError as exc:
        return Finding("signing key", False, str(exc))
    return Finding("signing key", True, key.key_id)


def _is_filled(path: Path) -> bool:
    try:
        return path.stat().st_size > 0
    except OSError:
        return False


def _no_key(folder: Path) -> Finding:
    there = next(place for place in (folder, *folder.parents) if place.exists())
    if there.is_dir() and os.access(there, os.W_OK | os.X_OK):
        return Finding("signing key", True, f"will be created on first use in {folder}")
    return Finding(
        "signing key",
        False,
        f"none, and {str(there)!r} cannot be written: make it writable, or set "
        "PARSIMONY_SUSPENSION_SECRET to a secret of your own",
    )
