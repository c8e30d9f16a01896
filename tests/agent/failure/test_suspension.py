"""Tokens, seals, and what may be resumed."""

import json
from datetime import UTC, datetime, timedelta
from itertools import chain
from pathlib import Path
from types import SimpleNamespace
from typing import Any

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
from parsimony_kernel.agent.failure.suspension import (
    ADDED_FIELDS,
    SuspensionElsewhere,
    build_record,
    check_record,
    compute_seal,
    take_single_use,
)
from parsimony_kernel.core.state import SCHEMA_VERSION, RunState, SuspensionRecord
from tests.races import Race
from tests.tiers import every

NOW = datetime(2026, 1, 2, 3, 4, tzinfo=UTC)
SECRET = b"a key that nobody knows"
RECORDS = Path(__file__).parent / "records"
VERSIONS = range(1, SCHEMA_VERSION + 1)


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
    asked: dict[str, Any] = {"question": "Which one?", "choices": ("a", "b"), "key_id": "k1"}
    asked["originating_failure_kind"] = FailureKind.ambiguous_input
    built = build_record(state, secret=SECRET, now=NOW, elapsed_s=12.5, **asked)
    return built.model_copy(update=fields)


def check(value: SuspensionRecord, after: timedelta = timedelta(), workspace: str = "") -> None:
    check_record(value, "a", secret=SECRET, now=NOW + after, max_age_s=86_400, workspace=workspace)


def resealed(value: SuspensionRecord, **fields: object) -> SuspensionRecord:
    """``value`` with other fields, by somebody who knows the secret."""
    changed = value.model_copy(update=fields)
    return changed.model_copy(update={"seal": compute_seal(changed, SECRET)})


def released(version: int) -> bytes:
    """A record as the release wrote it that had this version."""
    return (RECORDS / f"v{version}.json").read_bytes()


def accepted(text: bytes) -> SuspensionRecord | None:
    """The record that ``text`` holds, when it may be resumed."""
    try:
        value = SuspensionRecord.model_validate_json(text)
        check(value)
    except ValueError:
        return None
    return value


def test_secret_and_session_are_not_interchangeable() -> None:
    assert not verify_suspension_token(record=record(), secret="s")
    assert SECRET.decode() not in record().model_dump_json()


@every(61)
@pytest.mark.parametrize("version", VERSIONS)
def test_every_bit_of_released_record_counts(version: int, stride: int) -> None:
    text = released(version)
    whole = accepted(text)
    assert whole is not None
    for index, bit in (divmod(number, 8) for number in range(0, 8 * len(text), stride)):
        flipped = bytes([*text[:index], text[index] ^ 1 << bit, *text[index + 1 :]])
        changed = accepted(flipped)
        # A lesson ignores a name that it does not know, and then has the default that it had.
        assert changed is None or changed.model_dump() == whole.model_dump(), (index, bit)


@pytest.mark.parametrize("version", VERSIONS)
def test_released_record_versions_resume(version: int) -> None:
    value = SuspensionRecord.model_validate_json(released(version))
    check(value)
    assert value.schema_version == version
    state = RunState.from_suspension(value)
    written: dict[str, Any] = json.loads(released(version))
    assert state.messages == written["messages"]
    assert state.failure_attempts == written["failure_attempts"]
    assert state.cumulative_cost_usd == written["cumulative_cost_usd"]
    assert state.compaction == written.get("compaction", 0)
    assert state.pinned_constraints == written.get("pinned_constraints", [])
    # As a journal writes it: with the fields of today.
    check(SuspensionRecord.model_validate(json.loads(value.model_dump_json())))


@pytest.mark.parametrize("version", VERSIONS)
def test_changed_fields_need_a_new_version(version: int) -> None:
    """When this fails: raise ``SCHEMA_VERSION``, name the fields in ``ADDED_FIELDS``, and put a
    record of the new version beside the old ones, which stay as they are."""
    newer = set(chain.from_iterable(ADDED_FIELDS[v] for v in VERSIONS if v > version))
    assert set(json.loads(released(version))) == set(SuspensionRecord.model_fields) - newer


def test_newest_released_record_fills_every_field() -> None:
    value = SuspensionRecord.model_validate_json(released(SCHEMA_VERSION))
    bare = {name for name in SuspensionRecord.model_fields if not getattr(value, name)}
    assert bare == set()
    assert {path.name for path in RECORDS.iterdir()} == {f"v{v}.json" for v in VERSIONS}
    assert set(ADDED_FIELDS) == set(VERSIONS) - {1}


@pytest.mark.parametrize("name", sorted(ADDED_FIELDS[2]))
def test_old_record_cannot_carry_unsealed_fields(name: str) -> None:
    newer = SuspensionRecord.model_validate_json(released(2))
    old = SuspensionRecord.model_validate_json(released(1))
    smuggled = old.model_copy(update={name: getattr(newer, name)})
    assert smuggled != old
    with pytest.raises(SuspensionTokenMismatch, match=f"version 1 has no {name};"):
        check(smuggled)


def test_record_cannot_pass_for_another_version() -> None:
    old = SuspensionRecord.model_validate_json(released(1))
    with pytest.raises(SuspensionTokenMismatch, match="changed after"):
        check(old.model_copy(update={"schema_version": 2}))
    plain = resealed(record(), compaction=0)
    check(plain)
    with pytest.raises(SuspensionTokenMismatch, match="changed after"):
        check(plain.model_copy(update={"schema_version": 1}))


def test_newer_record_is_refused_with_remedy() -> None:
    version = SCHEMA_VERSION + 1
    with pytest.raises(SuspensionTokenMismatch) as caught:
        check(resealed(record(), schema_version=version))
    sentence = str(caught.value)
    assert f"a newer Parsimony asked this question (its record has version {version}" in sentence
    assert "update parsimony-kernel" in sentence
    assert "run the cell again" in sentence
    with pytest.raises(ValueError, match="a_field_of_tomorrow"):
        SuspensionRecord.model_validate({**record().model_dump(), "a_field_of_tomorrow": 1})


@pytest.mark.parametrize("version", [0, -1, -(2**70)])
def test_unknown_version_is_refused(version: int) -> None:
    with pytest.raises(SuspensionTokenMismatch, match=f"of version {version}: run the cell"):
        check(resealed(record(), schema_version=version))


def test_question_is_answered_in_its_workspace(tmp_path: Path) -> None:
    asked, here = tmp_path / "asked", tmp_path / "here"
    asked.mkdir()
    here.mkdir()
    (tmp_path / "link").symlink_to(asked, target_is_directory=True)
    value = resealed(record(), workspace=str(asked))
    for same in (asked, tmp_path / "here" / ".." / "asked", tmp_path / "link", ""):
        check(value, workspace=str(same))
    with pytest.raises(SuspensionElsewhere) as caught:
        check(value, workspace=str(here))
    assert repr(str(asked)) in str(caught.value)
    assert "answer it there, or run the cell again" in str(caught.value)
    check(resealed(record(), workspace=""), workspace=str(here))


def test_question_moves_with_its_project(tmp_path: Path) -> None:
    asked = tmp_path / "asked"
    asked.mkdir()
    value = resealed(record(), workspace=str(asked))
    moved = asked.rename(tmp_path / "moved")
    check(value, workspace=str(moved))
    asked.write_text("a file in its place is no workspace")
    check(value, workspace=str(moved))


@pytest.mark.parametrize("place", ["nul\0", "a/" * 5000, "loop"])
def test_impossible_place_counts_as_gone(tmp_path: Path, place: str) -> None:
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    check(resealed(record(), workspace=str(tmp_path / place)), workspace=str(tmp_path))


@pytest.mark.parametrize("secret", ["", b""])
def test_empty_secret_never_seals_or_verifies(secret: str | bytes) -> None:
    with pytest.raises(ValueError, match="secret is empty"):
        build_record(RunState(), secret=secret, now=NOW, elapsed_s=0, question="?")
    with pytest.raises(ValueError, match="secret is empty"):
        check_record(record(), "a", secret=secret, now=NOW, max_age_s=1)


def test_no_age_limit_accepts_every_age() -> None:
    check_record(
        record(), "a", secret=SECRET, now=NOW + timedelta(days=9999), max_age_s=float("inf")
    )


_TEXTS = st.text(st.characters())
_OTHERS = st.binary() | st.datetimes() | st.builds(SimpleNamespace)
_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | _TEXTS | _OTHERS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner, inner)
        | st.sets(st.text(max_size=3), max_size=3)
        | st.dictionaries(_TEXTS | st.integers(), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(st.dictionaries(_TEXTS, _VALUES, max_size=4), _TEXTS, st.floats())
def test_any_run_state_round_trips_through_json(
    message: dict[str, Any], words: str, cost: float
) -> None:
    state = RunState(
        run_id="r",
        messages=[message],
        minted_refs=[message],
        cumulative_cost_usd=cost,
        last_repeat_counts={"run_code:0": 1},
    )
    told: dict[str, Any] = {"question": words, "pending_question_context": words}
    value = build_record(state, secret=SECRET, now=NOW, elapsed_s=cost, **told)
    back = SuspensionRecord.model_validate_json(value.model_dump_json())
    assert back.model_dump() == value.model_dump()
    check(back)


def test_unserializable_value_does_not_lose_the_question() -> None:
    nan = float("nan")
    state = RunState(run_id="r", messages=[{"content": "\ud83d", "score": nan}])
    state.cumulative_cost_usd = nan
    value = build_record(state, secret=SECRET, now=NOW, elapsed_s=1, question="\ud83d Which?")
    assert value.messages == [{"content": "?", "score": None}]
    assert value.pending_question == "? Which?"
    assert value.cumulative_cost_usd == 0.0
    assert state.messages[0]["content"] == "\ud83d"


def test_future_record_is_refused_beyond_clock_skew() -> None:
    check(record(), after=-timedelta(minutes=1))
    with pytest.raises(SuspensionExpired, match="future"):
        check(record(), after=-timedelta(hours=1))


def test_bare_record_needs_no_seal() -> None:
    token = compute_suspension_token(run_id="r", session_id="s", secret=SECRET)
    check(
        SuspensionRecord(
            run_id="r", session_id="s", suspension_token=token, suspended_at=NOW.isoformat()
        )
    )


_TAKE = """
import os
from parsimony_kernel.agent.failure.suspension import take_single_use
from parsimony_kernel.core.state import SuspensionRecord
os.environ["JUPYTER_DATA_DIR"] = place
record = SuspensionRecord(run_id="r", session_id="s", suspension_token="n.1", suspended_at="")
wait()
print(take_single_use(record))
"""


def test_one_process_takes_a_record_without_journal(tmp_path: Path, race: Race) -> None:
    taken = race(_TAKE, tmp_path)
    assert sorted(taken) == ["False"] * (len(taken) - 1) + ["True"]
    assert len(list((tmp_path / "parsimony" / "claims").iterdir())) == 1


def test_record_is_claimed_in_process_where_no_file_can_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_bytes(b"")
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path / "file"))
    asked = record()
    assert [take_single_use(asked), take_single_use(asked)] == [True, False]
