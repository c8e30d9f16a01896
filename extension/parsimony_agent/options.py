"""Resolve the options of a turn: the cell's flags, else the settings, else the defaults."""

from typing import Any

from parsimony_agent.arguments import CellRequest
from parsimony_agent.pending import Misuse
from parsimony_agent.settings import ParsimonyAgent
from parsimony_kernel.core.events import AgentResult
from parsimony_kernel.gate.approval import Approval
from parsimony_kernel.llm.cassette_mode import CassetteMode
from parsimony_kernel.session.share import Share
from parsimony_kernel.session.turn_values import TurnOptions


def options_of(request: CellRequest, settings: ParsimonyAgent) -> TurnOptions:
    """Return the options for the turn of ``request``.

    The model is ``None``, hence the notebook's, unless the cell names one.

    Raises:
        TurnError: a setting is invalid.
    """

    flags = request.flags

    def chosen(name: str) -> Any:
        return flags[name] if name in flags else settings.value(name)

    modes = [name for name in ("record", "replay") if name in flags]
    cassette = CassetteMode(modes[0] if modes else settings.value("cassette"))
    return TurnOptions(
        model=flags.get("model"),
        effort=flags.get("effort", ""),
        llm_timeout_s=settings.value("silence"),
        max_iterations=chosen("max_steps"),
        max_execution_time_s=chosen("max_time"),
        max_tokens=chosen("max_tokens"),
        max_cost_usd=chosen("budget"),
        approve=Approval(chosen("approve")),
        procedure=chosen("procedure") or "",
        cassette=None if cassette is CassetteMode.off else cassette,
        share=Share(chosen("share")),
        share_figures=settings.value("share_figures") == "yes",
        claims=settings.value("claims"),
    )


def check_target(name: str, variables: dict[str, Any], magic: str) -> None:
    """Check that the result of a turn can be bound to ``name``.

    Raises:
        Misuse: it is no public identifier, or a variable of the user has that name.
    """
    if not name.isidentifier() or name.startswith("_"):
        raise Misuse(f"{magic} -o takes the name of a variable, and got {name!r}.")
    if name in variables and not isinstance(variables[name], AgentResult):
        raise Misuse(
            f"{magic} -o {name} would overwrite your variable {name!r}. Name another one, or "
            f"delete it first: del {name}"
        )
