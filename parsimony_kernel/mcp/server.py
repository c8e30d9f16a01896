"""``jupyter parsimony mcp``: serve a running notebook to an MCP client over stdio.

This process is stateless: each call finds the notebook's kernel and runs there, so the notebook may
be opened, restarted and closed at any time.
"""

import asyncio
import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path, PurePath
from typing import Any

from jupyter_client.asynchronous.client import AsyncKernelClient
from jupyter_core.paths import jupyter_runtime_dir
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import (
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitResult,
    InputRequiredResult,
    ToolAnnotations,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from parsimony_kernel import __version__
from parsimony_kernel.mcp.notebook_client import MIME, Answer
from parsimony_kernel.session.maintenance import journal_of, turns_of
from parsimony_kernel.session.notebook_identity import plain_name
from parsimony_kernel.storage.database import JournalError

_ANSWERS_WITHIN_S = 5.0
_MOST_NAME = 80
_READS = ToolAnnotations(read_only_hint=True)
_RUNS = ToolAnnotations(read_only_hint=False, destructive_hint=True)
_INSTRUCTIONS = """\
A Jupyter notebook with an agent in it. ask runs a request there, in the person's own variables,
and gives the record. A turn may stop with a question: it is for the person, not for you. What
reaches outside of the notebook is allowed there only."""


class Kernel:
    """Kernel of the served notebook, looked up anew for each call.

    Args:
        folder: the notebook's folder, or one above.
        notebook: its path in ``folder``, if several are running.
        connection_file: identifies the kernel instead, e.g. that of a console.
    """

    def __init__(self, folder: Path, notebook: str = "", connection_file: Path | None = None):
        self._folder = folder.resolve()
        self._notebook = notebook
        self._connection_file = connection_file

    def _find(self) -> str:
        """Return the connection file. ``ToolError`` if no kernel, or more than one, matches."""
        if self._connection_file is not None:
            return str(self._connection_file)
        running = {
            file: notebook
            for file, notebook in _running(self._folder)
            if notebook.match(self._notebook or "*")
        }
        if len(running) == 1:
            return next(iter(running))
        if running:
            names = ", ".join(map(str, running.values()))
            raise ToolError(f"Several notebooks are running, start this with --notebook: {names}")
        what = f"{self._notebook!r}" if self._notebook else "No notebook"
        raise ToolError(f"{what} is running in {self._folder}: open it, or run a cell of it.")

    async def act(self, action: str, client_name: str, **given: str) -> Answer:
        """Run an action in the notebook and return its answer.

        Raises:
            ToolError: no kernel was found, it is busy, or the action failed.
        """
        client = AsyncKernelClient(connection_file=self._find())
        client.load_connection_file()
        client.start_channels()
        answers: list[Answer] = []
        problems: list[str] = []
        begun: list[str] = []

        def hear(message: dict[str, Any]) -> None:
            begun.append(message["msg_type"])
            content = message["content"]
            if MIME in content.get("data", {}):
                answers.append(content["data"][MIME])
            elif "evalue" in content:
                problems.append(str(content["evalue"]))

        # ``!a`` quotes the arguments as ASCII literals, so they can't inject code.
        code = (
            "await __import__('parsimony_kernel.mcp.notebook_client', fromlist=['serve'])"
            f".serve({action!a}, {client_name!a}, {given!a})"
        )
        try:
            await client.wait_for_ready(timeout=_ANSWERS_WITHIN_S)
            await client.execute_interactive(
                code, store_history=False, allow_stdin=False, output_hook=hear
            )
        except RuntimeError as exc:
            raise ToolError("The notebook is busy, or its kernel has ended: try later.") from exc
        except asyncio.CancelledError:
            if begun:
                client.control_channel.send(client.session.msg("interrupt_request", {}))
            raise
        finally:
            client.stop_channels()
        if not answers:
            raise ToolError(problems[0] if problems else "The notebook gave no answer.")
        return answers[0]


def _running(folder: Path) -> Iterator[tuple[str, PurePath]]:
    """Yield the connection file and path of each notebook running in or below ``folder``.

    A Jupyter server records the notebook in the connection file; for other kernels the recorded
    turns name it.
    """
    for path in Path(jupyter_runtime_dir()).glob("kernel-*.json"):
        with suppress(OSError, ValueError):
            notebook = PurePath(json.loads(path.read_bytes()).get("jupyter_session", ""))
            if notebook.is_relative_to(folder):
                yield str(path.resolve()), notebook.relative_to(folder)
    with suppress(JournalError), journal_of(folder) as journal:
        for turn in turns_of(journal):
            if turn.connection_file and Path(turn.connection_file).is_file():
                yield str(Path(turn.connection_file).resolve()), PurePath(plain_name(turn.notebook))


def server_of(kernel: Kernel) -> MCPServer[Any]:
    """Build the MCP server of a notebook.

    The docstrings of its tools are the descriptions that clients read.
    """
    server: MCPServer[Any] = MCPServer(
        "parsimony", instructions=_INSTRUCTIONS, version=__version__, log_level="ERROR"
    )
    runs = server.tool(annotations=_RUNS, structured_output=False)
    reads = server.tool(annotations=_READS, structured_output=False)

    @runs
    async def ask(request: str, context: Context[Any, Any]) -> str | InputRequiredResult:
        """Run a request as a turn of the notebook. Gives its record, or what it asks."""
        return await _asking(kernel, context, "ask", request=request)

    @runs
    async def answer(
        reply: str, context: Context[Any, Any], turn: str = ""
    ) -> str | InputRequiredResult:
        """Pass on what the person replied to a turn's question, the newest by default: the number
        of a choice, or their words."""
        return await _asking(kernel, context, "answer", reply=reply, turn=turn)

    @runs
    async def undo(context: Context[Any, Any], turn: str = "") -> str:
        """Restore the variables and files to before a turn, the newest by default."""
        return _text(await kernel.act("undo", _client(context), turn=turn))

    @reads
    async def why(name: str, context: Context[Any, Any]) -> str:
        """Where a variable comes from, and which parts are stale."""
        return _text(await kernel.act("why", _client(context), name=name))

    @reads
    async def variables(context: Context[Any, Any]) -> str:
        """The notebook's variables, data files and published artifacts."""
        return _text(await kernel.act("variables", _client(context)))

    @reads
    async def record(context: Context[Any, Any], turn: str = "") -> str:
        """The record of a turn, the newest by default."""
        return _text(await kernel.act("record", _client(context), turn=turn))

    @reads
    async def artifacts(context: Context[Any, Any]) -> str:
        """What the notebooks here have published, with its paths."""
        return _text(await kernel.act("artifacts", _client(context)))

    return server


async def _asking(
    kernel: Kernel, context: Context[Any, Any], action: str, **given: str
) -> str | InputRequiredResult:
    """Run an action, put the turn's questions to the client's user, and return the result."""
    client, capabilities = _client(context), context.client_capabilities

    async def answered(turn: str, reply: Any) -> Answer:
        if isinstance(reply, ElicitResult) and reply.action == "accept" and reply.content:
            return await kernel.act("answer", client, turn=turn, reply=str(reply.content["reply"]))
        return {**await kernel.act("record", client, turn=turn), "declined": True}

    if context.request_state is None:
        came = await kernel.act(action, client, **given)
    else:  # the same call, made again with the reply
        came = await answered(context.request_state, (context.input_responses or {}).get("reply"))
    while question := came.get("question"):
        can_be_asked = capabilities is not None and capabilities.elicitation is not None
        if question["in_notebook"] or came.get("declined") or not can_be_asked:
            break
        schema = _form(question["choices"])
        form = ElicitRequestFormParams(message=question["words"], requested_schema=schema)
        if context.protocol_version in MODERN_PROTOCOL_VERSIONS:
            return InputRequiredResult(
                result_type="input_required",
                input_requests={"reply": ElicitRequest(params=form)},
                request_state=question["turn"],
            )
        reply = await context.session.elicit_form(form.message, schema, context.request_id)
        came = await answered(question["turn"], reply)
    return _text(came)


def _client(context: Context[Any, Any]) -> str:
    """Return the client's own name."""
    known = context.session.client_params
    return known.client_info.name[:_MOST_NAME] if known is not None else "a client of MCP"


def _form(choices: list[str]) -> dict[str, Any]:
    reply: dict[str, Any] = {"type": "string", "title": "Your answer"}
    if choices:
        reply["enum"] = choices
    return {"type": "object", "properties": {"reply": reply}, "required": ["reply"]}


def _text(answer: Answer) -> str:
    """Render the answer as text, with instructions for the reply if the turn asks a question."""
    question = answer.get("question")
    if question is None:
        return str(answer["text"])
    choices = (f"{number}. {each}" for number, each in enumerate(question["choices"], start=1))
    how = question["in_notebook"] or "Ask the person, and pass on their reply with the tool answer."
    return "\n".join((str(answer["text"]), "", question["words"], *choices, "", how))


def serve(kernel: Kernel) -> None:
    """Serve over stdio until the client disconnects."""
    server_of(kernel).run()
