"""The file of a notebook's recorded answers: YAML that a reviewer can read and a diff can tell.

A turn is its request; a step is what was new in the request to the model, and the answer. Nothing
that differs from one recording to the next of the same: no times, no ids, no hashes, which are
reckoned from the words. The rule of the place: what is read is checked in every field, for people
edit and merge such files.
"""

import json
import re
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError

from parsimony_kernel.core.chat import (
    Choice,
    Completion,
    FunctionCall,
    Message,
    ToolCall,
    Usage,
)
from parsimony_kernel.llm.request_key import RequestKey
from parsimony_kernel.storage import durable
from parsimony_kernel.storage.durable import StorageError

VERSION = 1
MAX_BYTES = 64 * 2**20

_HEADER = (
    "# Answers of a model, recorded by Parsimony Agent. `pytest --nbval` replays them; to change\n"
    "# one, record its cell again.\n"
)
# Breaks of lines that YAML takes for others, and what it does not take as it is.
_TO_ESCAPE = re.compile(
    "[^\\t\\n\\x20-\\x7e\\xa0-\\u2027\\u202a-\\ud7ff\\ue000-\\ufefe\\uff00-\\ufffd\\U00010000-\\U0010fffe]"
)
# How deep a block is must be clear before the first tab.
_BLOCK = re.compile(r"[ \n]*\S")
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class CassetteError(StorageError):
    """A recording cannot be used. ``str()`` is one sentence with the remedy."""


@dataclass(frozen=True)
class RecordedStep:
    """What was asked for in one step, and the answer."""

    asked: RequestKey
    answer: Completion


@dataclass(frozen=True)
class RecordedTurn:
    """The steps of one turn.

    ``words`` are its request in normal form, ``occurrence`` counts the cells of the notebook that
    have the same, from 1. ``model`` is what the record called the model, or the models.
    """

    words: str
    occurrence: int
    model: str
    steps: tuple[RecordedStep, ...] = ()

    @property
    def key(self) -> tuple[str, int]:
        """What no two turns of a recording share."""
        return self.words, self.occurrence


@dataclass(frozen=True)
class Recording:
    """All turns of one notebook, in the order in which they were first recorded."""

    notebook: str
    turns: tuple[RecordedTurn, ...] = ()

    def turn(self, words: str, occurrence: int) -> RecordedTurn | None:
        """The turn of that request, if it was recorded."""
        key = (words, occurrence)
        return next((turn for turn in self.turns if turn.key == key), None)

    def with_turn(self, turn: RecordedTurn) -> "Recording":
        """With ``turn`` in the place of the one that has its key, or behind all others."""
        if self.turn(*turn.key) is None:
            return replace(self, turns=(*self.turns, turn))
        turns = (turn if each.key == turn.key else each for each in self.turns)
        return replace(self, turns=tuple(turns))


class Tape:
    """The recording of ``notebook`` in the file ``path``."""

    def __init__(self, path: Path, notebook: str) -> None:
        self.path = path
        self.notebook = notebook

    @property
    def exists(self) -> bool:
        """Whether anything was recorded."""
        return self.path.is_file()

    def read(self) -> Recording:
        """What was recorded so far; ``CassetteError`` when the file cannot be read as such."""
        if not self.exists:
            return Recording(self.notebook)
        return parse(durable.read(self.path), self.path)

    def put(self, turn: RecordedTurn) -> None:
        """Write ``turn`` down, in the place of an earlier recording of it.

        Turns that another kernel writes meanwhile stay. ``StorageError`` when it cannot be done.
        """

        def change(before: bytes) -> bytes:
            recorded = parse(before, self.path).with_turn(turn)
            return to_text(replace(recorded, notebook=self.notebook)).encode()

        durable.create(self.path, to_text(Recording(self.notebook)).encode())
        durable.rewrite(self.path, change)


def to_text(recording: Recording) -> str:
    """The recording as the text of its file."""
    head = _dumped({"version": VERSION, "notebook": recording.notebook})
    turns = "".join(map(_turn_in_words, recording.turns))
    return f"{_HEADER}{head}turns:{f'{chr(10)}{turns}' if turns else f' []{chr(10)}'}"


@lru_cache(maxsize=256)
def _turn_in_words(turn: RecordedTurn) -> str:
    value: dict[str, Any] = {"request": turn.words}
    if turn.occurrence > 1:
        value["occurrence"] = turn.occurrence
    value["model"] = turn.model
    value["steps"] = [_step_as_json(step, turn.model) for step in turn.steps]
    return _dumped([value])


def _step_as_json(step: RecordedStep, model: str) -> dict[str, Any]:
    answer = step.answer
    message = answer.message
    value: dict[str, Any] = {"step": step.asked.step, "asked": step.asked.text}
    said = {
        "reasoning": message.reasoning_content,
        "opaque": message.opaque,
        "text": message.content,
    }
    value.update({name: text for name, text in said.items() if text})
    calls = [_call_as_json(call) for call in message.tool_calls]
    if calls:
        value["calls"] = calls
    value["finish"] = answer.choices[0].finish_reason
    usage = answer.usage
    value["tokens"] = _InALine(prompt=usage.prompt_tokens, answer=usage.completion_tokens)
    if usage.cached_tokens:
        value["tokens"]["cached"] = usage.cached_tokens
    if answer.cost_usd is not None:
        value["cost_usd"] = answer.cost_usd
    if answer.model != model:
        value["by"] = answer.model
    return value


def _call_as_json(call: ToolCall) -> dict[str, Any]:
    written = call.function.arguments
    return {"tool": call.function.name, "arguments": _arguments(written)}


def _arguments(written: str) -> Any:
    """The fields, so that code stands in lines; what the model wrote, where it is no plain JSON."""
    try:
        value = json.loads(written, object_pairs_hook=_fields)
        is_plain = isinstance(value, dict) and bool(json.dumps(value, allow_nan=False))
        return value if is_plain and yaml.load(_dumped(value), Loader=_LOADER) == value else written
    except (ValueError, RecursionError, yaml.YAMLError):
        return written


def _fields(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        raise ValueError("a field stands there twice")
    return fields


class _InALine(dict[str, Any]):
    """A mapping that is written in one line."""


class _Dumper(yaml.SafeDumper):
    """Texts of several lines as blocks, and no line broken in two."""

    def ignore_aliases(self, data: Any) -> bool:
        return True

    def analyze_scalar(self, scalar: str) -> Any:
        analysis = super().analyze_scalar(scalar)
        if "\n" in scalar and _BLOCK.match(scalar) and _TO_ESCAPE.search(scalar) is None:
            # Code has tabs and spaces at the ends of lines: YAML has nothing against them.
            analysis.allow_block = True
        return analysis


def _text(dumper: Any, text: str) -> Any:
    style = '"' if _TO_ESCAPE.search(text) else "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


def _in_a_line(dumper: Any, value: _InALine) -> Any:
    return dumper.represent_mapping("tag:yaml.org,2002:map", value, flow_style=True)


_Dumper.add_representer(str, _text)
_Dumper.add_representer(_InALine, _in_a_line)


def _dumped(value: Any) -> str:
    text: str = yaml.dump(
        value,
        Dumper=_Dumper,
        allow_unicode=True,
        sort_keys=False,
        default_flow_style=False,
        width=10**9,
    )
    return text


class _Read(BaseModel):
    """Fields of the file, each of the type in which it was written."""

    model_config = ConfigDict(strict=True)


class _Call(_Read):
    tool: str
    arguments: dict[str, Any] | str

    def as_call(self, call_id: str) -> ToolCall:
        written = self.arguments
        text = written if isinstance(written, str) else json.dumps(written, ensure_ascii=False)
        return ToolCall(call_id, FunctionCall(self.tool, text))


class _Tokens(_Read):
    prompt: int = 0
    answer: int = 0
    cached: int = 0


class _Step(_Read):
    step: int
    asked: str
    reasoning: str | None = None
    opaque: str = ""
    text: str | None = None
    calls: list[_Call] = []
    finish: str | None = None
    tokens: _Tokens = _Tokens()
    cost_usd: float | None = None
    by: str | None = None

    def as_recorded(self, model: str) -> RecordedStep:
        calls = (each.as_call(f"call_{self.step}_{i}") for i, each in enumerate(self.calls, 1))
        message = Message(self.text, tuple(calls), self.reasoning, self.opaque)
        usage = Usage(self.tokens.prompt, self.tokens.answer, self.tokens.cached)
        choices = (Choice(message, self.finish),)
        answer = Completion(choices, usage, self.by or model, self.cost_usd)
        return RecordedStep(RequestKey(self.step, self.asked), answer)


class _Turn(_Read):
    request: str
    occurrence: int = 1
    model: str
    steps: list[_Step]

    def as_recorded(self) -> RecordedTurn:
        steps = tuple(each.as_recorded(self.model) for each in self.steps)
        return RecordedTurn(self.request, self.occurrence, self.model, steps)


class _File(_Read):
    notebook: str
    turns: list[_Turn]


def parse(data: bytes, path: Path) -> Recording:
    """The recording that ``data`` of the file ``path`` is; ``CassetteError`` when it is none."""
    if len(data) > MAX_BYTES:
        raise _unusable(path, f"is larger than {MAX_BYTES // 2**20} MiB")
    try:
        value = yaml.load(data, Loader=_LOADER)
    except yaml.YAMLError as exc:
        mark = getattr(exc, "problem_mark", None)
        where = f" at line {mark.line + 1}" if mark is not None else ""
        raise _unusable(path, f"is no YAML{where}, perhaps after a merge") from exc
    except (ValueError, RecursionError) as exc:
        raise _unusable(path, "is no YAML that can be read") from exc
    if not isinstance(value, dict):
        raise _unusable(path, "holds no recording")
    version = value.get("version")
    if version != VERSION:
        written = "a later" if isinstance(version, int) and version > VERSION else "another"
        raise CassetteError(
            f"The recording {path.name!r} was written by {written} release: its version is "
            f"{version!r}, and this one reads {VERSION}. Install that release, or delete the file "
            "and record the notebook again."
        )
    try:
        read = _File.model_validate(value)
        turns = tuple(each.as_recorded() for each in read.turns)
    except ValidationError as exc:
        wrong = exc.errors()[0]
        at = ".".join(map(str, wrong["loc"]))
        raise _unusable(path, f"is not as it was written at {at!r} ({wrong['msg']})") from exc
    except (TypeError, ValueError) as exc:
        raise _unusable(path, "has arguments that are no JSON") from exc
    if len({turn.key for turn in turns}) < len(turns):
        raise _unusable(path, "has one turn twice, perhaps after a merge")
    return Recording(read.notebook, turns)


def _unusable(path: Path, why: str) -> CassetteError:
    return CassetteError(
        f"The recording {path.name!r} {why}. Bring back an earlier version of it, or delete it "
        "and record the notebook again."
    )
