"""A run goes round in a loop when it asks again for what it knows, and only then."""

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parsimony_kernel.gate.loops import MAX_SHOWN, Repetition

DELAYED = "Delayed, ETA Friday"
Step = tuple[str, dict[str, Any], str]


def first_loop(steps: Sequence[Step]) -> tuple[int, dict[str, Any]] | None:
    """The number of the first call that would go round, counted from 1, and what is said of it."""
    repetition = Repetition()
    for number, (name, args, observation) in enumerate(steps, 1):
        loop = repetition.before(name, args)
        if loop is not None:
            return number, loop.metadata["envelope"]["details"]
        repetition = repetition.after(name, args, observation)
    return None


def the_loop(steps: Sequence[Step]) -> tuple[int, dict[str, Any]]:
    found = first_loop(steps)
    assert found is not None
    return found


def search(query: str, observation: str = DELAYED) -> Step:
    return "search", {"query": query}, observation


def order(id: str, observation: str = DELAYED) -> Step:
    return "query_db", {"id": id}, observation


def cell(code: str, observation: str = "") -> Step:
    return "run_code", {"code": code}, observation


REPHRASED = [
    search("order A102 please"),
    search("status for order A102"),
    search("A102 shipment ETA"),
    search("where is order A102"),
]

LOOPS: list[tuple[str, list[Step], int, str]] = [
    ("a lookup, then rephrasings", [order("A102"), *REPHRASED[1:]], 4, "no_new_information"),
    ("rephrasings without an identifier",
     [search("effects of climate change"), search("climate change effects"),
      search("the effect of climate change"), search("what are effects of climate change")], 4,
     "no_new_information"),
    ("a cycle of two in other words",
     [search("status of order A102"), order("B7731", "sent"), search("where is A102"),
      order("B7731", "sent"), search("order A102")], 5, "cycle"),
    ("an object whose address is another each time",
     [cell("axes", f"<Axes object at 0x7f3a{n:08x}>") for n in range(3)], 3, "repeat"),
    ("a message for the person that changes",
     [("query_db", {"id": "A102", "_ui_message": f"try {n}"}, DELAYED) for n in range(3)], 3,
     "repeat"),
]  # fmt: skip


def searched(wording: str, *values: object) -> list[Step]:
    """Searches in one wording for one value after the other, of which none finds anything."""
    return [search(wording.format(value), "no data") for value in values]


UNKNOWN = "not available"
HONEST: list[tuple[str, list[Step]]] = [
    ("polling with a pause in between",
     [s for n in range(6) for s in (order("A102", f"{n} %"), ("pause", {"s": 5}, "ok"))]),
    ("polling that goes to and fro", [order("A102", "up" if n % 2 else "down") for n in range(9)]),
    ("three orders in the same words", [search(f"where is order A10{n}") for n in range(9)]),
    ("orders with numbers only", [search(f"where is order {1040 + n}") for n in range(9)]),
    ("years", searched("revenue in {}", *range(2015, 2024))),
    ("other questions about one year",
     searched("{} 2023", "revenue", "cost", "profit", "tax", "debt", "assets")),
    ("places that nothing but their name tells apart",
     searched("annual average rainfall of the state of {} since the war",
              *("Niger", "Nigeria", "Mali", "Malawi", "Austria", "Australia"))),
    ("names that a sign tells apart", searched("history of C{}", "", "#", "++", " = D", " < D")),
    ("two names that are nearly the same",
     searched("rainfall of {}", "Austria", "Australia")
     + searched("the rainfall in {}", "Austria", "Australia")),
    ("one field looked up between searches",
     [search("order A102", "no data"), ("query_db", {"id": "A102", "field": "price"}, "no data"),
      *searched("{}", "where is A102", "A102 shipment")]),
    ("cells without output", [cell(f"column_{name} = 1") for name in "abcdefgh"]),
    ("cells that show the same", [cell(f"df['{c}'].isna().sum()", "0") for c in "abcdefgh"]),
    ("tests that fail until the code is right",
     [s for n in range(6) for s in (("run_tests", {}, "3 failed"), ("edit", {"at": n}, "ok"))]),
    ("other fields of one order",
     [("query_db", {"id": "A102", "field": field}, UNKNOWN)
      for field in ("price", "weight", "colour", "size", "stock")]),
    ("one name in another role each time",
     [("query_db", {role: "A102"}, UNKNOWN)
      for role in ("id", "parent", "customer", "invoice", "ref")]),
    ("other tools for one order",
     [(f"get_{what}", {"id": "A102"}, UNKNOWN) for what in ("eta", "price", "x", "y")]),
    ("an end after three answers that were the same",
     [*REPHRASED[:3], ("return_done", {"summary": "A102 is delayed"}, "")]),
    ("a question to the person after three answers that were the same",
     [*REPHRASED[:3], ("ask_user", {"question": "Is A102 the right order?"}, "")]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("steps", "number", "kind"), [each[1:] for each in LOOPS], ids=[each[0] for each in LOOPS]
)
def test_loop_is_detected_before_next_call(steps: list[Step], number: int, kind: str) -> None:
    found = the_loop(steps)
    assert (found[0], found[1]["loop"]) == (number, kind)


@pytest.mark.parametrize("steps", [each[1] for each in HONEST], ids=[each[0] for each in HONEST])
def test_progress_is_no_loop(steps: list[Step]) -> None:
    assert first_loop(steps) is None


LINES = "a long line\n" * 1000


@pytest.mark.parametrize(
    ("steps", "known"),
    [
        ([order("A102")] * 3, DELAYED),
        ([order("A1002", "x"), search("ship", "y")] * 3, "x"),
        ([order("A102", LINES)] * 3, f"{LINES.replace(chr(10), ' ')[: MAX_SHOWN - 1]}…"),
    ],
    ids=["call", "cycle", "cut"],
)
def test_loop_answer_repeats_known_results(steps: list[Step], known: str) -> None:
    found = the_loop(steps)
    assert (found[1]["already_known"], found[1]["count"]) == (known, 3)


def test_long_texts_are_compared_whole() -> None:
    steps = [search("A102 " + "word " * 400 + str(n)) for n in range(6)]
    assert first_loop(steps) is None
    assert first_loop([steps[0]] * 3) is not None


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=6,
)
names = st.sampled_from(["query", "text", "id", "code", "n"])


@given(st.lists(st.tuples(st.dictionaries(names, values, max_size=3), st.text(max_size=9))))
def test_any_arguments_equal_themselves(made: list[tuple[dict[str, Any], str]]) -> None:
    repetition = Repetition()
    for args, observation in made:
        repetition.before("tool", args)
        repetition = repetition.after("tool", args, observation)
        assert Repetition.from_json(json.loads(json.dumps(repetition.to_json()))) == repetition
    for args, _ in made[-1:]:
        twice = repetition.after("tool", args, "same").after("tool", args, "same")
        assert twice.before("tool", args) is not None
        changed = twice.after("tool", args, "changed")
        loop = changed.before("tool", args)
        assert loop is None or loop.metadata["envelope"]["details"]["loop"] == "cycle"
