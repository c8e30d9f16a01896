"""The tools that end a run."""

from parsimony_kernel.agent.termination_tools import termination_tools
from parsimony_kernel.core.endings import SuspensionRequest, TerminationRequest

TOOLS = termination_tools()


async def test_termination_tools_return_values() -> None:
    done = await TOOLS["return_done"].function(summary=" ok ")
    assert done.data == TerminationRequest("ok")
    assert done.data.is_done
    unable = await TOOLS["return_unable"].function(
        rationale="no", blockers=["a"], suggested_next_steps=["b", ""]
    )
    assert unable.data == TerminationRequest("no", ("a",), ("b",))
    asked = await TOOLS["ask_user"].function(question="Which?", choices=["x", "y"])
    assert asked.data == SuspensionRequest("Which?", None, ("x", "y"))
