"""The file of a notebook's recorded answers: YAML that a reviewer can read and a diff can tell.

A turn is its request; a step is what was new in the request to the model, and the answer. Nothing
that differs from one recording to the next of the same: no times, no ids, no hashes, which are
reckoned from the words. The rule of the place: what is read is checked in every field, for people
edit and merge such files.
"""

import json
import re
from functools import lru_cache
from pathlib import Path
from typing import Any, Self

import yaml
from pydantic import BaseModel, ConfigDict, JsonValue, ValidationError

from parsimony_kernel.core.chat import Choice, Completion, FunctionCall, Message, ToolCall, Usage
from parsimony_kernel.llm import thinking
from parsimony_kernel.llm.request_key import RequestKey
from parsimony_kernel.llm.secrets import Secrets
from parsimony_kernel.storage import durable
from parsimony_kernel.storage.durable import StorageError

VERSION = 1

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


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True)


class RecordedCall(_Part):
    """A call: its fields, so that code stands in lines, or what the model wrote for them."""

    tool: str
    arguments: dict[str, JsonValue] | str


class RecordedTokens(_Part):
    """What an answer took."""

    prompt: int = 0
    answer: int = 0
    cached: int = 0


class RecordedStep(_Part):
    """What was asked for in one step, and the answer; ``by`` is its model where that is not the
    turn's."""

    step: int
    asked: str
    reasoning: str | None = None
    opaque: str = ""
    text: str | None = None
    calls: tuple[RecordedCall, ...] = ()
    finish: str | None = None
    tokens: RecordedTokens = RecordedTokens()
    cost_usd: float | None = None
    by: str | None = None

    @classmethod
    def of(cls, asked: RequestKey, answer: Completion, model: str, secrets: Secrets) -> Self:
        """The step of ``asked``, to which a turn of ``model`` got ``answer``, without secrets."""
        message, usage = answer.message, answer.usage
        called = [(each.function.name, each.function.arguments) for each in message.tool_calls]
        return cls(
            step=asked.step,
            asked=asked.text,
            reasoning=secrets.clean(message.reasoning_content or "") or None,
            opaque=thinking.without_secrets(message.opaque, secrets),
            text=secrets.clean(message.content or "") or None,
            calls=tuple(
                RecordedCall(tool=name, arguments=_fields(secrets.of_arguments(written)))
                for name, written in called
            ),
            finish=answer.choices[0].finish_reason,
            tokens=RecordedTokens(
                prompt=usage.prompt_tokens,
                answer=usage.completion_tokens,
                cached=usage.cached_tokens,
            ),
            cost_usd=answer.cost_usd,
            by=None if answer.model == model else answer.model,
        )

    def answer(self, model: str) -> Completion:
        """The answer, in a turn of ``model``."""
        calls = tuple(
            ToolCall(f"call_{self.step}_{i}", FunctionCall(each.tool, _written(each.arguments)))
            for i, each in enumerate(self.calls, 1)
        )
        message = Message(self.text, calls, self.reasoning, self.opaque)
        usage = Usage(self.tokens.prompt, self.tokens.answer, self.tokens.cached)
        return Completion((Choice(message, self.finish),), usage, self.by or model, self.cost_usd)


class RecordedTurn(_Part):
    """The steps of one turn.

    ``request`` are its words in normal form, ``occurrence`` counts the cells of the notebook that
    have the same, from 1. ``model`` is what the record called the model, or the models.
    """

    request: str
    occurrence: int = 1
    model: str
    steps: tuple[RecordedStep, ...] = ()

    @property
    def key(self) -> tuple[str, int]:
        """What no two turns of a recording share."""
        return self.request, self.occurrence


class Recording(_Part):
    """All turns of one notebook, in the order in which they were first recorded."""

    notebook: str
    turns: tuple[RecordedTurn, ...] = ()

    def turn(self, key: tuple[str, int]) -> RecordedTurn | None:
        """The turn of that key, if it was recorded."""
        return next((turn for turn in self.turns if turn.key == key), None)

    def with_turn(self, turn: RecordedTurn) -> "Recording":
        """With ``turn`` in the place of the one that has its key, or behind all others."""
        turns = {each.key: each for each in (*self.turns, turn)}
        return Recording(notebook=self.notebook, turns=tuple(turns.values()))


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
            return Recording(notebook=self.notebook)
        return parse(durable.read(self.path), self.path)

    def put(self, turn: RecordedTurn) -> None:
        """Write ``turn`` down, in the place of an earlier recording of it.

        Turns that another kernel writes meanwhile stay. ``StorageError`` when it cannot be done.
        """

        def change(before: bytes) -> bytes:
            turns = parse(before, self.path).with_turn(turn).turns
            return to_text(Recording(notebook=self.notebook, turns=turns)).encode()

        durable.create(self.path, to_text(Recording(notebook=self.notebook)).encode())
        durable.rewrite(self.path, change)


def to_text(recording: Recording) -> str:
    """The recording as the text of its file."""
    head = _dumped({"version": VERSION, "notebook": recording.notebook})
    told = (json.dumps(each.model_dump(exclude_defaults=True)) for each in recording.turns)
    turns = "".join(map(_turn_in_words, told))
    return f"{_HEADER}{head}turns:\n{turns}" if turns else f"{_HEADER}{head}turns: []\n"


@lru_cache(maxsize=256)
def _turn_in_words(told: str) -> str:
    turn = json.loads(told)
    for step in turn.get("steps", ()):
        if "tokens" in step:
            step["tokens"] = _InALine(step["tokens"])
    return _dumped([turn])


def _fields(written: str) -> dict[str, Any] | str:
    try:
        value = json.loads(written)
        is_plain = isinstance(value, dict) and yaml.load(_dumped(value), Loader=_LOADER) == value
        return value if is_plain else written
    except (ValueError, RecursionError, yaml.YAMLError):
        return written


def _written(arguments: dict[str, Any] | str) -> str:
    return arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)


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


def parse(data: bytes, path: Path) -> Recording:
    """The recording that ``data`` of the file ``path`` is; ``CassetteError`` when it is none."""
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
        recording = Recording.model_validate(value)
    except ValidationError as exc:
        wrong = exc.errors()[0]
        at = ".".join(map(str, wrong["loc"]))
        raise _unusable(path, f"is not as it was written at {at!r} ({wrong['msg']})") from exc
    if len({turn.key for turn in recording.turns}) < len(recording.turns):
        raise _unusable(path, "has one turn twice, perhaps after a merge")
    return recording


def _unusable(path: Path, why: str) -> CassetteError:
    return CassetteError(
        f"The recording {path.name!r} {why}. Bring back an earlier version of it, or delete it "
        "and record the notebook again."
    )
