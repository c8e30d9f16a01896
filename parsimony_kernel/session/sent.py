"""What went to models: on record before it is sent, and readable to the letter afterwards.

The rule of the place: what cannot be put on record is not sent.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial

from parsimony_kernel.core.causes import CAPABILITY_GAP
from parsimony_kernel.core.chat import OFFLINE, ChatModel, ModelRequest
from parsimony_kernel.core.clock import Clock
from parsimony_kernel.core.kinds import FailureRaised
from parsimony_kernel.llm.credentials import provider_of
from parsimony_kernel.llm.providers import price_in_words
from parsimony_kernel.llm.wrapper import WrapperModel
from parsimony_kernel.session.share import WORDS, Share
from parsimony_kernel.storage import sent as record
from parsimony_kernel.storage.database import Database, JournalError
from parsimony_kernel.storage.sent import SentRequest
from parsimony_kernel.storage.store import SqliteJournal

__all__ = ["Sending", "SentRecord", "SentRequest", "first_notice", "noted"]


class SentRecord:
    """What the turns of one notebook have sent.

    Args:
        history: the name under which the journal keeps the notebook's turns.
    """

    def __init__(self, journal: SqliteJournal, history: str, clock: Clock) -> None:
        self._journal = journal
        self._database = journal.database
        self._history = history
        self._clock = clock

    def of_turn(self, run_id: str) -> tuple[SentRequest, ...]:
        """What a turn has sent, in order. ``JournalError`` when it cannot be read."""
        return record.sent_by(self._database, run_id)

    def models_asked(self) -> frozenset[str]:
        """The models to which turns of the notebook have sent anything."""
        turns = {row.run_id for row in self._journal.turns(self._history)}
        return record.models_asked(self._database, turns)

    def noting(self, models: Sequence[ChatModel], run_id: str) -> tuple[ChatModel, ...]:
        """``models``, with what is sent to them on record, but for those that send nothing."""
        sending = Sending(self._database, run_id, self._clock)
        return tuple(model if _is_stand_in(model) else noted(model, sending) for model in models)


@dataclass(frozen=True)
class Sending:
    """The record of what one run sends."""

    database: Database
    run_id: str
    clock: Clock

    def put_down(self, model: str, request: ModelRequest) -> None:
        """Write down that ``request`` goes to ``model``. ``FailureRaised`` when that fails."""
        at = self.clock.now().isoformat()
        try:
            record.put_down(self.database, self.run_id, at, model, request)
        except JournalError as exc:
            sentence = f"Nothing was sent, for it could not be put on record. {exc}"
            raise FailureRaised(CAPABILITY_GAP.failure(sentence, blockers=(sentence,))) from exc


def first_notice(
    models: Sequence[ChatModel], share: Share, asked: Callable[[], Collection[str]]
) -> str:
    """What leaves the machine and at what price, where ``models`` are the first that it leaves
    for; else empty.

    Args:
        asked: gives the names of the models that the notebook has sent anything to.
    """
    away = [_with_price(each.name) for each in models if _is_away(each)]
    if not away or any(name != OFFLINE for name in asked()):
        return ""
    return (
        f"From now on, requests in this notebook are sent to {' or '.join(away)}, with "
        f"{WORDS[share]} (`--share {share.value}`). `%agent context` shows what would be sent and "
        "`%agent sent` what was; `--share schema` or `--share none` sends less, and "
        "`%config ParsimonyAgent.share = 'schema'` does so always."
    )


def _with_price(name: str) -> str:
    return f"{name} ({price_in_words(name)})" if provider_of(name) else name


def _is_away(model: ChatModel) -> bool:
    return model.name != OFFLINE and not _is_stand_in(model)


def _is_stand_in(model: ChatModel) -> bool:
    """Whether nobody is behind it: a recording, or code that was written elsewhere."""
    return getattr(model, "is_stand_in", False)


def noted(model: ChatModel, sending: Sending) -> ChatModel:
    """``model``, with each request on record before it is sent."""
    return WrapperModel(model, asked=partial(sending.put_down, model.name))
