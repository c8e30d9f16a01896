"""A procedure is checked when it is built, and only its edges can be walked."""

import signal
import sys
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parsimony_kernel.agent.termination_tools import termination_tools
from parsimony_kernel.core.cancellation import CancellationRequest
from parsimony_kernel.core.kinds import Action, FailureKind
from parsimony_kernel.core.refusals import RefusalError
from parsimony_kernel.execution.interrupt import stop_on_sigint
from parsimony_kernel.gate import procedure
from parsimony_kernel.gate.gate import Gate
from parsimony_kernel.gate.procedure import (
    Edge,
    Guard,
    Procedure,
    ProcedureError,
    Walker,
    reachable_in,
)
from parsimony_kernel.gate.stages import Attempt
from parsimony_kernel.gate.task_file import from_yaml
from parsimony_kernel.tools import Tools, tool

EDGES = (
    Edge("take_order", "new", "ordered"),
    Edge("pay", "ordered", "paid", "has_items"),
    Edge("fulfill", "paid", "done"),
    Edge("cancel", "ordered", "done"),
)
STATES = ("new", "ordered", "paid", "done")


def orders(
    edges: tuple[Edge, ...] = EDGES,
    states: tuple[str, ...] = STATES,
    start: str = "new",
    final: tuple[str, ...] = ("done",),
    has_items: Guard = lambda: True,
) -> Procedure:
    return Procedure("orders", states, start, final, edges, {"has_items": has_items})


@tool
async def take_order() -> None:
    """Take an order."""


@tool
async def pay() -> None:
    """Pay."""


@tool
async def fulfill() -> None:
    """Fulfill."""


@tool
async def cancel() -> None:
    """Cancel."""


@tool
async def look() -> None:
    """A tool that no edge names."""


OWN = Tools([take_order, pay, fulfill, cancel, look])
TOOLS = OWN + termination_tools()
ENDING = tuple(termination_tools())


def problems_of(build: Callable[[], object]) -> str:
    with pytest.raises(ProcedureError) as caught:
        build()
    assert caught.value.problems
    return "\n".join(caught.value.problems)


@pytest.mark.parametrize(
    ("build", "place", "said"),
    [
        (lambda: orders(start="nwe"), "start", "no state 'nwe'; did you mean 'new'?"),
        (lambda: orders(final=("doen",)), "final", "did you mean 'done'?"),
        (lambda: orders(final=()), "final", "name the state"),
        (lambda: orders((*EDGES, Edge("x", "payed", "done"))), "edge 5, from", "'paid'"),
        (lambda: orders((*EDGES, Edge("x", "paid", "dnoe"))), "edge 5, to", "'done'"),
        (lambda: orders(states=(*STATES, "lost")), "states", "'lost' is never reached"),
        (
            lambda: orders((*EDGES, Edge("x", "new", "trap")), (*STATES, "trap")),
            "states",
            "'trap' is a dead end",
        ),
        (lambda: orders((*EDGES, EDGES[0])), "edge 5", "because edge 1 comes first"),
        (lambda: orders((*EDGES, Edge("take_order", "new", "paid"))), "edge 5", "edge 1 comes"),
        (
            lambda: orders((*EDGES, Edge("pay", "ordered", "done", "has_items"))),
            "edge 5",
            "never taken, because edge 2",
        ),
        (
            lambda: orders((*EDGES, Edge("look", "new", "done", "has_item"))),
            "edge 5",
            "no guard 'has_item'; did you mean 'has_items'?",
        ),
        (lambda: orders((*EDGES, Edge(" ", "new", "done"))), "edge 5", "no name"),
        (lambda: orders(states=(*STATES, "new")), "states", "'new' stands twice"),
    ],
)
def test_what_cannot_be_walked_is_said_with_place_and_remedy(
    build: Callable[[], object], place: str, said: str
) -> None:
    problems = problems_of(build)
    assert place in problems
    assert said in problems
    assert ";" in problems  # what is wrong; what to do


def test_a_guard_has_to_be_a_plain_function() -> None:
    async def later() -> bool:
        return True

    assert "plain function" in problems_of(lambda: orders(has_items=later))  # type: ignore[arg-type]


def test_what_is_possible_next_follows_the_guards() -> None:
    closed, opened = orders(has_items=lambda: False), orders()
    assert closed.valid_next_actions("ordered") == ("cancel",)
    assert opened.valid_next_actions("ordered") == ("pay", "cancel")
    assert opened.valid_next_actions("done") == ()


def test_of_two_edges_the_first_whose_guard_holds_is_taken() -> None:
    edges = (*EDGES[1:], Edge("take_order", "new", "paid", "has_items"), EDGES[0])
    rich, poor = orders(edges), orders(edges, has_items=lambda: False)
    walked = []
    for each in (rich, poor):
        walker = Walker(each)
        walker.admit("take_order")
        walked.append(walker.advance("take_order"))
    assert walked == ["paid", "ordered"]


def test_the_admitted_edge_is_walked_whatever_the_action_did_to_its_guard() -> None:
    basket = ["tea"]
    walker = Walker(orders(has_items=lambda: bool(basket)), "ordered")
    walker.admit("pay")
    basket.clear()
    assert walker.advance("pay") == "paid"


class Wordless(Exception):
    """Cannot even say what it is."""

    def __str__(self) -> str:
        raise ValueError

    @classmethod
    def raised(cls) -> bool:
        raise cls


def endless() -> bool:
    while True:
        pass


def swallowing() -> bool:
    try:
        return endless()
    except BaseException:
        return True


@pytest.mark.parametrize(
    ("guard", "said"),
    [
        (lambda: 1 / 0, "raised ZeroDivisionError: division by zero"),
        (lambda: None, "gave NoneType, not True or False"),
        (lambda: "yes", "gave str, not True or False"),
        (lambda: sys.exit(3), "raised SystemExit: 3"),
        (lambda: signal.default_int_handler(2, None), "raised KeyboardInterrupt"),
        (Wordless.raised, "raised Wordless"),
        (endless, "gave no answer within 0.05 s"),
        (swallowing, "gave no answer within 0.05 s"),
    ],
)
def test_a_guard_without_an_answer_is_the_procedure_s_error_and_not_an_end(
    guard: Guard, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(procedure, "GUARD_S", 0.05)
    walker = Walker(orders(has_items=guard), "ordered")
    failure = reachable_in(walker)(Attempt("pay", {}, TOOLS))
    assert failure is not None
    assert failure.kind is FailureKind.policy_violation
    assert failure.suggested_action is Action.handoff
    assert failure.refusal is RefusalError.validation_failed
    assert said in failure.explanation
    assert "'has_items'" in failure.blockers[0]
    assert "mend the guard" in failure.blockers[0]
    assert "pay" in walker.valid_next_actions(TOOLS)
    assert walker.state == "ordered"
    assert reachable_in(walker)(Attempt("cancel", {}, TOOLS)) is None


def test_stop_ends_a_guard_and_is_the_run_s_cancellation() -> None:
    asked = []

    def pressed() -> bool:
        asked.append("guard")
        signal.raise_signal(signal.SIGINT)
        endless()
        return True

    stop, walker = CancellationRequest(), Walker(orders(has_items=pressed), "ordered")
    with stop_on_sigint(stop):
        for _ in range(2):
            failure = reachable_in(walker)(Attempt("pay", {}, TOOLS))
            assert failure is not None
            assert "was stopped" in failure.explanation
    assert stop.is_set
    assert asked == ["guard"]


def test_the_truth_of_data_is_an_answer() -> None:
    import numpy as np

    assert orders(has_items=lambda: np.bool_(True)).edge("pay", "ordered") == EDGES[1]  # type: ignore[arg-type,return-value]


def test_terminal_tools_are_reachable_anywhere() -> None:
    for state in STATES:
        walker = Walker(orders(), state)
        assert walker.valid_next_actions(TOOLS)[-len(ENDING) :] == ENDING
        for name in ENDING:
            assert reachable_in(walker)(Attempt(name, {}, TOOLS)) is None
            assert walker.advance(name) == state


def test_a_terminal_tool_that_an_edge_names_is_reachable_only_there() -> None:
    procedure = orders((*EDGES, Edge("return_done", "done", "done")))
    before, after = Walker(procedure), Walker(procedure, "done")
    refused = reachable_in(before)(Attempt("return_done", {}, TOOLS))
    assert refused is not None
    assert "return_done" not in before.valid_next_actions(TOOLS)
    assert reachable_in(before)(Attempt("return_unable", {}, TOOLS)) is None
    assert reachable_in(after)(Attempt("return_done", {}, TOOLS)) is None
    assert "return_done" in after.valid_next_actions(TOOLS)


async def test_a_gate_writes_down_where_the_next_one_goes_on() -> None:
    gate = Gate(TOOLS, timeout_s=5, walker=Walker.at(orders(), ""))
    assert (await gate.step("take_order", {})).ok
    again = Walker.at(orders(), gate.place)
    assert again.state == "ordered"


def test_a_walk_goes_on_only_in_the_procedure_that_it_began_in() -> None:
    place = Walker(orders(), "ordered").place
    changed = orders((*EDGES, Edge("look", "new", "done")))
    assert "as it was written" in problems_of(lambda: Walker.at(changed, place))


YAML = """\
name: orders
start: new
final: [done]
states: [new, ordered, paid, done]
edges:
  - {action: take_order, from: new, to: ordered}
  - action: pay
    from: ordered
    to: paid
    guard: has_items
  - {action: fulfill, from: paid, to: done}
  - {action: cancel, from: [ordered], to: done}
"""


def test_yaml_and_code_describe_the_same_procedure() -> None:
    read = from_yaml(YAML, guards={"has_items": lambda: True}, source="orders.yaml").procedure
    assert read is not None
    assert read.digest == orders().digest
    assert read.edges == EDGES


def test_an_edge_may_start_in_several_states() -> None:
    text = YAML.replace("from: [ordered], to: done", "from: [ordered, paid], to: done")
    read = from_yaml(text, guards={"has_items": lambda: True}).procedure
    assert read is not None
    assert [edge.source for edge in read.edges if edge.action == "cancel"] == ["ordered", "paid"]


def test_words_that_yaml_reads_as_something_else_stay_names() -> None:
    text = "start: no\nfinal: 1\nstates: [no, 1]\nedges: [{action: on, from: no, to: 1, guard: }]"
    read = from_yaml(text).procedure
    assert read is not None
    assert read.states == ("no", "1")
    assert read.edges == (Edge("on", "no", "1"),)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (YAML.replace("to: paid", "to: payed"), "line 7, to: there is no state 'payed'"),
        (
            YAML.replace("guard: has_items", "guard: has_item"),
            "line 7: there is no guard 'has_item'",
        ),
        (YAML.replace("    to: paid\n", ""), "orders.yaml, line 7: an edge lacks 'to'; add it."),
        (YAML.replace("from: new", "from: {new: 1}"), "line 6: from: a line of text is expected"),
        ("edges: {a: b}\nstart: a\nfinal: a\nstates: a", "line 1: edges: a list is expected"),
        ("a: \x00", "this is no YAML"),
        ("a: &x [*x]\nb: *y", "line 2: this is no YAML"),
        ("[" * 5_000, "orders.yaml: it is nested too deeply"),
    ],
)
def test_an_error_in_yaml_names_the_line(text: str, said: str) -> None:
    read = lambda: from_yaml(text, guards={"has_items": bool}, source="orders.yaml")  # noqa: E731
    assert said in problems_of(read)


def test_a_procedure_is_drawn() -> None:
    assert orders().mermaid() == (
        "stateDiagram-v2\n"
        '    state "new" as s0\n'
        '    state "ordered" as s1\n'
        '    state "paid" as s2\n'
        '    state "done" as s3\n'
        "    [*] --> s0\n"
        "    s0 --> s1 : take_order\n"
        "    s1 --> s2 : pay #91;has_items#93;\n"
        "    s2 --> s3 : fulfill\n"
        "    s1 --> s3 : cancel\n"
        "    s3 --> [*]\n"
    )


NAME = st.text(min_size=1, max_size=20).filter(lambda name: bool(name.strip()))


@given(first=NAME, second=NAME, action=NAME)
def test_no_name_is_syntax_in_a_drawing(first: str, second: str, action: str) -> None:
    if first == second:
        return
    procedure = Procedure("p", (first, second), first, (second,), (Edge(action, first, second),))
    lines = procedure.mermaid().splitlines()
    assert len(lines) == 6
    for text in (lines[1].split('"')[1], lines[2].split('"')[1], lines[4].split(" : ", 1)[1]):
        assert not set(text) & set("\"'<>{}[]():%\\`|\n") - {"'"}
    assert [line.count('"') for line in lines] == [0, 2, 2, 0, 0, 0]
