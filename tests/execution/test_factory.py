"""Any value becomes an output, whatever it does when it is looked at."""

import json
import subprocess
import sys
import tracemalloc
from array import array
from collections import Counter, OrderedDict, UserList, defaultdict, deque, namedtuple
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import altair as alt
import numpy as np
import pandas as pd
import pytest
from pydantic import ValidationError

from parsimony_kernel.core.outputs import (
    ColumnSummary,
    DataFrameObject,
    ExceptionObject,
    FetchLogEntry,
    FigureObject,
    KernelOutput,
    PrimitiveObject,
)
from parsimony_kernel.execution.factory import (
    DISPLAY_CHARS,
    SNAPSHOT_BYTES,
    OutputFactory,
    summarise,
)
from parsimony_kernel.execution.interrupt import DeadlineReached

FACTORY = OutputFactory()


class Raises:
    def __repr__(self) -> str:
        raise ValueError("no")


class Endless:
    def __repr__(self) -> str:
        return "x" * 10_000_000


class NoText:
    def __repr__(self) -> Any:
        return 7


@dataclass
class Holder:
    items: list[int] = field(default_factory=lambda: list(range(1_000_000)))


def primitive(value: Any) -> PrimitiveObject:
    output = FACTORY.convert(value)
    assert isinstance(output, PrimitiveObject)
    return output


@pytest.mark.parametrize("value", [Raises(), NoText(), [Raises()], {"k": Raises()}])
def test_raising_repr_is_still_an_output(value: Any) -> None:
    assert primitive(value).text


@pytest.mark.parametrize(
    "value",
    [
        Endless(), Holder(), "x" * 10_000_000, list(range(1_000_000)),
        dict.fromkeys(range(1_000_000)), set(range(1_000_000)), deque(range(1_000_000)),
        10**100_000, b"y" * 10_000_000, [[["z" * 10_000] * 100] * 100] * 100,
        np.zeros((1_000, 1_000)), bytearray(10_000_000), array("d", bytes(8_000_000)),
    ],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_huge_value_is_cut(value: Any) -> None:
    output = primitive(value)
    assert 0 < len(output.text) <= DISPLAY_CHARS


@pytest.mark.parametrize("value", [bytearray(10_000_000), array("d", bytes(8_000_000))])
def test_large_buffer_is_cut_before_it_is_written(value: Any) -> None:
    tracemalloc.start()
    try:
        output = primitive([value])
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()
    assert output.truncated
    assert output.text.startswith(f"[{type(value).__name__}(")


def test_long_chain_of_errors_keeps_its_first_cause() -> None:
    error = ValueError("first")
    for _ in range(3_000):
        error, error.__cause__ = ValueError("next"), error
    assert FACTORY.exception(error).traceback.startswith("ValueError: first")


class Mine(list[int]):
    def __repr__(self) -> str:
        return "mine"


class Listed(list[Any]):
    pass


Pair = namedtuple("Pair", "first second")


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (42, "42"),
        ({"a": [1, "é"]}, "{'a': [1, 'é']}"),
        (Mine([1]), "mine"),
        (type("dict", (), {"__repr__": lambda self: "mine", "items": lambda self: 7})(), "mine"),
        (UserList([1]), "[1]"),
        (Pair(1, [2]), "Pair(first=1, second=[2])"),
        (Listed(), "[]"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_small_value_is_shown_as_its_class_says(value: Any, shown: str) -> None:
    assert (primitive(value).text, primitive(value).truncated) == (shown, False)


def test_exception_value_is_an_exception_object() -> None:
    output = FACTORY.convert(KeyError("yaer"))
    assert isinstance(output, ExceptionObject)
    assert (output.name, output.message) == ("KeyError", "'yaer'")


def test_client_error_status_is_found() -> None:
    class Response:
        status_code = 429

    class HTTPError(Exception):
        response = Response()

    assert FACTORY.exception(HTTPError()).status_code == 429
    assert FACTORY.exception(ValueError()).status_code is None


def test_refused_altair_chart_says_why() -> None:
    big = pd.DataFrame({"x": range(6_000)})
    output = FACTORY.convert(alt.Chart(big).mark_bar().encode(x="x"))
    assert isinstance(output, PrimitiveObject)
    assert "MaxRowsError" in output.text


def test_mime_bundle_becomes_picture_or_text() -> None:
    drawn = FACTORY.convert_bundle({"image/png": b"\x89PNG...", "text/plain": "<Figure>"})
    assert isinstance(drawn, FigureObject)
    assert drawn.png_base64
    told = FACTORY.convert_bundle({"text/plain": "<a.B object>", "text/html": "<b>x &amp; y</b>"})
    assert isinstance(told, PrimitiveObject)
    assert told.text == "x & y"


def test_namespace_is_summarized_in_order() -> None:
    told, more = summarise({"n": 3, "df": pd.DataFrame({"x": [1]}), "f": len, "C": Holder})
    assert [each["name"] for each in told] == ["n", "df", "f", "C"]
    assert [each.get("python_type", each["type"]) for each in told] == [
        "int", "dataframe", "function", "class",
    ]  # fmt: skip
    assert more == 0


def test_large_namespace_keeps_tables_and_counts_the_rest() -> None:
    variables: dict[str, Any] = {f"s{i}": "text " * 30 for i in range(200)}
    variables["df"] = pd.DataFrame({"x": [1]})
    told, more = summarise(variables)
    assert told[-1]["name"] == "df"
    assert len(told) + more == 201
    assert len(json.dumps(told)) <= SNAPSHOT_BYTES


def test_tables_that_do_not_fit_are_not_all_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[str] = []
    summary = OutputFactory.summary

    def counting(self: OutputFactory, value: Any, name: str) -> Any:
        looked.append(name)
        return summary(self, value, name)

    monkeypatch.setattr(OutputFactory, "summary", counting)
    wide = pd.DataFrame({f"c{i}": ["text " * 9] for i in range(12)})
    told, more = summarise({f"t{i}": wide for i in range(200)} | {"n": 3})
    assert [each["name"] for each in told][-1] == "n"
    assert len(looked) < len(told) + 5
    assert len(told) + more == 201


def test_no_library_is_imported_to_inspect() -> None:
    program = (
        "import sys\n"
        "from parsimony_kernel.execution.factory import OutputFactory, summarise\n"
        "OutputFactory().convert([1, 'a', {}]); summarise({'x': object()})\n"
        "print(sorted({'pandas', 'altair', 'narwhals', 'IPython'} & set(sys.modules)))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert ran.stdout.strip() == "[]"


class Exits:
    def __repr__(self) -> str:
        raise SystemExit

    __str__ = __repr__

    def __ne__(self, other: object) -> bool:
        raise SystemExit

    def __eq__(self, other: object) -> bool:
        raise SystemExit


def test_unreadable_object_hides_no_other() -> None:
    kept, more = summarise({"a": Exits(), "b": 7, "c": [Exits(), 8]})
    assert more == 0
    assert [each["name"] for each in kept] == ["a", "b", "c"]
    assert "raises SystemExit" in kept[0]["text"]
    assert kept[1]["text"] == "7"
    assert "raises SystemExit" in kept[2]["text"]
    assert ", 8]" in kept[2]["text"]


@pytest.mark.parametrize("stop", [KeyboardInterrupt, DeadlineReached])
def test_stop_and_deadline_end_inspection(stop: type[BaseException]) -> None:
    class Slow:
        def __repr__(self) -> str:
            raise stop

    for look in (FACTORY.convert, lambda value: FACTORY.summary(value, "x")):
        with pytest.raises(stop):
            look(Slow())


class Looked:
    """A value that counts how often one of its kind is shown."""

    count = 0

    def __repr__(self) -> str:
        Looked.count += 1
        return "v"


class Keyed(dict[Any, Any]):
    pass


@pytest.mark.parametrize(
    ("make", "shown"),
    [
        (list, "[v, v, "),
        (set, "{v, v, "),
        (deque, "deque([v, v, "),
        (Listed, "[v, v, "),
        (Counter, "Counter({v: 1, "),
        (OrderedDict.fromkeys, "OrderedDict({v: None, "),
        (Keyed.fromkeys, "{v: None, "),
        (lambda values: defaultdict(int, dict.fromkeys(values)), "defaultdict({v: None, "),
        (lambda values: Pair(values, 2), "Pair(first=[v, v, "),
        (lambda values: {"k": [(values,)]}, "{'k': [([v, v, "),
        (lambda values: np.array(values, dtype=object), "ndarray of shape (5000,), dtype object"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_only_first_of_many_values_are_inspected(
    make: Callable[[list[Looked]], Any], shown: str
) -> None:
    value = make([Looked() for _ in range(5_000)])
    Looked.count = 0
    for output in (FACTORY.convert(value), FACTORY.summary(value, "x")):
        assert isinstance(output, PrimitiveObject)
        assert output.text.startswith(shown)
        assert "..." in output.text
    assert Looked.count <= 110


def test_nested_table_shows_its_size() -> None:
    """Its own repr may show every row, when the person has asked pandas for that."""
    frame = pd.DataFrame({"x": range(100_000), **{f"c{i}": 1 for i in range(6)}})
    with pd.option_context("display.max_rows", None):
        text = primitive({"df": frame, "s": frame.x}).text
    assert text == (
        "{'df': <pandas DataFrame, 100,000 rows, columns: x, c0, c1, c2, c3, …>, "
        "'s': <pandas Series, 100,000 rows, columns: x>}"
    )


# Outputs are values: JSON in and out, whatever code printed.


# Halves of characters among them: code may print anything.
ODD = "a\ud83d \x00é"
OUTPUTS = [
    DataFrameObject(
        name=ODD, library="pandas", rows=10**12, more_columns=(ODD,), columns_left_out=3,
        columns=(ColumnSummary(name=ODD, dtype="str", samples=(ODD,), missing=1),),
        preview_columns=(ODD,), preview=((ODD,),),
    ),
    FigureObject(title=ODD, description=ODD, spec={"é": [None, 1.5, {}]}, png_base64="", svg=ODD),
    PrimitiveObject(name=None, python_type=ODD, text=ODD, truncated=True),
    ExceptionObject(name=ODD, message=ODD, line=1, traceback=ODD, status_code=429, state_lost=True),
]  # fmt: skip
FETCHED = FetchLogEntry(source=ODD, kind="url", size_bytes=7)
SHOWN = {"outputs": tuple(OUTPUTS), "variables": tuple(OUTPUTS)}
CELL = KernelOutput(stdout=ODD, changed=(ODD,), fetched=(FETCHED,), duration_s=1.5, **SHOWN)


def test_the_output_of_a_cell_comes_back_from_its_json_and_a_model_reads_json() -> None:
    assert KernelOutput.model_validate_json(CELL.model_dump_json()) == CELL
    plain = json.loads(json.dumps(CELL.model_dump(mode="json"), allow_nan=False))
    assert KernelOutput.model_validate(plain) == CELL
    json.loads(json.dumps(CELL.for_model(), ensure_ascii=False, allow_nan=False).encode())


def test_lone_surrogate_is_replaced() -> None:
    assert KernelOutput(stdout="a\ud83dé").stdout == "a?é"


def test_output_is_immutable() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        PrimitiveObject(text="a").text = "b"  # type: ignore[misc]
