"""Where the workspace is, where its journal can lie, and what of it git leaves alone.

The rule of the place: looking changes nothing. SQLite's write-ahead log needs memory shared by
all who write, which a network file system does not give: there the journal goes to the user's
data directory.
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

# What belongs to this machine alone, or holds what was asked and seen. Artifacts are to be shared.
_IGNORED = b"journal.sqlite*\nkeys/\nreplaced/\n.parsimony-*.tmp\n"

_NETWORK = re.compile(r"nfs\d?|cifs|smb\w*|fuse\.sshfs|9p|afs|ncpfs")


def find_workspace(folder: Path, environ: Mapping[str, str] = os.environ) -> Path:
    """The workspace of a notebook in ``folder``, absolute.

    ``PARSIMONY_WORKSPACE`` when it is set, else the nearest folder from ``folder`` upward that
    holds ``.ockham``, else ``folder`` itself.
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
    """Where the journal of ``workspace`` lies."""
    if not is_on_network(workspace):
        return workspace / ARTIFACT_FOLDER / JOURNAL_NAME
    from jupyter_core.paths import jupyter_data_dir  # deferred: only network file systems need it

    name = hashlib.sha256(os.fsencode(workspace.absolute())).hexdigest()[:16]
    return Path(jupyter_data_dir()) / "parsimony" / "journals" / f"{name}.sqlite"


def prepare(workspace: Path) -> None:
    """Create the folder of ``workspace``, with a ``.gitignore`` for what is not to be shared.

    A ``.gitignore`` that is there is the person's, whatever it leaves out. A folder that is made
    here is trusted. ``StorageError`` when it cannot be written.
    """
    ignored = workspace / ARTIFACT_FOLDER / ".gitignore"
    is_new = not os.path.lexists(ignored.parent)
    if not os.path.lexists(ignored):
        durable.create(ignored, _IGNORED)
    if is_new:
        with suppress(durable.StorageError):  # it is asked about later, then
            trust(str(workspace.resolve()))


def trust(place: str) -> None:
    """Let what is published in ``place`` be made again by its code, for this user.

    ``place`` is the path of a workspace, resolved, or the address that several share.
    ``StorageError`` when that cannot be written down.
    """
    durable.create(_trusted(place), os.fsencode(place), mode=0o600)


def require_trust(place: str, environ: Mapping[str, str] = os.environ) -> None:
    """``StorageError`` unless ``place`` began on this machine, or was accepted here.

    Its artifacts carry code, and what came with a clone or an archive is somebody else's.
    """
    if environ.get(TRUST_VARIABLE, "").strip() in ("", "0") and not _trusted(place).exists():
        raise durable.StorageError(
            f"What is published in {place!r} was not begun here, and its code would run "
            "as you: look through it, then accept it once with 'jupyter parsimony trust', or set "
            f"{TRUST_VARIABLE}=1."
        )


def _trusted(place: str) -> Path:
    """The file that says so, in the user's data directory: a folder can say nothing of itself."""
    from jupyter_core.paths import jupyter_data_dir  # deferred: few workspaces are new

    name = hashlib.sha256(os.fsencode(place)).hexdigest()[:32]
    return Path(jupyter_data_dir()) / "parsimony" / "trusted" / name


def is_on_network(path: Path) -> bool:
    """Whether ``path`` lies on a network file system, by the longest mount point above it."""
    if sys.platform != "linux":  # elsewhere none is told, and a drive may be waited for
        return False
    import psutil  # deferred: a process that opens no journal does not need it

    try:
        mounts = psutil.disk_partitions(all=True)
    except OSError:  # a system that does not tell
        return False
    above = [each for each in mounts if path.is_relative_to(each.mountpoint)]
    # Of several mounts on one point the last one counts.
    nearest = max(reversed(above), key=lambda each: len(each.mountpoint), default=None)
    return nearest is not None and _NETWORK.fullmatch(nearest.fstype) is not None
