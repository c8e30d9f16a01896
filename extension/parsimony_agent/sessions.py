"""The one session of a kernel process, opened when it is first needed.

What the magics ask of it is the protocol here, so that they can be driven by anything that keeps
it. The real one is imported on first use: loading the extension costs nothing of it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol, cast

from parsimony_agent.pending import TurnError

if TYPE_CHECKING:
    from parsimony_kernel.artifacts.refresh import Refreshed
    from parsimony_kernel.artifacts.verify import Verification
    from parsimony_kernel.core.chat import ChatModel, ModelRequest
    from parsimony_kernel.core.events import AgentEvent
    from parsimony_kernel.execution.base import BaseCodeExecutor
    from parsimony_kernel.gate.task_file import Playbook
    from parsimony_kernel.session.past import Past
    from parsimony_kernel.session.sent import SentRequest
    from parsimony_kernel.session.turns import (
        PendingQuestion,
        PublishedArtifact,
        TurnOptions,
        TurnSummary,
    )
    from parsimony_kernel.tools import Tools


class Session(Protocol):
    """What the extension uses of ``parsimony_kernel.session.session.NotebookSession``."""

    @property
    def executor(self) -> BaseCodeExecutor: ...

    @property
    def model_name(self) -> str: ...

    def set_model(self, model: str | ChatModel) -> None: ...

    def configure(self, variables: Mapping[str, str]) -> None: ...

    def turn(
        self, request: str, *, cell_key: str, options: TurnOptions | None = ...
    ) -> AsyncIterator[AgentEvent]: ...

    def resume(
        self,
        reply: str,
        *,
        turn_id: str | None = None,
        nonce: str | None = None,
        notebook_cost_usd: float | None = None,
    ) -> AsyncIterator[AgentEvent]: ...

    def pending(self) -> tuple[PendingQuestion, ...]: ...

    def turns(self) -> tuple[TurnSummary, ...]: ...

    def origins(self) -> tuple[str, ...]: ...

    def events(self, turn_id: str) -> tuple[AgentEvent, ...]: ...

    @property
    def tools(self) -> Tools: ...

    @property
    def kept_tools(self) -> Mapping[str, str]: ...

    def add_tool(self, name: str, says_yes: Callable[[str], bool] = ...) -> Tools: ...

    def mcp_servers(self) -> list[tuple[str, str, str]]: ...

    def remove_tool(self, name: str) -> None: ...

    def playbook(self, file: str) -> Playbook: ...

    @property
    def past(self) -> Past: ...

    async def refresh(
        self, name: str, *, accept: bool = False, allow: bool = False
    ) -> Refreshed: ...

    def verify(self) -> tuple[tuple[int, str] | None, Verification]: ...

    def preview(
        self, request: str, *, cell_key: str = ..., options: TurnOptions | None = ...
    ) -> ModelRequest: ...

    def forget(self, turn_id: str) -> None: ...

    def reset(self) -> int: ...

    def artifacts(self) -> tuple[PublishedArtifact, ...]: ...

    def sent(self, turn_id: str) -> tuple[SentRequest, ...]: ...

    def spent_usd(self) -> float: ...

    def stop(self, reason: str = ...) -> bool: ...

    def close(self) -> None: ...


SessionFactory = Callable[[Any], Session]


def known_names(session: Session, shell: Any) -> tuple[str, ...]:
    """What of the notebook a turn can be told of by name: variables, data files, and the titles
    of what is published."""
    from parsimony_agent.cell import locate
    from parsimony_kernel.session.inventory import data_files

    titles = (artifact.title for artifact in session.artifacts())
    folder = locate(shell).folder
    return tuple(dict.fromkeys((*session.executor.variables(), *data_files(folder), *titles)))


def chosen_model(name: str, variables: Mapping[str, Any]) -> str | ChatModel:
    """What ``name`` means as a model: the name of one, or the model in that variable.

    A name that is known as a model's always means that model, whatever the notebook holds. Every
    other name means a variable if there is one. ``TurnError`` when the variable holds no model, or
    one whose name cannot be shown, or when both could be meant.
    """
    from parsimony_kernel.core.chat import OFFLINE
    from parsimony_kernel.llm.credentials import provider_of

    if name not in variables:
        return name
    value = variables[name]
    model = _as_model(name, value)
    if name == OFFLINE or provider_of(name) is not None:
        if model is None:
            return name
        raise TurnError(
            f"{name!r} is the name of a model and also a variable that holds one. "
            "Give the variable another name."
        )
    if model is None:
        is_class = issubclass(type(value), type)
        held = f"the class {_class_name(value)}" if is_class else _class_name(type(value))
        raise TurnError(
            f"The variable {name!r} holds no model but {held}. Name a model, such as "
            "openai/gpt-5, or a variable with an object that has a name and a method stream."
        )
    return model


def _as_model(variable: str, value: Any) -> ChatModel | None:
    try:
        # By its class: a frame has its columns as attributes, and a proxy everything.
        if not callable(getattr(type(value), "stream", None)):
            return None
        name = getattr(value, "name", None)
        if not isinstance(name, str):
            return None
        if str.isprintable(name) and str.strip(name) and not str.count(name, ","):
            return cast("ChatModel", value)
        wrong = f"is named {str(name)[:60]!a}"
    except KeyboardInterrupt:
        raise
    except BaseException as exc:  # boundary: user object - its attributes
        wrong = f"does not give its name ({_class_name(type(exc))})"
    raise TurnError(
        f"The model in the variable {variable!r} {wrong}: let its name be printable text of one "
        "line without a comma."
    )


def _class_name(value: type) -> str:
    """The name of a class, which its metaclass cannot change."""
    name: str = type.__dict__["__name__"].__get__(value)
    return name if name.isprintable() else ascii(name)


def open_in(shell: Any) -> Session:
    """The session of ``shell``'s notebook, running code in ``shell``."""
    from parsimony_agent.cell import locate
    from parsimony_kernel.execution.notebook import NotebookExecutor
    from parsimony_kernel.session.session import open_session

    where = locate(shell)
    # The kernel's parent is its application, which knows how others can reach the kernel.
    application = getattr(getattr(shell, "kernel", None), "parent", None)
    return open_session(
        executor=NotebookExecutor(shell),
        notebook=where.notebook,
        folder=where.folder,
        connection_file=getattr(application, "abs_connection_file", ""),
    )
