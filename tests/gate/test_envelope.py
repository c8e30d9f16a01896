"""The envelope stays small and can be sent, whatever is put in: any value becomes JSON, and none
gets its own way."""

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pydantic import BaseModel

from parsimony_kernel.core.kinds import Effect, Failure, FailureKind, RefusalError
from parsimony_kernel.gate.envelope import (
    MAX_BYTES,
    MAX_DEPTH,
    MAX_ITEMS,
    MAX_TEXT,
    Envelope,
    plain,
    refused,
    sanitised,
    succeeded,
    to_text,
)

BIG = 5_000_000


def answered(result: Any, names: tuple[str, ...] = ("look",)) -> Envelope:
    return succeeded("look", result, state="running", valid_next_actions=names)


def failed(requested: str = "look", /, **fields: Any) -> Envelope:
    failure = Failure(
        FailureKind.tool_error,
        fields.pop("explanation", "no"),
        partial_data=fields.pop("partial_data", None),
        metadata={"envelope": fields},
    )
    return refused(requested, sanitised(failure), state="running", valid_next_actions=["look"])


@pytest.mark.parametrize(
    "envelope",
    [
        answered(["x" * 3_000] * 500),
        answered("\N{OLD PERSONAL COMPUTER}" * BIG),
        answered(["\N{OLD PERSONAL COMPUTER}" * 3_000] * 6),
        answered({'"' * 150 + str(each): '"' * 150 for each in range(900)}),
        answered(1, tuple(f"tool_{each:060}" for each in range(5_000))),
        failed("n" * BIG),
        failed(explanation="e" * BIG),
        failed(details=[{"field": str(each), "problem": "p" * 500} for each in range(100_000)]),
        failed(details={"field": "f" * BIG}),
        failed(known_actions=[f"tool_{each:060}" for each in range(5_000)]),
        failed(reason="r" * BIG, error_message="m" * BIG),
        failed(**{f"field_{each}": "x" * 3_000 for each in range(1_000)}),
        failed(partial_data=["\ud800" * 3_000] * 500, explanation="half \ud800"),
    ],
)
def test_envelope_is_small_and_serializable(envelope: Envelope) -> None:
    text = to_text(envelope).encode()
    assert len(text) <= MAX_BYTES
    again = json.loads(text)
    assert again["requested"]
    assert isinstance(again["valid_next_actions"], list)
    assert again["valid_next_actions"]


def test_truncation_keeps_both_ends_and_says_so() -> None:
    message = failed(explanation="first " + "e" * BIG + " last")["message"]
    assert re.fullmatch(r"first .*characters left out.* last", message, re.DOTALL)
    assert len(message) < 2_100
    assert f"{BIG + 2 - MAX_TEXT} characters left out" in plain("a" + "x" * BIG + "z")


def test_details_are_few_and_short() -> None:
    details = failed(details=[{"field": "f" * 500}] * 100)["details"]
    assert details[20:] == ["… 80 more left out"]
    assert len(details[0]["field"]) < 250


def test_failure_metadata_cannot_replace_gate_fields() -> None:
    envelope = failed(error="none", requested="other", state=5, message="fine", reason="kept")
    assert envelope["error"] == "action_error"
    assert (envelope["requested"], envelope["state"]) == ("look", "running")
    assert (envelope["message"], envelope["reason"]) == ("no", "kept")


def test_failure_keeps_kind_and_loses_length() -> None:
    told = {"question": "q" * BIG, "seconds": 5, "envelope": {"details": ["d" * BIG]}}
    known = {"refusal": RefusalError.validation_failed, "effect": Effect.uncertain}
    blockers = tuple("b" * BIG for _ in range(30))
    failure = Failure(FailureKind.policy_violation, "e" * BIG, blockers, metadata={**told, **known})
    short = sanitised(failure)
    assert (short.kind, short.suggested_action) == (failure.kind, failure.suggested_action)
    assert {"refusal": short.refusal, "effect": short.effect} == known
    assert (short.metadata["seconds"], len(short.blockers)) == (5, 20)
    assert len(repr(short)) < 30_000


# Any value as JSON.


def breaks(*_: Any, **__: Any) -> Any:
    raise RuntimeError("mine")


def leaves(*_: Any, **__: Any) -> Any:
    raise SystemExit(3)


class BadDump(BaseModel):
    def model_dump(self, **_: Any) -> Any:
        return breaks()


class Meta(type):
    def __getattribute__(cls, name: str) -> Any:
        raise RuntimeError(name)


class OfMeta(metaclass=Meta):
    pass


def broken(name: str, base: type = object, *given: Any, **members: Any) -> Any:
    """An object of a class ``name`` whose ``members`` do harm."""
    return type(name, (base,), members)(*given)


BROKEN: dict[str, Callable[[], Any]] = {
    "BadStr": lambda: broken("BadStr", __str__=breaks),
    "Leaves": lambda: broken("Leaves", __str__=leaves),
    "NoText": lambda: broken("NoText", __str__=lambda self: 5),
    "BadForModel": lambda: broken("BadForModel", for_model=breaks),
    "BadDump": BadDump,
    "BadClass": lambda: broken("BadClass", __class__=property(breaks)),
    "LyingClass": lambda: broken("LyingClass", __class__=property(lambda self: str)),
    "BadList": lambda: broken("BadList", list, [1], __iter__=breaks),
    "BadLength": lambda: broken("BadLength", list, [1], __len__=breaks),
    "BadDict": lambda: broken("BadDict", dict, {"a": 1}, items=breaks),
    "OfMeta": OfMeta,
}


def as_sent(value: Any) -> str:
    """The JSON of the strictest reader: UTF-8, and no word but JSON's."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    text.encode()
    return text


@pytest.mark.parametrize("name", BROKEN)
def test_unprintable_object_is_described(name: str) -> None:
    shown = plain({"kept": 1, "value": BROKEN[name]()})
    assert shown["kept"] == 1
    assert shown["value"].startswith(f"a {name} that cannot be shown (")
    as_sent(shown)


def test_unprintable_key_is_described() -> None:
    assert list(plain({broken("BadKey", __str__=breaks): 1}).values()) == [1]


def test_keyboard_interrupt_passes_through() -> None:
    def interrupted(_: Any) -> str:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        plain(broken("Interrupted", __str__=interrupted))


def referring_to_itself() -> Any:
    ring: list[Any] = []
    ring += [ring] * 50
    return ring


def a_ring_of_dicts() -> Any:
    ring: dict[str, Any] = {}
    ring["again"] = ring
    return ring


def deep(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


class Itself:
    def for_model(self) -> "Itself":
        return self


class Endless(list[int]):
    def __iter__(self) -> Iterator[int]:
        while True:
            yield 1


@pytest.mark.parametrize(
    "value",
    [referring_to_itself(), a_ring_of_dicts(), deep(100_000), Itself()],
    ids=["ring", "dict ring", "deep", "itself"],
)
def test_endless_nesting_is_cut_and_marked(value: Any) -> None:
    text = as_sent(plain(value))
    assert f"deeper than {MAX_DEPTH} levels" in text
    assert len(text) < 1_000_000


def test_allowed_depth_is_kept_whole() -> None:
    value = deep(MAX_DEPTH)
    assert plain(value) == value
    assert plain(deep(MAX_DEPTH + 1)) != deep(MAX_DEPTH + 1)


def test_wide_container_is_cut_and_counts_what_is_missing() -> None:
    many = MAX_ITEMS + 7
    assert plain(list(range(many)))[MAX_ITEMS:] == ["… 7 more left out"]
    pairs = plain({str(each): each for each in range(many)})
    assert len(pairs) == MAX_ITEMS + 1
    assert pairs["…"] == "… 7 more left out"
    assert len(plain(Endless())) == MAX_ITEMS


def test_total_text_is_capped() -> None:
    text = as_sent(plain([["x" * MAX_TEXT] * 900] * 900))
    assert len(text) < 300_000
    assert "more left out" in text


def test_secret_is_removed_from_keys_and_both_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    secret = "hush-hush-1234567890"
    monkeypatch.setenv("SERVICE_API_KEY", secret)
    long = secret + "x" * 1_000_000 + secret
    assert secret not in as_sent(plain({secret: [secret, long]}))


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (float("nan"), "NaN"),
        (float("-inf"), "-Infinity"),
        ("half \ud800", "half ?"),
        ({"\ud800": 1}, {"?": 1}),
        ({1: "a", "1": "b"}, {"1": "a", "1 (1)": "b"}),
        ({"b", 2, "a", (1,)}, ["a", "b", 2, [1]]),
        (b"\xff\x00", "2 bytes: b'\\xff\\x00'"),
        (1 << 5_000, "an integer of 5,001 bits"),
        (True, True),
        (object, "<class 'object'>"),
    ],
)
def test_values_without_json_form_are_described(value: Any, shown: Any) -> None:
    assert plain(value) == shown
    assert json.loads(as_sent(plain(value))) == shown


def test_set_order_is_stable() -> None:
    words = [f"w{number}" for number in range(50)]
    assert plain(set(words)) == plain(frozenset(words)) == sorted(words)


def test_subclassed_numbers_and_strings_become_plain() -> None:
    class Odd(int):
        __int__ = __repr__ = __str__ = __eq__ = breaks
        __hash__ = int.__hash__

    class Loud(str):
        __str__ = __len__ = encode = breaks

    assert type(plain(Odd(5))) is int
    assert as_sent(plain([Odd(5), Loud("a")])) == '[5, "a"]'
