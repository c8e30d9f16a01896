"""Record and replay model answers.

``recorded`` wraps a model and saves each complete answer; ``Player`` replays them without a model.
Both identify a request by its step in the turn and its normal form. A missing request is a test
error and not a provider failure: ``CassetteMiss`` shows the difference to the nearest recorded one.
"""

import difflib
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from pathlib import Path

from parsimony_kernel.core.chat import ChatModel, Completion, Delta, ModelRequest, StandInError
from parsimony_kernel.core.conversation import MARK
from parsimony_kernel.core.errors import SessionError
from parsimony_kernel.core.kinds import FailureRaised
from parsimony_kernel.core.text import counted
from parsimony_kernel.llm.cassette_file import RecordedStep, RecordedTurn, Recording, Tape
from parsimony_kernel.llm.coerce import read
from parsimony_kernel.llm.faults import gap
from parsimony_kernel.llm.request_key import Place, RequestKey, in_short, request_key
from parsimony_kernel.llm.secrets import Secrets
from parsimony_kernel.llm.wrapper import WrapperModel
from parsimony_kernel.storage.durable import StorageError
from parsimony_kernel.view.escape import cut

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


class CassetteMiss(StandInError, SessionError):
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

    def keep(self, request: ModelRequest, answer: Completion) -> None:
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


def recorded(model: ChatModel, recorder: TurnRecorder) -> ChatModel:
    """Wrap ``model`` so that ``recorder`` saves its answers."""

    def heard(request: ModelRequest, given: object) -> Delta | Completion:
        item = read(given, model=model.name)
        if isinstance(item, Completion) and item.choices:
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

    async def stream(self, request: ModelRequest) -> AsyncIterator[Delta | Completion]:
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
            yield Delta(reasoning=message.reasoning_content)
        if message.content:
            yield Delta(text=message.content)
        yield answer if answer.cost_usd is not None else replace(answer, cost_usd=0.0)

    def _answers(self, asked: RequestKey) -> list[Completion]:
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
