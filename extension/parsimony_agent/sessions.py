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
