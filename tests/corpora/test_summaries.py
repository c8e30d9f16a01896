"""The summaries are well formed, and enough to measure with."""

from collections import Counter
from pathlib import Path

import pytest

from .summaries import RESULTS, load
from .summaries.__main__ import judged

TRUE, INVENTED = load("true"), load("invented")


def test_ids_are_unique_and_results_known() -> None:
    cases = TRUE + INVENTED
    assert [each for each, count in Counter(case.id for case in cases).items() if count > 1] == []
    assert {case.result for case in cases} == set(RESULTS)


def test_at_least_150_summaries_and_30_of_each_invention() -> None:
    assert len(TRUE) >= 150
    kinds = Counter(case.kind for case in INVENTED)
    assert min(kinds[each] for each in ("swapped", "scaled", "column", "group", "percent")) >= 30
    assert sum(case.held_out for case in TRUE + INVENTED) * 4 >= len(TRUE + INVENTED)


def test_invented_numbers_are_in_their_summaries() -> None:
    assert [case.id for case in INVENTED for each in case.wrong if each not in case.summary] == []


async def test_true_summaries_pass_and_most_inventions_are_marked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    true = [await judged(case) for case in TRUE]
    assert [case.id for case, each in zip(TRUE, true, strict=True) if each.refused] == []
    assert sum(bool(each.marks) for each in true) <= 0.03 * len(TRUE)
    numbers = [case for case in INVENTED if case.wrong]
    found = [any(map((await judged(case)).names, case.wrong)) for case in numbers]
    assert sum(found) >= 0.6 * len(numbers)
    assert all([(await judged(case)).refused for case in INVENTED if not case.wrong])
