"""The file of recorded answers: what it keeps, and what it says of itself when it is broken."""

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from parsimony_kernel.core.chat import Completion, FunctionCall, ToolCall, Usage, answer
from parsimony_kernel.llm.cassette_file import (
    CassetteError,
    RecordedStep,
    RecordedTurn,
    Recording,
    Tape,
    parse,
    to_text,
)
from parsimony_kernel.llm.request_key import RequestKey
from parsimony_kernel.llm.secrets import Secrets

PATH = Path("cassettes/sales.yaml")
CODE = 'total = sales["amount"].sum()\ntotal'


def called(code: str = CODE) -> Completion:
    call = ToolCall("call_1_1", FunctionCall("run_code", json.dumps({"code": code})))
    return answer("Adding up.", [call], model="m", usage=Usage(12, 34), cost_usd=0.25)


def turn(words: str = "add up the sales", code: str = CODE, occurrence: int = 1) -> RecordedTurn:
    asked = f"tools:\n  run_code\n\nrequest:\n  {words}"
    return turn_of(called(code), asked=asked, words=words, occurrence=occurrence)


def turn_of(
    given: Completion, *, asked: str = "x", words: str = "x", occurrence: int = 1
) -> RecordedTurn:
    step = RecordedStep.of(RequestKey(1, asked), given, "m", Secrets({}))
    return RecordedTurn(request=words, occurrence=occurrence, model="m", steps=(step,))


def recording(*turns: RecordedTurn) -> Recording:
    return Recording(notebook="a.ipynb", turns=turns)


def step_of(given: Recording) -> Completion:
    return given.turns[0].steps[0].answer("m")


def again(recording: Recording) -> Recording:
    return parse(to_text(recording).encode(), PATH)


# Whatever a person or a model writes; a lone surrogate is replaced before it gets here.
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=80) | st.text(
    st.sampled_from(" \t\n\r\x85\u2028\ufeffab:-#|'\"{😀"), max_size=20
)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)


@example(words="\x85", asked="\t\nx", said="a\n ", thought=" ", name="\t\n", raw="\ufeff")
@given(words=texts, asked=texts, said=texts, thought=texts, name=texts, raw=texts)
def test_recording_round_trips(
    words: str, asked: str, said: str, thought: str, name: str, raw: str
) -> None:
    given_answer = answer(said or None, [ToolCall("call_1_1", FunctionCall(name, raw))], model="m")
    choice = given_answer.choices[0]
    message = replace(choice.message, reasoning_content=thought or None, opaque=json.dumps(thought))
    given_answer = replace(given_answer, choices=(replace(choice, message=message),))
    kept = recording(turn_of(given_answer, asked=asked, words=words))
    assert again(kept) == kept
    assert step_of(kept) == given_answer


@given(arguments=st.dictionaries(texts, values, max_size=4), is_compact=st.booleans())
def test_arguments_keep_their_meaning(arguments: dict[str, Any], is_compact: bool) -> None:
    separators = (",", ":") if is_compact else None
    written = json.dumps(arguments, ensure_ascii=False, separators=separators)
    call = ToolCall("call_1_1", FunctionCall("order", written))
    read = again(recording(turn_of(answer(calls=[call], model="m"))))
    kept = step_of(read).message.tool_calls[0]
    assert json.loads(kept.function.arguments) == json.loads(written)


@pytest.mark.parametrize("written", ["", "{", "[1]", '{"a": NaN}', '{"a": "\\ud800"}', "null"])
def test_non_object_arguments_stay_as_written(written: str) -> None:
    call = ToolCall("call_1_1", FunctionCall("order", written))
    read = again(recording(turn_of(answer(calls=[call], model="m"))))
    assert step_of(read).message.tool_calls[0].function.arguments == written


@pytest.mark.parametrize(
    "code", ["if x:\n\ty = 1", "x = 1   \n    \ny = 2", "  indented\nx", "\n\nx = '😀 grün'\n\n"]
)
def test_code_with_any_characters_is_stored_in_lines(code: str) -> None:
    kept = recording(turn(code=code))
    arguments = step_of(again(kept)).message.tool_calls[0].function.arguments
    assert json.loads(arguments) == {"code": code}
    text = to_text(kept)
    for line in filter(str.strip, code.splitlines()):
        assert any(written.endswith(line) for written in text.splitlines())


def test_changed_code_line_changes_one_file_line() -> None:
    def written(code: str) -> list[str]:
        return to_text(recording(turn(code=code), turn("another"))).splitlines()

    before, now = written(CODE), written(CODE.replace("sum", "mean"))
    differing = [(one, other) for one, other in zip(before, now, strict=True) if one != other]
    assert len(differing) == 1
    assert "mean" in differing[0][1]


def test_identical_rerecording_changes_nothing() -> None:
    ids = replace(called(), choices=called().choices)
    other = ToolCall("toolu_77", called().message.tool_calls[0].function)
    message = replace(ids.message, tool_calls=(other,))
    ids = replace(ids, choices=(replace(ids.choices[0], message=message),))
    words = "add up the sales"
    asked = turn().steps[0].asked
    assert to_text(recording(turn())) == to_text(recording(turn_of(ids, asked=asked, words=words)))


def test_concurrent_kernels_lose_no_recording(tmp_path: Path) -> None:
    path = tmp_path / "cassettes" / "a.yaml"
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda i: Tape(path, "a.ipynb").put(turn(f"turn {i}")), range(12)))
    words = {each.request for each in Tape(path, "a.ipynb").read().turns}
    assert words == {f"turn {i}" for i in range(12)}


def test_missing_recording_is_empty(tmp_path: Path) -> None:
    tape = Tape(tmp_path / "none.yaml", "a.ipynb")
    assert not tape.exists
    assert tape.read() == recording()
    assert not list(tmp_path.iterdir())


WHOLE = to_text(recording(turn()))


@pytest.mark.parametrize(
    ("spoilt", "told"),
    [
        ("", "holds no recording"),
        ("- a list", "holds no recording"),
        (WHOLE.replace("version: 1", "version: 2"), "a later release"),
        (WHOLE.replace("version: 1", "version: one"), "another release"),
        (WHOLE.replace("turns:", "<<<<<<< HEAD\nturns:"), "is no YAML at line"),
        (WHOLE.replace("  model: m\n", ""), r"turns\.0\.model"),
        (WHOLE.replace("step: 1", "step: first"), r"steps\.0\.step"),
        (WHOLE.replace("        code: |", "        at: 2026-01-01\n        code: |"), "arguments"),
        (WHOLE.replace("asked: |-", "asked: |- \n    x\n    other: |-"), "is no YAML"),
        (WHOLE.replace("tool: run_code", "tool: [run_code]"), r"calls\.0\.tool"),
        (WHOLE.replace("cost_usd: 0.25", "cost_usd: a quarter"), "cost_usd"),
        (WHOLE.replace("prompt: 12", "prompt: many"), "tokens.prompt"),
        (WHOLE + WHOLE.partition("turns:\n")[2], "one turn twice"),
        (WHOLE.partition("turns:")[0] + "turns: [1]\n", r"turns\.0"),
    ],
)
def test_unusable_file_names_reason_and_remedy(spoilt: str, told: str, tmp_path: Path) -> None:
    assert spoilt != WHOLE
    path = tmp_path / "a.yaml"
    path.write_text(spoilt)
    with pytest.raises(CassetteError, match=told) as raised:
        Tape(path, "a.ipynb").read()
    assert "a.yaml" in str(raised.value)
    assert "record the notebook again" in str(raised.value)


def test_file_cannot_create_python_objects(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text(WHOLE.replace("model: m", "model: !!python/object/apply:os.getcwd []"))
    with pytest.raises(CassetteError, match="no YAML"):
        Tape(path, "a.ipynb").read()
