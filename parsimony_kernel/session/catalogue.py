"""The tools that every turn of a notebook has."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

from parsimony_kernel.agent.termination_tools import termination_tools
from parsimony_kernel.artifacts.publish import LiveName, Publisher
from parsimony_kernel.core.config import FileStore
from parsimony_kernel.core.events import AgentEvent
from parsimony_kernel.execution.base import BaseCodeExecutor
from parsimony_kernel.execution.clean import clean_executor
from parsimony_kernel.execution.run_scope import RunScope
from parsimony_kernel.gate.preview import code_written
from parsimony_kernel.lineage.script import SliceError, slice_of
from parsimony_kernel.toolbox.code import code_tools
from parsimony_kernel.toolbox.files import file_tools, stored_file_tools
from parsimony_kernel.toolbox.plan import plan_tools
from parsimony_kernel.toolbox.publish import publish_tools
from parsimony_kernel.toolbox.refresh import refresh_tools
from parsimony_kernel.toolbox.variables import inspection_tools, restart_tools
from parsimony_kernel.tools import Tools


def catalogue(
    executor: BaseCodeExecutor,
    publisher: Publisher,
    *,
    workspace: Path,
    folder: Path,
    timeout_s: float,
    scope: Callable[[], RunScope],
    emit: Callable[[AgentEvent], None],
    seen: set[LiveName],
    file_store: FileStore | None = None,
) -> Tools:
    """The tools of one run.

    Args:
        workspace: what bounds the tools for files.
        folder: what relative paths are relative to.
        timeout_s: the deadline of code, in seconds.
        scope: gives on whose behalf code runs.
        emit: takes the events of publishing.
        seen: the kinds and live names that the run has read or written; added to.
        file_store: where files are read and kept instead of in the workspace, and what is
            published beside it.
    """

    def script(variable: str) -> str | None:
        try:
            return slice_of(executor.origin_ledger, variable).code
        except SliceError:
            return None  # the cells of the lineage are kept in its place

    return (
        code_tools(executor, timeout_s=timeout_s, scope=scope, seen=seen)
        + inspection_tools(executor)
        + publish_tools(
            executor,
            publisher,
            emit,
            lambda: scope().run_id,
            seen=seen,
            script=script,
            files=file_store,
        )
        + refresh_tools(publisher, emit, clean_executor)
        + (
            _files(workspace, folder, workspace / scope().notebook_path)
            if file_store is None
            else stored_file_tools(file_store)
        )
        + restart_tools(executor)
        + plan_tools()
        + termination_tools()
    )


def _files(workspace: Path, folder: Path, notebook: Path) -> Tools:
    """The tools for files, which wait for the person where they make code."""
    tools = file_tools(workspace, folder, notebook)
    reaches = partial(code_written, workspace=workspace.resolve(), folder=folder.resolve())
    return tools + Tools(
        [replace(tools[name], reaches=reaches) for name in ("write_file", "edit_file")]
    )
