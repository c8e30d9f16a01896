"""Request keys: normalized, readable text that identifies a recorded model request.

The key of a step is the new part of its request: for the first step the tools, the earlier turns,
the variables and the person's words; for each later step everything after the previous answer.
Parts that differ between machines, days or releases of this package, without meaning anything to
the model, are left out: the system prompt, the reminders at the end, call ids, the files and
artifacts around the notebook, paths, times, addresses, hashes and library frames. Plain dates stay,
since they are data.
"""

import json
import re
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from parsimony_kernel.core.chat import ModelRequest
from parsimony_kernel.core.result_text import NEXT, VALUES, as_text, envelope_in, variable_in_text
from parsimony_kernel.core.text import from_json

Clean = Callable[[str], str]

# The start of a turn, as the session writes it.
_REQUEST = re.compile(r"<request>\n(.*)\n</request>", re.DOTALL)
_CONTEXT = re.compile(r"<notebook_context>\n(.*?)\n</notebook_context>\n*", re.DOTALL)
# Neither belongs to the tool's result: both depend on what the model has read before.
_NEXT = re.compile(rf"\n?{re.escape(NEXT)}.*\Z|[ \n]?{re.escape(VALUES)}.*\)(?=\n|\Z)")
_ADDENDUM = "<context_addendum>"
# The keys of the inventory that describe the notebook's surroundings.
_KEYS_AROUND = "today versions working_folder files artifacts replaceable"
_AROUND = frozenset(_KEYS_AROUND.split())

_IN_A_LINE = 100
_SHOWN_WORDS = 60
# An earlier request is shown to a model with at least this many characters.
_TOLD_WORDS = 200

_LIBRARY_FRAME = re.compile(
    r"^[ \t]*File [^\n]*(?:site-packages|dist-packages|lib/python3)[^\n]*\n"
    r"(?:[ \t]{4,}[^\n]*(?:\n|\Z))*",
    re.MULTILINE,
)
_PLACES: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern), instead)
    for pattern, instead in (
        (r"data:[\w/+.-]{1,60};base64,[A-Za-z0-9+/=]+", "<picture>"),
        (r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?:Z|[+-]\d\d:?\d\d)?", "<time>"),
        (r"\b0x[0-9a-fA-F]{4,16}\b", "<address>"),
        (r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", "<id>"),
        (r"\b(?:[0-9a-f]{64}|[0-9a-f]{32})\b", "<hash>"),
        (r"\bcall_[0-9A-Za-z_-]{4,64}", "<call>"),
        (r"(?<![\w.:/<>~\\-])/(?:[\w.@+~-]+/)+[\w.@+~-]*", "<path>"),
        (r"(?<![\w\\])[A-Za-z]:\\{1,2}(?:[\w.@+~ -]+\\{1,2})+[\w.@+~-]*", "<path>"),
        (r"\b\d+\.\d+ ?(?:ns|µs|us|ms|s|sec|seconds)\b|\b\d+ ?(?:ns|µs|ms)\b", "<duration>"),
    )
)


@dataclass(frozen=True)
class Place:
    """The environment of a request, which normalization removes from its text.

    Args:
        folder: the working folder, written as ``.`` in the normal form.
        clean: removes secrets.
        asked: the requests that this kernel ran. Only these earlier turns are part of a key; all
            if ``None``.
    """

    folder: Path
    clean: Clean = str
    asked: frozenset[str] | None = None

    def knows(self, words: str) -> bool:
        """Whether an earlier turn with these words is part of a key. Long ones may be cut."""
        begin = normal_words(words, self)[:_TOLD_WORDS]
        return self.asked is None or any(each.startswith(begin) for each in self.asked)

    def normal(self, text: str) -> str:
        """Replace the parts of ``text`` that differ between machines and runs."""
        for spelled in sorted({str(self.folder), str(self.folder.resolve())}, key=len)[::-1]:
            if len(spelled) > 1:
                text = re.sub(rf"{re.escape(spelled)}(?![\w.-])", ".", text)
        text = self.clean(_LIBRARY_FRAME.sub("", text))
        for pattern, instead in _PLACES:
            text = pattern.sub(instead, text)
        lines = (line.rstrip() for line in text.expandtabs(4).splitlines())
        return "\n".join(lines).strip("\n")


@dataclass(frozen=True)
class RequestKey:
    """The key of the ``step``-th request of a turn, as text."""

    step: int
    text: str


def normal_words(request: str, place: Place) -> str:
    """Normalize a person's request, the key of its turn."""
    return place.normal(request.strip())


def in_short(words: str) -> str:
    """Shorten text to one line for a message."""
    line = " ".join(words.split())
    return line if len(line) <= _SHOWN_WORDS else line[: _SHOWN_WORDS - 1] + "…"


def request_key(request: ModelRequest, place: Place) -> RequestKey:
    """Compute the key of a request; its step counts from the person's newest request."""
    head, messages = _split(request.messages)
    begin = max((i for i, each in enumerate(messages) if _opens(each)), default=0)
    answers = [i for i, each in enumerate(messages) if i > begin and _role(each) == "assistant"]
    parts: list[str] = []
    if answers:
        new = messages[answers[-1] + 1 :]
    else:
        told = messages[:begin] and _is_context(messages[begin - 1])
        begin -= bool(told)
        new = messages[begin:]
        parts.append(_listed(request.tools))
        parts.extend(f"earlier {_told(each)}" for each in _earlier(messages[:begin], place))
    parts.extend(_told(each) for each in (*new, *head))
    return RequestKey(len(answers) + 1, place.normal("\n\n".join(filter(None, parts))))


def _split(
    messages: Sequence[Mapping[str, Any]],
) -> tuple[list[Mapping[str, Any]], list[Mapping[str, Any]]]:
    """Split off the instructions in front of the first turn; return them and the conversation.

    System messages and the addendum at the end are dropped.
    """
    spoken = [each for each in messages if _role(each) not in {"system", "developer"}]
    if spoken and _text(spoken[-1]).startswith(_ADDENDUM):
        spoken.pop()
    # An instruction for one request only comes first, before any turn.
    first = next((i for i, each in enumerate(spoken) if _opens(each) or _is_context(each)), 0)
    return spoken[:first], spoken[first:]


def _earlier(messages: Iterable[Mapping[str, Any]], place: Place) -> Iterator[Mapping[str, Any]]:
    """Yield the messages of the earlier turns that are part of the key."""
    counts = True
    for message in messages:
        words = _REQUEST.search(_text(message)) if _role(message) == "user" else None
        if words is not None:
            counts = place.knows(words[1])
        if counts:
            yield message


def _role(message: Mapping[str, Any]) -> str:
    return str(message.get("role"))


def _text(message: Mapping[str, Any]) -> str:
    content = message.get("content")
    return content if isinstance(content, str) else ""


def _opens(message: Mapping[str, Any]) -> bool:
    return _role(message) == "user" and _REQUEST.search(_text(message)) is not None


def _is_context(message: Mapping[str, Any]) -> bool:
    return _role(message) == "user" and _CONTEXT.fullmatch(_text(message)) is not None


def _listed(tools: Iterable[Mapping[str, Any]]) -> str:
    functions = (tool.get("function") for tool in tools)
    names = sorted(str(f.get("name")) for f in functions if isinstance(f, Mapping))
    lines = textwrap.wrap(", ".join(names), _IN_A_LINE, break_on_hyphens=False)
    return f"tools:\n{_indented(chr(10).join(lines))}" if lines else ""


def _told(message: Mapping[str, Any]) -> str:
    role = _role(message)
    content = message.get("content")
    if _opens(message) or _is_context(message):
        return _opening(_text(message))
    if role == "tool":
        role = f"result of {message.get('name') or 'a call'}"
    calls = message.get("tool_calls") or ()
    names = [each["function"]["name"] for each in calls if isinstance(each.get("function"), dict)]
    told = _body(content) + (f"\ncalls: {', '.join(names)}" if names else "")
    return f"{role}:\n{_indented(told.strip())}"


def _opening(text: str) -> str:
    """Render the start of a turn: the variables, then the request."""
    words = _REQUEST.search(text)
    request = f"request:\n{_indented(words[1])}" if words else ""
    context = _CONTEXT.search(text[: words.start()] if words else text)
    inventory = from_json(context[1]) if context else None
    if not isinstance(inventory, dict):
        return request
    free = set(inventory.get("replaceable") or ())
    kept = {key: value for key, value in inventory.items() if key not in _AROUND and value}
    told = (variable_in_text(each, set()) for each in kept.get("variables", ()))
    kept["variables"] = [each for each in told if each.get("name") not in free]
    notebook = f"notebook:\n{_indented(outline(kept))}" if any(kept.values()) else ""
    return "\n\n".join(filter(None, (notebook, request)))


def _body(content: Any) -> str:
    # An envelope gives the same key as its text, since models read either form.
    if (envelope := envelope_in(content)) is not None:
        return _NEXT.sub("", as_text(envelope, (), set()))
    if not isinstance(content, str):
        return "" if content is None else outline(content)
    # Strict, as recordings have it: printed text with bare line breaks is no JSON.
    try:
        value = json.loads(content)
    except (ValueError, RecursionError):
        return _NEXT.sub("", content)
    return outline(value) if isinstance(value, dict | list) else content


def outline(value: Any) -> str:
    """Render JSON in lines that diff well: short values in one line, the rest indented."""
    return "\n".join(_lines(value))


def _lines(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        for key, each in value.items():
            yield from _named(f"{key}:", each)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _named("-", each)
    elif isinstance(value, str):
        yield from value.splitlines() or [""]
    else:
        yield json.dumps(value, ensure_ascii=False, default=str)


def _named(name: str, value: Any) -> Iterator[str]:
    in_a_line = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    if len(in_a_line) <= _IN_A_LINE and "\n" not in in_a_line:
        yield f"{name} {in_a_line}".rstrip()
        return
    lines = _lines(value)
    yield f"- {next(lines, '')}".rstrip() if name == "-" else name
    for line in lines:
        yield f"  {line}"


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.splitlines())
