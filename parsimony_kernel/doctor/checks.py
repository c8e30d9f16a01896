"""Health checks of a run's requirements, each with a remedy.

Checks change nothing and send nothing.
"""

import os
import re
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from typing import Literal

from parsimony_kernel import KERNEL_NAME
from parsimony_kernel.agent.resolve import PARAMETERS, check_model, names_in
from parsimony_kernel.core.chat import OFFLINE
from parsimony_kernel.llm.providers import price_in_words, provider_of, suggestion

_INSTALL = "Run: jupyter parsimony install"
# Jupyter starts its own interpreter for these.
_ANY_PYTHON = re.compile(r"python(3(\.\d+)?)?")


@dataclass(frozen=True)
class Check:
    """The result of one check.

    ``remedy`` says what to do unless the check is ``ok``. ``warn`` doesn't prevent a run; ``error``
    does.
    """

    name: str
    ok: bool
    says: str
    remedy: str = ""
    level: Literal["error", "warn", "info"] = "info"


def run_checks(
    environ: Mapping[str, str] = os.environ, model: str | None = None
) -> tuple[Check, ...]:
    """Run all checks, in the order in which a person would fix them.

    Args:
        environ: Environment variables.
        model: The model to check; by default that of the environment.
    """
    named = model or environ.get("PARSIMONY_MODEL") or OFFLINE
    return (_kernel(), _litellm(), *_models(named, environ))


def to_text(checks: Iterable[Check]) -> str:
    """Render one line per check, followed by its remedy."""
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
    # The built-in model doesn't need it; the check of an LLM reports it itself.
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
            if (provider_of(name) or "").startswith("ollama"):
                yield _context(environ)


def _context(environ: Mapping[str, str]) -> Check:
    """Check that Ollama's context length is set: it truncates longer prompts silently."""
    if "num_ctx" in environ.get(PARAMETERS, "") or environ.get("OLLAMA_CONTEXT_LENGTH"):
        return Check("context", True, "the length of a prompt is set")
    says = "Ollama cuts a prompt silently at its num_ctx, often 4,096 tokens; a turn needs more"
    remedy = f"Set {PARAMETERS}=num_ctx=16384, or OLLAMA_CONTEXT_LENGTH for the server."
    return Check("context", False, says, remedy, "warn")
