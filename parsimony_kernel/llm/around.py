"""A model around another one, for what happens to requests and answers on their way.

Whatever a model says of itself passes through. The rule of the place: one with a price is another
class than one without, since a class that has the method is taken for a model that has a price.
"""

from collections.abc import AsyncIterator
from typing import Any, Protocol, runtime_checkable

from parsimony_kernel.core.chat import ChatModel, Completion, Delta, ModelRequest
from parsimony_kernel.llm.adapter import secrets_of


@runtime_checkable
class Priced(ChatModel, Protocol):
    """A model that can say what a request would cost."""

    async def estimate_cost_usd(self, prompt_tokens: int, answer_tokens: int) -> float | None:
        """US dollars; ``None`` when the price is unknown."""
        ...


class Around:
    """What ``inner`` is, to override ``stream`` of."""

    def __init__(self, inner: ChatModel) -> None:
        self.inner = inner

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.inner!r})"

    @property
    def name(self) -> str:
        return self.inner.name

    @property
    def service(self) -> str:
        """What fails together; the name, where the model tells nothing else."""
        return str(getattr(self.inner, "service", self.inner.name))

    @property
    def secrets(self) -> tuple[str, ...]:
        """The values that no text may show."""
        return secrets_of(self.inner)

    @property
    def max_answer_tokens(self) -> Any:
        """The longest answer, where the model tells it."""
        return getattr(self.inner, "max_answer_tokens", None)

    @property
    def context_window(self) -> Any:
        """The tokens that the model takes, where it tells them."""
        return getattr(self.inner, "context_window", None)

    @property
    def reads_envelopes(self) -> bool:
        """Whether it wants the gate's answers as they are, not as text."""
        return bool(getattr(self.inner, "reads_envelopes", False))

    def stream(self, request: ModelRequest) -> AsyncIterator[Delta | Completion]:
        """The answer of ``inner``."""
        return self.inner.stream(request)


class PricedAround(Around):
    """``Around`` a model that has a price."""

    inner: Priced

    def __init__(self, inner: Priced) -> None:
        super().__init__(inner)

    async def estimate_cost_usd(self, prompt_tokens: int, answer_tokens: int) -> float | None:
        """The price that ``inner`` tells."""
        return await self.inner.estimate_cost_usd(prompt_tokens, answer_tokens)
