"""Checks of what a run needs, each with a remedy.

Nothing is changed, and nothing leaves the machine.
"""

import os
import re
import shutil
import socket
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from platform import python_version
from typing import Literal
from urllib.parse import urlsplit

from parsimony_kernel import KERNEL_NAME
from parsimony_kernel.agent.resolve import PARAMETERS, check_model, names_in
from parsimony_kernel.core.chat import OFFLINE
from parsimony_kernel.identity import ARTIFACT_FOLDER
from parsimony_kernel.llm import credentials
from parsimony_kernel.llm.providers import price_in_words, suggestion
from parsimony_kernel.storage import keyring
from parsimony_kernel.storage.workspace import find_workspace

_INSTALL = "Run: jupyter parsimony install --sys-prefix"
# Jupyter starts its own interpreter for these.
_ANY_PYTHON = re.compile(r"python(3(\.\d+)?)?")
_TIMEOUT_S = 5.0


@dataclass(frozen=True)
class Check:
    """One thing that was checked.

    ``remedy`` is what to do where it is not ``ok``. A run can do without what is a ``warn``, and
    not without what is an ``error``.
    """

    name: str
    ok: bool
    says: str
    remedy: str = ""
    level: Literal["error", "warn", "info"] = "info"


def run_checks(
    folder: Path, environ: Mapping[str, str] = os.environ, model: str | None = None
) -> tuple[Check, ...]:
    """Run all checks for notebooks in ``folder``, in the order in which a person would mend them.

    Args:
        model: the model to check; that of the environment when it is ``None``.
    """
    # An installer refuses other versions.
    return (
        Check("python", True, f"{python_version()} at {sys.executable}; supported: 3.11 to 3.13"),
        _kernel(),
        _litellm(),
        *_models(model or environ.get("PARSIMONY_MODEL") or OFFLINE, environ),
        _workspace(folder, environ),
        _signing_key(environ),
    )


def to_text(checks: Iterable[Check]) -> str:
    """A line for each check, and below it what to do."""
    lines: list[str] = []
    for each in checks:
        mark = "ok  " if each.ok else "NOT " if each.level == "error" else "look"
        lines.append(f"{mark} {each.name}: {each.says}")
        if each.remedy:
            lines.append(f"     -> {each.remedy}")
    return "\n".join(lines)


def _kernel() -> Check:
    from jupyter_client.kernelspec import KernelSpecManager, NoSuchKernel

    try:
        spec = KernelSpecManager().get_kernel_spec(KERNEL_NAME)
    except (NoSuchKernel, OSError, ValueError) as problem:
        return Check("kernel", False, f"Jupyter cannot read it: {problem}", _INSTALL, "error")
    first = str(spec.argv[0]) if spec.argv else ""
    place = f"{KERNEL_NAME} in {spec.resource_dir}"
    if first == sys.executable or _ANY_PYTHON.fullmatch(first):
        return Check("kernel", True, place)
    is_there = shutil.which(first) is not None
    why = "another Python than this one" if is_there else "which is not there"
    says = f"{place} starts {first!r}, {why}"
    return Check("kernel", False, says, _INSTALL, "warn" if is_there else "error")


def _litellm() -> Check:
    from parsimony_kernel.llm.litellm_model import self_check

    problem = self_check()
    if problem is None:
        return Check("litellm", True, f"{version('litellm')} is installed")
    # The built-in model does without it; a provider's model says so itself.
    remedy = f"Run: {problem.rpartition('run: ')[2]}"
    return Check("litellm", False, problem, remedy, "warn")


def _models(named: str, environ: Mapping[str, str]) -> Iterator[Check]:
    for name in names_in(named, environ) or (named,):
        failure = check_model(name, environ)
        if failure is not None:
            remedy = str(failure.metadata.get("remedy", ""))
            says = failure.explanation.removesuffix(remedy).strip()
            remedy = remedy or "Choose another model, or 'offline'."
            yield Check("model", False, says, remedy, "error")
        elif name == OFFLINE:
            says = f"{name}, built-in rules and no LLM. {suggestion(environ)}"
            yield Check("model", True, says)
        else:
            yield Check("model", True, f"{name}, {price_in_words(name)}")
            if (credentials.provider_of(name) or "").startswith("ollama"):
                yield _context(environ)
            yield from _endpoint(name, environ)


def _context(environ: Mapping[str, str]) -> Check:
    """Whether somebody has said how long a prompt Ollama takes: it cuts a longer one silently."""
    if "num_ctx" in environ.get(PARAMETERS, "") or environ.get("OLLAMA_CONTEXT_LENGTH"):
        return Check("context", True, "the length of a prompt is set")
    says = "Ollama cuts a prompt silently at its num_ctx, often 4,096 tokens; a turn needs more"
    remedy = f"Set {PARAMETERS}=num_ctx=16384, or OLLAMA_CONTEXT_LENGTH for the server."
    return Check("context", False, says, remedy, "warn")


def _endpoint(model: str, environ: Mapping[str, str]) -> Iterator[Check]:
    """Whether the address of the model's server can be one, and, on this machine, listens."""
    base = credentials.base_of({"model": model}, environ)
    if base is None:
        return
    # No name, password or key.
    shown = re.sub(r"^([^/]*//)?[^/]*@", r"\1", re.split("[?#]", base)[0])
    if not base.lower().startswith(("http://", "https://")):
        remedy = "Write it with http:// or https:// before it."
        yield Check("endpoint", False, f"{shown} is no address of a server", remedy, "error")
    elif not credentials.is_loopback(base):
        yield Check("endpoint", True, f"requests go to {shown}")
    elif _listens(base):
        yield Check("endpoint", True, f"something listens at {shown}")
    else:
        provider = credentials.known_provider(model)
        variable = provider.bases[0] if provider and provider.bases else "OPENAI_BASE_URL"
        remedy = f"Start the server, or set {variable} to where it is."
        yield Check("endpoint", False, f"nothing listens at {shown}", remedy, "error")


def _listens(base: str) -> bool:
    try:
        parts = urlsplit(base)
        port = parts.port or (443 if parts.scheme == "https" else 80)
        socket.create_connection((parts.hostname or "", port), _TIMEOUT_S).close()
    except (OSError, ValueError):
        return False
    return True


def _workspace(folder: Path, environ: Mapping[str, str]) -> Check:
    root = find_workspace(folder, environ)
    inside = root / ARTIFACT_FOLDER
    for place in (root, *filter(os.path.lexists, [inside])):
        if not _is_writable(place):
            says = f"{str(place)!r} cannot be written"
            remedy = "Make it writable, or set PARSIMONY_WORKSPACE to another folder."
            return Check("workspace", False, says, remedy, "error")
    return Check("workspace", True, str(inside))


def _is_writable(place: Path) -> bool:
    return place.is_dir() and os.access(place, os.W_OK | os.X_OK)


def _signing_key(environ: Mapping[str, str]) -> Check:
    from jupyter_core.paths import jupyter_data_dir

    folder = Path(jupyter_data_dir()) / "parsimony" / "keys"
    file = folder / keyring.FILE
    given = bool(environ.get(keyring.ENVIRONMENT_VARIABLE, "").strip())
    # The keyring creates the key that it is asked for; so it is asked only where there is one.
    if not given and not (file.is_file() and file.stat().st_size):
        there = next(place for place in (folder, *folder.parents) if place.exists())
        if _is_writable(there):
            return Check("signing key", True, f"will be created on first use in {folder}")
        says = f"none, and {str(there)!r} cannot be written"
        remedy = "Make it writable, or set PARSIMONY_SUSPENSION_SECRET to a secret of your own."
        return Check("signing key", False, says, remedy, "error")
    try:
        key = keyring.Keyring.open(folder, environ).current()
    except keyring.KeyringError as exc:
        remedy = "See: jupyter parsimony keys list"
        return Check("signing key", False, str(exc), remedy, "error")
    if os.name == "posix" and not given and file.stat().st_mode & 0o077:
        remedy = f"Run: chmod 600 {str(file)!r}"
        return Check("signing key", False, f"{file} can be read by others", remedy, "warn")
    return Check("signing key", True, key.key_id)
