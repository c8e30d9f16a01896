"""The tools that publish: a dataset and a chart, by the name of a variable."""

import asyncio
import difflib
from collections.abc import Callable
from typing import Any, Protocol

from parsimony_kernel.agent.events import AgentEvent, ArtifactPublished
from parsimony_kernel.agent.failure.causes import RAISED
from parsimony_kernel.artifacts.codecs import CodecError
from parsimony_kernel.artifacts.publish import Published, Publisher, PublishError
from parsimony_kernel.artifacts.store import SnapshotError
from parsimony_kernel.durable import StorageError
from parsimony_kernel.execution.executor import BaseCodeExecutor
from parsimony_kernel.identity import LiveNameCollisionError
from parsimony_kernel.tools import ToolResult, Tools, tool
from parsimony_kernel.triage.taxonomy import FailureType

# The foreseen ways in which publishing fails, each with the cause that chooses the hint.
_CAUSES: dict[type[Exception], FailureType] = {
    CodecError: FailureType.SCHEMA_MISMATCH,
    PublishError: FailureType.CONSTRAINT_IGNORED,
    LiveNameCollisionError: FailureType.CONSTRAINT_IGNORED,
    SnapshotError: FailureType.EXTERNAL_FAULT,
    StorageError: FailureType.EXTERNAL_FAULT,
}
_FORESEEN = tuple(_CAUSES)

_LAST_MOMENT_S = 0.3


class _Publish(Protocol):
    def __call__(
        self,
        value: object,
        *,
        variable: str,
        title: str,
        description: str,
        lineage: Any,
        run_id: str,
    ) -> Published: ...


def publish_tools(
    executor: BaseCodeExecutor,
    publisher: Publisher,
    emit: Callable[[AgentEvent], None],
    run_id: Callable[[], str],
) -> Tools:
    """``return_dataset`` and ``return_chart`` for the variables of ``executor``.

    Each emits ``ArtifactPublished`` once the snapshot is on the disk, and answers
    ``kind``, ``logical_id``, ``content_sha``, ``path`` and ``reused``.
    """

    async def publish(how: _Publish, variable: str, title: str, description: str) -> ToolResult:
        variables = executor.variables()
        if variable not in variables:
            return _failed(
                FailureType.HALLUCINATED_STATE, "NameError", _unknown(variable, variables)
            )
        writing = asyncio.ensure_future(
            asyncio.to_thread(
                how,
                variables[variable],
                variable=variable,
                title=title,
                description=description,
                lineage=tuple(executor.origin_ledger.ancestry(variable)),
                run_id=run_id(),
            )
        )
        try:
            published = await asyncio.shield(writing)
        except asyncio.CancelledError:
            # The thread goes on; what it has on the disk a moment later is still told.
            await asyncio.wait({writing}, timeout=_LAST_MOMENT_S)
            if writing.done() and writing.exception() is None:
                emit(_event(writing.result(), variable))
            raise
        except _FORESEEN as exc:
            cause = next(c for kind, c in _CAUSES.items() if isinstance(exc, kind))
            return _failed(cause, type(exc).__name__, str(exc))
        emit(_event(published, variable))
        return ToolResult.from_data(_answer(published))

    @tool(
        name="return_dataset",
        description=(
            "Publish a DataFrame of the notebook as a dataset that lasts, with its code and "
            "sources. `variable` is its name, `title` a short heading, `description` what its "
            "rows and columns are."
        ),
        tool_type="publish",
        idempotent=True,
    )
    async def return_dataset(variable: str, title: str, description: str = "") -> ToolResult:
        return await publish(publisher.publish_dataset, variable, title, description)

    @tool(
        name="return_chart",
        description=(
            "Publish an Altair chart of the notebook: it is shown to the person and kept with "
            "its code and sources. `variable` is its name, `title` a short heading, "
            "`description` what it shows, for who cannot see it."
        ),
        tool_type="publish",
        idempotent=True,
    )
    async def return_chart(variable: str, title: str, description: str = "") -> ToolResult:
        return await publish(publisher.publish_chart, variable, title, description)

    return Tools([return_dataset, return_chart])


def _unknown(variable: str, variables: dict[str, Any]) -> str:
    near = difflib.get_close_matches(variable, sorted(variables), n=3, cutoff=0.5)
    if near:
        return f"There is no variable {variable!r}: did you mean {_either(near)}?"
    if not variables:
        return f"There is no variable {variable!r}: the notebook has none yet, run code first."
    known = ", ".join(repr(name) for name in sorted(variables)[:10])
    return f"There is no variable {variable!r}: the notebook has {known}."


def _either(names: list[str]) -> str:
    quoted = [repr(name) for name in names]
    return quoted[0] if len(quoted) == 1 else f"{', '.join(quoted[:-1])} or {quoted[-1]}"


def _failed(cause: FailureType, error_type: str, sentence: str) -> ToolResult:
    return ToolResult.from_failure(
        RAISED.failure(
            sentence,
            type=cause,
            envelope={"error_type": error_type, "error_message": sentence},
        )
    )


def _event(published: Published, variable: str) -> ArtifactPublished:
    figure = published.figure
    return ArtifactPublished(
        kind=published.ref.kind,
        logical_id=published.ref.logical_id,
        content_sha=published.ref.content_sha,
        path=published.path,
        title=published.title,
        variable=variable,
        reused=published.reused,
        figure=None if figure is None else figure.model_dump(mode="json"),
    )


def _answer(published: Published) -> dict[str, Any]:
    answer: dict[str, Any] = {
        "kind": published.ref.kind,
        "logical_id": published.ref.logical_id,
        "content_sha": published.ref.content_sha,
        "path": published.path,
        "reused": published.reused,
    }
    return {**answer, "note": published.note} if published.note else answer
