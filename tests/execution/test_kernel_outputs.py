"""Outputs are values: JSON in and out, whatever code printed."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from parsimony_kernel.core.outputs import (
    ColumnSummary,
    DataFrameObject,
    ExceptionObject,
    FetchLogEntry,
    FigureObject,
    KernelOutput,
    KernelOutputType,
    PrimitiveObject,
)

ADAPTER: TypeAdapter[KernelOutputType] = TypeAdapter(KernelOutputType)

# Halves of characters among them: code may print anything.
text = st.text(st.characters(codec=None), max_size=20)
texts = st.lists(text, max_size=3).map(tuple)
names = st.none() | text
counts = st.integers(0, 10**12)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)  # fmt: skip

tables = st.builds(
    DataFrameObject,
    name=names,
    library=text,
    rows=st.none() | counts,
    columns=st.lists(
        st.builds(ColumnSummary, name=text, dtype=text, samples=texts), max_size=3
    ).map(tuple),
    more_columns=texts,
    columns_left_out=counts,
    preview_columns=texts,
    preview=st.lists(texts, max_size=2).map(tuple),
)
figures = st.builds(
    FigureObject,
    name=names,
    library=text,
    title=text,
    description=text,
    spec=st.none() | st.dictionaries(st.text(max_size=5), json_values, max_size=3),
    png_base64=names,
    svg=names,
)
primitives = st.builds(
    PrimitiveObject, name=names, python_type=text, text=text, truncated=st.booleans()
)
exceptions = st.builds(
    ExceptionObject,
    name=text,
    message=text,
    line=st.none() | counts,
    source_line=text,
    traceback=text,
    status_code=st.none() | st.integers(100, 599),
    past_deadline=st.booleans(),
    state_lost=st.booleans(),
)
outputs = tables | figures | primitives | exceptions
results = st.builds(
    KernelOutput,
    stdout=text,
    stderr=text,
    outputs=st.lists(outputs, max_size=3).map(tuple),
    changed=texts,
    deleted=texts,
    overwritten=texts,
    variables=st.lists(outputs, max_size=3).map(tuple),
    fetched=st.lists(
        st.builds(
            FetchLogEntry,
            source=text,
            kind=st.sampled_from(["file", "url"]),
            size_bytes=st.none() | counts,
        ),
        max_size=2,
    ).map(tuple),
    duration_s=st.floats(0, 1e9),
    truncated=st.booleans(),
)


@given(outputs)
def test_each_output_comes_back_from_its_json_as_what_it_is(output: KernelOutputType) -> None:
    assert ADAPTER.validate_json(ADAPTER.dump_json(output)) == output
    plain = json.loads(json.dumps(output.model_dump(mode="json"), allow_nan=False))
    assert ADAPTER.validate_python(plain) == output


@given(results)
def test_the_output_of_a_cell_comes_back_from_its_json(result: KernelOutput) -> None:
    assert KernelOutput.model_validate_json(result.model_dump_json()) == result
    assert KernelOutput.model_validate(result.model_dump()) == result


@given(results)
def test_the_form_for_a_model_is_json_that_every_reader_takes(result: KernelOutput) -> None:
    json.loads(json.dumps(result.for_model(), ensure_ascii=False, allow_nan=False).encode())


def test_half_a_character_is_replaced_and_the_rest_kept() -> None:
    assert KernelOutput(stdout="a\ud83dé").stdout == "a?é"


def test_an_output_is_never_changed() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        PrimitiveObject(text="a").text = "b"  # type: ignore[misc]


def test_the_exception_of_a_cell_is_found_among_its_outputs() -> None:
    raised = ExceptionObject(name="KeyError")
    assert KernelOutput(outputs=(PrimitiveObject(text="a"), raised)).error == raised
    assert KernelOutput(outputs=(PrimitiveObject(text="a"),)).error is None
