"""The rules are right when they speak, on errors that they were tuned on and on others."""

from typing import get_args

import pytest

from parsimony_kernel.triage.taxonomy import FailureType

from .figures import answers, by_type, of_decisions, report
from .labelled import Part, Shape, entries


def test_the_corpus_is_large_and_each_entry_stands_in_it_once() -> None:
    keys = ("sdk", "types", "text", "steps")
    told = [str([entry.facts.get(key) for key in keys]) for entry in entries()]
    repeated = {each for each in told if told.count(each) > 1}
    assert len(told) >= 600
    assert not repeated


def test_the_parts_are_a_split_by_content_and_the_frozen_one_is_large_enough_to_measure() -> None:
    tuning, frozen = (list(entries(part)) for part in get_args(Part))
    assert len(tuning) + len(frozen) == len(list(entries()))
    assert 0.33 < len(frozen) / (len(tuning) + len(frozen)) < 0.45
    assert not any(entry.facts.get("tuned") for entry in frozen)


@pytest.mark.parametrize("shape", get_args(Shape))
@pytest.mark.parametrize("part", get_args(Part))
def test_a_decision_is_right(part: Part, shape: Shape) -> None:
    figures = of_decisions(answers(part, shape))
    assert figures.precision is not None
    assert figures.recall is not None
    assert figures.precision >= 0.97, report(part, shape)
    assert figures.recall >= 0.90, report(part, shape)


@pytest.mark.parametrize("shape", get_args(Shape))
def test_no_type_is_bought_with_the_precision_of_another(shape: Shape) -> None:
    for kind, figures in by_type(answers("frozen", shape)).items():
        assert figures.precision is not None, f"{kind} is in the corpus and is never said"
        assert figures.precision >= 0.9, report("frozen", shape)


def test_a_label_is_a_type_of_document_004_or_the_deadline() -> None:
    labels = {entry.label for entry in entries()}
    assert labels == set(FailureType)
