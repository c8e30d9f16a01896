"""A model around another one, for what happens to requests and answers on their way.

Everything that a model may say of itself, such as its price or its window, passes through.
"""

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

from parsimony_kernel.core.chat import ChatModel, Completion, Delta, ModelRequest
from parsimony_kernel.llm.chokepoint import close


@dataclass(eq=False, repr=False)
class WrapperModel:
    """``inner``, with a function called before each request and with each item of its answer.

    Args:
        inner: the model that answers.
        asked: called with each request before ``inner`` is asked; may raise.
        heard: called with each request and what is heard of its answer; gives what to pass on.
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
        if name == "inner":  # while it is copied, before it has one
            raise AttributeError(name)
        return getattr(self.inner, name)

    async def stream(self, request: ModelRequest) -> AsyncIterator[Delta | Completion]:
        """The answer of ``inner``; its stream is closed whenever this one ends."""
        self.asked(request)
        answers = self.inner.stream(request)
        try:
            async for item in answers:
                yield self.heard(request, item)
        finally:
            await close(answers)
