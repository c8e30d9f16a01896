"""What is written down of a turn."""

from pathlib import Path

from parsimony_kernel.core.events import RunCompleted, TextDelta
from parsimony_kernel.core.redaction import REDACTED
from parsimony_kernel.llm.secrets import Secrets
from parsimony_kernel.session.turn import EventWriter
from parsimony_kernel.storage.store import SqliteJournal


def test_what_is_written_down_is_cleaned_whoever_gave_it(tmp_path: Path) -> None:
    journal = SqliteJournal(tmp_path / "journal.sqlite")
    journal.begin_turn("r", notebook="n", cell_key="a", request="go", model="m")
    writer = EventWriter(journal, "r", Secrets({"A_TOKEN": "in-environment"}))
    for event in (
        TextDelta(content="it is in-envi"),
        TextDelta(content="ronment"),
        RunCompleted(summary="password=hunter2"),
    ):
        writer.write(event)
    assert journal.events("r") == (
        TextDelta(content=f"it is {REDACTED}"),
        RunCompleted(summary=f"password={REDACTED}"),
    )
    journal.close()
