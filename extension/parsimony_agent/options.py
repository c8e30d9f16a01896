"""What a turn is run with: what its cell says, else what is set, else what is usual."""

from typing import Any, TypeVar

from traitlets import TraitError

from parsimony_agent.arguments import CellRequest
from parsimony_agent.pending import Misuse, TurnError
from parsimony_agent.settings import ParsimonyAgent
from parsimony_kernel.agent.outputs import AgentResult
from parsimony_kernel.gate.approval import Approval
from parsimony_kernel.llm.cassette_mode import CassetteMode
from parsimony_kernel.notebook.turns import TurnOptions

T = TypeVar("T")


def options_of(request: CellRequest, settings: ParsimonyAgent) -> TurnOptions:
    """The options of the turn of ``request``.

    Where neither the cell nor a setting names a model, it is the notebook's. ``TurnError`` when a
    setting cannot be meant.
    """

    def chosen(name: str, said: T | None) -> T | None:
        return value_of(settings, name) if said is None else said

    def cassette(said: str | None) -> CassetteMode | None:
        mode = CassetteMode(chosen("cassette", said) or "off")
        return None if mode is CassetteMode.off else mode

    said = "record" if request.record else "replay" if request.replay else None
    return TurnOptions(
        model=request.model,
        max_iterations=chosen("max_steps", request.max_iterations),
        max_time_s=chosen("max_time", request.max_time_s),
        max_tokens=chosen("max_tokens", request.max_tokens),
        max_cost_usd=chosen("budget", request.max_cost_usd),
        approve=Approval(chosen("approve", request.approve) or "guarded"),
        procedure=chosen("procedure", request.procedure),
        cassette=cassette(said),
    )


def value_of(settings: ParsimonyAgent, name: str) -> Any:
    """The value of a setting. ``TurnError`` when it cannot be meant."""
    try:
        return settings.value(name)
    except TraitError as wrong:
        raise TurnError(f"{wrong} See %agent config.") from None


def check_target(name: str, variables: dict[str, Any], magic: str) -> None:
    """Whether the result of a turn can be bound to ``name``. ``Misuse`` says why not."""
    if not name.isidentifier() or name.startswith("_"):
        raise Misuse(f"{magic} -o takes the name of a variable, and got {name!r}.")
    if name in variables and not isinstance(variables[name], AgentResult):
        raise Misuse(
            f"{magic} -o {name} would overwrite your variable {name!r}. Name another one, or "
            f"delete it first: del {name}"
        )
