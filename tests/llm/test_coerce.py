"""What can be read of an adapter's answer is read; the rest is a failure that names the part."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from parsimony_kernel.core.chat import (
    Beat,
    Choice,
    Completion,
    Delta,
    FunctionCall,
    Message,
    ToolCall,
    Usage,
)
from parsimony_kernel.core.kinds import FailureKind, FailureRaised
from parsimony_kernel.llm.coerce import read, secrets_of
from parsimony_kernel.testing.scripted import call, calls

GOOD = replace(calls(call("look", at="a"), text="So."), usage=Usage(3, 2), model="m", cost_usd=0.25)


def message(**fields: Any) -> Any:
    return Completion((Choice(Message(**fields)),), model="m")


def asks(call_id: Any = "a", name: Any = "look", arguments: Any = "{}") -> Any:
    return message(tool_calls=(ToolCall(call_id, FunctionCall(name, arguments)),))


def test_valid_answer_is_unchanged() -> None:
    for item in (GOOD, Delta("a", "b"), Delta(), Completion(choices=())):
        assert read(item, model="other") == item


UNCOUNTED = replace(GOOD, usage=Usage())
SHAPED: Any = SimpleNamespace(message=GOOD.message, finish_reason="tool_calls")
READABLE: list[tuple[str, Any, Any]] = [
    ("a delta of nothing", Delta(None, None), Delta()),  # type: ignore[arg-type]
    ("choices in a list", Completion(list(GOOD.choices), GOOD.usage, "m", 0.25), GOOD),  # type: ignore[arg-type]
    ("no model", Completion(GOOD.choices, GOOD.usage, None, 0.25), GOOD),  # type: ignore[arg-type]
    ("no tool calls", message(content="a", tool_calls=None), message(content="a")),
    ("content in parts", message(content=[{"type": "text", "text": "a"}, {"type": "image"}]),
     message(content="a")),
    ("text in two parts", message(content=[{"text": "a"}, {"text": "b"}]), message(content="ab")),
    ("arguments in an object", asks(arguments={"at": "ü"}), asks(arguments='{"at": "ü"}')),
    ("no id", asks(call_id=None), asks(call_id="")),
    ("no name", asks(name=None), asks(name="")),
    ("no arguments", asks(arguments=None), asks(arguments="")),
    ("no usage", replace(GOOD, usage=None), UNCOUNTED),  # type: ignore[arg-type]
    ("usage in words", replace(GOOD, usage=Usage("5", "6")), UNCOUNTED),  # type: ignore[arg-type]
    ("usage of another shape", replace(GOOD, usage=SimpleNamespace()), UNCOUNTED),  # type: ignore[arg-type]
    ("a price in words", replace(GOOD, cost_usd="1"), replace(GOOD, cost_usd=None)),  # type: ignore[arg-type]
    ("a price in a list", replace(GOOD, cost_usd=[1]), replace(GOOD, cost_usd=None)),  # type: ignore[arg-type]
    ("another shape of choice", Completion((SHAPED,), GOOD.usage, "m", 0.25), GOOD),
]  # fmt: skip


@pytest.mark.parametrize(
    ("given", "meant"), [c[1:] for c in READABLE], ids=[c[0] for c in READABLE]
)
def test_readable_answer_is_coerced(given: Any, meant: Any) -> None:
    assert read(given, model="m") == meant


HALF = "a\ud800"


@pytest.mark.parametrize(
    "item",
    [
        Delta(HALF, HALF),
        message(content=HALF, reasoning_content=HALF),
        asks(call_id=HALF, name=HALF, arguments=HALF),
    ],
)
def test_lone_surrogate_is_replaced(item: Any) -> None:
    assert "\\ud800" not in repr(read(item, model="m"))


def test_refusal_field_becomes_finish_reason() -> None:
    refusing = SimpleNamespace(content=None, refusal="I will not.")
    choice: Any = SimpleNamespace(message=refusing, finish_reason="stop")
    got = read(Completion((choice,)), model="m")
    assert isinstance(got, Completion)
    assert got.choices[0].finish_reason == "refusal"


UNREADABLE: list[tuple[Any, str]] = [
    (None, "NoneType for an item of its stream"),
    ("text", "str for an item of its stream"),
    (Beat(1.0), "Beat for an item of its stream"),
    (Delta(5), "int for the text of a Delta"),  # type: ignore[arg-type]
    (Delta("a", ["b"]), "list for the reasoning of a Delta"),  # type: ignore[arg-type]
    (Completion(None), "NoneType for the choices"),  # type: ignore[arg-type]
    (Completion((Choice(None),)), "NoneType for the message"),  # type: ignore[arg-type]
    (Completion(("text",)), "NoneType for the message"),  # type: ignore[arg-type]
    (message(content=5), "int for the content"),
    (message(content=[{"text": 5}]), "int for a part of the content"),
    (message(reasoning_content=5), "int for the reasoning_content"),
    (message(tool_calls=5), "int for the tool_calls"),
    (message(tool_calls=(5,)), "NoneType for the function of a call"),
    (asks(call_id=5), "int for the id of a call"),
    (asks(name=5), "int for the name of a call"),
    (asks(arguments=5), "int for the arguments of a call"),
    (Completion((Choice(Message("a"), 5),)), "int for the finish_reason"),  # type: ignore[arg-type]
]


@pytest.mark.parametrize(("item", "told"), UNREADABLE, ids=[told for _, told in UNREADABLE])
def test_unreadable_part_is_named(item: Any, told: str) -> None:
    with pytest.raises(FailureRaised) as raised:
        read(item, model="m")
    failure = raised.value.failure
    assert failure.kind is FailureKind.capability_gap
    assert failure.blockers == (f"The model's adapter gave {told}.",)
    assert failure.metadata["remedy"] in failure.explanation


@pytest.mark.parametrize(
    ("given", "known"),
    [(("a", "b"), ("a", "b")), (["a", None, 5], ("a",)), (None, ()), ("abc", ()), (5, ())],
)
def test_only_strings_in_a_sequence_are_secrets(given: Any, known: tuple[str, ...]) -> None:
    assert secrets_of(SimpleNamespace(secrets=given)) == known
    assert secrets_of(object()) == ()
