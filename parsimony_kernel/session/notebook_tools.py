"""The tools of a notebook's turns: those of every turn, functions of the person's, and MCP servers.

A function of the person's is looked up by name when a turn begins. What would break a turn, or a
provider would not take, is refused when it is added.
"""

import inspect
import json
import threading
import tomllib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import FunctionType
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from parsimony_kernel.agent.termination_tools import termination_tools
from parsimony_kernel.artifacts.publish import LiveName, Publisher
from parsimony_kernel.core.config import AgentGuardrails
from parsimony_kernel.core.events import AgentEvent
from parsimony_kernel.core.text import words_of
from parsimony_kernel.execution.base import BaseCodeExecutor
from parsimony_kernel.execution.clean import clean_executor
from parsimony_kernel.execution.run_scope import RunScope
from parsimony_kernel.gate.procedure import ProcedureError
from parsimony_kernel.gate.task_file import MAX_CHARACTERS, Playbook, from_yaml
from parsimony_kernel.lineage.script import SliceError, slice_of
from parsimony_kernel.session.turns import SessionError
from parsimony_kernel.toolbox.code import code_tools
from parsimony_kernel.toolbox.mcp_client import Servers
from parsimony_kernel.toolbox.mcp_servers import PREFIX
from parsimony_kernel.toolbox.plan import plan
from parsimony_kernel.toolbox.publish import publish_tools
from parsimony_kernel.toolbox.refresh import refresh_tools
from parsimony_kernel.toolbox.variables import inspection_tools, restart_tools
from parsimony_kernel.tools import Tool, Tools, tool


@dataclass(eq=False)
class NotebookTools(Mapping[str, Tool]):
    """The tools that a notebook's turns have. As a mapping, those that the person added.

    Args:
        folder: what paths of procedures are relative to.
        servers: the MCP servers that the person added.
        must_be_free: raises ``SessionError`` while a turn runs.
    """

    executor: BaseCodeExecutor
    publisher: Publisher
    folder: Path
    servers: Servers
    must_be_free: Callable[[], None]

    def __post_init__(self) -> None:
        self._own = OwnTools(self.executor.variables, self.of_every_turn)

    def __getitem__(self, name: str) -> Tool:
        return self.added()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.added())

    def __len__(self) -> int:
        return len(self.added())

    def added(self) -> Tools:
        """Functions of the person's as the notebook defines them now, and what servers bring."""
        return self.servers.tools() + self._own.resolved()

    @property
    def kept(self) -> Mapping[str, str]:
        """Those of the person's that are not what the notebook defines now, and why."""
        return self._own.kept

    def add(self, name: str) -> Tool:
        """Make the function that ``name`` holds a tool from now on. ``SessionError`` if it cannot
        be one, or in a turn. MCP servers are started by ``servers``."""
        self.must_be_free()
        return self._own.add(name)

    def remove(self, name: str) -> None:
        """Take a tool of the person's away, or end a server. ``SessionError`` without it, or in a
        turn."""
        self.must_be_free()
        if not (name.startswith(PREFIX) and self.servers.remove(name.removeprefix(PREFIX))):
            self._own.remove(name)

    def close(self) -> None:
        """Take all that the person added away, and end the servers."""
        self._own.clear()
        self.servers.close()

    def of_every_turn(self) -> Tools:
        """The tools that no turn is without."""
        limits = AgentGuardrails()
        return self.of_run(RunScope("", "", "", 0), limits, lambda event: None, set())

    def of_run(
        self,
        scope: RunScope,
        limits: AgentGuardrails,
        emit: Callable[[AgentEvent], None],
        seen: set[LiveName],
    ) -> Tools:
        """The tools of one run, but for those that were added.

        Args:
            scope: on whose behalf code runs.
            emit: takes the events of publishing.
            seen: the kinds and live names that the run has read or written; added to.
        """
        executor, publisher = self.executor, self.publisher

        def script(variable: str) -> str | None:
            try:
                return slice_of(executor.origin_ledger, variable).code
            except SliceError:
                return None  # the cells of the lineage are kept in its place

        timeout_s = min(limits.tool_timeout_s, limits.max_execution_time_s)
        return (
            code_tools(executor, timeout_s=timeout_s, scope=lambda: scope, seen=seen)
            + inspection_tools(executor)
            + publish_tools(
                executor, publisher, emit, lambda: scope.run_id, seen=seen, script=script
            )
            + refresh_tools(publisher, emit, clean_executor)
            + restart_tools(executor)
            + [plan]
            + termination_tools()
        )

    def playbook(self, file: str, tools: Tools | None = None) -> Playbook:
        """What ``file``, relative to the notebook, says of a task that is done with ``tools``, by
        default those of a turn. Without a file nothing is said.

        Its guards are functions of the notebook. ``SessionError`` says all that is wrong with it.
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
        try:
            return from_yaml(text, tools=tools, guards=functions, source=file)
        except ProcedureError as exc:
            raise SessionError(str(exc)) from exc


@dataclass
class _Own:
    """A tool and what it was made of; ``kept_for`` is why it stays though its name means more."""

    variable: str
    value: Any
    made: Tool
    kept_for: str = ""


@dataclass(eq=False)
class OwnTools:
    """The functions that a person made tools.

    Args:
        variables: the bindings of the notebook as they are now.
        reserved: the names of the tools of every turn.
    """

    variables: Callable[[], Mapping[str, Any]]
    reserved: Callable[[], Collection[str]]
    _own: list[_Own] = field(default_factory=list)

    @property
    def kept(self) -> dict[str, str]:
        """The tools that stay as they were, with the reason why."""
        return {own.made.name: own.kept_for for own in self._own if own.kept_for}

    def add(self, variable: str) -> Tool:
        """Make what ``variable`` holds a tool. ``SessionError`` when it cannot be one."""
        value = self.variables().get(variable)
        if not _may_be_one(value):
            raise SessionError(
                f"{variable!r} is no function of this notebook: define it in a cell."
            )
        made = _made(variable, value, self.reserved())
        self._own = [own for own in self._own if own.made.name != made.name]
        self._own.append(_Own(variable, value, made))
        return made

    def remove(self, name: str) -> None:
        """Take a tool away. ``SessionError`` when there is none of that name."""
        left = [own for own in self._own if own.made.name != name]
        if len(left) == len(self._own):
            raise SessionError(f"{name!r} is no tool of yours. %agent tools lists those.")
        self._own = left

    def clear(self) -> None:
        """Take all of them away."""
        self._own = []

    def resolved(self) -> Tools:
        """The tools as the notebook defines them now; one whose name means none any more stays."""
        if not self._own:
            return Tools()
        variables, reserved = self.variables(), self.reserved()
        for own in self._own:
            value = variables.get(own.variable)
            own.kept_for = ""
            if value is own.value:
                continue
            if not _may_be_one(value):
                own.kept_for = f"{own.variable!r} holds no function or tool any more"
                continue
            try:
                own.value, own.made = value, _made(own.variable, value, reserved)
            except SessionError as exc:
                own.kept_for = str(exc).removesuffix(".")
        return Tools(own.made for own in self._own)


def _may_be_one(value: Any) -> bool:
    # By its class: a proxy says that it is an instance of anything.
    return issubclass(type(value), FunctionType | Tool)


def _made(variable: str, value: Any, reserved: Collection[str]) -> Tool:
    """The tool of ``value``. ``SessionError`` says in one sentence what to change."""
    if inspect.isgeneratorfunction(value) or inspect.isasyncgenfunction(value):
        raise SessionError(
            f"{variable!r} cannot become a tool, for it is a generator, which answers nothing by "
            "itself: return a list instead of yielding."
        )
    try:
        made = value if isinstance(value, Tool) else tool(value)
        wrong = _fault_of(made)
        if not wrong and made.name in reserved:
            wrong = f"{made.name!r} is a tool of every turn: give yours another name"
        if not wrong:
            return replace(made, parameters_schema=_as_json(made.parameters_schema))
    except KeyboardInterrupt:
        raise
    except BaseException as exc:  # annotations, and the fields of a tool, are the person's code
        said = " ".join(f"{type(exc).__name__}: {words_of(exc)}".split()).rstrip(".: ")
        raise SessionError(
            f"{variable!r} cannot become a tool ({said}): give each parameter "
            "a name and a type that JSON knows, such as str, int, float, bool, list or dict."
        ) from exc
    raise SessionError(f"{variable!r} cannot become a tool, for {wrong}.")


def _as_json(schema: Any) -> dict[str, Any]:
    """A copy of ``schema``, which others may change later. ``ValueError`` where it is no JSON."""
    try:
        copied: dict[str, Any] = json.loads(json.dumps(dict(schema), allow_nan=False))
    except (TypeError, RecursionError) as exc:
        raise ValueError(str(exc)) from exc
    return copied


class _ObjectSchema(BaseModel):
    type: Literal["object"]
    properties: dict[str, Any] = {}


class _Fit(BaseModel):
    """What a tool that is made by hand has to be."""

    model_config = ConfigDict(from_attributes=True, strict=True)

    name: str = Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")  # what every provider takes
    description: str
    tool_type: str
    function: Callable[..., Any]
    parameters_schema: Annotated[_ObjectSchema, BeforeValidator(_as_json)]
    timeout_s: float | None = Field(gt=0, le=threading.TIMEOUT_MAX)
    effect: Literal["none", "idempotent", "write"] | None
    validators: Sequence[Callable[..., Any]]
    output_validators: Sequence[Callable[..., Any]]
    reconcile: Callable[..., Any] | None


_FAULTS: dict[str, str] = tomllib.loads(
    Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")
)


def _fault_of(made: Tool) -> str:
    """What is wrong with a tool and the remedy; empty where nothing is."""
    try:
        _Fit.model_validate(made)
    except ValidationError as exc:
        return _FAULTS[str(exc.errors()[0]["loc"][0]).removeprefix("output_")]
    # Each parameter has to be a field of the model that the arguments are checked by.
    parameters = inspect.signature(made.function).parameters.values()
    named = {each.name for each in parameters if each.kind is not each.VAR_KEYWORD}
    if named <= set(made.arguments.model_fields):
        return ""
    return (
        "a parameter has a name that no call can give: begin it with a letter, and do not name it "
        "model_config"
    )
