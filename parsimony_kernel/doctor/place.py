"""The workspace, its journal, and the key that signs waiting questions."""

import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

from parsimony_kernel.doctor.finding import Finding, doubtful, well, wrong
from parsimony_kernel.identity import ARTIFACT_FOLDER
from parsimony_kernel.storage.workspace import JOURNAL_NAME, find_workspace, journal_path

_ENOUGH_BYTES = 200_000_000


def findings(folder: Path, environ: Mapping[str, str]) -> Iterator[Finding]:
    workspace = find_workspace(folder, environ)
    yield _workspace(workspace)
    if workspace.is_dir():
        yield _space(workspace)
        yield _journal(workspace)
        yield _ignored(workspace)
    yield _key(environ)


def _workspace(workspace: Path) -> Finding:
    inside = workspace / ARTIFACT_FOLDER
    for place in (workspace, inside) if os.path.lexists(inside) else (workspace,):
        if not (place.is_dir() and os.access(place, os.W_OK | os.X_OK)):
            return wrong(
                "workspace",
                f"{str(place)!r} cannot be written",
                "Make it writable, or set PARSIMONY_WORKSPACE to another folder.",
            )
    if os.name == "posix" and inside.is_dir() and inside.stat().st_mode & 0o002:
        return doubtful(
            "workspace",
            f"{inside} can be written by everyone on this machine",
            f"Run: chmod o-w {str(inside)!r}",
        )
    return well("workspace", str(inside))


def _space(workspace: Path) -> Finding:
    free = shutil.disk_usage(workspace).free
    says = f"{free // 1_000_000} MB are free"
    if free >= _ENOUGH_BYTES:
        return well("disk", says)
    return doubtful("disk", says, "Make room, or run: jupyter parsimony purge --older-than 30d")


def _journal(workspace: Path) -> Finding:
    path = journal_path(workspace)
    if path == workspace / ARTIFACT_FOLDER / JOURNAL_NAME:
        return well("journal", str(path))
    return well("journal", f"the workspace is on a network file system, so it lies in {path}")


def _ignored(workspace: Path) -> Finding:
    inside = workspace / ARTIFACT_FOLDER
    ignored = inside / ".gitignore"
    if not inside.is_dir():
        return well("gitignore", f"will be written to {ignored}")
    try:
        lines = ignored.read_text(encoding="utf-8", errors="replace").split()
    except OSError:
        lines = []
    missing = [each for each in ("journal.sqlite*", "keys/") if each not in lines]
    if not missing or "*" in lines:
        return well("gitignore", str(ignored))
    return doubtful(
        "gitignore",
        f"{ignored} does not leave out {' and '.join(missing)}",
        f"Add {'these lines' if len(missing) > 1 else 'this line'} to it: {' '.join(missing)}",
    )


def _key(environ: Mapping[str, str]) -> Finding:
    from jupyter_core.paths import jupyter_data_dir

    from parsimony_kernel.storage.keyring import (
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
        return wrong("signing key", str(exc), "See: jupyter parsimony keys list")
    file = folder / f"{key.key_id}.key"
    if os.name == "posix" and not given and file.stat().st_mode & 0o077:
        return doubtful(
            "signing key", f"{file} can be read by others", f"Run: chmod 600 {str(file)!r}"
        )
    return well("signing key", key.key_id)


def _is_filled(path: Path) -> bool:
    try:
        return path.stat().st_size > 0
    except OSError:
        return False


def _no_key(folder: Path) -> Finding:
    there = next(place for place in (folder, *folder.parents) if place.exists())
    if there.is_dir() and os.access(there, os.W_OK | os.X_OK):
        return well("signing key", f"will be created on first use in {folder}")
    return wrong(
        "signing key",
        f"none, and {str(there)!r} cannot be written",
        "Make it writable, or set PARSIMONY_SUSPENSION_SECRET to a secret of your own.",
    )
