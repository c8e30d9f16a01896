"""What may be done after what: states, and the actions that lead from one to the next.

A procedure is checked whole when it is built. The agent can only walk its edges; a terminal tool
that no edge names may be used anywhere. Actions of a procedure run one at a time.
"""

import hashlib
import inspect
import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from parsimony_kernel.core.cancellation import Cancelled
from parsimony_kernel.core.causes import GUARD_BROKEN, NOT_REACHABLE
from parsimony_kernel.core.fuzzy import suggestion
from parsimony_kernel.core.kinds import Failure
from parsimony_kernel.gate.stages import Attempt, CheckError, run_check
from parsimony_kernel.tools import Tools, is_bool

Guard = Callable[[], bool]

# The key of a failure's metadata which says that its words quote what a guard raised.
QUOTES_A_GUARD = "quotes_a_guard"


class ProcedureError(ValueError):
    """A procedure that cannot be walked as it is written. ``problems`` has a sentence for each."""

    def __init__(self, name: str, problems: Iterable[str]) -> None:
        self.problems = tuple(problems)
        super().__init__(f"procedure {name!r}: " + " ".join(self.problems))


@dataclass(frozen=True)
class Edge:
    """``action`` leads from ``source`` to ``target`` while its guard holds.

    ``guard`` is a name in the procedure's ``guards``. ``place`` is where the edge is written.
    """

    action: str
    source: str
    target: str
    guard: str | None = None
    place: str | None = field(default=None, compare=False)


@dataclass(frozen=True)
class Procedure:
    """States, and edges between them.

    Args:
        start: the state in which a walk begins.
        final: the states in which the work is done, at least one.
        edges: of several for one action in one state, the first whose guard holds is taken.
        guards: functions without arguments that answer ``True`` or ``False``, by name. They are
            asked before the action, and whenever somebody wants to know what is possible; each
            has two seconds.

    Raises:
        ProcedureError: states that are unknown, no final one, guards that do not exist.
    """

    name: str
    states: tuple[str, ...]
    start: str
    final: tuple[str, ...]
    edges: tuple[Edge, ...]
    guards: Mapping[str, Guard] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._refuse(_problems(self))

    def _refuse(self, problems: Iterable[str]) -> None:
        if found := tuple(problems):
            raise ProcedureError(self.name, found)

    @property
    def digest(self) -> str:
        """A hash of the definition, names of the guards included."""
        edges = [[edge.action, edge.source, edge.target, edge.guard] for edge in self.edges]
        written = json.dumps([self.name, self.states, self.start, self.final, edges])
        return hashlib.sha256(written.encode()).hexdigest()

    def check_actions(self, known: Collection[str]) -> None:
        """``ProcedureError`` when an action is none of the ``known`` tools."""
        self._refuse(
            _unknown(place, "tool", edge.action, known, "register it")
            for place, edge in _placed(self)
            if edge.action not in known
        )

    def leading_on(self, state: str, action: str | None = None) -> tuple[Edge, ...]:
        """The edges from ``state``, of ``action`` alone where it is given; closed ones too."""
        return tuple(e for e in self.edges if e.source == state and action in (None, e.action))

    def is_open(self, edge: Edge) -> bool | str:
        """Whether the edge can be taken now; why that cannot be told, where its guard is at fault.

        One that may be open counts as open to whoever asks what is possible: asking for it says
        what is wrong, and a state with a broken guard is not one in which all is done.
        """
        if edge.guard is None:
            return True
        try:
            answer = run_check(self.guards[edge.guard])
        except (CheckError, Cancelled) as exc:
            return str(exc)
        if not is_bool(answer):
            return f"gave {type(answer).__name__}, not True or False"
        return bool(answer)


@dataclass
class Walker:
    """Where a run stands: in its procedure, if it has one, and whether it is over.

    ``state`` is a ``place`` on record, or empty at the start.
    """

    procedure: Procedure | None = None
    state: str = ""
    is_over: bool = False
    _admitted: Edge | None = field(default=None, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        self.state = self.state or ("running" if self.procedure is None else self.procedure.start)

    def valid_next_actions(self, tools: Tools) -> tuple[str, ...]:
        """What may be requested here; nothing only when the run is over.

        In a procedure the actions that lead on, in the order of the edges, then the free tools:
        those that end the run, and the plan.
        """
        if self.is_over or self.procedure is None:
            return () if self.is_over else tuple(tools)
        edges = self.procedure.leading_on(self.state)
        onward = (e.action for e in edges if e.action in tools and self.procedure.is_open(e))
        return (*dict.fromkeys(onward), *_free(self.procedure, tools))

    def stage(self, attempt: Attempt) -> Failure | None:
        """The action is possible now: nothing runs after the run has ended, and in a procedure it
        leads on from here. The first open edge is the one that ``advance`` takes, whatever the
        action does to the guards meanwhile."""
        action, walked, self._admitted = attempt.action, self.procedure, None
        if self.is_over:
            return NOT_REACHABLE.failure(
                f"{action!r} is not reachable: the run has ended. Nothing was run."
            )
        if walked is None or action in _free(walked, attempt.tools):
            return None
        edges = walked.leading_on(self.state, action)
        for edge in edges:
            is_open = walked.is_open(edge)
            if isinstance(is_open, str):
                return _broken(walked, edge, is_open)
            if is_open:
                self._admitted = edge
                return None
        fields: dict[str, Any] = {}
        if edges:
            guards = " and ".join(repr(edge.guard) for edge in edges)
            fields["reason"] = f"in state {self.state!r} it is closed until {guards} holds"
        return NOT_REACHABLE.failure(
            f"action {action!r} is not reachable from current state. "
            f"Valid actions now: {list(self.valid_next_actions(attempt.tools))}.",
            envelope=fields,
        )

    def advance(self, action: str) -> None:
        """Move on after ``action`` succeeded, if it was admitted."""
        edge, self._admitted = self._admitted, None
        if edge is not None and edge.action == action:
            self.state = edge.target

    @property
    def place(self) -> str:
        """The state, for a record; empty without a procedure."""
        return "" if self.procedure is None else self.state


def _free(procedure: Procedure, tools: Tools) -> tuple[str, ...]:
    named = {edge.action for edge in procedure.edges}
    return tuple(
        name
        for name, tool in tools.items()
        if (tool.terminal or tool.tool_type == "plan") and name not in named
    )


def _broken(procedure: Procedure, edge: Edge, why: str) -> Failure:
    where = f" ({edge.place})" if edge.place else ""
    said = f"the guard {edge.guard!r} {why}"
    blocker = f"{said}{where}; mend the guard, or take it off the edge"
    return GUARD_BROKEN.failure(
        f"the procedure {procedure.name!r} cannot tell whether {edge.action!r} is reachable: "
        f"{blocker}. Nothing was run.",
        blockers=(blocker,),
        envelope={"reason": said, "details": {"guard": edge.guard}},
        quotes_a_guard=True,
    )


# -- what is wrong with a procedure


def _problems(procedure: Procedure) -> Iterator[str]:
    if not procedure.final:
        yield "final: no state is final; name the state in which the work is done."
    named = [("start", procedure.start), *(("final", state) for state in procedure.final)]
    placed = _placed(procedure)
    for place, edge in placed:
        named += [(f"{place}, from", edge.source), (f"{place}, to", edge.target)]
    for place, state in named:
        if state not in procedure.states:
            yield _unknown(place, "state", state, procedure.states, "add it to the states")
    leaving = {edge.source for edge in procedure.edges} | set(procedure.final)
    for state in procedure.states if procedure.final else ():
        if state not in leaving:
            yield f"states: {state!r} is a dead end; add an edge that leads on, or make it final."
    for place, edge in placed:
        if edge.guard is not None and edge.guard not in procedure.guards:
            yield _unknown(place, "guard", edge.guard, procedure.guards, "define it")
        elif edge.guard is not None and inspect.iscoroutinefunction(procedure.guards[edge.guard]):
            yield f"{place}: the guard {edge.guard!r} is no plain function without arguments."


def _placed(procedure: Procedure) -> list[tuple[str, Edge]]:
    """The edges, each with where it stands."""
    return [(e.place or f"edge {number}", e) for number, e in enumerate(procedure.edges, start=1)]


def _unknown(place: str, what: str, name: str, known: Iterable[str], otherwise: str) -> str:
    return f"{place}: there is no {what} {name!r}; {suggestion(name, known)}, or {otherwise}."
