"""What a person gets wrong gets one clear sentence, and leaves the notebook as it was."""

from collections.abc import Callable
from pathlib import Path

import pytest

from parsimony_kernel.core.events import Handoff, RunCompleted, UserInputRequested
from parsimony_kernel.session.session import NotebookSession
from tests.session.session_steps import gather, turn

CONTENTS = {
    "good.csv": b"region,amount\nnorth,1\nsouth,2\n",
    "empty.csv": b"",
    "header.csv": b"region,amount\n",
    "latin.csv": "stadt,fläche\nKöln,405\n".encode("latin-1"),
    "binary.csv": bytes(range(256)) * 8,
    "ragged.csv": b"a,b\n1,2\n3,4,5,6\n",
}


@pytest.fixture
def session(tmp_path: Path, scripted: Callable[..., NotebookSession]) -> NotebookSession:
    for name, content in CONTENTS.items():
        (tmp_path / name).write_bytes(content)
    return scripted(model="offline")


async def last_of(session: NotebookSession, request: str) -> object:
    return (await turn(session, request))[-1]


@pytest.mark.parametrize(
    ("request_", "says"),
    [
        ("load nowhere.csv and plot amount", "nowhere.csv"),
        ("load empty.csv", "empty"),
        ("load binary.csv", "binary.csv"),
    ],
)
async def test_unreadable_file_is_handed_off_with_remedy(
    session: NotebookSession, request_: str, says: str
) -> None:
    last = await last_of(session, request_)
    assert isinstance(last, Handoff)
    assert says in last.rationale
    assert last.blockers
    assert last.suggested_next_steps
    assert session.executor.variables() == {}


async def test_non_utf8_file_is_read_and_noted(session: NotebookSession) -> None:
    last = await last_of(session, "load latin.csv")
    assert isinstance(last, RunCompleted)
    assert "Read latin.csv with encoding='cp1252'." in last.summary
    assert list(session.executor.variables()["latin"]["stadt"]) == ["Köln"]


async def test_missing_column_is_named_and_never_substituted(session: NotebookSession) -> None:
    last = await last_of(session, "load good.csv and plot the mean profit by region")
    assert isinstance(last, Handoff)
    assert "profit" in last.rationale
    assert set(session.executor.variables()) == {"good"}


async def test_empty_table_invents_no_number(session: NotebookSession) -> None:
    last = await last_of(session, "load header.csv and show the mean amount by region")
    assert not isinstance(last, RunCompleted) or "no rows" in last.summary.lower()


async def test_unknown_request_names_examples_and_model_setup(session: NotebookSession) -> None:
    last = await last_of(session, "what is the meaning of life?")
    assert isinstance(last, Handoff)
    steps = " ".join(last.suggested_next_steps)
    assert "load" in steps
    assert "%agent model" in steps


async def test_failing_turn_keeps_user_variables(session: NotebookSession) -> None:
    await session.executor.execute("mine = [1, 2]")
    before = session.executor.variables()["mine"]
    await last_of(session, "load nowhere.csv")
    assert session.executor.variables()["mine"] is before


async def test_table_changed_while_its_export_waits_is_written_once(
    session: NotebookSession, tmp_path: Path
) -> None:
    await session.executor.execute("cars = pd.DataFrame({'make': ['a', 'b'], 'price': [10, 20]})")
    outside = tmp_path.parent / f"{tmp_path.name}.csv"
    asked = await last_of(session, f"export mean price of cars by make to '{outside}'")
    assert isinstance(asked, UserInputRequested)
    await session.executor.execute("mean_price_by_make['mean_price'] = -1")
    last = (await gather(session.resume("Run it")))[-1]
    assert isinstance(last, RunCompleted)
    assert outside.read_text().count("-1") == 2
