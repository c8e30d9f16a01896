"""A notebook in little whose publishing tools are the real ones, on a workspace of its own."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from offline_notebook import TOOLS, Notebook, Turn

from parsimony_kernel.artifacts.publish import Publisher
from parsimony_kernel.artifacts.refresh import NOT_REFRESHED
from parsimony_kernel.artifacts.store import ArtifactStore
from parsimony_kernel.core.events import AgentEvent, ArtifactPublished
from parsimony_kernel.core.outputs import KernelOutput
from parsimony_kernel.execution.private import CodeExecutor
from parsimony_kernel.execution.run_scope import RunScope, run_scope
from parsimony_kernel.lineage.script import SliceError, slice_of
from parsimony_kernel.toolbox.publish import publish_tools
from parsimony_kernel.toolbox.refresh import refresh_tools
from parsimony_kernel.tools import ToolResult

PUBLISHING = (*TOOLS, "return_report", "read_artifact", "refresh")


class _Clean:
    """A private namespace as a place to run code in again."""

    def __init__(self) -> None:
        self._executor = CodeExecutor()

    async def execute(self, code: str, *, timeout_seconds: float | None = None) -> KernelOutput:
        return await self._executor.execute(code, timeout_seconds=timeout_seconds)

    async def set_cwd(self, cwd: str) -> None:
        await self._executor.set_cwd(cwd)

    async def value(self, name: str) -> Any:
        return self._executor.variables()[name]


@asynccontextmanager
async def _clean() -> AsyncIterator[_Clean]:
    yield _Clean()


class PublishingNotebook(Notebook):
    """Publishes for real: ``events`` are what was announced, ``calls`` all that was called."""

    def __init__(
        self, folder: Path, *, tools: tuple[str, ...] = PUBLISHING, path: str = "work.ipynb"
    ) -> None:
        super().__init__(folder, tools=tools)
        (folder / path).touch()
        self.path = path
        self.events: list[AgentEvent] = []
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.store = ArtifactStore(folder)
        publisher = Publisher(self.store, notebook_path=path, folder=folder)
        self._publishing = publish_tools(
            self.executor, publisher, self.events.append, lambda: "run-1", script=self._script
        ) + refresh_tools(publisher, self.events.append, _clean)

    def _script(self, variable: str) -> str | None:
        try:
            return slice_of(self.executor.origin_ledger, variable).code
        except SliceError:
            return None

    def context(self) -> str:
        published = [
            {"kind": e.kind, "title": e.title, "path": e.path}
            for e in self.store.list()
            if e.kind != "notebook"
        ]
        return self.context_with(artifacts=published)

    async def run(self, code: str) -> None:
        scope = RunScope(run_id="", notebook_path=self.path, cell_id="own", actor="user")
        with run_scope(scope):
            await super().run(code)

    async def _play(self) -> Turn:
        with run_scope(RunScope(run_id="run-1", notebook_path=self.path, cell_id="cell-1")):
            return await super()._play()

    async def _call(self, name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        self.calls.append((name, dict(arguments)))
        if name not in self._publishing:
            return await super()._call(name, arguments)
        try:
            result = await self._publishing[name].function(**arguments)
        except NOT_REFRESHED as exc:
            return _failed(name, type(exc).__name__, str(exc))
        if isinstance(result, ToolResult):
            if result.failure is not None:
                envelope = result.failure.metadata["envelope"]
                return _failed(name, str(envelope["error_type"]), str(envelope["error_message"]))
            result = result.data
        if name in ("return_chart", "return_dataset"):
            variable = str(arguments["variable"])
            self.turn.published.append(
                {"kind": name.removeprefix("return_"), "value": self[variable], **arguments}
            )
        return {"requested": name, "result": result, "state": "running"}

    def called(self, name: str) -> list[dict[str, Any]]:
        """The arguments of every call of a tool so far."""
        return [arguments for tool, arguments in self.calls if tool == name]

    def announced(self, kind: str) -> list[ArtifactPublished]:
        """What of a kind was announced so far."""
        published = [e for e in self.events if isinstance(e, ArtifactPublished)]
        return [e for e in published if e.kind == kind]

    def page(self, slug: str) -> str:
        """The page of a report."""
        return (self.folder / "reports" / f"{slug}.html").read_text(encoding="utf-8")


def _failed(name: str, kind: str, text: str) -> dict[str, Any]:
    return {
        "error": "tool_error",
        "requested": name,
        "error_type": kind,
        "error_message": text,
        "message": text,
    }
