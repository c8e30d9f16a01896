"""The one session of a kernel process, opened when it is first needed.

It is imported on first use: loading the extension costs nothing of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from parsimony_agent.pending import TurnError

if TYPE_CHECKING:
    from parsimony_kernel.core.chat import ChatModel
    from parsimony_kernel.session.session import NotebookSession


Session: TypeAlias = "NotebookSession"
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
    called = _model_name(value)
    if name == OFFLINE or provider_of(name) is not None:
        if called is None:
            return name
        raise TurnError(
            f"{name!r} is the name of a model and also a variable that holds one. "
            "Give the variable another name."
        )
    if called is None:
        raise TurnError(
            f"The variable {name!r} holds no model but {type(value).__name__!r}. Name a model, "
            "such as openai/gpt-5, or a variable with an object that has a name and a method "
            "stream."
        )
    if not called.isprintable() or not called.strip() or "," in called:
        raise TurnError(
            f"The model in the variable {name!r} is named {called[:60]!a}: let its name be "
            "printable text of one line without a comma."
        )
    return cast("ChatModel", value)


def _model_name(value: Any) -> str | None:
    """The name of the model that ``value`` is; ``None`` where it is none."""
    try:
        # By its class: a frame has its columns as attributes, and a proxy everything.
        is_model = not isinstance(value, type) and callable(getattr(type(value), "stream", None))
        name = value.name if is_model else None
    except Exception:  # boundary: user object - its attributes
        return None
    return name if isinstance(name, str) else None


def open_in(shell: Any) -> Session:
    """The session of ``shell``'s notebook, running code in ``shell``."""
    from parsimony_agent.cell import locate
    from parsimony_kernel.execution.notebook import NotebookExecutor
    from parsimony_kernel.session.session import NotebookSession

    where = locate(shell)
    # The kernel's parent is its application, which knows how others can reach the kernel.
    application = getattr(getattr(shell, "kernel", None), "parent", None)
    return NotebookSession(
        executor=NotebookExecutor(shell),
        notebook=where.notebook,
        folder=where.folder,
        connection_file=getattr(application, "abs_connection_file", ""),
    )
