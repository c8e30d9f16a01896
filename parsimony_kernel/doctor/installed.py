"""The interpreter, the kernel, and the packages around it."""

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec

from parsimony_kernel import KERNEL_NAME, __version__
from parsimony_kernel.doctor.finding import Finding, doubtful, well, wrong

_FRONT_ENDS = ("jupyterlab", "notebook")
_WIDGETS = ("ipywidgets", "jupyterlab_widgets")
# The server's side of jupyter-collaboration.
_COLLABORATION = "jupyter-server-ydoc"
_INSTALL = "jupyter parsimony install --sys-prefix"
_START_S = 30.0
# Jupyter starts its own interpreter for these.
_ANY_PYTHON = re.compile(r"python(3(\.\d+)?)?")


def findings(environ: Mapping[str, str]) -> Iterator[Finding]:
    yield _python()
    yield _kernel(environ)
    yield _extension()
    yield _front_end(environ)
    yield _litellm()


def _python() -> Finding:
    numbers = ".".join(map(str, sys.version_info[:3]))
    says = f"{numbers} at {sys.executable}; 3.11 to 3.13 are supported"
    if (3, 11) <= sys.version_info[:2] <= (3, 13):
        return well("python", says)
    return wrong("python", says, "Install the package with one of them.")


def _kernel(environ: Mapping[str, str]) -> Finding:
    from jupyter_client.kernelspec import KernelSpecManager, NoSuchKernel

    try:
        spec = KernelSpecManager().get_kernel_spec(KERNEL_NAME)
    except (NoSuchKernel, OSError, ValueError) as problem:
        return wrong("kernel", f"Jupyter cannot read it: {problem}", f"Run: {_INSTALL}")
    first = str(spec.argv[0]) if spec.argv else ""
    place = f"{KERNEL_NAME} in {spec.resource_dir}"
    if _ANY_PYTHON.fullmatch(first):
        return well("kernel", place)
    if shutil.which(first) is None:
        return wrong("kernel", f"{place} starts {first!r}, which is not there", f"Run: {_INSTALL}")
    if first == sys.executable:
        return well("kernel", place)
    found = _version_of(first, {**environ, **spec.env})
    if found == __version__:
        return well("kernel", f"{place}, started by {first}")
    imports = f"imports version {found}" if found else "cannot import the package"
    return wrong(
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


def _extension() -> Finding:
    if find_spec("parsimony_agent") is not None:
        return well("extension", "%load_ext parsimony_agent works in this environment")
    return wrong("extension", "the package is installed without it", "Reinstall it.")


def _front_end(environ: Mapping[str, str]) -> Finding:
    there = {name: found for name in (*_FRONT_ENDS, *_WIDGETS) if (found := _installed(name))}
    says = ", ".join(f"{name} {found}" for name, found in there.items()) or "nothing here"
    says += "; VS Code and a server of another environment cannot be seen from here"
    if any(name in there for name in _FRONT_ENDS) and "jupyterlab_widgets" not in there:
        remedy = "For buttons: pip install ipywidgets jupyterlab_widgets"
        return doubtful("front end", says, remedy)
    if _installed(_COLLABORATION) and environ.get("PARSIMONY_DISPLAY") != "static":
        says += "; with jupyter-collaboration, a second browser shows updated outputs wrongly"
        return doubtful(
            "front end", says, "Where two work in one notebook: PARSIMONY_DISPLAY=static"
        )
    return well("front end", says)


def _litellm() -> Finding:
    from parsimony_kernel.llm.litellm_model import self_check

    problem = self_check()
    if problem is None:
        return well("litellm", f"{version('litellm')} is installed")
    # The embedded model does without it; a provider's model says so itself.
    return doubtful("litellm", problem, f"Run: {problem.rpartition('run: ')[2]}")


def _installed(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
