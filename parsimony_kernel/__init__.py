"""Parsimony Agent: an agent in a notebook that fails legibly, asks, and leaves known origins.

The map, from the top down; an import never goes up:

==========================  =====================================================================
``kernel``, ``cli``         the Jupyter kernel and ``jupyter parsimony``; beside them ``demo``,
                            ``doctor``, ``resume``, and the extension, the package
                            ``parsimony_agent``
``session``                 composition root: a notebook's agent, its journal, its turns
``agent``                   one run: the loop, its state, its events
``view``, ``metrics``       what people and monitors see; they read events and nothing else
``agent.failure``, ``gate``, ``toolbox``, ``triage``
                            how a run fails, what an action passes, what the agent can do, why
``execution``, ``llm``      running Python; the way out to a model
``lineage``, ``artifacts``, ``limits``, ``journal``
                            origins of variables, published work, budgets, what is remembered
``identity``, ``durable``, ``clock``, ``tools``
                            names, files, time, and the values that every part shares
``testing``                 a scripted model, a manual clock: fakes of the narrow seams
==========================  =====================================================================

The names in ``__all__`` are public and resolve on first use, so importing the package costs next
to nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from parsimony_kernel.agent.agent import Agent
    from parsimony_kernel.agent.outputs import AgentResult
    from parsimony_kernel.execution.executor import CodeExecutor
    from parsimony_kernel.execution.factory import OutputFactory
    from parsimony_kernel.identity import ArtifactRef
    from parsimony_kernel.tools import Tool, ToolResult, Tools, tool, toolmethod

__version__ = "0.1.0"

_HOMES = {
    "Agent": "agent.agent",
    "AgentResult": "agent.outputs",
    "ArtifactRef": "identity",
    "CodeExecutor": "execution.executor",
    "OutputFactory": "execution.factory",
    "Tool": "tools",
    "ToolResult": "tools",
    "Tools": "tools",
    "tool": "tools",
    "toolmethod": "tools",
}

__all__ = [
    "Agent",
    "AgentResult",
    "ArtifactRef",
    "CodeExecutor",
    "OutputFactory",
    "Tool",
    "ToolResult",
    "Tools",
    "__version__",
    "tool",
    "toolmethod",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
