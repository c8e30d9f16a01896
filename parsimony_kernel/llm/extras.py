"""Parts of a request that a model can do without: thinking, effort, cache marks, pictures.

A refused request has run nothing, so the same one without the part is sent at once.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from parsimony_kernel.core.conversation import REQUEST_TAG
from parsimony_kernel.core.pictures import pictures_in
from parsimony_kernel.llm import thinking

Arguments = dict[str, Any]

_REFUSED = frozenset({400, 404, 422})
_MARK = {"type": "ephemeral"}
# Others keep a cache of their own accord, or none.
_WANTS_MARKS = re.compile(r"claude|amazon\.nova|^dashscope/", re.IGNORECASE)


@dataclass(frozen=True)
class Extra:
    """``words`` are the provider's for it; ``left_out`` gives the arguments without it.

    ``for_good`` says that a model which refuses it once refuses it always.
    """

    words: re.Pattern[str]
    left_out: Callable[[Arguments], Arguments]
    for_good: bool = False

    def is_refused(self, exc: Exception, arguments: Arguments) -> bool:
        """Whether ``exc`` is a refusal of this part of ``arguments``."""
        return (
            getattr(exc, "status_code", None) in _REFUSED
            and self.words.search(str(exc)) is not None
            and self.left_out(arguments) != arguments
        )


def marked(model: str, arguments: Arguments) -> Arguments:
    """``arguments``, marked for the cache where the provider of ``model`` wants marks.

    What stays the same with the next request ends at three places: the tools, the instructions,
    and the last result or request, behind which a run puts what holds for one request only.
    """
    if _WANTS_MARKS.search(model) is None:
        return arguments
    messages = list(arguments["messages"])
    of_role = {"system": -1, "settled": -1}
    for index, message in enumerate(messages):
        if message["role"] == "system":
            of_role["system"] = index
        elif message["role"] == "tool" or f"<{REQUEST_TAG}>" in str(message.get("content")):
            of_role["settled"] = index
    for index in filter(lambda index: index >= 0, of_role.values()):
        messages[index] = _with_mark(messages[index], in_content=model.startswith("dashscope/"))
    tools = list(arguments.get("tools") or ())
    if tools:
        tools[-1] = {**tools[-1], "cache_control": _MARK}
        arguments = {**arguments, "tools": tools}
    return {**arguments, "messages": messages}


def _with_mark(message: Mapping[str, Any], *, in_content: bool) -> dict[str, Any]:
    content = message["content"]
    if in_content and isinstance(content, str):
        part = {"type": "text", "text": content, "cache_control": _MARK}
        return {**message, "content": [part]}
    return {**message, "cache_control": _MARK}


def _without_marks(value: Any) -> Any:
    match value:
        case Mapping():
            return {key: _without_marks(value[key]) for key in value if key != "cache_control"}
        case list():
            return [_without_marks(each) for each in value]
    return value


def _without_effort(arguments: Arguments) -> Arguments:
    return {key: arguments[key] for key in arguments if key not in ("thinking", "reasoning_effort")}


def _without_thinking(arguments: Arguments) -> Arguments:
    kept = _without_effort(arguments)
    return {**kept, "messages": thinking.without(arguments["messages"])}


def _without_pictures(arguments: Arguments) -> Arguments:
    kept = [each for each in arguments["messages"] if not any(pictures_in(each))]
    return {**arguments, "messages": kept}


_REASONING = re.compile(r"(?i)thinking|reasoning|encrypted.content|signature")
THINKING = Extra(_REASONING, _without_thinking)
EFFORT = Extra(re.compile(r"(?i)reasoning[_. ]effort"), _without_effort, for_good=True)
CACHE = Extra(re.compile(r"(?i)cache_control|cache.?point"), _without_marks, for_good=True)
PICTURES = Extra(re.compile(r"(?i)image|vision|multi.?modal"), _without_pictures, for_good=True)
EXTRAS = (CACHE, EFFORT, THINKING, PICTURES)
