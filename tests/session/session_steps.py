"""What tests of a notebook's session begin with."""

from collections.abc import AsyncIterator

from parsimony_kernel.core.events import AgentEvent
from parsimony_kernel.testing.scripted import call

DONE = call("return_done", summary="done")
LOAD = call("run_code", code="import pandas as pd\nsales = pd.read_csv('data/sales.csv')")
ASK = call("ask_user", question="Which region?", choices=["north", "south"])


async def gather(events: AsyncIterator[AgentEvent]) -> list[AgentEvent]:
    return [event async for event in events]
