"""Procedures: a state machine of a task, whose edges are the allowed actions.

A procedure is validated as a whole when it is built. The agent can only follow its edges; plan
tools and terminal tools that no edge names are allowed in any state. Actions of a procedure run one
at a time.
"""

import hashlib
import inspect
import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from parsimony_kernel.core.cancellation import Cancelled
from parsimony_kernel.core.causes import GUARD_BROKEN, NOT_REACHABLE
from parsimony_kernel.core.errors import SessionError
from parsimony_kernel.core.fuzzy import suggestion
from parsimony_kernel.core.kinds import Failure
from parsimony_kernel.gate.stages import Attempt, CheckError, run_check
from parsimony_kernel.tools import Tools, is_bool

Guard = Callable[[], bool]

# Metadata key of a failure whose message quotes a guard's exception.
QUOTES_A_GUARD = "quotes_a_guard"


class ProcedureError(SessionError, ValueError):
    """An invalid procedure. ``problems`` has a sentence for each problem."""

    def __init__(self, name: str, problems: Iterable[str]) -> None:
        self.problems = tuple(problems)
        super().__init__(f"procedure {name!r}: " + " ".join(self.problems))


@dataclass(frozen=True)
class Edge:
    """Transition by ``action`` from ``source`` to ``target`` while its guard holds.

    ``guard`` is a name in the procedure's ``guards``. ``place`` is the edge's file and line.
    """

    action: str
    source: str
    target: str
    guard: str | None = None
    place: str | None = field(default=None, compare=False)


@dataclass(frozen=True)
class Procedure:
    """State machine of a task.

    Args:
        name: the procedure's name, for messages and the digest.
        states: all states.
        start: the initial state.
        final: the states in which the work is done, at least one.
        edges: transitions; of several for one action in one state, the first whose guard holds is
            taken.
        guards: functions without arguments that return ``True`` or ``False``, by name. They run
            before the action, and whenever the possible actions are listed; each has two seconds.

    Raises:
        ProcedureError: unknown states, no final state, dead ends, or invalid guards.
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
        """Hash of the definition, including the names of the guards."""
        edges = [[edge.action, edge.source, edge.target, edge.guard] for edge in self.edges]
        written = json.dumps([self.name, self.states, self.start, self.final, edges])
        return hashlib.sha256(written.encode()).hexdigest()

    def check_actions(self, known: Collection[str]) -> None:
        """Raise ``ProcedureError`` if an action is none of the ``known`` tools."""
        self._refuse(
            _unknown(place, "tool", edge.action, known, "register it")
            for place, edge in _placed(self)
            if edge.action not in known
        )

    def leading_on(self, state: str, action: str | None = None) -> tuple[Edge, ...]:
        """Return the edges from ``state``, only those of ``action`` if given; closed ones too."""
        return tuple(e for e in self.edges if e.source == state and action in (None, e.action))

    def is_open(self, edge: Edge) -> bool | str:
        """Evaluate the edge's guard.

        Returns:
            Whether the edge can be taken now, or the reason why its guard gave no answer. That text
            is truthy on purpose: the action stays listed as possible, requesting it reports the
            broken guard, and the state doesn't look finished.
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
    """Position of a run in its procedure, if it has one, and whether the run is over.

    ``state`` is a recorded ``place``, or empty at the start.
    """

    procedure: Procedure | None = None
    state: str = ""
    is_over: bool = False
    _admitted: Edge | None = field(default=None, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        self.state = self.state or ("running" if self.procedure is None else self.procedure.start)

    def valid_next_actions(self, tools: Tools) -> tuple[str, ...]:
        """Return the actions that may be requested here; none only when the run is over.

        In a procedure: the actions of open edges, in the order of the edges, then the tools that no
        edge names and that plan or end the run.
        """
        if self.is_over or self.procedure is None:
            return () if self.is_over else tuple(tools)
        edges = self.procedure.leading_on(self.state)
        onward = (e.action for e in edges if e.action in tools and self.procedure.is_open(e))
        return (*dict.fromkeys(onward), *_free(self.procedure, tools))

    def stage(self, attempt: Attempt) -> Failure | None:
        """Refuse an action after the run has ended, or one without an open edge from this state.

        The first open edge is stored for ``advance``, so the action can't change the outcome of the
        guards.
        """
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
        """State for the record; empty without a procedure."""
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
    reason = f"the guard {edge.guard!r} {why}"
    blocker = f"{reason}{where}; fix the guard, or remove it from the edge"
    return GUARD_BROKEN.failure(
        f"the procedure {procedure.name!r} cannot tell whether {edge.action!r} is reachable: "
        f"{blocker}. Nothing was run.",
        blockers=(blocker,),
        envelope={"reason": reason, "details": {"guard": edge.guard}},
        quotes_a_guard=True,
    )


# -- validation of a procedure


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
    """Return the edges, each with its location for messages."""
    return [(e.place or f"edge {number}", e) for number, e in enumerate(procedure.edges, start=1)]


def _unknown(place: str, what: str, name: str, known: Iterable[str], otherwise: str) -> str:
    return f"{place}: there is no {what} {name!r}; {suggestion(name, known)}, or {otherwise}."
