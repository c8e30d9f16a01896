"""Document 004, sentence by sentence: types of failure, who can tell them and what answers them."""

import json
from collections.abc import Sequence
from dataclasses import fields
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from parsimony_kernel.agent.failure import Action, Failure, FailureKind, RecoveryPolicy
from parsimony_kernel.agent.state import RunState
from parsimony_kernel.core.error_table import step_of
from parsimony_kernel.testing.manual_clock import ManualClock
from parsimony_kernel.testing.scripted import ScriptedModel, say
from parsimony_kernel.triage.classify import HybridClassifier, LLMClassifier, RulesClassifier
from parsimony_kernel.triage.policy import FailurePolicy, PolicyRecovery, RecoveryAction
from parsimony_kernel.triage.taxonomy import FailureContext, FailureType, Step, TriageContext

from . import StatusError

# In the document's order, with ours in its place before the last.
NAMES = (
    "WRONG_TOOL_CALLED CONSTRAINT_IGNORED LOOP_DETECTED HALLUCINATED_STATE PLAN_INCOMPLETE "
    "SCHEMA_MISMATCH CONTEXT_OVERFLOW GOAL_DRIFT EXTERNAL_FAULT TIMEOUT UNKNOWN"
)
TYPES = NAMES.split()
UNKNOWN = FailureType.UNKNOWN
SEMANTIC = ["hallucinated_state", "plan_incomplete", "context_overflow", "goal_drift"]
TASK = "Where is order A102? Never call `delete_order`."


def failed(error: str, **more: Any) -> list[Step]:
    given = {"tool_called": "query_db", "tool_input": {"id": "A102"}, "error": error, **more}
    return [Step(0, "call", **given)]


def looked(*orders: str, output: str = "Delayed, ETA Friday") -> list[Step]:
    return [
        Step(index, "call", tool_called="query_db", tool_input={"id": order}, tool_output=output)
        for index, order in enumerate(orders)
    ]


def answered(text: str) -> list[Step]:
    return [*looked("A102"), Step(1, "answer", llm_output=text)]


async def by_rules(
    trajectory: Sequence[Step], run: TriageContext | None = None, **settings: Any
) -> FailureType:
    return await RulesClassifier(**settings).classify(trajectory, TASK, run=run)


# The members.


def test_types_have_documented_names_and_order() -> None:
    documented = [(name, name.lower()) for name in TYPES]
    assert [(each.name, each.value) for each in FailureType] == documented


@pytest.mark.parametrize("kind", [*FailureType])
def test_type_is_its_value_in_logs_and_state(kind: FailureType) -> None:
    assert f"{kind}" == str(kind) == kind.value == kind
    assert json.loads(json.dumps({"type": kind})) == {"type": kind.value}
    assert FailureType(kind.value) is kind


# What the rules can tell.


class Order(BaseModel):
    id: str
    eta: int


def mismatch() -> Exception:
    try:
        Order.model_validate({"eta": "Friday"})
    except ValidationError as exc:
        return exc
    raise AssertionError("the order was accepted")


def not_json() -> Exception:
    try:
        json.loads("Sure! Here is the JSON:")
    except json.JSONDecodeError as exc:
        return exc
    raise AssertionError("the text was read")


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ("Tool 'search_database' not found", FailureType.WRONG_TOOL_CALLED),
        ("unknown tool: search_database", FailureType.WRONG_TOOL_CALLED),
        (
            "Tool 'search_database' is not available. Available tools: query_db, get_eta",
            FailureType.WRONG_TOOL_CALLED,
        ),
        ("function 'serch' does not exist", FailureType.WRONG_TOOL_CALLED),
        ("400 Bad Request: Missing required parameter 'id'", FailureType.SCHEMA_MISMATCH),
        ("Expecting value: line 1 column 1 (char 0)", FailureType.SCHEMA_MISMATCH),
        ("1 validation error for Order", FailureType.SCHEMA_MISMATCH),
        ("validation error: eta is no number", FailureType.SCHEMA_MISMATCH),
        ("json parse failed", FailureType.SCHEMA_MISMATCH),
        ("jsondecodeerror at line 1", FailureType.SCHEMA_MISMATCH),
        ("503 service timeout", FailureType.EXTERNAL_FAULT),
        ("got 500 from remote", FailureType.EXTERNAL_FAULT),
        ("deadline exceeded", FailureType.TIMEOUT),
        ("time limit reached", FailureType.TIMEOUT),
    ],
)
async def test_wording_shows_the_type(error: str, kind: FailureType) -> None:
    assert await by_rules(failed(error, tool_called="search_database")) is kind


async def test_tool_missing_from_manifest_is_wrong_tool() -> None:
    run = TriageContext(tools=("query_db", "get_eta"))
    steps = failed("KeyError: 'search_database'", tool_called="search_database")
    assert await by_rules(steps, run) is FailureType.WRONG_TOOL_CALLED


@pytest.mark.parametrize("make", [mismatch, not_json])
async def test_structural_misfit_is_schema_mismatch(make: Any) -> None:
    steps = [step_of(make(), 0, "call", tool_called="query_db")]
    assert await by_rules(steps) is FailureType.SCHEMA_MISMATCH


@pytest.mark.parametrize("status", [429, 500, 502, 503])
async def test_transient_status_is_external_fault(status: int) -> None:
    steps = [step_of(StatusError(status, "it answered"), 0, "call", tool_called="query_db")]
    assert await by_rules(steps) is FailureType.EXTERNAL_FAULT
    assert await by_rules(failed(f"HTTP {status}")) is FailureType.EXTERNAL_FAULT


@pytest.mark.parametrize("status", [401, 403, 404])
async def test_permanent_status_is_no_external_fault(status: int) -> None:
    steps = [step_of(StatusError(status, "it answered"), 0, "call", tool_called="query_db")]
    assert await by_rules(steps) is not FailureType.EXTERNAL_FAULT


@pytest.mark.parametrize(
    ("orders", "is_loop"),
    [
        (["A102"], False),
        (["A102"] * 2, False),
        (["A102"] * 3, True),
        (["A102"] * 7, True),
        (["A101", "A102", "A102", "A102"], True),
        (["A101", "A102", "A103"], False),
        (["A102", "A102", "A103"], False),
    ],
)
async def test_same_tool_and_input_three_times_is_a_loop(orders: list[str], is_loop: bool) -> None:
    assert (await by_rules(looked(*orders)) is FailureType.LOOP_DETECTED) == is_loop


async def test_same_input_to_other_tool_is_no_loop() -> None:
    steps = [
        Step(index, "call", tool_called=name, tool_input={"id": "A102"})
        for index, name in enumerate(("query_db", "get_eta", "query_db"))
    ]
    assert await by_rules(steps) is UNKNOWN


@pytest.mark.parametrize("window", [2, 3, 5])
async def test_loop_window_is_configurable(window: int) -> None:
    for times in range(1, 7):
        kind = await by_rules(looked(*["A102"] * times), loop_window=window)
        assert (kind is FailureType.LOOP_DETECTED) == (times >= window)


BROKEN: list[tuple[str, list[Step]]] = [
    (
        "never call `delete_order`",
        [Step(0, "call", tool_called="delete_order", tool_input={"id": "A102"})],
    ),
    ("do not mention `internal_notes`", answered("It is delayed, says internal_notes.")),
    ("answer in at most 5 words", answered("Your order is delayed and comes on Friday.")),
]


@pytest.mark.parametrize(("rule", "steps"), BROKEN)
async def test_known_constraint_violation_is_detected(rule: str, steps: list[Step]) -> None:
    kind = await by_rules(steps, constraints=[rule])
    assert kind is FailureType.CONSTRAINT_IGNORED


@pytest.mark.parametrize(("rule", "steps"), BROKEN)
async def test_unknown_constraint_violation_is_not_detected(rule: str, steps: list[Step]) -> None:
    assert await RulesClassifier().classify(steps, "Where is order A102?") is UNKNOWN


@pytest.mark.parametrize(
    ("rule", "steps"),
    [
        ("never call `delete_order`", looked("A102")),
        ("do not mention `internal_notes`", answered("It is delayed.")),
        ("answer in at most 5 words", answered("Delayed until Friday.")),
    ],
)
async def test_kept_constraint_is_no_failure(rule: str, steps: list[Step]) -> None:
    assert await by_rules(steps, constraints=[rule]) is UNKNOWN


# What takes the meaning of the trajectory.

SAID = {
    "hallucinated_state": "Your order was delivered yesterday.",
    "plan_incomplete": "Everything that you asked for is done.",
    "context_overflow": "I no longer have the beginning of our conversation.",
    "goal_drift": "Here is a comparison of all carriers instead.",
    "wrong_tool_called": "I looked it up with the shipping calculator.",
    "constraint_ignored": "I deleted the order, as it was late.",
    "loop_detected": "I will look at the order once more.",
    "schema_mismatch": "The answer of the database had other fields.",
    "external_fault": "The carrier was not there for a moment.",
}


def opinion(kind: str) -> ScriptedModel:
    """A model that gives its opinion once, with the passage."""
    return ScriptedModel([say(json.dumps({"type": kind, "quote": SAID[kind]}))])


@pytest.mark.parametrize("kind", SEMANTIC)
async def test_semantic_failure_reaches_unknown_strategy(kind: str) -> None:
    found = await by_rules(answered(SAID[kind]))
    seen: list[FailureType] = []

    async def unknown(ctx: FailureContext) -> RecoveryAction:
        seen.append(ctx.failure_type)
        return RecoveryAction.ABORT(reason="nobody knows")

    action = await FailurePolicy(UNKNOWN=unknown).dispatch(FailureContext(failure_type=found))
    assert (action, seen) == (RecoveryAction.ABORT(reason="nobody knows"), [UNKNOWN])


@pytest.mark.parametrize("kind", [*SAID])
async def test_model_can_return_every_type_but_unknown(kind: str) -> None:
    classifier = LLMClassifier(opinion(kind), clock=ManualClock())
    assert await classifier.classify(answered(SAID[kind]), TASK) is FailureType(kind)


@pytest.mark.parametrize("kind", SEMANTIC)
async def test_hybrid_classifies_with_one_model_call(kind: str) -> None:
    model = opinion(kind)
    hybrid = HybridClassifier(LLMClassifier(model, clock=ManualClock()))
    assert await hybrid.classify(answered(SAID[kind]), TASK) is FailureType(kind)
    model.assert_exhausted()


@pytest.mark.parametrize(
    ("steps", "kind"),
    [
        (failed("unknown tool: search_database"), FailureType.WRONG_TOOL_CALLED),
        (failed("1 validation error for Order"), FailureType.SCHEMA_MISMATCH),
        (failed("HTTP 503"), FailureType.EXTERNAL_FAULT),
        (looked("A102", "A102", "A102"), FailureType.LOOP_DETECTED),
        (BROKEN[0][1], FailureType.CONSTRAINT_IGNORED),
    ],
)
async def test_hybrid_skips_model_when_rules_suffice(steps: list[Step], kind: FailureType) -> None:
    model = ScriptedModel([])
    rules = RulesClassifier(constraints=[BROKEN[0][0]])
    hybrid = HybridClassifier(LLMClassifier(model, clock=ManualClock()), rules)
    assert await hybrid.classify(steps, TASK) is kind
    assert model.requests == []


@pytest.mark.parametrize("quote", ["", "Your order was delivered today.", "A102 was delivered"])
async def test_opinion_without_quoted_evidence_is_unknown(quote: str) -> None:
    model = ScriptedModel([say(json.dumps({"type": "hallucinated_state", "quote": quote}))])
    classifier = LLMClassifier(model, clock=ManualClock())
    assert await classifier.classify(answered(SAID["hallucinated_state"]), TASK) is UNKNOWN


# What answers each type.


def context(kind: FailureType, *, earlier: int = 0, **run: Any) -> FailureContext:
    given = {
        "tools": ("query_db", "get_eta", "suggest_alternative"),
        "constraints": ("never call `delete_order`",),
        "subgoals": ("find the order", "tell the date"),
        "done_subgoals": frozenset({"find the order"}),
        "checkpoints": ("step-1", "step-2"),
        **run,
    }
    error = "1 validation error for Order: eta must be a date"
    return FailureContext(
        failure_type=kind,
        trajectory=failed(error, tool_called="query_dbs", idempotent=True),
        original_task=TASK,
        attempt_history=[(kind, RecoveryAction.RETRY())] * earlier,
        run=TriageContext(**given),
    )


DEFAULTS: list[tuple[str, tuple[str, ...]]] = [
    ("WRONG_TOOL_CALLED", ("RETRY",)),
    ("CONSTRAINT_IGNORED", ("REPLAN",)),
    ("LOOP_DETECTED", ("REPLAN", "ROLLBACK")),
    ("HALLUCINATED_STATE", ("ROLLBACK",)),
    ("PLAN_INCOMPLETE", ("RESUME",)),
    ("SCHEMA_MISMATCH", ("RETRY",)),
    ("CONTEXT_OVERFLOW", ("REPLAN",)),
    ("GOAL_DRIFT", ("REPLAN",)),
    ("EXTERNAL_FAULT", ("RETRY",)),
    ("UNKNOWN", ("ESCALATE",)),
]


async def by_default(kind: FailureType, **more: Any) -> Any:
    return await FailurePolicy().dispatch(context(kind, **more))


@pytest.mark.parametrize(("name", "answers"), DEFAULTS)
async def test_each_type_has_its_recovery(name: str, answers: tuple[str, ...]) -> None:
    action = await by_default(FailureType[name])
    assert isinstance(action, tuple(getattr(RecoveryAction, answer) for answer in answers))


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        (FailureType.WRONG_TOOL_CALLED, ("query_db", "get_eta", "suggest_alternative")),
        (FailureType.CONSTRAINT_IGNORED, ("never call `delete_order`",)),
        (FailureType.SCHEMA_MISMATCH, ("eta must be a date",)),
        (FailureType.GOAL_DRIFT, ("Where is order A102?",)),
        (FailureType.CONTEXT_OVERFLOW, ("A102",)),
        (FailureType.LOOP_DETECTED, ("query_dbs",)),
    ],
)
async def test_hint_contains_documented_parts(kind: FailureType, told: tuple[str, ...]) -> None:
    hint = (await by_default(kind)).hint
    assert [each for each in told if each not in hint] == []


async def test_rollback_targets_existing_checkpoint() -> None:
    action = await by_default(FailureType.HALLUCINATED_STATE)
    assert action.checkpoint_id in (None, "step-2")


async def test_plan_resumes_at_open_part() -> None:
    action = await by_default(FailureType.PLAN_INCOMPLETE)
    assert action.from_subgoal in (None, "tell the date")


async def test_external_fault_waits_before_retry() -> None:
    assert (await by_default(FailureType.EXTERNAL_FAULT)).delay >= 1


# The policy and a strategy of one's own.


def test_policy_has_one_field_per_type() -> None:
    assert [field.name for field in fields(FailurePolicy)] == [*TYPES, "default"]


@pytest.mark.parametrize("kind", [*FailureType])
async def test_every_type_has_a_replaceable_strategy(kind: FailureType) -> None:
    async def mine(ctx: FailureContext) -> RecoveryAction:
        return RecoveryAction.ABORT(reason=ctx.failure_type)

    assert isinstance(await by_default(kind), RecoveryAction)
    policy = FailurePolicy(**{kind.name: mine})
    assert await policy.dispatch(context(kind)) == RecoveryAction.ABORT(reason=kind.value)


@pytest.mark.parametrize(
    ("history", "answer"),
    [
        ([], RecoveryAction.RETRY(delay=1.0)),
        (["external_fault"], RecoveryAction.RETRY(delay=2.0)),
        (["external_fault", "schema_mismatch"], RecoveryAction.RETRY(delay=4.0)),
        (["external_fault"] * 2 + ["timeout"] * 2, RecoveryAction.RETRY(delay=16.0)),
        (["external_fault"] * 3, RecoveryAction.ESCALATE(message="It is still down.")),
        (
            ["timeout"] + ["external_fault"] * 3,
            RecoveryAction.ESCALATE(message="It is still down."),
        ),
    ],
)
async def test_strategy_can_read_attempt_count(history: list[str], answer: RecoveryAction) -> None:
    async def smart(ctx: FailureContext) -> RecoveryAction:
        faults = [kind for kind, _ in ctx.attempt_history if kind == FailureType.EXTERNAL_FAULT]
        if ctx.failure_type == FailureType.EXTERNAL_FAULT and len(faults) >= 3:
            return RecoveryAction.ESCALATE(message="It is still down.")
        return RecoveryAction.RETRY(delay=2.0 ** len(ctx.attempt_history))

    ctx = FailureContext(
        failure_type=FailureType.EXTERNAL_FAULT,
        attempt_history=[(FailureType(each), None) for each in history],
    )
    assert await FailurePolicy(EXTERNAL_FAULT=smart).dispatch(ctx) == answer


def test_actions_have_documented_fields() -> None:
    escalated: Any = RecoveryAction.ESCALATE(message="It is still down.")
    retried: Any = RecoveryAction.RETRY(delay=8.0)
    assert (escalated.message, retried.delay) == ("It is still down.", 8.0)
    assert isinstance(escalated, RecoveryAction)
    assert isinstance(retried, RecoveryAction)


# The plan inside an action of the funnel.


@pytest.mark.parametrize(
    ("plan", "action"),
    [
        (RecoveryAction.RETRY(hint="h"), Action.retry),
        (RecoveryAction.REPLAN(hint="h"), Action.narrow_scope),
        (RecoveryAction.RESUME(from_subgoal="g"), Action.narrow_scope),
        (RecoveryAction.ROLLBACK(checkpoint_id="c"), Action.narrow_scope),
        (RecoveryAction.SUSPEND(message="m"), Action.ask_user),
        (RecoveryAction.ESCALATE(message="m"), Action.handoff),
        (RecoveryAction.ABORT(reason="r"), Action.stop),
    ],
)
def test_each_plan_becomes_its_action(plan: RecoveryAction, action: Action) -> None:
    async def strategy(ctx: FailureContext) -> RecoveryAction:
        return plan

    policy = PolicyRecovery(FailurePolicy(SCHEMA_MISMATCH=strategy))
    failure = Failure(
        FailureKind.tool_error, "it broke", metadata={"type": FailureType.SCHEMA_MISMATCH}
    )
    assert isinstance(policy, RecoveryPolicy)
    assert policy.decide(failure, RunState(run_id="r", session_id="s")) is action
