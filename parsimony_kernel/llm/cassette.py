"""Record and replay model answers, in a YAML file that reviews and diffs well.

``recorded`` wraps a model and saves each complete answer; ``Player`` replays them without a model.
Both identify a request by its step in the turn and its normal form. A missing request is a test
error and not a provider failure: ``CassetteMiss`` shows the difference to the nearest recorded one.

In the file, a turn is identified by its request; a step holds the new part of the model request and
the answer. It has no times, ids or hashes, so a second recording of the same answers is identical.
Every field is validated on reading, since people edit and merge such files.
"""

import difflib
import json
import re
from collections import Counter
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Self

import yaml
from pydantic import BaseModel, ConfigDict, JsonValue, ValidationError

from parsimony_kernel.core import chat
from parsimony_kernel.core.conversation import MARK
from parsimony_kernel.core.errors import SessionError
from parsimony_kernel.core.kinds import FailureRaised
from parsimony_kernel.core.text import counted
from parsimony_kernel.llm.chokepoint import close
from parsimony_kernel.llm.coerce import read
from parsimony_kernel.llm.extras import without_secrets
from parsimony_kernel.llm.faults import gap
from parsimony_kernel.llm.request_key import Place, RequestKey, in_short, request_key
from parsimony_kernel.llm.secrets import Secrets
from parsimony_kernel.storage import durable
from parsimony_kernel.storage.durable import StorageError
from parsimony_kernel.view.escape import cut

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
    def of(cls, asked: RequestKey, answer: chat.Completion, model: str, secrets: Secrets) -> Self:
        """Create a step from its request key and ``answer``, without secrets.

        ``model`` is the turn's model.
        """
        message, usage = answer.message, answer.usage
        called = [(each.function.name, each.function.arguments) for each in message.tool_calls]
        return cls(
            step=asked.step,
            asked=asked.text,
            reasoning=secrets.clean(message.reasoning_content or "") or None,
            opaque=without_secrets(message.opaque, secrets),
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

    def answer(self, model: str) -> chat.Completion:
        """Rebuild the answer; ``model`` is the turn's model."""
        calls = tuple(
            chat.ToolCall(
                f"call_{self.step}_{i}", chat.FunctionCall(each.tool, _written(each.arguments))
            )
            for i, each in enumerate(self.calls, 1)
        )
        message = chat.Message(self.text, calls, self.reasoning, self.opaque)
        usage = chat.Usage(self.tokens.prompt, self.tokens.answer, self.tokens.cached)
        return chat.Completion(
            (chat.Choice(message, self.finish),), usage, self.by or model, self.cost_usd
        )


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


@dataclass(eq=False, repr=False)
class WrapperModel:
    """A model around ``inner``, with callbacks for requests and answers.

    Args:
        inner: the model that answers.
        asked: called with each request before ``inner`` is asked; may raise.
        heard: called with the request and each item of its answer; returns the item to pass on.
    """

    inner: chat.ChatModel
    asked: Callable[[chat.ModelRequest], None] = lambda request: None
    heard: Callable[[chat.ModelRequest, Any], chat.Item] = lambda _, item: item

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.inner!r})"

    @property
    def name(self) -> str:
        return self.inner.name

    def __getattr__(self, name: str) -> Any:
        if name == "inner":  # while it is copied, before ``inner`` is set
            raise AttributeError(name)
        return getattr(self.inner, name)

    async def stream(self, request: chat.ModelRequest) -> AsyncIterator[chat.Item]:
        """Stream the answer of ``inner``, whose stream is closed whenever this one ends."""
        self.asked(request)
        answers = self.inner.stream(request)
        try:
            async for item in answers:
                yield self.heard(request, item)
        finally:
            await close(answers)


FOLDER = "cassettes"

_SHOWN_LINES = 40
_SHOWN_WIDTH = 160
# Below this similarity, two requests of a person are unrelated.
_ALIKE = 0.5
_REMEDY = (
    "If that is meant, record it again: restart the kernel and run all cells with "
    "PARSIMONY_CASSETTE=record, or this one with --record."
)


def path_of(notebook: Path) -> Path:
    """Return the path of a notebook's recording, one file per notebook in a folder beside it."""
    return notebook.parent / FOLDER / f"{notebook.stem}.yaml"


class CassetteMiss(chat.StandInError, SessionError):
    """A request that was not recorded. ``str()`` shows the difference to the nearest one."""


# -- recording


@dataclass(eq=False)
class TurnRecorder:
    """Recorder of one turn's answers, each saved as it arrives.

    Args:
        goes_on: whether this continues a turn. Then the recorded steps before the first new one
            are kept; otherwise the new recording of the turn replaces the old one.
    """

    tape: Tape
    turn: RecordedTurn
    place: Place
    secrets: Secrets
    goes_on: bool = False

    def keep(self, request: chat.ModelRequest, answer: chat.Completion) -> None:
        """Record ``answer`` for ``request``; ``FailureRaised`` if it can't be saved."""
        asked = request_key(request, self.place)
        steps = self.turn.steps
        if self.goes_on:
            self.goes_on = False
            before = self.tape.read().turn(self.turn.key)
            steps = () if before is None else before.steps
            steps = tuple(step for step in steps if step.step < asked.step)
        step = RecordedStep.of(asked, answer, self.turn.model, self.secrets)
        self.turn = self.turn.model_copy(update={"steps": (*steps, step)})
        try:
            self.tape.put(self.turn)
        except StorageError as exc:
            sentence = f"The model's answer could not be recorded. {exc}"
            remedy = "Mend that, or run the cell without --record."
            raise FailureRaised(gap(sentence, remedy)) from exc


def recorded(model: chat.ChatModel, recorder: TurnRecorder) -> chat.ChatModel:
    """Wrap ``model`` so that ``recorder`` saves its answers."""

    def heard(request: chat.ModelRequest, given: object) -> chat.Item:
        item = read(given, model=model.name)
        if isinstance(item, chat.Completion) and item.choices:
            recorder.keep(request, item)
        return item

    return WrapperModel(model, heard=heard)


# -- replaying


class Player:
    """A model that answers the requests of one turn from a recording.

    A repeated request gets its recorded answers in order, then the last one again.

    Args:
        recording: the notebook's recording.
        words: the normalized request of the turn.
        occurrence: which of the cells with this request it is, from 1.
        place: the environment of the requests.
        shown: the file's name in messages.

    Raises:
        CassetteMiss: the turn was not recorded.
    """

    is_stand_in = True

    def __init__(
        self, recording: Recording, words: str, occurrence: int, place: Place, *, shown: str
    ) -> None:
        same = [turn for turn in recording.turns if turn.request == words]
        if not same:
            raise CassetteMiss(_unknown_turn(recording, words, shown))
        # The occurrence is only a preference: the requests identify a turn more reliably.
        self._turns = tuple(sorted(same, key=lambda turn: turn.occurrence != occurrence))
        self._place = place
        self._shown = shown
        self._asked: Counter[tuple[int, str]] = Counter()

    @property
    def name(self) -> str:
        """The name of the recorded model."""
        return self._turns[0].model

    @property
    def sees_pictures(self) -> bool:
        """Whether the recorded model received a picture."""
        return any(MARK in step.asked for turn in self._turns for step in turn.steps)

    @property
    def service(self) -> str:
        """The recording's own name, so that it shares no circuit breaker with the model."""
        return f"the recording {self._shown}"

    async def estimate_cost_usd(self, prompt_tokens: int, answer_tokens: int) -> float:
        """Return 0: the answer was paid for when it was recorded."""
        return 0.0

    async def stream(self, request: chat.ModelRequest) -> AsyncIterator[chat.Item]:
        """Yield the recorded answer: its reasoning and text, then the completion.

        Raises ``CassetteMiss`` for a request that was not recorded.
        """
        asked = request_key(request, self._place)
        answers = self._answers(asked)
        key = (asked.step, asked.text)
        answer = answers[min(self._asked[key], len(answers) - 1)]
        self._asked[key] += 1
        message = answer.message
        if message.reasoning_content:
            yield chat.Delta(reasoning=message.reasoning_content)
        if message.content:
            yield chat.Delta(text=message.content)
        yield answer if answer.cost_usd is not None else replace(answer, cost_usd=0.0)

    def _answers(self, asked: RequestKey) -> list[chat.Completion]:
        for turn in self._turns:
            found = [
                step.answer(turn.model)
                for step in turn.steps
                if RequestKey(step.step, step.asked) == asked
            ]
            if found:
                return found
        raise CassetteMiss(_unknown_step(self._turns, asked, self._shown))


def difference(before: str, now: str) -> str:
    """Return a unified diff of at most 41 lines, each of at most 160 characters."""
    both = before.splitlines(), now.splitlines()
    lines = list(difflib.unified_diff(*both, "recorded", "now", n=2, lineterm=""))
    more = len(lines) - _SHOWN_LINES
    shown = [cut(line, _SHOWN_WIDTH) for line in lines[:_SHOWN_LINES]]
    return "\n".join([*shown, f"… {more} more lines"] if more > 0 else shown)


def _likeness(one: str, other: str) -> float:
    both = one.splitlines(), other.splitlines()
    return difflib.SequenceMatcher(None, *both, autojunk=False).ratio()


def _unknown_turn(recording: Recording, words: str, shown: str) -> str:
    sentence = f"The recording {shown} has no turn with the request {in_short(words)!r}."
    kept = [turn.request for turn in recording.turns]
    nearest = difflib.get_close_matches(words, kept, 1, _ALIKE)
    if not nearest:
        held = f"{counted(len(kept), 'turn')} of {recording.notebook!r}" if kept else "none at all"
        return f"{sentence} It holds {held}. {_REMEDY}"
    return f"{sentence} The nearest one:\n{difference(nearest[0], words)}\n{_REMEDY}"


def _unknown_step(turns: tuple[RecordedTurn, ...], asked: RequestKey, shown: str) -> str:
    turn, words = turns[0], in_short(turns[0].request)
    begin = f"The recording {shown} has no answer to step {asked.step} of {words!r}"
    same = [step.asked for each in turns for step in each.steps if step.step == asked.step]
    if not same:
        last = max((step.step for step in turn.steps), default=0)
        return (
            f"{begin}: it ends after step {last}. It was interrupted, or the run takes another "
            f"way now, with this to go on from:\n{difference('', asked.text)}\n{_REMEDY}"
        )
    nearest = max(same, key=lambda each: _likeness(each, asked.text))
    differs = difference(nearest, asked.text)
    return f"{begin} as it is asked now. What differs:\n{differs}\n{_REMEDY}"
