"""What a check says, and the checks of this machine: what is installed, the network's settings, the
workspace and its key."""

import os
import re
import shutil
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from parsimony_kernel import KERNEL_NAME
from parsimony_kernel.identity import ARTIFACT_FOLDER
from parsimony_kernel.storage.workspace import find_workspace

_FRONT_ENDS = ("jupyterlab", "notebook", "ipywidgets")
# The server's side of jupyter-collaboration.
_COLLABORATION = "jupyter-server-ydoc"
_INSTALL = "jupyter parsimony install --sys-prefix"
# Jupyter starts its own interpreter for these.
_ANY_PYTHON = re.compile(r"python(3(\.\d+)?)?")
_PROXIES = ("HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY")
CERTIFICATES = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "SSL_VERIFY")
_LOCAL = ("localhost", "127.0.0.1")


@dataclass(frozen=True)
class Check:
    """One thing that was looked at.

    ``remedy`` is what to do where it is not ``ok``. A run can do without what is a ``warn``, and
    not without what is an ``error``.
    """

    name: str
    ok: bool
    says: str
    remedy: str = ""
    level: Literal["error", "warn", "info"] = "info"


def passed(name: str, says: str) -> Check:
    return Check(name, True, says)


def warning(name: str, says: str, remedy: str) -> Check:
    return Check(name, False, says, remedy, "warn")


def failed(name: str, says: str, remedy: str) -> Check:
    return Check(name, False, says, remedy, "error")


def installed(environ: Mapping[str, str]) -> Iterator[Check]:
    # An installer refuses other versions.
    numbers = ".".join(map(str, sys.version_info[:3]))
    yield passed("python", f"{numbers} at {sys.executable}; 3.11 to 3.13 are supported")
    yield _kernel()
    yield _front_end(environ)
    yield _litellm()


def _kernel() -> Check:
    from jupyter_client.kernelspec import KernelSpecManager, NoSuchKernel

    try:
        spec = KernelSpecManager().get_kernel_spec(KERNEL_NAME)
    except (NoSuchKernel, OSError, ValueError) as problem:
        return failed("kernel", f"Jupyter cannot read it: {problem}", f"Run: {_INSTALL}")
    first = str(spec.argv[0]) if spec.argv else ""
    place = f"{KERNEL_NAME} in {spec.resource_dir}"
    if first == sys.executable or _ANY_PYTHON.fullmatch(first):
        return passed("kernel", place)
    if shutil.which(first) is None:
        return failed("kernel", f"{place} starts {first!r}, which is not there", f"Run: {_INSTALL}")
    says = f"{place} starts {first!r}, another Python than this one"
    return warning("kernel", says, f"To have it start this one: {_INSTALL}")


def _front_end(environ: Mapping[str, str]) -> Check:
    there = [f"{name} {found}" for name in _FRONT_ENDS if (found := _installed(name))]
    says = ", ".join(there) or "nothing here"
    says += "; VS Code and a server of another environment cannot be seen from here"
    if _installed(_COLLABORATION) and environ.get("PARSIMONY_DISPLAY") != "static":
        says += "; with jupyter-collaboration, a second browser shows updated outputs wrongly"
        remedy = "Where two work in one notebook: PARSIMONY_DISPLAY=static"
        return warning("front end", says, remedy)
    return passed("front end", says)


def _litellm() -> Check:
    from parsimony_kernel.llm.litellm_model import self_check

    problem = self_check()
    if problem is None:
        return passed("litellm", f"{version('litellm')} is installed")
    # The embedded model does without it; a provider's model says so itself.
    return warning("litellm", problem, f"Run: {problem.rpartition('run: ')[2]}")


def _installed(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def without_credentials(url: str) -> str:
    """``url`` without the name and password, the query and the fragment."""
    try:
        parts = urlsplit(url if "//" in url else f"//{url}")
    except ValueError:
        return "an address that cannot be read"
    place = parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}://{place}{parts.path}" if parts.scheme else f"{place}{parts.path}"


def proxy(environ: Mapping[str, str]) -> Check:
    there = {name: value for name in _PROXIES if (value := _either(environ, name))}
    if not there:
        return passed("proxy", "none is set")
    says = ", ".join(f"{name} is {without_credentials(url)}" for name, url in there.items())
    spared = set(re.split(r"[\s,]+", _either(environ, "NO_PROXY").lower()))
    missing = [] if "*" in spared else [name for name in _LOCAL if name not in spared]
    if not missing:
        return passed("proxy", says)
    says += f"; NO_PROXY lacks {' and '.join(missing)}, where local models are"
    return warning("proxy", says, f"Add {','.join(missing)} to NO_PROXY.")


def _either(environ: Mapping[str, str], name: str) -> str:
    return environ.get(name.lower()) or environ.get(name) or ""


def certificates(name: str, value: str) -> Check:
    switch = value.strip().lower() if name == "SSL_VERIFY" else ""
    if switch == "false":
        return warning(
            "certificates",
            "SSL_VERIFY is off: anyone in between can read keys and data",
            "Unset SSL_VERIFY, and set SSL_CERT_FILE to your organisation's certificates.",
        )
    place = Path(value)
    if switch == "true" or place.is_file() or (name != "SSL_CERT_FILE" and place.is_dir()):
        return passed("certificates", f"{name} is {value}")
    return failed(
        "certificates",
        f"{name} is {value!r}, where there is no file",
        f"Set {name} to a file of certificates in PEM form, or unset it.",
    )


def workspace(folder: Path, environ: Mapping[str, str]) -> Check:
    root = find_workspace(folder, environ)
    inside = root / ARTIFACT_FOLDER
    for place in (root, inside) if os.path.lexists(inside) else (root,):
        if not _is_writable(place):
            return failed(
                "workspace",
                f"{str(place)!r} cannot be written",
                "Make it writable, or set PARSIMONY_WORKSPACE to another folder.",
            )
    if os.name == "posix" and inside.is_dir() and inside.stat().st_mode & 0o002:
        return warning(
            "workspace",
            f"{inside} can be written by everyone on this machine",
            f"Run: chmod o-w {str(inside)!r}",
        )
    return passed("workspace", str(inside))


def _is_writable(place: Path) -> bool:
    return place.is_dir() and os.access(place, os.W_OK | os.X_OK)


def key(environ: Mapping[str, str]) -> Check:
    from jupyter_core.paths import jupyter_data_dir

    from parsimony_kernel.storage import keyring

    folder = Path(jupyter_data_dir()) / "parsimony" / "keys"
    file = folder / keyring.FILE
    given = bool(environ.get(keyring.ENVIRONMENT_VARIABLE, "").strip())
    # The keyring creates the key that it is asked for; so it is asked only where there is one.
    if not given and not (file.is_file() and file.stat().st_size):
        there = next(place for place in (folder, *folder.parents) if place.exists())
        if _is_writable(there):
            return passed("signing key", f"will be created on first use in {folder}")
        return failed(
            "signing key",
            f"none, and {str(there)!r} cannot be written",
            "Make it writable, or set PARSIMONY_SUSPENSION_SECRET to a secret of your own.",
        )
    try:
        key = keyring.Keyring.open(folder, environ).current()
    except keyring.KeyringError as exc:
        return failed("signing key", str(exc), "See: jupyter parsimony keys list")
    if os.name == "posix" and not given and file.stat().st_mode & 0o077:
        return warning(
            "signing key", f"{file} can be read by others", f"Run: chmod 600 {str(file)!r}"
        )
    return passed("signing key", key.key_id)
