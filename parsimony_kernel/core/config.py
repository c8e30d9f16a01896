"""Limits of a run, as values."""

from typing import Literal, Protocol, runtime_checkable

from pydantic import BaseModel, ConfigDict, Field

# How many rules may stand last in every prompt, and how long one may be, in characters. More of
# them, or longer ones, and each is heeded less.
MAX_PINNED = 5
MAX_PINNED_LENGTH = 300


class AgentGuardrails(BaseModel):
    """The limits that the detectors check. Times are in seconds.

    ``stall_threshold_s`` counts a model's silence only: never back-off, a provider's error or a
    running tool. ``max_tokens`` counts prompt and answer tokens together, ``max_cost_usd`` is in
    US dollars; ``None`` sets no limit. With a cost limit, a model whose price is unknown is not
    asked. Numbers of an answer that no result supports are marked; with strict ``claims``, the
    model is asked for them once.
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
    """Where a run's files are read and kept; relative paths with forward slashes."""

    async def read(self, path: str) -> bytes:
        """The whole file. ``FileNotFoundError`` when it is absent."""
        ...

    async def write(self, path: str, data: bytes) -> None:
        """Replace the file as one step."""
        ...
