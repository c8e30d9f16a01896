"""A model wrapper that can observe and change requests and answers.

All other attributes of the wrapped model, such as its price or context window, pass through.
"""

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

from parsimony_kernel.core.chat import ChatModel, Completion, Delta, ModelRequest
from parsimony_kernel.llm.chokepoint import close


@dataclass(eq=False, repr=False)
class WrapperModel:
    """A model around ``inner``, with callbacks for requests and answers.

    Args:
        inner: the model that answers.
        asked: called with each request before ``inner`` is asked; may raise.
        heard: called with the request and each item of its answer; returns the item to pass on.
    """

    inner: ChatModel
    asked: Callable[[ModelRequest], None] = lambda request: None
    heard: Callable[[ModelRequest, Any], Delta | Completion] = lambda request, item: item

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.inner!r})"

    @property
    def name(self) -> str:
        return self.inner.name

    def __getattr__(self, name: str) -> Any:
        if name == "inner":  # while it is copied, before ``inner`` is set
            raise AttributeError(name)
        return getattr(self.inner, name)

    async def stream(self, request: ModelRequest) -> AsyncIterator[Delta | Completion]:
        """Stream the answer of ``inner``, whose stream is closed whenever this one ends."""
        self.asked(request)
        answers = self.inner.stream(request)
        try:
            async for item in answers:
                yield self.heard(request, item)
        finally:
            await close(answers)
