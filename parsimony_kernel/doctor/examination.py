"""All looks, in the order in which a person would mend what they find."""

import os
from collections.abc import Mapping
from pathlib import Path

from parsimony_kernel.doctor import installed, models, network, place
from parsimony_kernel.doctor.finding import Finding

_TIMEOUT_S = 5.0


def examine(
    folder: Path,
    environ: Mapping[str, str] = os.environ,
    model: str | None = None,
    ask: bool = False,
    *,
    timeout_s: float = _TIMEOUT_S,
) -> tuple[Finding, ...]:
    """All findings for notebooks in ``folder``.

    Args:
        model: the model to look at; that of the environment when it is ``None``.
        ask: ask the model's endpoint for its list of models, for ``timeout_s`` seconds.
    """
    return (
        *installed.findings(environ),
        *models.findings(model, environ, ask=ask, timeout_s=timeout_s),
        *network.findings(environ),
        *place.findings(folder, environ),
    )
