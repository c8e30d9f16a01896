"""What tells one request from another, and what does not."""

import json
from pathlib import Path
from typing import Any

import pytest

from parsimony_kernel.agent.prompts import notebook_context
from parsimony_kernel.core.chat import ModelRequest
from parsimony_kernel.core.conversation import opening, request_message
from parsimony_kernel.llm.request_key import Place, normal_words, outline, request_key

HERE = Place(Path("/home/ann/work"))
THERE = Place(Path("/srv/ci/build 7/work"))

REQUEST = request_message("mean amount by region")


def asked(*messages: dict[str, Any], tools: tuple[str, ...] = ("run_code",)) -> ModelRequest:
    schemas = [{"type": "function", "function": {"name": name}} for name in tools]
    return ModelRequest([{"role": "system", "content": "You are."}, *messages], schemas)


def calling(call_id: str = "call_1") -> dict[str, Any]:
    function = {"name": "run_code", "arguments": "{}"}
    return {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": call_id, "type": "function", "function": function}],
    }


def result(content: str, call_id: str = "call_1") -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "name": "run_code", "content": content}


def second(content: str, place: Place = HERE) -> str:
    return request_key(asked(REQUEST, calling(), result(content)), place).text


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("an object at 0x7f3a5c0012d0", "an object at 0x7f00beef0000"),
        ("read at 2026-03-01T10:00:00.123+01:00", "read at 2027-12-24 09:30"),
        ("sha " + "a1" * 32, "sha " + "b2" * 32),
        ("digest " + "0c" * 16, "digest " + "9d" * 16),
        ("in /usr/share/zoneinfo/tzdata.zi", "in /opt/homebrew/share/tzdata.zi"),
        (r"in C:\Users\ann\data\x.csv", r"in D:\ci\x.csv"),
        ("took 0.31 s", "took 12.5 s"),
        ("wall time: 3 ms", "wall time: 417 ms"),
        ("trailing  \nspace", "trailing\nspace"),
    ],
)
def test_date_and_machine_do_not_count(one: str, other: str) -> None:
    assert second(one) == second(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("until 2026-03-01", "until 2026-03-02"),
        ("3 rows", "4 rows"),
        ("ratio 0.31", "ratio 0.32"),
        ("KeyError: 'a'", "KeyError: 'b'"),
        ("north/south/east", "north/south/west"),
        ("data/a.csv", "data/b.csv"),
        ("/home/ann/work/a.csv", "/home/ann/work/b.csv"),
        ("https://example.org/a/b.csv", "https://example.org/a/c.csv"),
    ],
)
def test_data_counts(one: str, other: str) -> None:
    assert second(one) != second(other)


def test_notebook_folder_does_not_count() -> None:
    here = second("no file '/home/ann/work/data/x.csv'")
    there = second("no file '/srv/ci/build 7/work/data/x.csv'", THERE)
    assert here == there
    assert "./data/x.csv" in here


def test_folder_with_common_prefix_is_different() -> None:
    assert "./" not in second("/home/ann/workshop/x.csv")


def test_library_frames_do_not_count_and_cell_frames_do() -> None:
    def traceback(version: str, line: int) -> str:
        library = (
            f'  File "/venv/lib/python3.11/site-packages/pandas/{version}.py", line {line}, in f'
        )
        return (
            f'  File "<cell>", line 2\n    df["x"]\n{library}\n    raise KeyError(x)\nKeyError: x'
        )

    assert second(traceback("core", 12)) == second(traceback("api", 99))
    assert 'df["x"]' in second(traceback("core", 12))
    assert "raise KeyError" not in second(traceback("core", 12))


SALES = {"name": "sales", "type": "dataframe", "rows": 2}


def opened(*later: dict[str, Any], **given: Any) -> ModelRequest:
    """A request of a turn in a notebook with this inventory."""
    inventory = {"working_folder": "work", "files": [], "variables": [], **given}
    return asked(*opening("mean amount by region", notebook_context(**inventory)), *later)


AROUND = {"working_folder": "other", "files": ["a.csv"], "artifacts": [{"title": "x"}]}
REMINDER = {"role": "user", "content": "<context_addendum>\nbe brief\n</context_addendum>"}
DRESSED = ModelRequest(
    [{"role": "system", "content": "You are another."}, REQUEST, REMINDER],
    [{"type": "function", "function": {"name": "run_code", "description": "Runs it."}}],
)
CALL_A_TOOL = {"role": "user", "content": "Call a tool."}
CONTEXT = notebook_context(working_folder="work", files=[], variables=[SALES])
BESIDE = {"role": "user", "content": f"{CONTEXT}\n\n{REQUEST['content']}"}
LATER = (calling(), result("1"))


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        (asked(REQUEST, *LATER), asked(REQUEST, calling("toolu_9"), result("1", "toolu_9")), True),
        # The system prompt, the reminders at the end and the descriptions of tools.
        (asked(REQUEST), DRESSED, True),
        (asked(REQUEST), asked(REQUEST, tools=("run_code", "order")), False),
        (asked(REQUEST), asked(CALL_A_TOOL, REQUEST), False),
        # What is around a notebook, and its variables.
        (opened(), opened(**AROUND), True),
        (opened(), opened(variables=[SALES]), False),
        (opened(), opened(variables=[SALES], replaceable=["sales"]), True),
        (opened(variables=[SALES]), opened(variables=[{**SALES, "rows": 3}]), False),
        # Where the inventory stands.
        (opened(variables=[SALES]), asked(BESIDE), True),
        (opened(*LATER, variables=[SALES]), asked(BESIDE, *LATER), True),
    ],
)
def test_requests_are_the_same_to_a_recording(
    one: ModelRequest, other: ModelRequest, is_same: bool
) -> None:
    assert (request_key(one, HERE) == request_key(other, HERE)) is is_same


def test_earlier_turns_of_this_kernel_count() -> None:
    earlier = [
        request_message("load the sales"),
        {"role": "assistant", "content": "`sales` has 2 rows."},
    ]
    alone = request_key(asked(REQUEST), HERE)
    after = asked(*earlier, REQUEST)
    assert request_key(after, HERE).text != alone.text
    known = Place(HERE.folder, asked=frozenset({"load the sales", "mean amount by region"}))
    unknown = Place(HERE.folder, asked=frozenset({"mean amount by region"}))
    assert request_key(after, known) == request_key(after, HERE)
    assert request_key(after, unknown) == alone


def test_step_is_counted_from_newest_request() -> None:
    earlier = [request_message("load"), {"role": "assistant", "content": "done"}]
    both = [*LATER, calling("call_2"), result("2", "call_2")]
    for step, done in enumerate(((), LATER, both), start=1):
        assert request_key(asked(*earlier, REQUEST, *done), HERE).step == step
    assert request_key(asked(CALL_A_TOOL, REQUEST), HERE).step == 1


def test_later_step_is_keyed_by_new_messages() -> None:
    first = (REQUEST, calling(), result("the first result"))
    both = (*first, calling("call_2"), result("the second result", "call_2"))
    text = request_key(asked(*both), HERE).text
    assert "the second result" in text
    assert "the first result" not in text


def test_secrets_are_removed() -> None:
    place = Place(HERE.folder, clean=lambda text: text.replace("hunter2", "[redacted]"))
    assert "hunter2" not in second("the password is hunter2", place)
    assert normal_words("log in with hunter2", place) == "log in with [redacted]"


def test_result_is_stored_in_diffable_lines() -> None:
    def lines(rows: int) -> list[str]:
        columns = [{"name": f"column_{i}", "samples": ["a" * 30, "b" * 30]} for i in range(3)]
        content = json.dumps({"requested": "run_code", "result": {"rows": rows, "is": columns}})
        return second(content).splitlines()

    differing = [
        (one, other) for one, other in zip(lines(5), lines(6), strict=True) if one != other
    ]
    assert [(one.strip(), other.strip()) for one, other in differing] == [("rows: 5", "rows: 6")]


def test_outline_contains_no_data() -> None:
    value = {"a": [], "b": "", "c": None, "d": [[1, 2], {"e": "x\ny"}], "f": "long " * 40}
    text = outline(value)
    for part in ("a: []", "b:", "c: null", "[1, 2]", "x", "y", "long " * 39):
        assert part in text
