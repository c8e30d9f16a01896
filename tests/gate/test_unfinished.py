"""A run ends as done only with what its contract is about."""

from collections.abc import Mapping
from typing import Any

import pytest

from parsimony_kernel.agent.termination_tools import termination_tools
from parsimony_kernel.core.causes import GOAL_DRIFT, cause_of
from parsimony_kernel.core.contract import ActionContract
from parsimony_kernel.core.kinds import Failure
from parsimony_kernel.core.taxonomy import Step
from parsimony_kernel.gate.rules import task_stages
from parsimony_kernel.gate.stages import Attempt

ORDER = ActionContract(identifiers={"order_id": "A102"})


def looked(**inputs: Any) -> Step:
    return Step(0, "query_db", tool_called="query_db", tool_input=inputs)


def judged(
    inputs: Mapping[str, Any],
    *steps: Step,
    action: str = "return_done",
    contract: ActionContract = ORDER,
) -> Failure | None:
    *_, stage = task_stages(contract, made=lambda: steps)
    return stage(Attempt(action, inputs, termination_tools()))


@pytest.mark.parametrize(
    "steps",
    [(), (looked(order_id="A103"),), (looked(id="A103"),)],
    ids=["nothing", "another one", "another one as id"],
)
def test_a_summary_of_something_else_is_refused_and_the_goal_is_said_again(
    steps: tuple[Step, ...],
) -> None:
    failure = judged({"summary": "The order is delayed."}, *steps)
    assert failure is not None
    assert cause_of(failure) is GOAL_DRIFT
    assert "order_id='A102'" in failure.explanation
    assert failure.metadata["envelope"]["details"] == {"identifiers": {"order_id": "A102"}}


@pytest.mark.parametrize(
    "steps",
    [
        (looked(order_id="A102"),),
        (looked(order_id="A103"), looked(order_id="A102")),
        (looked(id="A102"),),
        (looked(code="orders.loc['A102']"),),
    ],
)
def test_a_summary_may_leave_out_what_the_run_was_about(steps: tuple[Step, ...]) -> None:
    assert judged({"summary": "The order is delayed."}, *steps) is None


def test_a_summary_that_names_what_was_asked_about_passes() -> None:
    assert judged({"summary": "A102 is delayed."}) is None


def test_one_that_names_it_after_only_another_was_looked_up_is_refused() -> None:
    assert judged({"summary": "A102 is delayed."}, looked(order_id="A103")) is not None


def test_an_identifier_that_is_a_number_is_met_by_the_number() -> None:
    contract = ActionContract(identifiers={"order_id": 102})
    assert judged({"summary": "ok"}, looked(order_id=102), contract=contract) is None
    assert judged({"summary": "ok"}, looked(order_id=103), contract=contract) is not None


def test_the_other_ways_to_end_are_open() -> None:
    assert judged({"rationale": "no such order"}, action="return_unable") is None


@pytest.mark.parametrize(
    "contract", [ActionContract(), ActionContract(identifiers={"dry": True})], ids=str
)
def test_a_task_that_is_about_nothing_in_particular_has_no_such_check(
    contract: ActionContract,
) -> None:
    assert len(task_stages(contract)) == 1
