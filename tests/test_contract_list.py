"""No case of the contract leaves, or comes, but with a line of ``contract.txt``."""

from collections import Counter
from difflib import unified_diff
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
LIST = TESTS / "contract.txt"
CORPUS = TESTS / "triage" / "corpus"


def test_contract_cases_match_their_list(
    request: pytest.FixtureRequest, contract_cases: Counter[str]
) -> None:
    """Each test function with the number of its cases, each file of a corpus with its lines."""
    root = request.config.rootpath
    listed = LIST.read_text(encoding="utf-8").splitlines()
    counts = dict(contract_cases)
    for file in CORPUS.glob("*.jsonl"):
        name = file.relative_to(root).as_posix()
        counts[name] = len(file.read_text(encoding="utf-8").splitlines())
    here = sorted(f"{name} {count}" for name, count in counts.items())
    if {Path(arg).absolute() for arg in request.config.args} - {TESTS, root}:
        # Of a run of some files, no more can be said than that these are as they were listed.
        files = {name.partition("::")[0] for name in counts}
        listed = [line for line in listed if line.partition("::")[0].split()[0] in files]
    changes = list(unified_diff(listed, here, "a/tests/contract.txt", "b/tests/contract.txt", n=0))
    assert not changes, (
        "the contract has changed; where the promise it proves has changed too, say so and apply "
        "this to tests/contract.txt:\n" + "\n".join(line.rstrip("\n") for line in changes)
    )
