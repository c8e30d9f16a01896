"""Calls that a model wrote into its words, as most small ones do: fenced Python, JSON, XML.

What is found is a call like any other, and goes through the same gate.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
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
_PYTHON = frozenset({"python", "py", "python3", "ipython", "jupyter"})
_MARKUP = re.compile(
    r"</?(?:tool_calls?|function_calls?|tools?)>|\[/?TOOL_CALLS?\]|<\|[^|<>\n]{1,40}\|>"
    r"|<｜[^｜<>\n]{1,40}｜>|^[ \t]*```[ \t]*(?:json|xml|tool_call|tool_code)?[ \t]*$"
    r"|^[ \t]*(?:Action|Action Input|Tool|Call|Arguments)[ \t]*:[ \t]*$",
    re.MULTILINE | re.IGNORECASE,
)
_NAMES = ("name", "tool", "tool_name", "function", "function_name", "action")
_GIVEN = ("arguments", "parameters", "args", "input", "inputs", "tool_input", "action_input")
_PARAMETER = re.compile(
    r"<(?:parameter(?:=|\s+name=))?[\"']?(?P<name>\w+)[\"']?>(?P<value>.*?)</(?:parameter|(?P=name))>",
    re.DOTALL,
)
_PAIR = re.compile(
    r"<arg_key>\s*(?P<name>\w+)\s*</arg_key>\s*<arg_value>(?P<value>.*?)</arg_value>", re.DOTALL
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
    earlier = [call for each in before for call in each.get("tool_calls") or ()]
    codes = [call["function"] for call in earlier if call["function"]["name"] == RUN_CODE]
    ran = {_plain(str(_object(each["arguments"]).get("code", ""))) for each in codes}
    reads_fences = RUN_CODE in tools and all(is_written(str(call["id"])) for call in earlier)
    is_thought = not words.strip()
    if is_thought:
        words = (message.reasoning_content or said)[:_MOST_CHARS]
    found = list(_called(words, tools))
    if not found and reads_fences:
        found = list(_fenced(words, ran))
    calls = tuple(
        ToolCall(
            f"{WRITTEN}{len(before)}_{number}",
            FunctionCall(each.name, json.dumps(each.arguments, ensure_ascii=False)),
        )
        for number, each in enumerate(found)
    )
    if not calls:
        return (), message.content or ""
    if is_thought:
        return calls, ""
    for each in reversed(found):
        words = words[: each.start] + words[each.end :]
    return calls, _MARKUP.sub("", words).strip()


def _plain(code: str) -> str:
    return "".join(code.split())


def _fenced(words: str, ran: set[str]) -> Iterator[_Found]:
    """The Python in ``words`` as one cell; text of no kind only where it can be run."""
    blocks = [
        each
        for each in _FENCE.finditer(words)
        if each["kind"].lower() in _PYTHON or (not each["kind"] and _is_code(each["code"]))
    ]
    new = [each for each in blocks if _plain(each["code"]) and _plain(each["code"]) not in ran]
    if new:
        code = "\n\n".join(each["code"].strip("\n") for each in new)
        start, end = new[0].start(), new[-1].end()
        yield _Found(start, end, RUN_CODE, {"code": code})


def _is_code(text: str) -> bool:
    cell = read(text)
    return cell.error is None and bool(cell.calls or cell.imported)


def _called(words: str, tools: Tools) -> Iterator[_Found]:
    """The calls in ``words`` that name a tool, in their order."""
    end = 0
    for found in sorted(
        (*_in_xml(words, tools), *_in_json(words, tools)), key=lambda each: each[:2]
    ):
        if found.start >= end:
            yield found
            end = max(end, found.end)


def _in_xml(words: str, tools: Tools) -> Iterator[_Found]:
    names = "|".join(map(re.escape, sorted(tools, key=len, reverse=True)))
    opening = rf"<(?:(?:function=|invoke\s+name=|tool\s+name=)[\"']?)?(?P<name>{names})[\"']?>"
    glm = rf"<tool_call>\s*(?P<short>{names})\s*(?=<arg_key>)"
    for found in re.finditer(rf"{opening}|{glm}", words):
        name = found["name"] or found["short"]
        closing = re.compile(rf"</(?:function|invoke|tool|tool_call|{name})>").search(
            words, found.end()
        )
        body = words[found.end() : closing.start() if closing else len(words)]
        arguments = _object(body) or {
            each["name"]: _value(each["value"], each["name"], name, tools)
            for each in (_PAIR if _PAIR.search(body) else _PARAMETER).finditer(body)
        }
        if arguments or not tools[name].parameters_schema.get("required"):
            yield _Found(found.start(), closing.end() if closing else len(words), name, arguments)


def _value(text: str, parameter: str, tool: str, tools: Tools) -> Any:
    text = text.removeprefix("\n").removesuffix("\n")
    properties = tools[tool].parameters_schema.get("properties", {})
    if properties.get(parameter, {}).get("type") == "string":
        return text
    try:
        return json.loads(text)
    except ValueError:
        return text


def _in_json(words: str, tools: Tools) -> Iterator[_Found]:
    decoder = json.JSONDecoder(strict=False)
    at = tries = 0
    while tries < _MOST_TRIES and (opening := re.compile(r"[\[{]").search(words, at)):
        start, at = opening.start(), opening.end()
        tries += 1
        try:
            value, end = decoder.raw_decode(words, start)
        except (ValueError, RecursionError):
            continue
        name = _named_before(words[max(0, start - 80) : start], tools)
        calls = list(_of(value, tools, name))
        for found, arguments in calls:
            yield _Found(start, end, found, arguments)
            start = end
        if calls:
            at = end


def _named_before(words: str, tools: Tools) -> str:
    """The tool whose name ends ``words``, as in ``Action: run_code  Action Input:``."""
    told = re.search(r"(\w+)(?:\W|action|input|args|arguments|with)*\Z", words, re.IGNORECASE)
    return told[1] if told and told[1] in tools else ""


def _of(value: Any, tools: Tools, named: str) -> Iterator[tuple[str, Arguments]]:
    """The calls that a value of JSON is."""
    if isinstance(value, list):
        for each in value:
            yield from _of(each, tools, "")
        return
    if not isinstance(value, dict):
        return
    for inner in ("tool_calls", "function", "tool_call", "function_call"):
        if isinstance(value.get(inner), dict | list):
            yield from _of(value[inner], tools, "")
            return
    name = next((str(value[key]) for key in _NAMES if str(value.get(key)) in tools), "")
    given = next((value[key] for key in _GIVEN if key in value), None)
    only = next(iter(value)) if len(value) == 1 else ""
    if name and given is not None:
        yield name, given if isinstance(given, dict) else _object(str(given))
    elif name:
        yield name, {key: value[key] for key in value if value[key] != name}
    elif only in tools and isinstance(value[only], dict):
        yield only, value[only]
    elif named and value.keys() <= _parameters(named, tools):
        yield named, value
    elif RUN_CODE in tools and "code" in value and value.keys() <= _parameters(RUN_CODE, tools):
        yield RUN_CODE, value


def _parameters(name: str, tools: Tools) -> set[str]:
    return set(tools[name].parameters_schema.get("properties", ()))


def _object(text: str) -> Arguments:
    try:
        value = json.loads(text, strict=False)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
