"""Say each summary at the end of a run, and print how many were refused and how many marked.

``python -m tests.corpora.summaries`` prints the figures by kind; with ``-v`` the cases that went
wrong, too, and with ``--open`` without those that are held out.
"""

import asyncio
import os
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from parsimony_kernel.agent.agent import Agent
from parsimony_kernel.core.events import ToolEvent
from parsimony_kernel.execution.executor import CodeExecutor
from parsimony_kernel.testing.scripted import ScriptedModel, call
from parsimony_kernel.tools import tool

from . import RESULTS, Case, load


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


async def _figures(verbose: bool, opened: bool) -> None:
    for name in ("true", "invented"):
        cases = [each for each in load(name) if not (opened and each.held_out)]
        met: Counter[tuple[str, str]] = Counter()
        for case in cases:
            verdict = await judged(case)
            found = bool(verdict.marks) and (not case.wrong or any(map(verdict.names, case.wrong)))
            parts = (case.kind, "held out" if case.held_out else "open", "all")
            for part in parts:
                met[part, "cases"] += 1
                met[part, "refused"] += verdict.refused
                met[part, "marked"] += found
            if verbose and (verdict.refused or found != (name == "invented")):
                print(f"{case.id} ({case.kind}): {verdict} {case.summary!r}")
        print(f"\n{name:12}cases refused  marked")
        last = ("open", "held out", "all")
        for part in (*sorted({part for part, _ in met}.difference(last)), *last):
            count, refused, marked = (met[part, key] for key in ("cases", "refused", "marked"))
            share = 100 * marked / max(count, 1)
            print(f"{part:12}{count:5}{refused:8}{marked:8} {share:5.1f} %")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        asyncio.run(_figures("-v" in sys.argv, "--open" in sys.argv))
