"""Optional parts of a request: thinking, effort, cache marks and pictures.

A refused request ran nothing, so it is sent again at once without the part that was refused.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from parsimony_kernel.core.conversation import REQUEST_TAG, pictures_in
from parsimony_kernel.llm import thinking

Arguments = dict[str, Any]

_REFUSED = frozenset({400, 404, 422})
_MARK = {"type": "ephemeral"}
# Other providers cache automatically, or not at all.
_WANTS_MARKS = re.compile(r"claude|amazon\.nova|^dashscope/", re.IGNORECASE)


@dataclass(frozen=True)
class Extra:
    """An optional part of a request.

    Args:
        words: matches the provider's message when it refuses this part.
        left_out: returns the arguments without this part.
        for_good: a model that refuses this part once refuses it always.
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
    """Add cache marks to ``arguments`` if the provider of ``model`` wants them.

    The cacheable prefixes end at three places: after the tools, after the instructions, and after
    the last result or request. Behind that a run puts parts that hold for one request only.
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
