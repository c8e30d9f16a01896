"""Models that call tools badly: in words, in several dialects, with ids of every form."""

import json
import shutil
from pathlib import Path
from typing import Any

from parsimony_kernel.agent.agent import Agent
from parsimony_kernel.core.chat import Completion
from parsimony_kernel.core.events import RunCompleted, ToolEvent
from parsimony_kernel.testing.provider import LoopbackProvider
from parsimony_kernel.testing.scripted import ScriptedModel, raw_call, say
from tests.llm.dialects import WARNINGS
from tests.scenarios.loops import gather

pytestmark = WARNINGS

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
LOAD = """\
Sure! I will load the file first.

```python
import pandas as pd
iowa_electricity = pd.read_csv("data/iowa-electricity.csv")
totals = iowa_electricity.groupby("source")["net_generation"].sum()
print(totals)
```
"""
DRAW = json.dumps(
    {
        "name": "run_code",
        "arguments": {
            "code": "import altair as alt\n"
            "chart = alt.Chart(iowa_electricity).mark_line().encode(\n"
            "    x='year', y='net_generation', color='source')\nchart"
        },
    }
)
PUBLISH = """\
<tool_call>
<function=return_chart>
<parameter=variable>chart</parameter>
<parameter=title>Iowa electricity by source</parameter>
</function>
</tool_call>"""


async def test_text_only_model_completes_quickstart(scripted: Any, tmp_path: Path) -> None:
    """No answer of it is a call; it loads, draws and publishes all the same."""
    shutil.copytree(NOTEBOOKS / "data", tmp_path / "data")
    answers = [say(LOAD), say("Here are the totals by source."), say(DRAW), say(PUBLISH)]
    end = say('```python\nreturn_done("The chart is published.")\n```')
    model = ScriptedModel([*answers, end], "weak")
    session = scripted(model=model)
    cells = json.loads((NOTEBOOKS / "01_quickstart.ipynb").read_text("utf-8"))["cells"]
    sources = ["".join(each["source"]) for each in cells if each["cell_type"] == "code"]
    summaries: list[str] = []
    for source in sources:
        if source.startswith("%%agent"):
            request = source.partition("\n")[2]
            events = await gather(session.turn(request, cell_key=request))
            assert isinstance(events[-1], RunCompleted), events[-1]
            summaries.append(events[-1].summary)
        elif not source.startswith("%"):
            assert (await session.executor.execute(source)).error is None
    model.assert_exhausted()
    assert summaries[-1] == "The chart is published."
    assert [each.title for each in session.artifacts()] == ["Iowa electricity by source"]
    assert {"iowa_electricity", "totals", "chart"} <= session.executor.variables().keys()


async def test_call_ids_may_change_form() -> None:
    """Each call runs once, and each request is one that a strict provider takes."""
    ids = ["call_1", "toolu_01ABC", "", "call_1", "0", "functions.run_code:3", "ünï cöde " * 20]
    codes = [raw_call("run_code", json.dumps({"code": f"n{i} = {i}"}), call_id=each)
             for i, each in enumerate(ids)]  # fmt: skip
    ended: list[Completion] = [raw_call("return_done", '{"summary": "Done."}', call_id="x")]
    with LoopbackProvider([*codes, *ended]) as server:
        config: dict[str, Any] = {"model": "openai/gpt-5", "api_key": "k-123456"}
        agent = Agent({**config, "api_base": server.url})
        events = await gather(agent.run("count"))
        server.assert_exhausted()
    assert isinstance(events[-1], RunCompleted)
    ran = [each for each in events if isinstance(each, ToolEvent) and each.completed]
    assert [each.ok for each in ran] == [True] * (len(ids) + 1)
    assert agent.code_executor.variables() == {f"n{i}": i for i in range(len(ids))}
