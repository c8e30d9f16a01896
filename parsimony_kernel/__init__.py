"""Parsimony Agent: an agent in a notebook that fails legibly, asks, and leaves known origins.

The map, from the top down; an import never goes up:

==========================  =====================================================================
``kernel``, ``cli``         the Jupyter kernel and ``jupyter parsimony``; beside them ``demo``,
                            ``doctor``, ``resume``, and the extension, the package
                            ``parsimony_agent``
``session``                 composition root: a notebook's agent, its journal, its turns
``agent``                   one run: the loop, its state, its events
``display``                 a run in a terminal
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
    from parsimony_kernel.agent.outputs import AgentResult, Chart, Dataset, Report, Script
    from parsimony_kernel.display import display_result, stream_to_display
    from parsimony_kernel.execution.datasets import load_dataset
    from parsimony_kernel.execution.documents import read_excel, read_pdf_text, read_pptx_text
    from parsimony_kernel.execution.executor import CodeExecutor
    from parsimony_kernel.execution.factory import OutputFactory
    from parsimony_kernel.identity import ArtifactRef
    from parsimony_kernel.tools import Tool, ToolResult, Tools, tool, toolmethod

__version__ = "0.1.0"

_HOMES = {
    "Agent": "agent.agent",
    "AgentResult": "agent.outputs",
    "ArtifactRef": "identity",
    "Chart": "agent.outputs",
    "CodeExecutor": "execution.executor",
    "Dataset": "agent.outputs",
    "OutputFactory": "execution.factory",
    "Report": "agent.outputs",
    "Script": "agent.outputs",
    "Tool": "tools",
    "ToolResult": "tools",
    "Tools": "tools",
    "display_result": "display",
    "load_dataset": "execution.datasets",
    "read_excel": "execution.documents",
    "read_pdf_text": "execution.documents",
    "read_pptx_text": "execution.documents",
    "stream_to_display": "display",
    "tool": "tools",
    "toolmethod": "tools",
}

__all__ = [
    "Agent",
    "AgentResult",
    "ArtifactRef",
    "Chart",
    "CodeExecutor",
    "Dataset",
    "OutputFactory",
    "Report",
    "Script",
    "Tool",
    "ToolResult",
    "Tools",
    "__version__",
    "display_result",
    "load_dataset",
    "read_excel",
    "read_pdf_text",
    "read_pptx_text",
    "stream_to_display",
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
