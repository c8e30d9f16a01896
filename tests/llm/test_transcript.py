"""``repair`` mends every breach of the protocol, once, and touches nothing else."""

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parsimony_kernel.llm.extras import given_back
from parsimony_kernel.llm.transcript import MISSING_RESULT, Repairer, repair
from parsimony_kernel.testing.provider import transcript_breach


def called(id_: Any, text: Any, name: Any = "run_code") -> dict[str, Any]:
    return {"id": id_, "type": "function", "function": {"name": name, "arguments": text}}


def turn(*calls: tuple[Any, Any], content: Any = None) -> dict[str, Any]:
    made = [called(id_, text) for id_, text in calls]
    return {"role": "assistant", "content": content, "tool_calls": made}


def result(id_: Any, content: Any = "ok") -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": id_, "content": content}


USER = {"role": "user", "content": "go"}

texts = st.one_of(
    st.none(), st.sampled_from(["", " \n", "hi", "\ud83d lone", "ü"]), st.text(max_size=8)
)
ids = st.sampled_from(["a", "b", "a_2", "", None, 7])
ARGUMENTS = (
    '{"code": "1"}', "{}", '{"code": ', "[1]", '"x"', "NaN", '{"x": NaN}', "", '{"s":"\\ud800"}'
)  # fmt: skip
arguments = st.one_of(
    st.sampled_from(ARGUMENTS),
    st.none(),
    st.dictionaries(st.sampled_from(["code", "n"]), st.integers(), max_size=2),
    st.text(max_size=6),
)
names = st.sampled_from(["run_code", "", None, "functions.run code", "x" * 80])
broken = st.sampled_from([{}, {"id": "a"}, "nonsense"])
calls = st.lists(st.one_of(st.builds(called, ids, arguments, names), broken), max_size=3)
roles = st.sampled_from(["system", "user", "developer", "function", None])
answers = {
    "role": st.just("assistant"),
    "content": texts,
    "tool_calls": st.one_of(st.none(), calls),
    "metadata": st.integers(),
}
messages = st.one_of(
    st.fixed_dictionaries({"role": roles, "content": texts}),
    st.fixed_dictionaries(answers),
    st.builds(result, ids, st.one_of(texts, st.just({"rows": 3}))),
)
transcripts = st.lists(messages, max_size=10)


@given(transcripts)
def test_strict_provider_accepts_any_repaired_transcript(transcript: list[dict[str, Any]]) -> None:
    repaired = repair([*transcript, USER])
    assert transcript_breach(repaired) is None
    json.dumps(repaired, ensure_ascii=False).encode()


@given(transcripts)
def test_repair_is_idempotent(transcript: list[dict[str, Any]]) -> None:
    once = repair(transcript)
    assert repair(once) == once


@given(transcripts)
def test_input_is_unchanged_and_unshared(transcript: list[dict[str, Any]]) -> None:
    before = copy.deepcopy(transcript)
    repaired = repair(transcript)
    for message in repaired:
        message["content"] = "changed"
        for call in message.get("tool_calls", ()):
            call["function"]["arguments"] = "changed"
    assert transcript == before


@given(transcripts, transcripts)
def test_settled_prefix_is_repaired_independently(
    prefix: list[dict[str, Any]], rest: list[dict[str, Any]]
) -> None:
    settled = repair([*prefix, turn(("end", "{}")), result("end")])
    whole = repair([*prefix, turn(("end", "{}")), result("end"), turn(content="so"), *rest])
    assert whole[: len(settled)] == settled


@given(st.lists(st.tuples(transcripts, st.integers(0, 3)), max_size=5))
def test_incremental_repair_equals_full_repair(
    parts: list[tuple[list[dict[str, Any]], int]],
) -> None:
    repairer = Repairer()
    growing: list[dict[str, Any]] = []
    for added, taken_back in parts:
        growing = [*growing[: len(growing) - taken_back], *added]
        assert repairer.repair(growing) == repair(growing)


def test_late_result_is_used_after_undo() -> None:
    repairer = Repairer()
    asked = turn(("a", "{}"))
    assert MISSING_RESULT in str(repairer.repair([asked, turn(content="so")]))
    assert repairer.repair([asked, result("a")]) == [asked, result("a")]


def test_repaired_messages_are_not_repaired_again() -> None:
    repairer = Repairer()
    transcript = [USER, turn(("a", "{}")), result("a"), turn(("b", "{}")), result("b")]
    earlier = repairer.repair(transcript)
    later = repairer.repair([*transcript, turn(content="so"), USER])
    # The last turn could still have been answered otherwise, so it is read again.
    same = [a is b for a, b in zip(earlier, later, strict=False)]
    assert same == [True, True, True, False, False]


def test_valid_transcript_is_unchanged() -> None:
    valid = [
        {"role": "system", "content": "be brief"},
        USER,
        {**turn(("a", '{"code":  "1"}'), ("b", "{}"), content="Two."), "opaque": "{}"},
        result("a"),
        {**result("b", ""), "name": "run_code"},
        {"role": "user", "content": [{"type": "text", "text": "and?"}]},
        {"role": "assistant", "content": "Done."},
    ]
    assert transcript_breach(given_back(valid, "openai/gpt-5")) is None
    assert repair(valid) == valid


CASES: list[tuple[str, list[dict[str, Any]], list[dict[str, Any]]]] = [
    ("a call without a result gets one that says so", [turn(("a", "{}")), USER],
     [turn(("a", "{}")), result("a", MISSING_RESULT), USER]),
    ("a result without a call is dropped", [USER, result("a")], [USER]),
    ("a second result is dropped", [turn(("a", "{}")), result("a", "1"), result("a", "2")],
     [turn(("a", "{}")), result("a", "1")]),
    ("results follow their turn in the order of the calls",
     [turn(("a", "{}"), ("b", "{}")), result("b"), USER, result("a")],
     [turn(("a", "{}"), ("b", "{}")), result("a"), result("b"), USER]),
    ("a repeated id is renamed, its result with it",
     [turn(("a", "{}"), ("a", "{}")), result("a", "1"), result("a", "2")],
     [turn(("a", "{}"), ("a_2", "{}")), result("a", "1"), result("a_2", "2")]),
    ("an id that a later turn repeats is renamed there",
     [turn(("a", "{}")), result("a", "1"), turn(("a", "{}")), result("a", "2")],
     [turn(("a", "{}")), result("a", "1"), turn(("a_2", "{}")), result("a_2", "2")]),
    ("arguments that are no JSON object are quoted in one",
     [turn(("a", '{"code": "pri')), result("a")],
     [turn(("a", '{"_raw_args": "{\\"code\\": \\"pri"}')), result("a")]),
    ("an empty turn is dropped", [USER, turn(), turn(content=" ")], [USER]),
    ("an empty list of calls disappears", [turn(content="hi")],
     [{"role": "assistant", "content": "hi"}]),
    ("keys that no provider knows are left out", [{**USER, "metadata": {"context_snapshot": True}}],
     [USER]),
]  # fmt: skip


@pytest.mark.parametrize(("broken", "mended"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_each_breach_is_repaired(
    broken: list[dict[str, Any]], mended: list[dict[str, Any]]
) -> None:
    assert repair(broken) == mended
