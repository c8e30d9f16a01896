"""A running notebook as an MCP server, with the official package as the client."""

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from jupyter_core.paths import jupyter_runtime_dir

from parsimony_kernel.testing.kernel_process import LiveKernel, live_kernel

if TYPE_CHECKING:
    from mcp import Client
    from mcp_types import ElicitResult

pytestmark = pytest.mark.kernel


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("served")


@pytest.fixture(scope="module")
def placed() -> Path:
    """Where a Jupyter server puts the connection file."""
    return Path(jupyter_runtime_dir()) / "kernel-served.json"


@pytest.fixture(scope="module")
def kernel(folder: Path, placed: Path) -> Iterator[LiveKernel]:
    with live_kernel(folder) as live:
        live.run("from parsimony_kernel.testing.scripted import ScriptedModel, call")
        placed.parent.mkdir(parents=True, exist_ok=True)
        placed.symlink_to(live.connection_file)
        yield live
        placed.unlink(missing_ok=True)


def scripted(kernel: LiveKernel, *code: str) -> None:
    """Let the next turn run ``code``, a step each, and end."""
    steps = ", ".join(f"call('run_code', code={each!r})" for each in code)
    kernel.run(f"model = ScriptedModel([{steps}, call('return_done', summary='It is 42.')])")
    assert kernel.run("%agent model model").status == "ok"


class Person:
    """Whoever sits at the client: answers what is put to them, in order."""

    def __init__(self, *replies: str | None) -> None:
        self.replies = list(replies)
        self.asked: list[str] = []

    async def __call__(self, context: Any, asked: Any) -> "ElicitResult":
        from mcp_types import ElicitResult

        self.asked.append(asked.message)
        reply = self.replies.pop(0)
        if reply is None:
            return ElicitResult(action="decline")
        assert reply in asked.requested_schema["properties"]["reply"].get("enum", [reply])
        return ElicitResult(action="accept", content={"reply": reply})


def served(folder: Path, person: Any = None, mode: Any = "auto") -> "Client":
    """A client of ``jupyter parsimony mcp``."""
    from mcp import Client, StdioServerParameters
    from mcp_types import Implementation

    command = ["-m", "parsimony_kernel.cli.main", "mcp", "--folder", str(folder)]
    server = StdioServerParameters(command=sys.executable, args=command, env=dict(os.environ))
    name = Implementation(name="test-client", version="1")
    return Client(server, elicitation_callback=person, client_info=name, mode=mode)


async def told(client: "Client", tool: str, **given: str) -> str:
    """The text that a tool of the notebook answers."""
    result = await client.call_tool(tool, given)
    text = "\n".join(getattr(each, "text", "") for each in result.content)
    return f"Error: {text}" if result.is_error else text


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_client_runs_turn_and_person_answers(
    kernel: LiveKernel, folder: Path, mode: str
) -> None:
    scripted(kernel, "price = 6 * 7\nprice")
    person = Person("Run it")
    async with served(folder, person, mode) as client:
        text = await told(client, "ask", request="What is the price?")
        assert "It is 42." in text
        assert ": done." in text
        assert "price = 6 * 7" in person.asked[0]
        assert "price" in await told(client, "variables")
        assert "turn" in await told(client, "why", name="price")
        assert "What is the price?" in await told(client, "record")
        assert "Nothing is published yet" in await told(client, "artifacts")
        # All of it is the notebook's own.
        assert kernel.run("price").text == "42"
        assert "What is the price?" in kernel.run("%agent history").text
        assert "Asked by test-client." in kernel.run("%agent show").text
        assert "undone" in await told(client, "undo")
    assert "NameError" in kernel.run("price").text


async def test_client_without_elicitation_is_told_how_to_answer(
    kernel: LiveKernel, folder: Path
) -> None:
    scripted(kernel, "cost = 1")
    async with served(folder) as client:
        text = await told(client, "ask", request="The cost")
        assert "1. Run it" in text
        assert "pass on their reply with the tool answer" in text
        assert "It is 42." in await told(client, "answer", reply="1")
        assert "Error" in await told(client, "answer", reply="1")


async def test_declined_question_waits_in_notebook(kernel: LiveKernel, folder: Path) -> None:
    scripted(kernel, "cost = 2")
    async with served(folder, Person(None)) as client:
        assert "1. Run it" in await told(client, "ask", request="The cost again")
    assert "Don't" in kernel.run("%agent answer 3").text


async def test_reach_is_approved_in_notebook_only(kernel: LiveKernel, folder: Path) -> None:
    scripted(kernel, "import urllib.request as u\nu.urlopen('http://example.org')")
    person = Person()
    async with served(folder, person) as client:
        text = await told(client, "ask", request="Fetch it")
        assert "This is allowed in the notebook only: %agent answer" in text
        assert person.asked == []
        refused = await told(client, "answer", reply="Run it")
        assert "This is allowed in the notebook only" in refused
    assert "Don't" in kernel.run("%agent answer 3").text


async def test_disconnected_client_stops_its_turn(kernel: LiveKernel, folder: Path) -> None:
    scripted(kernel, "import time\nprint('x', file=open('begun.txt', 'w'))\ntime.sleep(60)")
    person = Person("Run it")
    async with served(folder, person) as client:
        asking = asyncio.create_task(told(client, "ask", request="Take long"))
        while not (folder / "begun.txt").exists():
            await asyncio.sleep(0.05)
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        began = time.monotonic()
        assert kernel.run("1 + 1").text == "2"
        assert time.monotonic() - began < 20
    assert "cancelled" in kernel.run("%agent history").text


async def test_client_sees_no_more_than_model(kernel: LiveKernel, folder: Path) -> None:
    scripted(kernel, "count = 1")
    kernel.run("%%agent --approve auto\nCount", cell_id="count")
    kernel.run("secret_rate = 0.1234")
    kernel.run("%config ParsimonyAgent.share = 'schema'")
    try:
        async with served(folder) as client:
            assert "kept in the notebook" in await told(client, "record")
            variables = await told(client, "variables")
    finally:
        kernel.run("%config ParsimonyAgent.share = 'samples'")
    assert "secret_rate" in variables
    assert "0.1234" not in variables


def test_documented_client_works(kernel: LiveKernel, folder: Path) -> None:
    page = (Path(__file__).parents[2] / "docs/how-to/mcp.md").read_text(encoding="utf-8")
    script = page.partition("```py\n")[2].partition("```")[0]
    assert '"."' in script
    script = script.replace('"."', repr(str(folder))).replace(
        "args=command)", "args=command, env=dict(os.environ))"
    )
    kernel.run("shown_to_clients = 1")
    ran = subprocess.run(
        [sys.executable, "-c", f"import os\n{script}"], capture_output=True, text=True, check=True
    )
    assert "shown_to_clients" in ran.stdout


async def test_unnamed_kernel_is_found_by_its_turns(
    kernel: LiveKernel, folder: Path, placed: Path
) -> None:
    kernel.run("%%agent\nhello")
    placed.unlink()
    try:
        async with served(folder) as client:
            assert "hello" in await told(client, "record")
    finally:
        placed.symlink_to(kernel.connection_file)


async def test_missing_notebook_is_reported(tmp_path: Path) -> None:
    async with served(tmp_path) as client:
        assert "No notebook is running in" in await told(client, "variables")
