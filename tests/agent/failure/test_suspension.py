"""Tokens, seals, and what may be resumed."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parsimony_kernel.agent.failure import (
    Failure,
    FailureKind,
    SuspensionExpired,
    SuspensionTokenMismatch,
    compute_suspension_token,
    verify_suspension_token,
)
from parsimony_kernel.agent.failure.suspension import build_record, check_record
from parsimony_kernel.agent.state import RunState, SuspensionRecord

NOW = datetime(2026, 1, 2, 3, 4, tzinfo=UTC)
SECRET = b"a key that nobody knows"


def record(**fields: object) -> SuspensionRecord:
    state = RunState(
        run_id="r",
        session_id="s",
        messages=[{"role": "user", "content": "plot it"}],
        iteration=4,
        lessons_learned=[Failure(FailureKind.tool_error, "boom", ("b",))],
        failure_attempts={FailureKind.tool_error: 1},
        tool_call_history=["run_code:00000000"],
        cumulative_cost_usd=0.25,
    )
    built = build_record(
        state,
        secret=SECRET,
        now=NOW,
        elapsed_s=12.5,
        question="Which one?",
        choices=("a", "b"),
        kind=FailureKind.ambiguous_input,
        key_id="k1",
    )
    return built.model_copy(update=fields)


def check(value: SuspensionRecord, reply: str = "a", *, after: timedelta = timedelta()) -> None:
    check_record(value, reply, secret=SECRET, now=NOW + after, max_age_s=86_400)


def test_a_token_is_nonce_and_hex_and_proves_itself() -> None:
    token = compute_suspension_token(run_id="r", session_id="s", secret="x", nonce="n")
    nonce, _, digest = token.partition(".")
    assert (nonce, len(digest)) == ("n", 64)
    assert token == compute_suspension_token(run_id="r", session_id="s", secret="x", nonce="n")
    assert token != compute_suspension_token(run_id="r", session_id="s", secret="y", nonce="n")


def test_two_tokens_for_the_same_run_differ() -> None:
    tokens = {compute_suspension_token(run_id="r", session_id="s", secret="x") for _ in range(9)}
    assert len(tokens) == 9


def test_an_empty_secret_is_a_value_error() -> None:
    with pytest.raises(ValueError, match="secret is empty"):
        compute_suspension_token(run_id="r", session_id="s", secret="")


def test_a_record_survives_json_and_still_verifies() -> None:
    copy = SuspensionRecord.model_validate_json(record().model_dump_json())
    assert copy == record(suspension_token=copy.suspension_token, seal=copy.seal)
    assert verify_suspension_token(record=copy, secret=SECRET)
    check(copy)


def test_the_secret_and_the_session_are_not_interchangeable() -> None:
    assert not verify_suspension_token(record=record(), secret="s")
    assert SECRET.decode() not in record().model_dump_json()


@given(st.data())
def test_any_changed_byte_of_a_record_is_refused(data: st.DataObject) -> None:
    text = record().model_dump_json()
    index = data.draw(st.integers(0, len(text) - 1))
    letter = data.draw(st.characters(min_codepoint=32, max_codepoint=126))
    changed = text[:index] + letter + text[index + 1 :]
    try:
        value = SuspensionRecord.model_validate_json(changed)
    except ValueError:
        return  # it is no record any more, so nothing can be resumed from it
    if value == SuspensionRecord.model_validate_json(text):
        return  # the same value, written otherwise
    with pytest.raises((SuspensionTokenMismatch, SuspensionExpired)):
        check(value)


def test_the_checks_come_in_the_promised_order() -> None:
    forged = record(suspension_token="n.00", suspended_at="never", seal="")
    with pytest.raises(ValueError, match="non-empty user_reply"):
        check(forged, "  ")
    with pytest.raises(SuspensionTokenMismatch, match="not issued"):
        check(forged)
    old = record(seal="")
    with pytest.raises(SuspensionExpired, match="2 days ago"):
        check(old, after=timedelta(days=2))
    with pytest.raises(SuspensionTokenMismatch, match="changed after"):
        check(old)


def test_a_record_from_the_future_is_refused_but_a_little_skew_is_not() -> None:
    check(record(), after=-timedelta(minutes=1))
    with pytest.raises(SuspensionExpired, match="future"):
        check(record(), after=-timedelta(hours=1))


def test_a_bare_record_needs_no_seal() -> None:
    token = compute_suspension_token(run_id="r", session_id="s", secret=SECRET)
    check(
        SuspensionRecord(
            run_id="r", session_id="s", suspension_token=token, suspended_at=NOW.isoformat()
        )
    )


@pytest.mark.parametrize(
    ("kind", "iteration", "elapsed"),
    [
        (FailureKind.iteration_limit, 0, 12.5),
        (FailureKind.time_limit, 4, 0.0),
        (FailureKind.ambiguous_input, 4, 12.5),
        (None, 4, 12.5),
    ],
)
def test_only_the_budget_that_suspended_the_run_is_reset(
    kind: FailureKind | None, iteration: int, elapsed: float
) -> None:
    state = RunState.from_suspension(record(originating_failure_kind=kind))
    assert (state.iteration, state.accumulated_elapsed_s) == (iteration, elapsed)
    assert state.cumulative_cost_usd == 0.25
    assert state.failure_attempts == {FailureKind.tool_error: 1}
    assert state.lessons_learned == [Failure(FailureKind.tool_error, "boom", ("b",))]
