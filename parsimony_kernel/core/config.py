"""Limits of a run."""

from typing import Literal, Protocol, runtime_checkable

from pydantic import BaseModel, ConfigDict, Field

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
