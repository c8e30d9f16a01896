"""Answers written down as they come, and given again without a model."""

import errno
import json
from collections.abc import AsyncIterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from parsimony_kernel.core.chat import (
    ChatModel,
    Completion,
    Delta,
    FunctionCall,
    ModelRequest,
    ToolCall,
    Usage,
    answer,
)
from parsimony_kernel.core.conversation import request_message
from parsimony_kernel.core.kinds import FailureRaised
from parsimony_kernel.llm.cassette import (
    CassetteError,
    CassetteMiss,
    Player,
    RecordedStep,
    RecordedTurn,
    Recording,
    Tape,
    TurnRecorder,
    WrapperModel,
    difference,
    parse,
    path_of,
    recorded,
    to_text,
)
from parsimony_kernel.llm.request_key import Place, RequestKey
from parsimony_kernel.llm.secrets import Secrets
from parsimony_kernel.storage import durable
from parsimony_kernel.storage.durable import StorageError
from parsimony_kernel.testing.scripted import ScriptedModel, Step, say

WORDS = "add up the sales"
PLACE = Place(Path("/work"))
SECRETS = Secrets({})


@pytest.fixture
def tape(tmp_path: Path) -> Tape:
    return Tape(path_of(tmp_path / "sales.ipynb"), "sales.ipynb")


def turn_of(words: str, occurrence: int = 1, model: str = "scripted") -> RecordedTurn:
    return RecordedTurn(request=words, occurrence=occurrence, model=model)


def contents(turn: RecordedTurn) -> list[str | None]:
    return [step.text for step in turn.steps]


def recorder(
    tape: Tape, *, words: str = WORDS, secrets: Secrets = SECRETS, goes_on: bool = False
) -> TurnRecorder:
    return TurnRecorder(tape, turn_of(words), PLACE, secrets, goes_on=goes_on)


def asked(*results: str, words: str = WORDS) -> ModelRequest:
    """The request of the step behind ``results``."""
    messages: list[dict[str, Any]] = [request_message(words)]
    for i, result in enumerate(results):
        function = {"name": "run_code", "arguments": "{}"}
        calls = [{"id": f"call_{i}", "type": "function", "function": function}]
        messages.append({"role": "assistant", "content": None, "tool_calls": calls})
        messages.append({"role": "tool", "tool_call_id": f"call_{i}", "content": result})
    return ModelRequest(messages)


async def said(model: ChatModel, *requests: ModelRequest) -> list[list[Delta | Completion]]:
    return [[item async for item in model.stream(request)] for request in requests]


async def record(tape: Tape, steps: Sequence[Step], *requests: ModelRequest) -> None:
    await said(recorded(ScriptedModel(steps), recorder(tape)), *requests)


def player(tape: Tape, words: str = WORDS) -> Player:
    return Player(tape.read(), words, 1, PLACE, shown="cassettes/sales.yaml")


async def miss(tape: Tape, request: ModelRequest, *before: ModelRequest) -> str:
    """What a player says that has no answer for ``request``."""
    playing = player(tape)
    await said(playing, *before)
    with pytest.raises(CassetteMiss) as raised:
        await said(playing, request)
    return str(raised.value)


async def test_recorded_answer_is_replayed_without_model(tape: Tape) -> None:
    spoken = answer("It is 3.", model="scripted", usage=Usage(5, 6), cost_usd=0.5)
    await record(tape, [spoken, say("Done.")], asked(), asked("3"))
    first, second = await said(player(tape), asked(), asked("3"))
    assert first == [Delta("It is 3."), spoken]
    assert second[0] == Delta("Done.")


async def test_unpriced_answer_costs_nothing_in_replay(tape: Tape) -> None:
    await record(tape, [say("Done.")], asked())
    (again,) = await said(player(tape), asked())
    assert isinstance(again[-1], Completion)
    assert again[-1].cost_usd == 0.0
    assert await player(tape).estimate_cost_usd(10, 10) == 0.0


async def test_failed_attempt_is_not_recorded(tape: Tape) -> None:
    model = recorded(ScriptedModel([ConnectionResetError("cut"), say("Done.")]), recorder(tape))
    with pytest.raises(ConnectionResetError):
        await said(model, asked())
    assert not tape.exists
    await said(model, asked())
    (again,) = await said(player(tape), asked())
    assert again[0] == Delta("Done.")


async def test_repeated_request_replays_answers_in_order(tape: Tape) -> None:
    await record(tape, [say("first"), say("second")], asked(), asked())
    heard = await said(player(tape), asked(), asked(), asked())
    assert [items[0] for items in heard] == [Delta("first"), Delta("second"), Delta("second")]


async def test_answer_is_on_disk_before_it_is_delivered(tape: Tape) -> None:
    model = recorded(ScriptedModel([say("first"), say("second")]), recorder(tape))
    async for item in model.stream(asked()):
        if isinstance(item, Completion):
            (turn,) = tape.read().turns
            assert contents(turn) == ["first"]


async def test_new_recording_replaces_its_turn_only(tape: Tape) -> None:
    await record(tape, [say("one"), say("two"), say("three")], asked(), asked("1"), asked("2"))
    other = recorded(ScriptedModel([say("other")]), recorder(tape, words="another"))
    await said(other, asked(words="another"))
    await record(tape, [say("uno")], asked())
    turns = {turn.request: contents(turn) for turn in tape.read().turns}
    assert turns == {WORDS: ["uno"], "another": ["other"]}


async def test_resumed_turn_keeps_earlier_recording(tape: Tape) -> None:
    await record(tape, [say("one"), say("two"), say("three")], asked(), asked("1"), asked("2"))
    going_on = recorder(tape, goes_on=True)
    await said(recorded(ScriptedModel([say("dos"), say("tres")]), going_on), asked("1"), asked("x"))
    (turn,) = tape.read().turns
    assert contents(turn) == ["one", "dos", "tres"]


async def test_mismatch_is_shown_line_by_line(tape: Tape) -> None:
    results = [json.dumps({"requested": "run_code", "result": {"rows": n}}) for n in (5, 7)]
    await record(tape, [say("one"), say("two")], asked(), asked(results[0]))
    lines = (await miss(tape, asked(results[1]), asked())).splitlines()
    assert "cassettes/sales.yaml" in lines[0]
    assert "step 2" in lines[0]
    assert [line for line in lines if line.startswith("-  ")] == ["-  rows: 5"]
    assert [line for line in lines if line.startswith("+  ")] == ["+  rows: 7"]
    assert "PARSIMONY_CASSETTE=record" in lines[-1]
    assert "--record" in lines[-1]


async def test_mismatch_is_compared_with_nearest_answer(tape: Tape) -> None:
    far, near = "\n".join("abcdef"), "\n".join("uvwxyz")
    await record(tape, [say("one")] * 3, asked(), asked(far), asked(near))
    told = await miss(tape, asked(near + "\n!"))
    assert [line for line in told.splitlines() if line.startswith("+ ")] == ["+  !"]


async def test_interrupted_recording_names_last_step(tape: Tape) -> None:
    await record(tape, [say("one")], asked())
    told = await miss(tape, asked("the result of step 1"), asked())
    assert "ends after step 1" in told
    assert "the result of step 1" in told


async def test_other_request_is_shown_beside_the_recorded_ones(tape: Tape) -> None:
    with pytest.raises(CassetteMiss, match="none at all"):
        player(tape)
    await record(tape, [say("one")], asked())
    with pytest.raises(CassetteMiss, match=r"1 turn of 'sales\.ipynb'"):
        player(tape, "zzzz")
    with pytest.raises(CassetteMiss, match=r"-add up the sales\n\+add up the sales by region"):
        player(tape, "add up the sales by region")


def test_difference_fits_one_screen() -> None:
    text = difference("\n".join(map(str, range(500))), "x" * 10_000)
    assert len(text.splitlines()) <= 42
    assert max(map(len, text.splitlines())) <= 160


async def test_same_words_in_another_cell_are_a_fallback(tape: Tape) -> None:
    for occurrence, text in ((1, "one"), (2, "two")):
        turn = turn_of(WORDS, occurrence, "second model" if occurrence == 2 else "first model")
        model = recorded(ScriptedModel([say(text)]), TurnRecorder(tape, turn, PLACE, SECRETS))
        await said(model, asked(words=f"{WORDS} {text}"))
    second = Player(tape.read(), WORDS, 2, PLACE, shown="x")
    assert second.name == "second model"
    heard = await said(second, asked(words=f"{WORDS} two"), asked(words=f"{WORDS} one"))
    assert [items[0] for items in heard] == [Delta("two"), Delta("one")]


async def test_unwritable_recording_ends_turn_with_remedy(
    tape: Tape, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise durable.storage_error(OSError(errno.ENOSPC, "full"), tape.path)

    monkeypatch.setattr(durable, "rewrite", full)
    with pytest.raises(FailureRaised) as raised:
        await said(recorded(ScriptedModel([say("one")]), recorder(tape)), asked())
    told = raised.value.failure.explanation
    assert "could not be recorded" in told
    assert "the disk is full" in told
    assert isinstance(raised.value.__cause__, StorageError)


class Detailed(ScriptedModel):
    """Says of itself all that a model may."""

    service = "scripted at http://127.0.0.1"
    secrets = ("canary",)
    max_answer_tokens = 512
    context_window = 8_192

    async def estimate_cost_usd(self, prompt_tokens: int, answer_tokens: int) -> float | None:
        return prompt_tokens * 2.0 + answer_tokens


async def test_model_metadata_passes_through(tape: Tape) -> None:
    around: Any = recorded(Detailed([], "detailed"), recorder(tape))
    for fact in ("name", "service", "secrets", "max_answer_tokens", "context_window"):
        assert getattr(around, fact) == getattr(Detailed([], "detailed"), fact)
    assert await around.estimate_cost_usd(3, 4) == 10.0
    bare = WrapperModel(ScriptedModel([], "bare"))
    assert bare.name == "bare"
    assert not hasattr(bare, "service")
    assert not hasattr(bare, "estimate_cost_usd")


class Closing(ScriptedModel):
    closed = False

    async def stream(self, request: ModelRequest) -> AsyncIterator[Delta | Completion]:
        try:
            yield Delta("first")
            yield Delta("second")
        finally:
            self.closed = True


async def test_abandoned_stream_is_closed_completely(tape: Tape) -> None:
    model = Closing([])
    stream = recorded(model, recorder(tape)).stream(asked())
    async for _ in stream:
        break
    await stream.aclose()  # type: ignore[attr-defined]
    assert model.closed
    assert not tape.exists


# The file of recorded answers: what it keeps, and what it says of itself when it is broken.


PATH = Path("cassettes/sales.yaml")
CODE = 'total = sales["amount"].sum()\ntotal'


def called(code: str = CODE) -> Completion:
    call = ToolCall("call_1_1", FunctionCall("run_code", json.dumps({"code": code})))
    return answer("Adding up.", [call], model="m", usage=Usage(12, 34), cost_usd=0.25)


def turn(words: str = "add up the sales", code: str = CODE, occurrence: int = 1) -> RecordedTurn:
    asked = f"tools:\n  run_code\n\nrequest:\n  {words}"
    return taped(called(code), asked=asked, words=words, occurrence=occurrence)


def taped(
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
    kept = recording(taped(given_answer, asked=asked, words=words))
    assert again(kept) == kept
    assert step_of(kept) == given_answer


@given(arguments=st.dictionaries(texts, values, max_size=4), is_compact=st.booleans())
def test_arguments_keep_their_meaning(arguments: dict[str, Any], is_compact: bool) -> None:
    separators = (",", ":") if is_compact else None
    written = json.dumps(arguments, ensure_ascii=False, separators=separators)
    call = ToolCall("call_1_1", FunctionCall("order", written))
    read = again(recording(taped(answer(calls=[call], model="m"))))
    kept = step_of(read).message.tool_calls[0]
    assert json.loads(kept.function.arguments) == json.loads(written)


@pytest.mark.parametrize("written", ["", "{", "[1]", '{"a": NaN}', '{"a": "\\ud800"}', "null"])
def test_non_object_arguments_stay_as_written(written: str) -> None:
    call = ToolCall("call_1_1", FunctionCall("order", written))
    read = again(recording(taped(answer(calls=[call], model="m"))))
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


def test_identical_rerecording_changes_nothing() -> None:
    ids = replace(called(), choices=called().choices)
    other = ToolCall("toolu_77", called().message.tool_calls[0].function)
    message = replace(ids.message, tool_calls=(other,))
    ids = replace(ids, choices=(replace(ids.choices[0], message=message),))
    words = "add up the sales"
    asked = turn().steps[0].asked
    assert to_text(recording(turn())) == to_text(recording(taped(ids, asked=asked, words=words)))


def test_concurrent_kernels_lose_no_recording(tmp_path: Path) -> None:
    path = tmp_path / "cassettes" / "a.yaml"
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda i: Tape(path, "a.ipynb").put(turn(f"turn {i}")), range(12)))
    words = {each.request for each in Tape(path, "a.ipynb").read().turns}
    assert words == {f"turn {i}" for i in range(12)}


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
