"""The tools that end a run."""

import pytest

from parsimony_kernel.agent.termination_tools import termination_tools
from parsimony_kernel.core.endings import SuspensionRequest, TerminationRequest

TOOLS = termination_tools()


@pytest.mark.parametrize(
    ("name", "arguments", "missing"),
    [
        ("return_done", {"summary": " "}, "non-empty summary"),
        ("return_unable", {"rationale": "", "blockers": ["x"]}, "non-empty rationale"),
        ("return_unable", {"rationale": "x", "blockers": [" "]}, "non-empty blockers"),
        ("ask_user", {"question": "\n"}, "non-empty question"),
        ("return_done", {"summary": None}, "non-empty summary"),
        ("return_unable", {"rationale": "x", "blockers": None}, "non-empty blockers"),
        ("return_unable", {"rationale": "x", "blockers": "abc"}, "non-empty blockers"),
    ],
)
async def test_empty_words_are_refused(
    name: str, arguments: dict[str, object], missing: str
) -> None:
    with pytest.raises(ValueError, match=missing):
        await TOOLS[name].function(**arguments)


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
