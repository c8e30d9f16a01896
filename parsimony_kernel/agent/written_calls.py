"""Parse tool calls that a model wrote into its text as Python, JSON or XML.

Most small models do. A parsed call is a call like any other, and passes the same gate.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from typing import Any, NamedTuple

from parsimony_kernel.analysis.read import literal_calls, read
from parsimony_kernel.core.chat import FunctionCall, Message, ToolCall
from parsimony_kernel.core.text import from_json
from parsimony_kernel.tools import Tools

# The prefix of the ids of such calls.
WRITTEN = "written_"
RUN_CODE = "run_code"

# Limits of the search; no answer of a small model needs more.
_MOST_CHARS = 100_000
_MOST_TRIES = 200
_LONGEST_TAG = 64

_THOUGHT = re.compile(r"<think(?:ing)?>.*?(?:</think(?:ing)?>|\Z)|\A.*?</think>", re.DOTALL)
_FENCE = re.compile(
    r"^[ \t]*```[ \t]*(?P<kind>[\w+-]*)[^\n]*\n(?P<code>.*?)(?:^[ \t]*```[ \t]*$|\Z)",
    re.DOTALL | re.MULTILINE,
)
_PYTHON = frozenset({"python", "py", "python3", "ipython", "jupyter", "tool_code"})
# The markup that remains around a call after its removal.
_MARKUP = re.compile(
    r"</?(?:tool_calls?|function_calls?|tools?)>|\[/?TOOL_CALLS?\]|<[|｜][^|｜<>\n]{1,40}[|｜]>"
    r"|\{\s*\"(?:tool_calls?|function_call)\"\s*:[^\[\]]{0,9}\[?[^\[\]]{0,2000}\]?\s*\}"
    r"|^[ \t]*```[ \t]*(?:json|xml|tool_call)?[ \t]*$",
    re.MULTILINE | re.IGNORECASE,
)
_NAMES = ("name", "tool", "tool_name", "function", "function_name", "action")
_GIVEN = ("arguments", "parameters", "args", "input", "inputs", "tool_input", "action_input")
_PARAMETER = re.compile(
    r"<(parameter(?:=|\s+name=))?[\"']?(\w+)[\"']?>\n?(.*?)\n?</(?(1)parameter|\2)>", re.DOTALL
)
_DECODER = json.JSONDecoder(strict=False)

Arguments = dict[str, Any]


class _Found(NamedTuple):
    """A call and its position in the text."""

    start: int
    end: int
    name: str
    arguments: Arguments


def written_calls(
    message: Message, tools: Tools, messages: Sequence[Mapping[str, Any]]
) -> tuple[tuple[ToolCall, ...], str]:
    """Extract the calls from the text of ``message``, or from its reasoning if the text is empty.

    A Python code fence counts as code to run, once, if the model has made no other kind of call: a
    model that can call tools shows code to people.

    Args:
        message: the model's answer.
        tools: the callable tools.
        messages: the run's earlier messages.

    Returns:
        The calls, and the text around them.
    """
    content = (message.content or "")[:_MOST_CHARS]
    words = _THOUGHT.sub("", content)
    if is_thought := not words.strip():
        words = (message.reasoning_content or content)[:_MOST_CHARS]
    found = [*_named(words, tools)] or [*_fenced(words, tools, messages)]
    if not found:
        return (), message.content or ""
    around = words
    for start, end in sorted({each[:2] for each in found}, reverse=True):
        around = around[:start] + around[end:]
    calls = list[ToolCall]()
    for _, _, name, arguments in found:
        text = json.dumps(arguments, ensure_ascii=False, default=str)
        calls.append(ToolCall(f"{WRITTEN}{len(messages)}_{len(calls)}", FunctionCall(name, text)))
    return tuple(calls), "" if is_thought else _MARKUP.sub("", around).strip()


def _fenced(words: str, tools: Tools, messages: Sequence[Mapping[str, Any]]) -> Iterator[_Found]:
    """Yield the Python fences in ``words`` as one cell, then the calls of fences that only call
    tools.

    A fence without a language counts only if it parses as Python with calls or imports.
    """
    turns = [each for each in messages if isinstance(each, Mapping)]
    earlier = [call for each in turns for call in each.get("tool_calls") or ()]
    if not all(str(call["id"]).startswith(WRITTEN) for call in earlier):
        return
    ran = {_plain(_object(call["function"]["arguments"]).get("code", "")) for call in earlier}
    new = [
        each
        for each in _FENCE.finditer(words)
        if each["kind"].lower() in _PYTHON or (not each["kind"] and _is_code(each["code"]))
        if _plain(each["code"]) not in {"", *ran}
    ]
    called = [_in_python(each["code"], tools) for each in new]
    code = [each["code"].strip("\n") for each, calls in zip(new, called, strict=True) if not calls]
    if code and RUN_CODE in tools:
        called.insert(0, [(RUN_CODE, {"code": "\n\n".join(code)})])
    for name, arguments in chain.from_iterable(called):
        yield _Found(new[0].start(), new[-1].end(), name, arguments)


def _plain(code: Any) -> str:
    return "".join(str(code).split())


def _is_code(text: str) -> bool:
    cell = read(text)
    return cell.error is None and bool(cell.calls or cell.imported)


def _in_python(code: str, tools: Tools) -> list[tuple[str, Arguments]]:
    """Parse ``code`` into calls if it does nothing but call tools; otherwise return none."""
    calls = list[tuple[str, Arguments]]()
    for name, given, named in literal_calls(code):
        if name not in tools:
            return []
        parameters = [*tools[name].parameters_schema.get("properties", ())]
        taken = dict(zip(parameters, given, strict=False))
        # Python reports invalid arguments better, so they are left to it.
        if len(given) > len(parameters) or named.keys() & {*taken, "None"}:
            return []
        calls.append((name, taken | named))
    with suppress(TypeError):  # a key that JSON can't express
        json.dumps(calls, default=str)
        return calls
    return []


def _named(words: str, tools: Tools) -> Iterator[_Found]:
    """Yield the calls in ``words`` that name a tool, as JSON or as XML elements; none nested."""
    names = "|".join(map(re.escape, tools))
    opening = re.compile(rf"[\[{{]|<(?:\w+(?:\s+name)?=)?[\"']?({names})[\"']?>")
    at = 0
    for _ in range(_MOST_TRIES):
        opened = opening.search(words, at)
        if opened is None:
            return
        at, find = opened.end(), _in_element if opened[1] else _in_json
        if found := find(words, opened, tools):
            yield found
            at = found.end


def _in_element(words: str, opened: re.Match[str], tools: Tools) -> _Found | None:
    """Parse the XML element at ``opened`` as a call."""
    name, schema = opened[1], tools[opened[1]].parameters_schema
    closing = re.compile(rf"</(?:function|invoke|tool|tool_call|{re.escape(name)})>|\Z")
    closed = next(closing.finditer(words, opened.end()))
    body, types = words[opened.end() : closed.start()], schema.get("properties", {})
    # Only up to the last closing tag: after it no element is complete, and a model may repeat an
    # opening tag forever.
    most = body.rfind("</") + _LONGEST_TAG
    arguments = _object(body) or {
        key: text if types.get(key, {}).get("type") == "string" else from_json(text, text)
        for _, key, text in _PARAMETER.findall(body, 0, most)
    }
    is_call = arguments or not schema.get("required")
    return _Found(opened.start(), closed.end(), name, arguments) if is_call else None


def _in_json(words: str, opened: re.Match[str], tools: Tools) -> _Found | None:
    """Parse the JSON at ``opened`` as a call: an object that names a tool."""
    try:
        value, end = _DECODER.raw_decode(words, opened.start())
    except (ValueError, RecursionError):
        return None
    named = value if isinstance(value, dict) else {}
    if len(named) == 1 and isinstance(given := next(iter(named.values())), dict):
        named = {"name": next(iter(named)), "arguments": given}
    name = next((str(named[key]) for key in _NAMES if str(named.get(key)) in tools), "")
    rest = {key: each for key, each in named.items() if each != name}
    given = next((named[key] for key in _GIVEN if key in named), rest)
    arguments = given if isinstance(given, dict) else _object(str(given))
    return _Found(opened.start(), end, name, arguments) if name else None


def _object(text: str) -> Arguments:
    value = from_json(text)
    return value if isinstance(value, dict) else {}
