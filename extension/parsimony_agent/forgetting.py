"""The sub-commands that make later turns know less: of one turn, or of all that was."""

from parsimony_agent.desk import Desk, Told
from parsimony_kernel.session.turns import TurnSummary, resolve_turn

_ON_DISK = (
    "Variables, files and what is published stay as they are. The text stays on this disk until "
    "it is purged: jupyter parsimony purge --older-than 30d"
)


def forget(desk: Desk, named: str) -> Told:
    """Forget one turn, and say what stays. ``SessionError`` when ``named`` means none."""
    session = desk.session
    turn = resolve_turn(session.turns(), named)
    session.forget(turn.turn_id)
    return "\n".join(
        [
            f"Turn {turn.ordinal} is forgotten: later turns are told nothing of it, and what it "
            "published is listed no more.",
            *(["Its question waits no more."] if turn.status == "suspended" else []),
            _ON_DISK,
        ]
    )


def reset(desk: Desk, *, yes: bool = False) -> Told:
    """Begin anew: no earlier turns, no own tools, the first model. Without ``yes``, say so only."""
    session = desk.session
    tools = tuple(session.tools)
    if yes:
        told = f"{_count(session.reset())} forgotten. The model is {session.model_name}."
        return "\n".join([told, *_taken_away("No longer tools", tools), _ON_DISK])
    would = [turn for turn in session.turns() if _can_be_forgotten(turn)]
    return "\n".join(
        [
            f"This would forget {_count(len(would))} and go back to the model that the notebook "
            f"began with; it is {session.model_name} now.",
            *_taken_away("Would be tools no more", tools),
            _ON_DISK,
            f"To do it: {desk.magic} reset --yes",
        ]
    )


def _can_be_forgotten(turn: TurnSummary) -> bool:
    return turn.status not in ("running", "forgotten")


def _taken_away(what: str, tools: tuple[str, ...]) -> list[str]:
    return [f"{what}: {', '.join(tools)}."] if tools else []


def _count(turns: int) -> str:
    return "1 turn" if turns == 1 else f"{turns} turns"
