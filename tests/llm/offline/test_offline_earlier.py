"""What earlier requests were and came to is read off the messages."""

import json
from typing import Any

from offline_notebook import Notebook

from parsimony_kernel.agent.prompts import notebook_changes
from parsimony_kernel.core.conversation import opening, request_message, snapshot_message
from parsimony_kernel.offline.transcript import Earlier, read


def said(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


def test_each_earlier_request_stands_with_its_summary_oldest_first() -> None:
    messages = [
        request_message("mean wind by month"), said("Made `a`."),
        request_message("now by week"), said("Made `b`."),
        *opening("plot it", '<notebook_context>\n{"variables": []}'),
    ]  # fmt: skip
    transcript = read(messages)
    assert transcript.request == "plot it"
    assert transcript.earlier_requests == (
        Earlier("mean wind by month", "Made `a`."),
        Earlier("now by week", "Made `b`."),
    )


def test_a_request_without_a_summary_and_news_of_variables_are_no_earlier_requests() -> None:
    changes = notebook_changes(gone=["a"], changed=[])
    assert changes is not None
    messages = [
        request_message("broken off"),
        request_message("mean wind"), {"role": "user", "content": changes}, said("Made `a`."),
        request_message("plot it"),
    ]  # fmt: skip
    assert read(messages).earlier_requests == (Earlier("mean wind", "Made `a`."),)


def test_the_first_request_has_none_before_it() -> None:
    assert read([request_message("mean wind by month")]).earlier_requests == ()


def test_the_newest_inventory_tells_of_what_has_changed() -> None:
    def inventory(column: str) -> dict[str, Any]:
        table = {"name": "a", "type": "dataframe", "rows": 1, "columns": [{"name": column}]}
        return snapshot_message(f"<notebook_context>\n{json.dumps({'variables': [table]})}")

    changes = notebook_changes(gone=[], changed=["a"])
    messages = [inventory("old"), request_message("plot it"), {"role": "user", "content": changes}]
    assert "a" not in read(messages).tables()
    tables = read([*messages, inventory("new"), {"role": "user", "content": "go on"}]).tables()
    assert [column.name for column in tables["a"].columns] == ["new"]


async def test_a_run_shows_what_was_asked_before(notebook: Notebook) -> None:
    await notebook.ask("load sales.csv")
    await notebook.ask("describe it")
    await notebook.ask("show the first 3 rows of it")
    told = read(notebook.messages).earlier_requests
    assert [earlier.request for earlier in told] == ["load sales.csv", "describe it"]
    assert all(earlier.summary for earlier in told)
