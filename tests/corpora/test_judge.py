"""The judge of the requests: the truth shown is right, anything else is not."""

import pandas as pd
import pytest

from tests.corpora.requests.judge import entries, same, told, truths

BY_SITE = pd.Series({"a": 1.234, "b": 2.0}, name="pH").rename_axis("site")


@pytest.mark.parametrize(
    ("truth", "shown", "right"),
    [
        (5, 5.01, True),
        (5, 6, False),
        (0.25, 25, True),
        (5, pd.DataFrame({"n": [5, 7, 9]}), False),
        (BY_SITE, pd.DataFrame({"site": ["b", "a"], "mean": [2.0, 1.23]}), True),
        (BY_SITE, pd.DataFrame({"site": ["a", "b"], "mean": [2.0, 1.234]}), False),
        (BY_SITE, pd.DataFrame({"site": ["a"], "mean": [1.234]}), False),
    ],
)
def test_same_accepts_only_the_truth(truth: object, shown: object, right: bool) -> None:
    assert same(truth, shown) is right


def test_number_among_many_is_not_an_answer() -> None:
    assert told(5, "There are 5 visits.")
    assert not told(5, "There are 6 visits.")
    assert not told(5, "1, 2, 3, 4 and 5")


@pytest.mark.slow  # a thousand truths are worked out
def test_every_entry_has_id_and_truth() -> None:
    found = entries()
    assert len({entry["id"] for entry in found}) == len(found)
    for entry in found:
        assert truths(entry) or {"chart", "must", "may_ask"} & set(entry), entry["id"]
