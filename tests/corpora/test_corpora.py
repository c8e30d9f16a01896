"""Both corpora are well formed, and large enough to measure with."""

import ast
from collections import Counter

import pytest
from IPython.core.inputtransformer2 import TransformerManager

from .entries import KINDS, Entry, load

REACHING = load("reaching")
HARMLESS = load("harmless")
BOTH = REACHING + HARMLESS


def test_ids_and_cells_are_unique() -> None:
    for values in (
        [entry.id for entry in BOTH],
        [(*entry.before, entry.cell) for entry in BOTH],
    ):
        assert [value for value, count in Counter(values).items() if count > 1] == []


@pytest.mark.parametrize("entry", BOTH, ids=lambda entry: entry.id)
def test_every_cell_compiles(entry: Entry) -> None:
    for cell in [*entry.before, entry.cell]:
        code = TransformerManager().transform_cell(cell)
        compile(code, entry.id, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)


def test_reaching_entries_name_kind_and_target() -> None:
    assert [entry.id for entry in REACHING if entry.kind not in KINDS or not entry.target] == []
    assert {entry.kind for entry in REACHING} == KINDS
    assert [entry.id for entry in HARMLESS if entry.kind or entry.target] == []
