"""Tools of a notebook's turns: the built-in ones, the user's functions, and MCP servers.

A user's function is resolved by variable name when a turn begins; if the variable no longer holds
a function, the turn is refused with the remedy.
"""

import json
import re
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from pathlib import Path
from types import FunctionType
from typing import Any

from parsimony_kernel.agent.termination_tools import termination_tools
from parsimony_kernel.artifacts.publish import LiveName, Publisher
from parsimony_kernel.core.config import AgentGuardrails
from parsimony_kernel.core.events import AgentEvent
from parsimony_kernel.core.text import words_of
from parsimony_kernel.execution.base import BaseCodeExecutor
from parsimony_kernel.execution.run_scope import RunScope
from parsimony_kernel.gate.task_file import MAX_CHARACTERS, Playbook, from_yaml
from parsimony_kernel.session.turn_values import SessionError
from parsimony_kernel.toolbox.mcp_client import PREFIX, Servers
from parsimony_kernel.toolbox.publish_tools import publish_tools
from parsimony_kernel.toolbox.run_tools import code_tools, inspection_tools, plan
from parsimony_kernel.tools import Tool, Tools, tool

Emit = Callable[[AgentEvent], None]


@dataclass(eq=False)
class NotebookTools:
    """The tools of a notebook's turns.

    Args:
        executor: Runs code and holds the user's functions.
        publisher: Publishes artifacts.
        folder: The notebook's folder; paths of procedures are relative to it.
        servers: The MCP servers that the user added.
        must_be_free: Raises ``SessionError`` while a turn runs.
    """

    executor: BaseCodeExecutor
    publisher: Publisher
    folder: Path
    servers: Servers
    must_be_free: Callable[[], None]
    # Variable name -> tool name.
    _own: dict[str, str] = field(default_factory=dict)

    def added(self) -> Tools:
        """Return the MCP servers' tools and the user's functions as defined now.

        Raises:
            SessionError: An added variable can't be a tool any more.
        """
        variables, reserved = self.executor.variables(), self.of_every_turn()
        own = []
        for name in self._own:
            try:
                own.append(_made(name, variables.get(name), reserved))
            except SessionError as exc:
                raise SessionError(f"{exc} Or remove it: %agent tools remove {name}") from exc
            self._own[name] = own[-1].name
        return self.servers.tools() + own

    def add(self, name: str) -> Tool:
        """Add the function in variable ``name`` as a tool. MCP servers are added by ``servers``.

        Raises:
            SessionError: It can't be a tool, or a turn is running.
        """
        self.must_be_free()
        made = _made(name, self.executor.variables().get(name), self.of_every_turn())
        # A new tool replaces an older one with the same tool name.
        others = {k: v for k, v in self._own.items() if k != name and v != made.name}
        self._own = {**others, name: made.name}
        return made

    def remove(self, name: str) -> None:
        """Remove a user's tool, by variable or tool name, or stop an MCP server.

        Raises:
            SessionError: There is no such tool, or a turn is running.
        """
        self.must_be_free()
        if name.startswith(PREFIX) and self.servers.remove(name.removeprefix(PREFIX)):
            return
        found = [each for each, made in self._own.items() if name in (each, made)]
        if not found:
            raise SessionError(f"{name!r} is no tool of yours. %agent tools lists those.")
        for each in found:
            del self._own[each]

    def close(self) -> None:
        """Remove all added tools and stop the MCP servers."""
        self._own.clear()
        self.servers.close()

    def of_every_turn(self) -> Tools:
        """Return the built-in tools that every turn has."""
        limits = AgentGuardrails()
        return self.of_run(lambda: RunScope("", "", ""), limits, lambda event: None, set())

    def of_run(
        self,
        scope: Callable[[], RunScope],
        limits: AgentGuardrails,
        emit: Emit,
        seen: set[LiveName],
    ) -> Tools:
        """Return the built-in tools of one run, without added ones.

        Args:
            scope: Returns the run, notebook and cell on whose behalf code runs.
            limits: The turn's limits.
            emit: Receives the events of publishing.
            seen: (kind, name) of artifacts that the run has read or written; updated in place.
        """
        executor = self.executor
        timeout_s = min(limits.tool_timeout_s, limits.max_execution_time_s)
        return (
            code_tools(executor, timeout_s=timeout_s, scope=scope, seen=seen)
            + inspection_tools(executor)
            + publish_tools(executor, self.publisher, emit, lambda: scope().run_id, seen=seen)
            + [plan]
            + termination_tools()
        )

    def playbook(self, file: str, tools: Tools | None = None) -> Playbook:
        """Load a procedure (task file); its guards are functions of the notebook.

        Args:
            file: A YAML file, path relative to the notebook; empty for no procedure.
            tools: The tools it may use; by default all tools of a turn.

        Raises:
            SessionError: The file can't be read or is invalid; lists everything wrong with it.
        """
        if not file:
            return Playbook()
        variables = self.executor.variables().items()
        functions = {name: value for name, value in variables if isinstance(value, FunctionType)}
        try:
            with (self.folder / file).open(encoding="utf-8") as opened:
                text = opened.read(MAX_CHARACTERS + 1)
        except (OSError, ValueError) as exc:
            raise SessionError(
                f"The procedure {file!r} cannot be read ({type(exc).__name__}): name a YAML file "
                "relative to the notebook."
            ) from exc
        if tools is None:
            tools = self.of_every_turn() + self.added()
        return from_yaml(text, tools=tools, guards=functions, source=file)


# Tool names that every provider accepts.
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


def _made(variable: str, value: Any, reserved: Collection[str]) -> Tool:
    """Make ``value`` a tool.

    Raises:
        SessionError: It can't be one; says what to change.
    """
    # Not isinstance: a proxy object passes that for any class.
    if not issubclass(type(value), FunctionType | Tool):
        raise SessionError(f"{variable!r} is no function of this notebook: define it in a cell.")
    try:
        made = value if isinstance(value, Tool) else tool(value)
        json.dumps(made.to_llm(), allow_nan=False)
        is_named = made.arguments and _NAME.fullmatch(made.name)
    except KeyboardInterrupt:
        raise
    except BaseException as exc:  # annotations, and the fields of a tool, are the person's code
        said = " ".join(f"{type(exc).__name__}: {words_of(exc)}".split()).rstrip(".: ")
        raise SessionError(
            f"{variable!r} cannot become a tool ({said}): give each parameter "
            "a name and a type that JSON knows, such as str, int, float, bool, list or dict."
        ) from exc
    is_known = made.effect in (None, "none", "idempotent", "write")
    if not is_named or not is_known or made.name in reserved:
        raise SessionError(
            f"{variable!r} cannot become a tool: {made.name!r} must be a name that no tool of "
            "every turn has, of 1 to 64 letters from a to z, digits, '_' and '-', and its effect "
            "'none', 'idempotent' or 'write', or left out."
        )
    return made
