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


def second(content: str, place: Place = HERE, call_id: str = "call_1") -> str:
    messages = (REQUEST, calling(call_id), result(content, call_id))
    return request_key(asked(*messages), place).text


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


def test_call_ids_do_not_count() -> None:
    assert second("1", call_id="call_abc123") == second("1", call_id="toolu_0099")


def test_release_specific_text_does_not_count() -> None:
    reminder = {"role": "user", "content": "<context_addendum>\nbe brief\n</context_addendum>"}
    plain = asked(REQUEST)
    dressed = ModelRequest(
        [{"role": "system", "content": "You are another."}, REQUEST, reminder],
        [{"type": "function", "function": {"name": "run_code", "description": "Runs it."}}],
    )
    assert request_key(plain, HERE) == request_key(dressed, HERE)


def test_added_tool_counts() -> None:
    more = asked(REQUEST, tools=("run_code", "order"))
    assert request_key(asked(REQUEST), HERE) != request_key(more, HERE)


def test_one_time_instruction_counts() -> None:
    told = asked({"role": "user", "content": "Call a tool."}, REQUEST)
    assert request_key(asked(REQUEST), HERE) != request_key(told, HERE)
    assert request_key(told, HERE).step == 1


def test_variables_count_and_notebook_surroundings_do_not() -> None:
    def told(**given: Any) -> str:
        inventory = {"working_folder": "work", "files": [], "variables": [], **given}
        messages = opening("mean amount", notebook_context(**inventory))
        return request_key(asked(*messages), HERE).text

    sales = {"name": "sales", "type": "dataframe", "rows": 2}
    bare = told()
    assert told(working_folder="other", files=["a.csv"], artifacts=[{"title": "x"}]) == bare
    assert told(variables=[sales]) != bare
    assert told(variables=[sales]) != told(variables=[{**sales, "rows": 3}])
    assert told(variables=[sales], replaceable=["sales"]) == bare


def test_inventory_position_does_not_count() -> None:
    sales = [{"name": "sales", "type": "dataframe", "rows": 2}]
    context = notebook_context(working_folder="work", files=[], variables=sales)
    beside = {"role": "user", "content": f"{context}\n\n{REQUEST['content']}"}
    now = opening("mean amount by region", context)
    assert request_key(asked(*now), HERE) == request_key(asked(beside), HERE)
    later = (calling(), result("1"))
    assert request_key(asked(*now, *later), HERE) == request_key(asked(beside, *later), HERE)


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
    steps = [
        request_key(asked(*earlier, REQUEST, *done), HERE).step
        for done in (
            (),
            (calling(), result("1")),
            (calling(), result("1"), calling("call_2"), result("2", "call_2")),
        )
    ]
    assert steps == [1, 2, 3]


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
