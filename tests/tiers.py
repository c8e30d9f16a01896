"""What `make test` runs of a set of cases that is run whole elsewhere."""

from collections.abc import Iterable
from typing import Any

import pytest

ALL = pytest.param(1, id="all", marks=pytest.mark.exhaustive)


def every(stride: int) -> pytest.MarkDecorator:
    """Run a test with ``stride``, for each that many cases, and in `make test-all` with 1."""
    return pytest.mark.parametrize("stride", [pytest.param(stride, id="some"), ALL])


def sampled(cases: Iterable[Any], stride: int) -> list[Any]:
    """Parameters for a test of ``cases``: all but every ``stride``-th are marked slow."""
    return [
        case
        if number % stride == 0
        else pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=pytest.mark.slow)
        for number, case in enumerate(cases)
    ]
