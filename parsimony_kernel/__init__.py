"""Parsimony Agent: an agent in a notebook that fails legibly, asks, and leaves known origins.

The rooms, from the top down; an import never goes up (``[tool.importlinter]``, `make lint`):

=====================================  ==========================================================
``cli``, ``kernel``, ``api``           ``jupyter parsimony``; the Jupyter kernel; the notebook for
                                       somebody else's agent
``parsimony_agent``                    the IPython extension, a package of its own
``session``, ``doctor``, ``display``   a notebook's turns; what is missing; a run in a terminal
``agent``                              one run: loop, funnel, renderer, suspension
``gate``, ``toolbox``, ``offline``,    what an action passes, what the agent can do, the built-in
``triage``, ``testing``                model, why a run failed, doubles for tests
``execution``, ``llm``                 running Python; the way out to a model
``lineage``, ``artifacts``             origins of variables; published work
``limits``, ``storage``                budgets and breakers; what must survive
``view``, ``metrics``, ``patterns``,   the record, figures, document 003's mechanisms as a library,
``tools``, ``identity``                tools, and names of what is published
``core``                               values only
=====================================  ==========================================================

The names in ``__all__`` are public and resolve on first use, so importing the package costs next
to nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from parsimony_kernel.agent.agent import Agent as Agent
    from parsimony_kernel.api import CodeResult as CodeResult
    from parsimony_kernel.api import Notebook as Notebook
    from parsimony_kernel.core.events import AgentResult as AgentResult
    from parsimony_kernel.core.events import Chart as Chart
    from parsimony_kernel.core.events import Dataset as Dataset
    from parsimony_kernel.core.events import Report as Report
    from parsimony_kernel.core.events import Script as Script
    from parsimony_kernel.display import display_result as display_result
    from parsimony_kernel.display import stream_to_display as stream_to_display
    from parsimony_kernel.execution.executor import CodeExecutor as CodeExecutor
    from parsimony_kernel.execution.factory import OutputFactory as OutputFactory
    from parsimony_kernel.execution.readers import load_dataset as load_dataset
    from parsimony_kernel.execution.readers import read_excel as read_excel
    from parsimony_kernel.execution.readers import read_pdf_text as read_pdf_text
    from parsimony_kernel.execution.readers import read_pptx_text as read_pptx_text
    from parsimony_kernel.identity import ArtifactRef as ArtifactRef
    from parsimony_kernel.tools import Tool as Tool
    from parsimony_kernel.tools import ToolResult as ToolResult
    from parsimony_kernel.tools import Tools as Tools
    from parsimony_kernel.tools import tool as tool
    from parsimony_kernel.tools import toolmethod as toolmethod

__version__ = "0.1.0"
# What front ends call the kernel in a notebook's metadata.
KERNEL_NAME = "parsimony-agent"

_EXPORTS = {
    "agent.agent": "Agent",
    "api": "CodeResult Notebook",
    "core.events": "AgentResult Chart Dataset Report Script",
    "display": "display_result stream_to_display",
    "execution.readers": "load_dataset read_excel read_pdf_text read_pptx_text",
    "execution.factory": "OutputFactory",
    "execution.executor": "CodeExecutor",
    "identity": "ArtifactRef",
    "tools": "Tool ToolResult Tools tool toolmethod",
}
_HOMES = {name: home for home, names in _EXPORTS.items() for name in names.split()}

__all__ = ["__version__", *_HOMES]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
