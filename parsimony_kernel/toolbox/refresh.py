"""The tool that makes a published artifact again."""

from collections.abc import Callable
from typing import Any

from parsimony_kernel.agent.events import AgentEvent, ArtifactPublished
from parsimony_kernel.artifacts.publish import Publisher
from parsimony_kernel.artifacts.refresh import Clean, Refreshed, refresh_named
from parsimony_kernel.tools import Tools, tool

# Behind the deadline of the code, which knows how to stop it and say so.
_TIMEOUT_S = 660.0


def refresh_tools(publisher: Publisher, emit: Callable[[AgentEvent], None], clean: Clean) -> Tools:
    """``refresh`` for what ``publisher`` publishes; ``clean`` begins a place to run code in."""

    @tool(
        description=(
            "Make a published dataset, chart or report again from its code and sources, in a clean "
            "kernel, and publish it if its content is another. `artifact` is its title, variable "
            "or id. A source that has changed is an error, unless `accept_changed_sources`: set "
            "that only where the person asked for the new data."
        ),
        tool_type="publish",
        effect="idempotent",
        timeout_s=_TIMEOUT_S,
    )
    async def refresh(artifact: str, accept_changed_sources: bool = False) -> dict[str, Any]:
        done = await refresh_named(publisher, artifact, clean, accept=accept_changed_sources)
        for each in (*done.parts, done):
            if each.changed:
                emit(_event(each))
        return _answer(done)

    return Tools([refresh])


def _event(done: Refreshed) -> ArtifactPublished:
    entry = done.entry
    return ArtifactPublished(
        kind=entry.kind,
        logical_id=entry.logical_id,
        content_sha=entry.content_sha,
        path=entry.path,
        title=entry.title,
        variable=entry.variable,
        page=done.page,
    )


def _answer(done: Refreshed) -> dict[str, Any]:
    answer: dict[str, Any] = {
        "kind": done.entry.kind,
        "title": done.entry.title,
        "changed": done.changed,
        "content_sha": done.entry.content_sha,
        "path": done.entry.path,
    }
    if done.page:
        answer["page"] = done.page
    if done.sources:
        answer["changed_sources"] = list(done.sources)
    if done.parts:
        answer["parts"] = [
            {"title": part.entry.title, "changed": part.changed} for part in done.parts
        ]
    return answer
