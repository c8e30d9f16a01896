"""The suites of ipykernel and nbclient give with our kernel what they give with the stock one."""

import pytest

from .stock_suites import FOLDER, SUITES, compare, prepare, sources

pytestmark = [pytest.mark.kernel, pytest.mark.exhaustive]


@pytest.mark.parametrize("suite", SUITES)
def test_stock_suite_results_match_stock_kernel(
    suite: str, capsys: pytest.CaptureFixture[str]
) -> None:
    if not list(FOLDER.glob(f"{suite}-*/tests")):
        pytest.skip("its sources are not here: run tests/frontends/stock_suites.py once")
    python = prepare(FOLDER)
    assert compare(python, sources(suite, python, FOLDER)), capsys.readouterr().out
