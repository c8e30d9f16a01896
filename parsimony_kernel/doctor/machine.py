"""Checks of this machine: what is installed, the network's settings, the workspace and its key."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlsplit

from parsimony_kernel import KERNEL_NAME, __version__
from parsimony_kernel.doctor.checks import Check, failed, passed, warning
from parsimony_kernel.identity import ARTIFACT_FOLDER
from parsimony_kernel.storage.workspace import JOURNAL_NAME, find_workspace, journal_path

_FRONT_ENDS = ("jupyterlab", "notebook")
_WIDGETS = ("ipywidgets", "jupyterlab_widgets")
# The server's side of jupyter-collaboration.
_COLLABORATION = "jupyter-server-ydoc"
_INSTALL = "jupyter parsimony install --sys-prefix"
_START_S = 30.0
# Jupyter starts its own interpreter for these.
_ANY_PYTHON = re.compile(r"python(3(\.\d+)?)?")
_PROXIES = ("HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY")
_BUNDLES = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE")
_LOCAL = ("localhost", "127.0.0.1")
# As litellm reads it.
_OFF, _ON = "false", "true"
_ENOUGH_BYTES = 200_000_000


def installed(environ: Mapping[str, str]) -> Iterator[Check]:
    yield _python()
    yield _kernel(environ)
    yield _extension()
    yield _front_end(environ)
    yield _litellm()


def _python() -> Check:
    # An installer refuses other versions.
    numbers = ".".join(map(str, sys.version_info[:3]))
    return passed("python", f"{numbers} at {sys.executable}; 3.11 to 3.13 are supported")


def _kernel(environ: Mapping[str, str]) -> Check:
    from jupyter_client.kernelspec import KernelSpecManager, NoSuchKernel

    try:
        spec = KernelSpecManager().get_kernel_spec(KERNEL_NAME)
    except (NoSuchKernel, OSError, ValueError) as problem:
        return failed("kernel", f"Jupyter cannot read it: {problem}", f"Run: {_INSTALL}")
    first = str(spec.argv[0]) if spec.argv else ""
    place = f"{KERNEL_NAME} in {spec.resource_dir}"
    if _ANY_PYTHON.fullmatch(first):
        return passed("kernel", place)
    if shutil.which(first) is None:
        return failed("kernel", f"{place} starts {first!r}, which is not there", f"Run: {_INSTALL}")
    if first == sys.executable:
        return passed("kernel", place)
    found = _version_of(first, {**environ, **spec.env})
    if found == __version__:
        return passed("kernel", f"{place}, started by {first}")
    imports = f"imports version {found}" if found else "cannot import the package"
    return failed(
        "kernel",
        f"{place} starts {first!r}, which {imports}; here is {__version__}",
        f"Run here: {_INSTALL}",
    )


def _version_of(interpreter: str, environ: Mapping[str, str]) -> str | None:
    """The version that ``interpreter`` imports, or ``None``."""
    program = "import parsimony_kernel; print(parsimony_kernel.__version__)"
    try:
        ran = subprocess.run(
            [interpreter, "-P", "-c", program],
            env=dict(environ),
            capture_output=True,
            text=True,
            timeout=_START_S,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return ran.stdout.strip()


def _extension() -> Check:
    if find_spec("parsimony_agent") is not None:
        return passed("extension", "%load_ext parsimony_agent works in this environment")
    return failed("extension", "the package is installed without it", "Reinstall it.")


def _front_end(environ: Mapping[str, str]) -> Check:
    there = {name: found for name in (*_FRONT_ENDS, *_WIDGETS) if (found := _installed(name))}
    says = ", ".join(f"{name} {found}" for name, found in there.items()) or "nothing here"
    says += "; VS Code and a server of another environment cannot be seen from here"
    if any(name in there for name in _FRONT_ENDS) and "jupyterlab_widgets" not in there:
        remedy = "For buttons: pip install ipywidgets jupyterlab_widgets"
        return warning("front end", says, remedy)
    if _installed(_COLLABORATION) and environ.get("PARSIMONY_DISPLAY") != "static":
        says += "; with jupyter-collaboration, a second browser shows updated outputs wrongly"
        return warning(
            "front end", says, "Where two work in one notebook: PARSIMONY_DISPLAY=static"
        )
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


def network(environ: Mapping[str, str]) -> Iterator[Check]:
    yield _proxy(environ)
    yield from (_bundle(name, environ[name]) for name in _BUNDLES if environ.get(name))
    if environ.get("SSL_VERIFY"):
        yield _verification(environ["SSL_VERIFY"])


def without_credentials(url: str) -> str:
    """``url`` without the name and password, the query and the fragment."""
    try:
        parts = urlsplit(url if "//" in url else f"//{url}")
    except ValueError:
        return "an address that cannot be read"
    place = parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}://{place}{parts.path}" if parts.scheme else f"{place}{parts.path}"


def _proxy(environ: Mapping[str, str]) -> Check:
    there = {name: value for name in _PROXIES if (value := _either(environ, name))}
    if not there:
        return passed("proxy", "none is set")
    says = ", ".join(f"{name} is {without_credentials(url)}" for name, url in there.items())
    spared = set(re.split(r"[\s,]+", _either(environ, "NO_PROXY").lower()))
    missing = [] if "*" in spared else [name for name in _LOCAL if name not in spared]
    if missing:
        return warning(
            "proxy",
            f"{says}; NO_PROXY lacks {' and '.join(missing)}, where local models are",
            f"Add {','.join(missing)} to NO_PROXY.",
        )
    return passed("proxy", says)


def _either(environ: Mapping[str, str], name: str) -> str:
    return environ.get(name.lower()) or environ.get(name) or ""


def _bundle(name: str, value: str) -> Check:
    place = Path(value)
    if place.is_file() or (name == "REQUESTS_CA_BUNDLE" and place.is_dir()):
        return passed("certificates", f"{name} is {value}")
    return failed(
        "certificates",
        f"{name} is {value!r}, where there is no file",
        f"Set {name} to a file of certificates in PEM form, or unset it.",
    )


def _verification(value: str) -> Check:
    if value.strip().lower() == _OFF:
        return warning(
            "certificates",
            "SSL_VERIFY is off: anyone in between can read keys and data",
            "Unset SSL_VERIFY, and set SSL_CERT_FILE to your organisation's certificates.",
        )
    if value.strip().lower() == _ON or Path(value).exists():
        return passed("certificates", f"SSL_VERIFY is {value}")
    return failed(
        "certificates",
        f"SSL_VERIFY is {value!r}, which is no file and neither True nor False",
        "Unset it, or set it to a file of certificates in PEM form.",
    )


def workspace(folder: Path, environ: Mapping[str, str]) -> Iterator[Check]:
    workspace = find_workspace(folder, environ)
    yield _workspace(workspace)
    if workspace.is_dir():
        yield _space(workspace)
        yield _journal(workspace)
        yield _ignored(workspace)
    yield _key(environ)


def _workspace(workspace: Path) -> Check:
    inside = workspace / ARTIFACT_FOLDER
    for place in (workspace, inside) if os.path.lexists(inside) else (workspace,):
        if not (place.is_dir() and os.access(place, os.W_OK | os.X_OK)):
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


def _space(workspace: Path) -> Check:
    free = shutil.disk_usage(workspace).free
    says = f"{free // 1_000_000} MB are free"
    if free >= _ENOUGH_BYTES:
        return passed("disk", says)
    return warning("disk", says, "Make room, or run: jupyter parsimony purge --older-than 30d")


def _journal(workspace: Path) -> Check:
    path = journal_path(workspace)
    if path == workspace / ARTIFACT_FOLDER / JOURNAL_NAME:
        return passed("journal", str(path))
    return passed("journal", f"the workspace is on a network file system, so it lies in {path}")


def _ignored(workspace: Path) -> Check:
    inside = workspace / ARTIFACT_FOLDER
    ignored = inside / ".gitignore"
    if not inside.is_dir():
        return passed("gitignore", f"will be written to {ignored}")
    try:
        lines = ignored.read_text(encoding="utf-8", errors="replace").split()
    except OSError:
        lines = []
    missing = [each for each in ("journal.sqlite*", "keys/") if each not in lines]
    if not missing or "*" in lines:
        return passed("gitignore", str(ignored))
    return warning(
        "gitignore",
        f"{ignored} does not leave out {' and '.join(missing)}",
        f"Add {'these lines' if len(missing) > 1 else 'this line'} to it: {' '.join(missing)}",
    )


def _key(environ: Mapping[str, str]) -> Check:
    from jupyter_core.paths import jupyter_data_dir

    from parsimony_kernel.storage.keyring import (
        ENVIRONMENT_VARIABLE,
        FILE,
        Keyring,
        KeyringError,
    )

    folder = Path(jupyter_data_dir()) / "parsimony" / "keys"
    file = folder / FILE
    given = bool(environ.get(ENVIRONMENT_VARIABLE, "").strip())
    # The keyring creates the key that it is asked for; so it is asked only where there is one.
    if not given and not _is_filled(file):
        return _no_key(folder)
    try:
        key = Keyring.open(folder, environ).current()
    except KeyringError as exc:
        return failed("signing key", str(exc), "See: jupyter parsimony keys list")
    if os.name == "posix" and not given and file.stat().st_mode & 0o077:
        return warning(
            "signing key", f"{file} can be read by others", f"Run: chmod 600 {str(file)!r}"
        )
    return passed("signing key", key.key_id)


def _is_filled(path: Path) -> bool:
    try:
        return path.stat().st_size > 0
    except OSError:
        return False


def _no_key(folder: Path) -> Check:
    there = next(place for place in (folder, *folder.parents) if place.exists())
    if there.is_dir() and os.access(there, os.W_OK | os.X_OK):
        return passed("signing key", f"will be created on first use in {folder}")
    return failed(
        "signing key",
        f"none, and {str(there)!r} cannot be written",
        "Make it writable, or set PARSIMONY_SUSPENSION_SECRET to a secret of your own.",
    )
