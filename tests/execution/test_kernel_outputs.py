"""Outputs are values: JSON in and out, whatever code printed."""

import json

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

# Halves of characters among them: code may print anything.
ODD = "a\ud83d \x00é"
OUTPUTS = [
    DataFrameObject(
        name=ODD,
        library="pandas",
        rows=10**12,
        columns=(ColumnSummary(name=ODD, dtype="str", samples=(ODD,), missing=1),),
        more_columns=(ODD,),
        columns_left_out=3,
        preview_columns=(ODD,),
        preview=((ODD,),),
    ),
    FigureObject(title=ODD, description=ODD, spec={"é": [None, 1.5, {}]}, png_base64="", svg=ODD),
    PrimitiveObject(name=None, python_type=ODD, text=ODD, truncated=True),
    ExceptionObject(name=ODD, message=ODD, line=1, traceback=ODD, status_code=429, state_lost=True),
]
CELL = KernelOutput(
    stdout=ODD,
    outputs=tuple(OUTPUTS),
    changed=(ODD,),
    variables=tuple(OUTPUTS),
    fetched=(FetchLogEntry(source=ODD, kind="url", size_bytes=7),),
    duration_s=1.5,
)


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
