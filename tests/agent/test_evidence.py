"""What counts as observed in a run, and what does not."""

import json
import os
from pathlib import Path

import pytest

from parsimony_kernel.agent.agent import Agent
from parsimony_kernel.agent.prompts import (
    came_since,
    notebook_changes,
    notebook_context,
    observed,
    persons_words,
)
from parsimony_kernel.core.conversation import AgentMessage, opening, request_message
from parsimony_kernel.core.events import ToolResultObserved
from parsimony_kernel.testing.scripted import ScriptedModel, Step, call, calls
from tests.transcripts import answered, called, user


def test_tool_results_are_evidence_and_model_words_are_not() -> None:
    transcript = [
        *opening("sum it", "context"),
        called("run_code", said="I believe it is 99.", code="x = 1234"),
        answered("run_code", "5678"),
        called("ask_user", question="Is it 99?"),
        user("yes"),
        {"role": "assistant", "content": "It is 99."},
    ]
    told = [message["content"] for message in transcript[:2]]
    assert observed(transcript) == (["5678"], [*told, "yes"], [])


def test_earlier_turn_results_are_evidence() -> None:
    before = {"role": "assistant", "content": "The mean is 17.25."}
    transcript = [request_message("mean?"), before, request_message("and the median?")]
    _, words, earlier = observed(transcript)
    assert "The mean is 17.25." in words
    assert earlier == ["The mean is 17.25."]
    assert observed([AgentMessage("user", "hello")]) == ([], ["hello"], [])


def test_earlier_published_work_is_known() -> None:
    context = notebook_context(
        working_folder="work",
        files=["a.csv"],
        variables=[],
        artifacts=[{"kind": "chart", "title": "Cars </x>", "path": "artifacts/1.json"}],
    )
    (known,) = observed(opening("go on", context))[2]
    assert "Cars </x>" in known
    assert "artifacts/1.json" in known
    assert not observed(opening("go on", "<notebook_context>\n{\n</x>"))[2]
    assert observed([]) == ([], [], [])


def test_only_persons_own_words_count_as_persons_words() -> None:
    context = notebook_context(working_folder="w", files=["price.csv"], variables=[])
    changes = notebook_changes(gone=["price"], changed=[])
    transcript = [
        AgentMessage("user", str(request_message("first")["content"])),
        AgentMessage("assistant", "the price"),
        *opening("mean of cost", context),
        called("ask_user", said="I believe it is 99.", question="price?"),
        answered("ask_user", "price"),
        user(str(changes)),
        user("the second"),
    ]
    assert persons_words(transcript) == "first\nmean of cost\nthe second"


def test_file_written_during_run_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    started = "2026-03-01T12:00:00+00:00"
    began_s = 1772366400
    for name, at_s in {"new.csv": began_s + 5, "old.csv": began_s - 500}.items():
        (tmp_path / name).write_text("a")
        os.utime(tmp_path / name, (at_s, at_s))
    assert came_since("new.csv", started)
    assert not came_since("old.csv", started)
    assert not came_since("absent.csv", started)
    assert not came_since(str(tmp_path / "new.csv"), started)
    assert not came_since(f"../{tmp_path.name}/new.csv", started)
    assert not came_since("new.csv", "")
    assert not came_since("a\0b.csv", started)


FRAME = "import pandas as pd\ndf = pd.DataFrame({'a': [1]})\n"
WRITE = "print(98.765)\ndf.to_csv('out.csv')"
UNDONE: dict[str, list[Step]] = {
    "failed before": [call("run_code", code=f"{FRAME}1 / 0\n{WRITE}")],
    "skipped": [calls(call("run_code", code=f"{FRAME}1 / 0"), call("run_code", code=WRITE))],
    "refused": [call("run_code", code=FRAME), call("run_code", code=f"df['zzz']\n{WRITE}")],
    "a comment": [call("run_code", code="# df.to_csv('out.csv') 98.765\n1")],
    "the person's words": [call("run_code", code="1")],
}


@pytest.mark.parametrize("steps", UNDONE.values(), ids=UNDONE)
async def test_false_success_is_refused(
    steps: list[Step], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    summary = "Saved the table to `out.csv`; the mean is 98.765."
    unable = call("return_unable", rationale="r", blockers=["b"])
    model = ScriptedModel([*steps, call("return_done", summary=summary), unable])
    events = [event async for event in Agent(model).run("please run df.to_csv('out.csv')")]
    (refusal,) = (
        json.loads(event.content)
        for event in events
        if isinstance(event, ToolResultObserved) and event.tool_name == "return_done"
    )
    assert refusal["error"] == "validation_failed"
    assert refusal["not_found"] == ["“Saved the table to `out.csv`”", "98.765"]
    assert list(tmp_path.iterdir()) == []
    model.assert_exhausted()
