"""What a turn is run with: what its cell says, else what is set, else what is usual."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from parsimony_agent.arguments import CellRequest, nearest
from parsimony_agent.cell import Session, known_names
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
        notebook_cost_usd=settings.value("notebook_budget"),
        classifier=settings.value("classifier"),
        claims=settings.value("claims"),
    )


def in_notebook(options: TurnOptions, session: Session, shell: Any, magic: str) -> TurnOptions:
    """``options`` for the notebook of ``session``, the names of its context as they are there.

    ``Misuse`` says which is not there, and what is.
    """
    if not options.context:
        return options
    known = known_names(session, shell)
    return replace(options, context=tuple(_found(options.context, known, magic)))


def _found(names: Sequence[str], known: Iterable[str], magic: str) -> Iterator[str]:
    # A title may have commas of its own.
    by_parts = {",".join(map(str.strip, name.split(","))): name for name in known}
    rest = ",".join(names)
    while rest:
        fitting = [each for each in by_parts if f"{rest},".startswith(f"{each},")]
        if not fitting:
            raise Misuse(_unknown(rest.partition(",")[0], tuple(by_parts.values()), magic))
        longest = max(fitting, key=len)
        yield by_parts[longest]
        rest = rest[len(longest) + 1 :]


def _unknown(name: str, known: Sequence[str], magic: str) -> str:
    said = f"{magic} --context got {name!r}, which is no variable, data file or title here."
    if not known:
        return f"{said} There is none yet."
    more = f" and {len(known) - _MOST_LISTED} more" if len(known) > _MOST_LISTED else ""
    return f"{said}{nearest(name, known)} There are: {', '.join(known[:_MOST_LISTED])}{more}."


def check_target(name: str, variables: dict[str, Any], magic: str) -> None:
    """Whether the result of a turn can be bound to ``name``. ``Misuse`` says why not."""
    if not name.isidentifier() or name.startswith("_"):
        raise Misuse(f"{magic} -o takes the name of a variable, and got {name!r}.")
    if name in variables and not isinstance(variables[name], AgentResult):
        raise Misuse(
            f"{magic} -o {name} would overwrite your variable {name!r}. Name another one, or "
            f"delete it first: del {name}"
        )
