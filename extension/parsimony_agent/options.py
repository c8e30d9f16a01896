"""What a turn is run with: what its cell says, else what is set, else what is usual."""

from typing import Any

from parsimony_agent.arguments import CellRequest, nearest
from parsimony_agent.cell import Session, locate
from parsimony_agent.pending import Misuse
from parsimony_agent.settings import ParsimonyAgent
from parsimony_kernel.core.results import AgentResult
from parsimony_kernel.gate.approval import Approval
from parsimony_kernel.llm.cassette_mode import CassetteMode
from parsimony_kernel.session.share import Share
from parsimony_kernel.session.turns import TurnOptions

_MOST_LISTED = 20


def options_of(request: CellRequest, settings: ParsimonyAgent) -> TurnOptions:
    """The options of the turn of ``request``.

    Where neither the cell nor a setting names a model, it is the notebook's. ``TurnError`` when a
    setting cannot be meant, ``Misuse`` when names are to be told and nothing is.
    """

    flags = request.flags

    def chosen(name: str) -> Any:
        return flags[name] if name in flags else settings.value(name)

    share = Share(chosen("share"))
    if share is Share.none and "context" in flags:
        raise Misuse(
            "--context names what the model is to be told of, and --share none tells it nothing: "
            "use --share schema with it."
        )
    said = [name for name in ("record", "replay") if name in flags]
    cassette = CassetteMode(said[0] if said else settings.value("cassette"))
    return TurnOptions(
        model=flags.get("model"),
        effort=flags.get("effort", ""),
        silence_s=settings.value("silence"),
        max_iterations=chosen("max_steps"),
        max_time_s=chosen("max_time"),
        max_tokens=chosen("max_tokens"),
        max_cost_usd=chosen("budget"),
        approve=Approval(chosen("approve")),
        procedure=chosen("procedure"),
        cassette=None if cassette is CassetteMode.off else cassette,
        share=share,
        context=() if "no_context" in flags else flags.get("context"),
        share_figures=settings.value("share_figures") == "yes",
        claims=settings.value("claims"),
    )


def check_context(options: TurnOptions, session: Session, shell: Any, magic: str) -> None:
    """Whether the names of the context are in the notebook. ``Misuse`` says which is not there, and
    what is: variables, data files, and the titles of what is published."""
    if not options.context:
        return
    from parsimony_kernel.session.inventory import data_files

    titles = (artifact.title for artifact in session.artifacts())
    names = (*session.executor.variables(), *data_files(locate(shell).parent), *titles)
    known = list(dict.fromkeys(names))
    for name in options.context:
        if name not in known:
            rest = len(known) - _MOST_LISTED
            there = (
                f"There are: {', '.join(known[:_MOST_LISTED])}" if known else "There is none yet"
            )
            raise Misuse(
                f"{magic} --context got {name!r}, which is no variable, data file or title here."
                f"{nearest(name, known)} {there}{f' and {rest} more' if rest > 0 else ''}."
            )


def check_target(name: str, variables: dict[str, Any], magic: str) -> None:
    """Whether the result of a turn can be bound to ``name``. ``Misuse`` says why not."""
    if not name.isidentifier() or name.startswith("_"):
        raise Misuse(f"{magic} -o takes the name of a variable, and got {name!r}.")
    if name in variables and not isinstance(variables[name], AgentResult):
        raise Misuse(
            f"{magic} -o {name} would overwrite your variable {name!r}. Name another one, or "
            f"delete it first: del {name}"
        )
