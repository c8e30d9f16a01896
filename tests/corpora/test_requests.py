"""The built-in model on requests as people type them: right, or a question, or no; never wrong."""

import pytest

from tests.corpora.requests.judge import OUTCOMES, as_table, entries, judge


@pytest.mark.exhaustive
async def test_no_request_is_answered_wrongly() -> None:
    counts = await judge([])
    print(as_table(counts))
    total = {each: sum(row[each] for row in counts.values()) for each in OUTCOMES}
    assert total["WRONG"] == 0
    assert total["right"] >= 0.45 * len(entries())
    assert sum(row["not loaded"] for row in counts.values()) == 0


@pytest.mark.slow
@pytest.mark.parametrize("corpus", ["kiosk", "club"])
async def test_unusual_file_is_read_or_asked_about(corpus: str) -> None:
    (row,) = (await judge([corpus])).values()
    assert (row["WRONG"], row["not loaded"]) == (0, 0)
    assert row["right"] >= 20
