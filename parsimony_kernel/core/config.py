"""The terms of a run: its limits, its files, and the contract that judges its actions."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, runtime_checkable

from pydantic import BaseModel, ConfigDict, Field

from parsimony_kernel.core.fuzzy import suggestion

# The most rules at the end of each prompt, and the most characters of one. With more or longer
# rules, a model follows each less.
MAX_PINNED = 5
MAX_PINNED_LENGTH = 300


class AgentGuardrails(BaseModel):
    """The limits that the detectors check. Times are in seconds.

    ``stall_threshold_s`` counts only a model's silence, never back-off, a provider's error or a
    running tool. ``max_tokens`` counts prompt and answer tokens together, ``max_cost_usd`` is in US
    dollars; ``None`` sets no limit. With a cost limit, a model whose price is unknown is not
    called. Numbers in an answer that no result supports are marked; with strict ``claims``, the
    model is also asked about them once.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    max_iterations: int = Field(50, ge=1)
    max_execution_time_s: float = Field(300, gt=0)
    llm_timeout_s: float = Field(60, gt=0)
    tool_timeout_s: float = Field(600, gt=0)
    stall_threshold_s: float = Field(30, gt=0)
    stream_heartbeat_s: float = Field(20, gt=0)
    loop_soft_threshold: int = Field(2, ge=1)
    loop_hard_threshold: int = Field(6, ge=2)
    max_tokens: int | None = Field(None, gt=0)
    max_cost_usd: float | None = Field(None, gt=0, allow_inf_nan=False)
    claims: Literal["mark", "strict"] = "mark"


@runtime_checkable
class FileStore(Protocol):
    """Storage of a run's files; paths are relative, with forward slashes."""

    async def read(self, path: str) -> bytes:
        """Return the whole file.

        Raises:
            FileNotFoundError: it does not exist.
        """

    async def write(self, path: str, data: bytes) -> None:
        """Replace the file atomically.

        Args:
            path: relative, with forward slashes.
            data: the whole content.
        """


@dataclass(frozen=True)
class ActionContract:
    """What a task allows.

    Args:
        allowed_tools: the tools that may be called; ``None`` allows all.
        serving_tools: those of them that serve the task's intent; ``None`` means all.
        identifiers: what the task is about, such as ``{"order_id": "A102"}``. An action bound by an
            identifier must carry the first of them, under its name or as ``id``, and no action may
            contradict any. A text identifier also matches an integer written the same.

    An identifier binds the tools that take it: those with a parameter of its name, and for the
    first identifier also those with a parameter ``id``. A tool such as ``run_code`` takes neither,
    and its code is not inspected. A tool whose parameters are unknown is bound.
    """

    allowed_tools: frozenset[str] | None = None
    serving_tools: frozenset[str] | None = None
    identifiers: Mapping[str, object] = field(default_factory=dict)

    def violation(
        self,
        tool_name: str,
        tool_args: Mapping[str, Any],
        parameters: Collection[str] | None = None,
    ) -> str | None:
        """Return what the action violates, in a few words; checks tool, intent, then identifiers.

        ``parameters`` are the tool's parameter names, ``None`` if unknown.
        """
        if self.allowed_tools is not None and tool_name not in self.allowed_tools:
            return "tool not allowed"
        if self.serving_tools is not None and tool_name not in self.serving_tools:
            return "tool does not match intent"
        for position, (name, value) in enumerate(self.identifiers.items()):
            spellings = (name, "id") if position == 0 else (name,)
            told = [tool_args[each] for each in spellings if each in tool_args]
            binds = parameters is None or not set(spellings).isdisjoint(parameters)
            is_missing = position == 0 and binds and not told
            if is_missing or not all(_is_the_same(each, value) for each in told):
                return f"{_in_words(name)} changed"
        return None

    def check_tools(self, known: Collection[str]) -> None:
        """Check that every tool named here is among the ``known`` ones.

        Raises:
            ValueError: one is not.
        """
        named = frozenset().union(self.allowed_tools or (), self.serving_tools or ())
        for name in sorted(named.difference(known)):
            raise ValueError(
                f"the contract names {name!r}, which is no tool; {suggestion(name, known)}"
            )


def _is_the_same(told: object, value: object) -> bool:
    if type(told) is int and isinstance(value, str):
        return str(told) == value
    return told == value


def _in_words(name: str) -> str:
    stem = name.removesuffix("_id")
    return f"{stem.replace('_', ' ')} ID" if stem != name else name
