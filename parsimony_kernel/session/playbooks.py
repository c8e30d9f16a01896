"""The file that says how a task is done, read for a notebook."""

from pathlib import Path
from types import FunctionType

from parsimony_kernel.execution.base import BaseCodeExecutor
from parsimony_kernel.gate.procedure import ProcedureError
from parsimony_kernel.gate.task_file import MAX_CHARACTERS, Playbook, from_yaml
from parsimony_kernel.session.turns import SessionError
from parsimony_kernel.tools import Tools


def read_playbook(file: str, folder: Path, executor: BaseCodeExecutor, tools: Tools) -> Playbook:
    """What ``file``, relative to ``folder``, says of a task that is done with ``tools``.

    Its guards are functions of the notebook. ``SessionError`` says all that is wrong with it;
    without a file nothing is said.
    """
    if not file:
        return Playbook()
    functions = {
        name: value
        for name, value in executor.variables().items()
        if isinstance(value, FunctionType)
    }
    try:
        with (folder / file).open(encoding="utf-8") as opened:
            text = opened.read(MAX_CHARACTERS + 1)
    except (OSError, ValueError) as exc:
        raise SessionError(
            f"The procedure {file!r} cannot be read ({type(exc).__name__}): name a YAML file "
            "relative to the notebook."
        ) from exc
    try:
        return from_yaml(text, tools=tools, guards=functions, source=file)
    except ProcedureError as exc:
        raise SessionError(str(exc)) from exc
