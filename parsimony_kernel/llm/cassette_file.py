"""The recording file of a notebook's model answers: YAML that reviews and diffs well.

A turn is identified by its request; a step holds the new part of the model request and the answer.
The file has no times, ids or hashes, so a second recording of the same answers is identical.
Every field is validated on reading, since people edit and merge such files.
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
# Line breaks that YAML would change, and characters that it can't contain unescaped.
_TO_ESCAPE = re.compile(
    "[^\\t\\n\\x20-\\x7e\\xa0-\\u2027\\u202a-\\ud7ff\\ue000-\\ufefe\\uff00-\\ufffd\\U00010000-\\U0010fffe]"
)
# A block's indentation must be clear before the first tab.
_BLOCK = re.compile(r"[ \n]*\S")
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class CassetteError(StorageError):
    """A recording can't be used. ``str()`` gives the reason and the remedy."""


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True)


class RecordedCall(_Part):
    """A call: parsed arguments, so that code spans lines, or the model's raw text for them."""

    tool: str
    arguments: dict[str, JsonValue] | str


class RecordedTokens(_Part):
    """The token counts of an answer."""

    prompt: int = 0
    answer: int = 0
    cached: int = 0


class RecordedStep(_Part):
    """One step: its request key and the answer.

    ``by`` is the model that answered, if it isn't the turn's.
    """

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
        """Create a step from its request key and ``answer``, without secrets.

        ``model`` is the turn's model.
        """
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
        """Rebuild the answer; ``model`` is the turn's model."""
        calls = tuple(
            ToolCall(f"call_{self.step}_{i}", FunctionCall(each.tool, _written(each.arguments)))
            for i, each in enumerate(self.calls, 1)
        )
        message = Message(self.text, calls, self.reasoning, self.opaque)
        usage = Usage(self.tokens.prompt, self.tokens.answer, self.tokens.cached)
        return Completion((Choice(message, self.finish),), usage, self.by or model, self.cost_usd)


class RecordedTurn(_Part):
    """The steps of one turn.

    Args:
        request: the normalized request.
        occurrence: which of the notebook's cells with this request it is, from 1.
        model: the name of the model, or the models, as in the record.
        steps: the recorded steps.
    """

    request: str
    occurrence: int = 1
    model: str
    steps: tuple[RecordedStep, ...] = ()

    @property
    def key(self) -> tuple[str, int]:
        """The unique key of a turn in its recording."""
        return self.request, self.occurrence


class Recording(_Part):
    """All turns of one notebook, in the order in which they were first recorded."""

    notebook: str
    turns: tuple[RecordedTurn, ...] = ()

    def turn(self, key: tuple[str, int]) -> RecordedTurn | None:
        """Return the turn with this key, if it was recorded."""
        return next((turn for turn in self.turns if turn.key == key), None)

    def with_turn(self, turn: RecordedTurn) -> "Recording":
        """Copy the recording with ``turn`` replacing the one with its key, or appended."""
        turns = {each.key: each for each in (*self.turns, turn)}
        return Recording(notebook=self.notebook, turns=tuple(turns.values()))


class Tape:
    """The recording of a notebook in the file ``path``."""

    def __init__(self, path: Path, notebook: str) -> None:
        self.path = path
        self.notebook = notebook

    @property
    def exists(self) -> bool:
        """Whether anything was recorded."""
        return self.path.is_file()

    def read(self) -> Recording:
        """Read the recording; ``CassetteError`` if the file isn't a valid one."""
        if not self.exists:
            return Recording(notebook=self.notebook)
        return parse(durable.read(self.path), self.path)

    def put(self, turn: RecordedTurn) -> None:
        """Save ``turn``, replacing an earlier recording of it.

        Turns written by another kernel meanwhile are kept. Raises ``StorageError`` on failure.
        """

        def change(before: bytes) -> bytes:
            turns = parse(before, self.path).with_turn(turn).turns
            return to_text(Recording(notebook=self.notebook, turns=turns)).encode()

        durable.create(self.path, to_text(Recording(notebook=self.notebook)).encode())
        durable.rewrite(self.path, change)


def to_text(recording: Recording) -> str:
    """Render a recording as the text of its file."""
    head = _dumped({"version": VERSION, "notebook": recording.notebook})
    line = (json.dumps(each.model_dump(exclude_defaults=True)) for each in recording.turns)
    turns = "".join(map(_turn_in_words, line))
    return f"{_HEADER}{head}turns:\n{turns}" if turns else f"{_HEADER}{head}turns: []\n"


@lru_cache(maxsize=256)
def _turn_in_words(line: str) -> str:
    turn = json.loads(line)
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
    """A mapping that YAML writes in one line."""


class _Dumper(yaml.SafeDumper):
    """A YAML dumper that writes multi-line text as blocks and never wraps lines."""

    def ignore_aliases(self, data: Any) -> bool:
        return True

    def analyze_scalar(self, scalar: str) -> Any:
        analysis = super().analyze_scalar(scalar)
        if "\n" in scalar and _BLOCK.match(scalar) and _TO_ESCAPE.search(scalar) is None:
            # PyYAML forbids blocks with tabs or trailing spaces, as in code; YAML allows them.
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
    text: str = yaml.dump(value, Dumper=_Dumper, allow_unicode=True, sort_keys=False, width=10**9)
    return text


def parse(data: bytes, path: Path) -> Recording:
    """Parse and validate a recording; ``CassetteError`` naming ``path`` if it is invalid."""
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
