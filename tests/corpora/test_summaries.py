"""The summaries are well formed, and enough to measure with."""

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from parsimony_kernel.agent.agent import Agent
from parsimony_kernel.core.events import ToolEvent
from parsimony_kernel.execution.private import CodeExecutor
from parsimony_kernel.testing.scripted import ScriptedModel, call
from parsimony_kernel.tools import tool

from .summaries import RESULTS, Case, load

TRUE, INVENTED = load("true"), load("invented")


@dataclass(frozen=True)
class Verdict:
    """What became of a summary: refused, or shown with these marks."""

    refused: bool
    marks: tuple[str, ...]

    def names(self, wrong: str) -> bool:
        return any(wrong in mark for mark in self.marks)


class _Bound(CodeExecutor):
    """An executor in which the names of a result are bound."""

    def __init__(self, names: list[str]) -> None:
        super().__init__()
        self._names = names

    def variables(self) -> dict[str, Any]:
        return dict.fromkeys(self._names)


async def judged(case: Case) -> Verdict:
    """The verdict on ``case`` in the current folder, at the end of a run of the real loop."""
    result = RESULTS[case.result]

    @tool(name="run_code", description="Run code.", tool_type="code")
    async def run_code(code: str) -> dict[str, str]:
        return {"stdout": result.text}

    @tool(name="return_dataset", description="Publish.", tool_type="publish", effect="none")
    async def return_dataset(variable: str) -> str:
        return "published"

    steps = [call("run_code", code=result.code)]
    if "published" in case.did:
        steps.append(call("return_dataset", variable="table"))
    steps += [call("return_done", summary=case.summary)] * 2
    for name in ("revenue_by_page.csv",) if "to_csv" in result.code else ():
        Path(name).touch()
    agent = Agent(
        ScriptedModel(steps),
        tools=[run_code, return_dataset],
        code_executor=_Bound(result.names),
    )
    async for event in agent.run(case.request):
        if isinstance(event, ToolEvent) and event.completed and event.tool_name == "return_done":
            marks = (event.result or {}).get("not_found") or ()
            return Verdict(not event.ok, tuple(map(str, marks)))
    raise AssertionError(f"{case.id} has not ended")


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
