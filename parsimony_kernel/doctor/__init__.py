"""Checks of what a run needs, each with a remedy.

Nothing is changed. Nothing leaves the machine unless it is asked for.
"""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from parsimony_kernel.doctor import machine, models
from parsimony_kernel.doctor.machine import Check

__all__ = ["Check", "run_checks", "to_text"]


def run_checks(
    folder: Path,
    environ: Mapping[str, str] = os.environ,
    model: str | None = None,
    ask: bool = False,
    *,
    timeout_s: float = 5.0,
) -> tuple[Check, ...]:
    """All checks for notebooks in ``folder``, in the order in which a person would mend them.

    Args:
        model: the model to check; that of the environment when it is ``None``.
        ask: ask the model's endpoint for its list of models.
        timeout_s: seconds to wait for the endpoint.
    """
    return (
        *machine.installed(environ),
        *models.checks(model, environ, ask=ask, timeout_s=timeout_s),
        machine.proxy(environ),
        *(machine.certificates(n, environ[n]) for n in machine.CERTIFICATES if environ.get(n)),
        machine.workspace(folder, environ),
        machine.key(environ),
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
