"""Workspace location, journal location, trust, and the workspace's ``.gitignore``.

Rule: a lookup changes nothing. SQLite's write-ahead log needs memory shared by all writers, which
network file systems don't provide: there the journal goes to the user's data directory.
"""

import hashlib
import os
import re
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from parsimony_kernel.identity import ARTIFACT_FOLDER
from parsimony_kernel.storage import durable

ENVIRONMENT_VARIABLE = "PARSIMONY_WORKSPACE"
TRUST_VARIABLE = "PARSIMONY_TRUST"
JOURNAL_NAME = "journal.sqlite"

# Files of this machine alone, or with requests and data in them. Artifacts are meant to be shared.
_IGNORED = b"journal.sqlite*\nkeys/\nreplaced/\n.parsimony-*.tmp\n"

_NETWORK = re.compile(r"nfs\d?|cifs|smb\w*|fuse\.sshfs|9p|afs|ncpfs")


def find_workspace(folder: Path, environ: Mapping[str, str] = os.environ) -> Path:
    """Return the workspace of a notebook in ``folder``, as an absolute path.

    It is ``PARSIMONY_WORKSPACE`` if set, else the nearest folder from ``folder`` upward that
    contains ``.ockham``, else ``folder`` itself.
    """
    chosen = environ.get(ENVIRONMENT_VARIABLE, "").strip()
    if chosen:
        return Path(chosen).expanduser().absolute()
    start = folder.absolute()
    for candidate in (start, *start.parents):
        if (candidate / ARTIFACT_FOLDER).is_dir():
            return candidate
    return start


def journal_path(workspace: Path) -> Path:
    """Return the path of the journal of ``workspace``."""
    if not is_on_network(workspace):
        return workspace / ARTIFACT_FOLDER / JOURNAL_NAME
    return _of_user("journals", str(workspace.absolute())).with_suffix(".sqlite")


def prepare(workspace: Path) -> None:
    """Create the ``.ockham`` of ``workspace``, with a ``.gitignore`` for private files.

    An existing ``.gitignore`` is the user's and left unchanged. A folder created here is trusted.
    ``StorageError`` if it can't be written.
    """
    ignored = workspace / ARTIFACT_FOLDER / ".gitignore"
    is_new = not os.path.lexists(ignored.parent)
    if not os.path.lexists(ignored):
        durable.create(ignored, _IGNORED)
    if is_new:
        with suppress(durable.StorageError):  # the user is asked later instead
            trust(str(workspace.resolve()))


def trust(place: str) -> None:
    """Record that this user lets artifacts published in ``place`` be rebuilt by their code.

    ``place`` is the resolved path of a workspace, or the address of a shared store.
    ``StorageError`` if that can't be recorded.
    """
    durable.create(_of_user("trusted", place), os.fsencode(place), mode=0o600)


def require_trust(place: str, environ: Mapping[str, str] = os.environ) -> None:
    """Raise ``StorageError`` unless ``place`` was created or accepted on this machine.

    Artifacts carry code, and a clone or an archive carries somebody else's.
    """
    is_trusted = _of_user("trusted", place).exists()  # a folder can't vouch for itself
    if environ.get(TRUST_VARIABLE, "").strip() in ("", "0") and not is_trusted:
        raise durable.StorageError(
            f"What is published in {place!r} was not begun here, and its code would run "
            "as you: look through it, then accept it once with 'jupyter parsimony trust', or for "
            f"one run with --trust or {TRUST_VARIABLE}=1."
        )


def _of_user(folder: str, place: str) -> Path:
    """Return the path of the file about ``place`` in a folder of the user's data directory."""
    from jupyter_core.paths import jupyter_data_dir  # deferred: few workspaces are new

    name = hashlib.sha256(os.fsencode(place)).hexdigest()[:32]
    return Path(jupyter_data_dir()) / "parsimony" / folder / name


def is_on_network(path: Path) -> bool:
    """Return whether ``path`` is on a network file system, by its longest mount point."""
    if sys.platform != "linux":  # others don't report it, and listing may wait for a drive
        return False
    import psutil  # deferred: a process that opens no journal does not need it

    try:
        mounts = psutil.disk_partitions(all=True)
    except OSError:  # a system without a list of mounts
        return False
    above = [each for each in mounts if path.is_relative_to(each.mountpoint)]
    # Of several mounts at one point the last one is active.
    nearest = max(reversed(above), key=lambda each: len(each.mountpoint), default=None)
    return nearest is not None and _NETWORK.fullmatch(nearest.fstype) is not None
