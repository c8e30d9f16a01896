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

from parsimony_kernel.core.causes import GUARD_BROKEN, NOT_REACHABLE
from parsimony_kernel.core.fuzzy import nearest
from parsimony_kernel.core.kinds import Failure
from parsimony_kernel.core.text import words_of
from parsimony_kernel.execution.interrupt import CodeGuard
from parsimony_kernel.gate.stages import Attempt, Stage
from parsimony_kernel.tools import Tools

Guard = Callable[[], bool]

# Of a walk that never ends, as many of its last steps are kept.
MAX_TAKEN = 500
# A guard is asked on the event loop, where everything else waits for it.
GUARD_S = 1.0
# numpy's truth values are what comparisons of data give.
_TRUTHS = frozenset({"bool", "bool_"})


class ProcedureError(ValueError):
    """A procedure that cannot be walked as it is written. ``problems`` has a sentence for each."""

    def __init__(self, name: str, problems: Iterable[str]) -> None:
        self.problems = tuple(problems)
        super().__init__(f"procedure {name!r}: " + " ".join(self.problems))


# The key of a failure's metadata which says that its words quote what a guard raised.
QUOTES_A_GUARD = "quotes_a_guard"


class GuardError(Exception):
    """A guard gave no answer. The procedure is at fault; whether its edge is open is not known."""

    def __init__(self, edge: "Edge", why: str) -> None:
        super().__init__(f"the guard {edge.guard!r} of {edge} {why}")
        self.edge = edge
        self.why = why


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

    def __str__(self) -> str:
        return f"{self.action!r} from {self.source!r} to {self.target!r}"


@dataclass(frozen=True)
class Procedure:
    """States, and edges between them.

    Args:
        start: the state in which a walk begins.
        final: the states in which the work is done, at least one.
        edges: of several for one action in one state, the first whose guard holds is taken.
        guards: functions without arguments that answer ``True`` or ``False``, by name. They are
            asked before the action, and whenever somebody wants to know what is possible; each
            has ``GUARD_S`` seconds.

    Raises:
        ProcedureError: states that are unknown or unreachable, states without a way to a final
            one, edges that stand twice or can never be taken, guards that do not exist.
    """

    name: str
    states: tuple[str, ...]
    start: str
    final: tuple[str, ...]
    edges: tuple[Edge, ...]
    guards: Mapping[str, Guard] = field(default_factory=dict)

    def __post_init__(self) -> None:
        problems = list(_problems(self))
        if problems:
            raise ProcedureError(self.name, problems)

    @property
    def actions(self) -> tuple[str, ...]:
        """Every action that an edge names, in the order of the edges."""
        return tuple(dict.fromkeys(edge.action for edge in self.edges))

    @property
    def digest(self) -> str:
        """A hash of the definition, names of the guards included."""
        edges = [[edge.action, edge.source, edge.target, edge.guard] for edge in self.edges]
        written = json.dumps([self.name, self.states, self.start, self.final, edges])
        return hashlib.sha256(written.encode()).hexdigest()

    def check_actions(self, known: Collection[str]) -> None:
        """``ProcedureError`` when an action is none of the ``known`` tools."""
        problems = [
            f"{_place(self, number)}: there is no tool {edge.action!r}; "
            f"{_choose(edge.action, known)}, or register it."
            for number, edge in enumerate(self.edges)
            if edge.action not in known
        ]
        if problems:
            raise ProcedureError(self.name, problems)

    def edge(self, action: str, state: str) -> Edge | None:
        """The edge that ``action`` takes from ``state`` now, if any.

        ``GuardError`` when it cannot be told.
        """
        for edge in self._from(state):
            if edge.action == action and self._holds(edge):
                return edge
        return None

    def closed(self, action: str, state: str) -> tuple[Edge, ...]:
        """The edges for ``action`` in ``state`` that their guards may close."""
        return tuple(edge for edge in self._from(state) if edge.action == action)

    def valid_next_actions(self, state: str) -> tuple[str, ...]:
        """The actions that lead on from ``state`` now, in the order of the edges.

        An action whose guard gives no answer is among them: asking for it says what is wrong, and
        a state with a broken guard is not one in which all is done.
        """
        return tuple(dict.fromkeys(edge.action for edge in self._from(state) if self._may(edge)))

    def _from(self, state: str) -> tuple[Edge, ...]:
        return tuple(edge for edge in self.edges if edge.source == state)

    def _may(self, edge: Edge) -> bool:
        try:
            return self._holds(edge)
        except GuardError:
            return True

    def _holds(self, edge: Edge) -> bool:
        if edge.guard is None:
            return True
        guard = CodeGuard(GUARD_S)
        raised: BaseException | None = None
        kind, answer = "", False
        try:
            with guard:
                guard.check()
                kind, answer = guard.call(_answered, self.guards[edge.guard])
        except BaseException as exc:  # boundary: tool - a guard may swallow its end
            raised = exc
        if guard.reason is not None:
            late = guard.reason == "deadline"
            why = f"gave no answer within {GUARD_S:g} s" if late else "was stopped"
            raise GuardError(edge, why) from raised
        if raised is not None:
            said = ": ".join(filter(None, (type(raised).__name__, words_of(raised))))
            raise GuardError(edge, f"raised {said}") from raised
        if kind not in _TRUTHS:
            raise GuardError(edge, f"gave {kind}, not True or False")
        return answer


def _answered(guard: Guard) -> tuple[str, bool]:
    answer = guard()
    kind = type(answer).__name__
    return kind, kind in _TRUTHS and bool(answer)


@dataclass
class Walker:
    """Where a run stands in its procedure, and the actions that led there."""

    procedure: Procedure
    state: str = ""
    taken: tuple[str, ...] = ()
    _admitted: Edge | None = field(default=None, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        self.state = self.state or self.procedure.start

    def valid_next_actions(self, tools: Tools) -> tuple[str, ...]:
        """What may be requested here: actions that lead on, then the free tools: those
        that end the run, and the plan."""
        onward = self.procedure.valid_next_actions(self.state)
        return (*(name for name in onward if name in tools), *_free(self.procedure, tools))

    def admit(self, action: str) -> Edge | None:
        """The edge that ``action`` may take now; ``advance`` will take this one.

        ``GuardError`` when it cannot be told.
        """
        self._admitted = None
        self._admitted = self.procedure.edge(action, self.state)
        return self._admitted

    def advance(self, action: str) -> str:
        """Move on after ``action`` succeeded; the new state. A terminal tool may move nothing.

        The edge is the admitted one: what the action did may have changed what the guards say.
        ``ValueError`` when the procedure names ``action`` and it was not admitted.
        """
        edge, self._admitted = self._admitted, None
        if edge is not None and edge.action == action and edge.source == self.state:
            self.state = edge.target
            self.taken = (*self.taken, action)[-MAX_TAKEN:]
        elif action in self.procedure.actions:
            raise ValueError(f"{action!r} was not admitted in state {self.state!r}; admit it first")
        return self.state

    def to_json(self) -> dict[str, Any]:
        """What ``from_json`` takes, JSON-able."""
        return {
            "procedure": self.procedure.name,
            "digest": self.procedure.digest,
            "state": self.state,
            "taken": list(self.taken),
        }

    @classmethod
    def at(cls, procedure: Procedure, place: str) -> "Walker":
        """The walker at ``place``, as a gate wrote it down; at the start where that is empty.

        ``ProcedureError`` as for ``from_json``.
        """
        return cls.from_json(procedure, json.loads(place)) if place else cls(procedure)

    @classmethod
    def from_json(cls, procedure: Procedure, kept: Mapping[str, Any]) -> "Walker":
        """The walker that was kept.

        ``ProcedureError`` when ``procedure`` is not the one that it walked.
        """
        if kept.get("digest") != procedure.digest:
            raise ProcedureError(
                procedure.name,
                [
                    f"The run walks {kept.get('procedure')!r} as it was written when the run was "
                    "suspended; resume with that file, or start a new run."
                ],
            )
        state = kept.get("state")
        if state not in procedure.states:
            raise ProcedureError(procedure.name, [f"It has no state {state!r}; start a new run."])
        return cls(procedure, state, tuple(str(action) for action in kept.get("taken", ())))


def reachable_in(walker: Walker) -> Stage:
    """The action leads on from where ``walker`` stands.

    Stands behind ``stages.reachable``, which knows whether the run is over. Call
    ``walker.advance`` once the action has succeeded.
    """

    def stage(attempt: Attempt) -> Failure | None:
        if attempt.action in _free(walker.procedure, attempt.tools):
            return None
        try:
            if walker.admit(attempt.action) is not None:
                return None
        except GuardError as exc:
            return _broken(walker.procedure, exc)
        return _unreachable(walker, attempt)

    return stage


def _free(procedure: Procedure, tools: Tools) -> tuple[str, ...]:
    named = set(procedure.actions)
    return tuple(
        name
        for name, tool in tools.items()
        if (tool.terminal or tool.tool_type == "plan") and name not in named
    )


def _unreachable(walker: Walker, attempt: Attempt) -> Failure:
    onward = list(walker.valid_next_actions(attempt.tools))
    fields: dict[str, Any] = {}
    closed = walker.procedure.closed(attempt.action, walker.state)
    if closed:
        guards = " and ".join(repr(edge.guard) for edge in closed)
        fields["reason"] = f"in state {walker.state!r} it is closed until {guards} holds"
    return NOT_REACHABLE.failure(
        f"action {attempt.action!r} is not reachable from current state. "
        f"Valid actions now: {onward}.",
        envelope=fields,
    )


def _broken(procedure: Procedure, exc: GuardError) -> Failure:
    where = f" ({exc.edge.place})" if exc.edge.place else ""
    blocker = f"{exc}{where}; mend the guard, or take it off the edge"
    return GUARD_BROKEN.failure(
        f"the procedure {procedure.name!r} cannot tell whether {exc.edge.action!r} is reachable: "
        f"{blocker}. Nothing was run.",
        blockers=(blocker,),
        envelope={
            "reason": f"the guard {exc.edge.guard!r} {exc.why}",
            "details": {"guard": exc.edge.guard},
        },
        quotes_a_guard=True,
    )


def _problems(procedure: Procedure) -> Iterator[str]:
    yield from _doubled_states(procedure)
    unknown = [*_unknown_states(procedure)]
    yield from unknown
    yield from _impossible_edges(procedure)
    yield from _missing_guards(procedure)
    if not unknown:  # what is reachable means little while names are wrong
        yield from _unreachable_states(procedure)
        yield from _dead_ends(procedure)


def _doubled_states(procedure: Procedure) -> Iterator[str]:
    for state in dict.fromkeys(procedure.states):
        if not state.strip():
            yield "states: a state has no name; give it one."
        elif procedure.states.count(state) > 1:
            yield f"states: {state!r} stands twice; leave one out."


def _unknown_states(procedure: Procedure) -> Iterator[str]:
    said = [("start", procedure.start), *(("final", state) for state in procedure.final)]
    for number, edge in enumerate(procedure.edges):
        place = _place(procedure, number)
        said += [(f"{place}, from", edge.source), (f"{place}, to", edge.target)]
    for place, state in said:
        if state not in procedure.states:
            yield (
                f"{place}: there is no state {state!r}; {_choose(state, procedure.states)}, "
                "or add it to the states."
            )
    if not procedure.final:
        yield "final: no state is final; name the state in which the work is done."


def _impossible_edges(procedure: Procedure) -> Iterator[str]:
    earlier: dict[tuple[str, str], list[tuple[int, Edge]]] = {}
    for number, edge in enumerate(procedure.edges):
        place = _place(procedure, number)
        if not edge.action.strip():
            yield f"{place}: the action has no name; name a tool."
        for before, other in earlier.get((edge.action, edge.source), []):
            first = _place(procedure, before)
            if other.guard == edge.guard and other.target == edge.target:
                yield f"{place}: {edge} stands at {first} already; leave one out."
                break
            if other.guard is None:
                yield (
                    f"{place}: {edge} is never taken, because {first} has no guard and comes "
                    "first; guard that one, or move it behind."
                )
                break
            if other.guard == edge.guard:
                yield (
                    f"{place}: {edge} is never taken, because {first} has the same guard and "
                    "comes first; leave one out, or guard them apart."
                )
                break
        earlier.setdefault((edge.action, edge.source), []).append((number, edge))


def _missing_guards(procedure: Procedure) -> Iterator[str]:
    for number, edge in enumerate(procedure.edges):
        if edge.guard is None:
            continue
        if edge.guard not in procedure.guards:
            yield (
                f"{_place(procedure, number)}: there is no guard {edge.guard!r}; "
                f"{_choose(edge.guard, procedure.guards)}, or define it."
            )
        elif not _is_plain_function(procedure.guards[edge.guard]):
            yield (
                f"{_place(procedure, number)}: the guard {edge.guard!r} is no plain function; "
                "give one that takes nothing and answers True or False."
            )


def _is_plain_function(guard: object) -> bool:
    return callable(guard) and not inspect.iscoroutinefunction(guard)


def _unreachable_states(procedure: Procedure) -> Iterator[str]:
    reached = _closure({procedure.start}, [(e.source, e.target) for e in procedure.edges])
    for state in procedure.states:
        if state not in reached:
            yield (
                f"states: {state!r} is never reached from {procedure.start!r}; add an edge that "
                "leads to it, or leave it out."
            )


def _dead_ends(procedure: Procedure) -> Iterator[str]:
    ending = _closure(set(procedure.final), [(e.target, e.source) for e in procedure.edges])
    for state in procedure.states:
        if procedure.final and state not in ending:
            yield (
                f"states: {state!r} is a dead end, no final state can be reached from it; add an "
                "edge that leads on, or make it final."
            )


def _closure(states: set[str], steps: list[tuple[str, str]]) -> set[str]:
    found, waiting = set(states), list(states)
    onward: dict[str, list[str]] = {}
    for source, target in steps:
        onward.setdefault(source, []).append(target)
    while waiting:
        new = set(onward.get(waiting.pop(), ())) - found
        found |= new
        waiting += new
    return found


def _place(procedure: Procedure, number: int) -> str:
    return procedure.edges[number].place or f"edge {number + 1}"


def _choose(name: str, known: Iterable[str]) -> str:
    names = list(known)
    likely = nearest(name, names)
    if likely is not None:
        return f"did you mean {likely!r}?"
    return f"there are {', '.join(map(repr, names))}" if names else "there is none yet"
