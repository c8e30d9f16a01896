"""Calls that a model wrote into its words, as most small ones do: fenced Python, JSON, XML.

What is found is a call like any other, and goes through the same gate.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from operator import itemgetter
from typing import Any, NamedTuple

from parsimony_kernel.analysis.read import read
from parsimony_kernel.core.chat import FunctionCall, Message, ToolCall
from parsimony_kernel.tools import Tools

# How ids of such calls begin.
WRITTEN = "written_"
RUN_CODE = "run_code"

# More is no answer of a weak model, and is not searched.
_MOST_CHARS = 100_000
_MOST_TRIES = 200

_THOUGHT = re.compile(r"<think(?:ing)?>.*?(?:</think(?:ing)?>|\Z)|\A.*?</think>", re.DOTALL)
_FENCE = re.compile(
    r"^[ \t]*```[ \t]*(?P<kind>[\w+-]*)[^\n]*\n(?P<code>.*?)(?:^[ \t]*```[ \t]*$|\Z)",
    re.DOTALL | re.MULTILINE,
)
_OPENING = re.compile(r"[\[{]")
_PYTHON = frozenset({"python", "py", "python3", "ipython", "jupyter"})
_MARKUP = re.compile(
    r"</?(?:tool_calls?|function_calls?|tools?)>|\[/?TOOL_CALLS?\]|<\|[^|<>\n]{1,40}\|>"
    r"|<｜[^｜<>\n]{1,40}｜>|^[ \t]*```[ \t]*(?:json|xml|tool_call|tool_code)?[ \t]*$"
    r"|^[ \t]*(?:Action|Action Input|Tool|Call|Arguments)[ \t]*:[ \t]*$",
    re.MULTILINE | re.IGNORECASE,
)
_NAMES = ("name", "tool", "tool_name", "function", "function_name", "action")
_GIVEN = ("arguments", "parameters", "args", "input", "inputs", "tool_input", "action_input")
_AROUND = ("tool_calls", "function", "tool_call", "function_call")
_PARAMETER = re.compile(
    r"<(?:parameter(?:=|\s+name=))?[\"']?(\w+)[\"']?>\n?(.*?)\n?</(?:parameter|\1)>", re.DOTALL
)
_PAIR = re.compile(
    r"<arg_key>\s*(\w+)\s*</arg_key>\s*<arg_value>\n?(.*?)\n?</arg_value>", re.DOTALL
)

Arguments = dict[str, Any]


class _Found(NamedTuple):
    """A call, and where in the text it stands."""

    start: int
    end: int
    name: str
    arguments: Arguments


def is_written(call_id: str) -> bool:
    """Whether a call was written into words."""
    return call_id.startswith(WRITTEN)


def written_calls(
    message: Message, tools: Tools, messages: Iterable[Mapping[str, Any]]
) -> tuple[tuple[ToolCall, ...], str]:
    """The calls in the words of ``message``, or in its reasoning where it says nothing; and the
    words without them.

    A fence of Python is code to run for a model that calls no tools otherwise, unless it has run:
    one that does shows code to people. ``messages`` are those of the run before.
    """
    before = list(messages)
    said = (message.content or "")[:_MOST_CHARS]
    words = _THOUGHT.sub("", said)
    if is_thought := not words.strip():
        words = (message.reasoning_content or said)[:_MOST_CHARS]
    found = list(_called(words, tools))
    earlier = [call for each in before for call in each.get("tool_calls") or ()]
    if not found and RUN_CODE in tools and all(is_written(str(call["id"])) for call in earlier):
        codes = [call["function"] for call in earlier if call["function"]["name"] == RUN_CODE]
        found = list(_fenced(words, {_plain(_object(each["arguments"])) for each in codes}))
    if not found:
        return (), message.content or ""
    calls = tuple(
        ToolCall(
            f"{WRITTEN}{len(before)}_{number}",
            FunctionCall(each.name, json.dumps(each.arguments, ensure_ascii=False)),
        )
        for number, each in enumerate(found)
    )
    for each in reversed(found):
        words = words[: each.start] + words[each.end :]
    return calls, "" if is_thought else _MARKUP.sub("", words).strip()


def _plain(block: Mapping[str, Any]) -> str:
    return "".join(str(block.get("code", "")).split())


def _fenced(words: str, ran: set[str]) -> Iterator[_Found]:
    """The Python in ``words`` as one cell; text of no kind only where it can be run."""
    new = [
        each
        for each in _FENCE.finditer(words)
        if each["kind"].lower() in _PYTHON or (not each["kind"] and _is_code(each["code"]))
        if _plain(each.groupdict()) not in {"", *ran}
    ]
    if new:
        code = "\n\n".join(each["code"].strip("\n") for each in new)
        yield _Found(new[0].start(), new[-1].end(), RUN_CODE, {"code": code})


def _is_code(text: str) -> bool:
    cell = read(text)
    return cell.error is None and bool(cell.calls or cell.imported)


def _called(words: str, tools: Tools) -> Iterator[_Found]:
    """The calls in ``words`` that name a tool, in their order; none within another."""
    end = 0
    for found in sorted((*_in_xml(words, tools), *_in_json(words, tools)), key=itemgetter(0, 1)):
        if found.start >= end:
            yield found
            end = found.end


def _in_xml(words: str, tools: Tools) -> Iterator[_Found]:
    """Calls as elements: of the tool's name, or of another that has it as its value."""
    names = "|".join(map(re.escape, sorted(tools, key=len, reverse=True)))
    opening = rf"<(?:tool_call>\s*|\w+(?:\s+name)?=)?[\"']?({names})[\"']?(?:>|(?=\s*<arg_key>))"
    for found in re.finditer(opening, words):
        name = found[1]
        closing = rf"</(?:function|invoke|tool|tool_call|{name})>|\Z"
        closed = re.compile(closing).search(words, found.end())
        end = closed.start() if closed else len(words)
        body = words[found.end() : end]
        types = tools[name].parameters_schema.get("properties", {})
        arguments = _object(body) or {
            key: text if types.get(key, {}).get("type") == "string" else _json(text)
            for key, text in _PAIR.findall(body) or _PARAMETER.findall(body)
        }
        if arguments or not tools[name].parameters_schema.get("required"):
            yield _Found(found.start(), closed.end() if closed else end, name, arguments)


def _in_json(words: str, tools: Tools) -> Iterator[_Found]:
    decoder = json.JSONDecoder(strict=False)
    at = tries = 0
    while tries < _MOST_TRIES and (opening := _OPENING.search(words, at)):
        start, at = opening.start(), opening.end()
        tries += 1
        with suppress(ValueError, RecursionError):
            value, end = decoder.raw_decode(words, start)
            for name, arguments in _of(value, tools, words[max(0, start - 80) : start]):
                yield _Found(start, end, name, arguments)
                start = at = end


def _of(value: Any, tools: Tools, before: str = "") -> Iterator[tuple[str, Arguments]]:
    """The calls that a value of JSON is. ``before`` are the words that lead to it, such as
    ``Action: run_code  Action Input:``."""
    if isinstance(value, list):
        for each in value:
            yield from _of(each, tools)
    if not isinstance(value, dict):
        return
    for inner in _AROUND:
        if isinstance(value.get(inner), dict | list):
            yield from _of(value[inner], tools)
            return
    name = next((str(value[key]) for key in _NAMES if str(value.get(key)) in tools), "")
    only = next(iter(value)) if len(value) == 1 else ""
    named = re.search(r"(\w+)(?:\W|action|input|args|arguments|with)*\Z", before, re.IGNORECASE)
    if name:
        rest = {key: each for key, each in value.items() if each != name}
        given = next((value[key] for key in _GIVEN if key in value), rest)
        yield name, given if isinstance(given, dict) else _object(str(given))
    elif only in tools and isinstance(value[only], dict):
        yield only, value[only]
    elif named and _takes(named[1], tools, value):
        yield named[1], value
    elif "code" in value and _takes(RUN_CODE, tools, value):
        yield RUN_CODE, value


def _takes(name: str, tools: Tools, arguments: Arguments) -> bool:
    """Whether there is a tool of this name that has parameters of these names."""
    tool = tools.get(name)
    known = () if tool is None else tool.parameters_schema.get("properties", ())
    return tool is not None and arguments.keys() <= set(known)


def _object(text: str) -> Arguments:
    value = _json(text)
    return value if isinstance(value, dict) else {}


def _json(text: str) -> Any:
    with suppress(ValueError, RecursionError):
        return json.loads(text, strict=False)
    return text
