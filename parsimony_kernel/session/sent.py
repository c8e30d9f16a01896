"""What went to models: on record before it is sent, and readable to the letter afterwards.

The rule of the place: what cannot be put on record is not sent.
"""

from collections.abc import Sequence
from functools import partial

from parsimony_kernel.core.causes import CAPABILITY_GAP
from parsimony_kernel.core.chat import OFFLINE, ChatModel, ModelRequest
from parsimony_kernel.core.kinds import FailureRaised
from parsimony_kernel.llm.credentials import provider_of
from parsimony_kernel.llm.providers import price_in_words
from parsimony_kernel.llm.wrapper import WrapperModel
from parsimony_kernel.session.share import WORDS, Share
from parsimony_kernel.storage import sent as record
from parsimony_kernel.storage.database import JournalError
from parsimony_kernel.storage.store import SqliteJournal


def noting(
    models: Sequence[ChatModel], journal: SqliteJournal, run_id: str
) -> tuple[ChatModel, ...]:
    """``models``, with each request on record before it is sent, but for those that send nothing.

    What cannot be put on record is a ``FailureRaised``, and is not sent.
    """

    log = record.SentLog(journal.database, run_id)

    def put_down(name: str, request: ModelRequest) -> None:
        try:
            log.put_down(journal.clock.now().isoformat(), name, request)
        except JournalError as exc:
            sentence = f"Nothing was sent, for it could not be put on record. {exc}"
            raise FailureRaised(CAPABILITY_GAP.failure(sentence, blockers=(sentence,))) from exc

    return tuple(
        model if _is_stand_in(model) else WrapperModel(model, asked=partial(put_down, model.name))
        for model in models
    )


def first_notice(
    models: Sequence[ChatModel], share: Share, journal: SqliteJournal, history: str
) -> str:
    """What leaves the machine and at what price, where ``models`` are the first that it leaves
    for; else empty.

    Args:
        history: the name under which ``journal`` keeps the turns of the notebook.
    """
    away = [_with_price(each.name) for each in models if _is_away(each)]
    if not away:
        return ""
    runs = {row.run_id for row in journal.turns(history)}
    if record.models_asked(journal.database, runs) - {OFFLINE}:
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
