"""Sealing a run that waits, and checking the seals.

Two seals. The token proves that the ids of a record were issued by a holder of the secret and
verifies by itself; the seal covers every other byte. The secret never stands in a record. A
record of an older version is sealed over the fields of its own version and stays good.
"""

import hashlib
import hmac
import json
import secrets
from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from pydantic_core import to_jsonable_python

from parsimony_kernel.core.endings import SuspensionRequest as SuspensionRequest
from parsimony_kernel.core.state import SCHEMA_VERSION, RunState, SuspensionRecord
from parsimony_kernel.storage import durable
from parsimony_kernel.storage.durable import StorageError

Secret = str | bytes

_SECOND = """
pinned_constraints compaction originating_guard budget_from_tokens budget_from_cost_usd
budget_warned pending_instruction pending_call pending_effect repetition procedure_state"""
# The fields that each version added to a record. Version 1 has all others.
ADDED_FIELDS: Mapping[int, frozenset[str]] = {
    2: frozenset(_SECOND.split()),
    3: frozenset({"recoveries", "subgoals", "done_subgoals", "terms"}),
    4: frozenset({"choice_ids"}),
    5: frozenset({"pending_behind"}),
    6: frozenset({"begun"}),
}

# The records that this process has taken, by the names of their claims.
_taken: set[str] = set()

# A record from a machine whose clock is a little ahead is honest; one from tomorrow is not.
CLOCK_SKEW = timedelta(minutes=5)


class SuspensionTokenMismatch(ValueError):
    """The token, the seal or the version does not belong to this record and this secret."""


class SuspensionExpired(ValueError):
    """The record is older than the resumer accepts, or dated in the future."""


class SuspensionConsumed(ValueError):
    """The record was resumed before; a record is good for one answer."""


class SuspensionElsewhere(ValueError):
    """The question was asked in another workspace, which is still there."""


def _bytes(secret: Secret) -> bytes:
    # An environment variable of any bytes arrives as text with surrogates.
    raw = secret.encode("utf-8", "surrogatepass") if isinstance(secret, str) else secret
    if not raw:
        raise ValueError("the suspension secret is empty; give a key of at least one byte")
    return raw


def compute_suspension_token(
    *, run_id: str, session_id: str, secret: Secret, nonce: str | None = None
) -> str:
    """``"{nonce}.{hex}"``: HMAC-SHA256 over ``run_id:session_id:nonce``.

    Raises ``ValueError`` on an empty secret.
    """
    fresh = secrets.token_hex(16) if nonce is None else nonce
    message = f"{run_id}:{session_id}:{fresh}".encode()
    return f"{fresh}.{hmac.new(_bytes(secret), message, hashlib.sha256).hexdigest()}"


def verify_suspension_token(*, record: SuspensionRecord, secret: Secret) -> bool:
    """Whether the record's token was issued for its ids under ``secret``; constant time."""
    expected = compute_suspension_token(
        run_id=record.run_id, session_id=record.session_id, secret=secret, nonce=record.nonce
    )
    return hmac.compare_digest(expected.encode(), record.suspension_token.encode())


def _newer_fields(version: int) -> set[str]:
    return {name for added, names in ADDED_FIELDS.items() if added > version for name in names}


def compute_seal(record: SuspensionRecord, secret: Secret) -> str:
    """The MAC over the canonical bytes of all fields of the record's version but the seal."""
    body = record.model_dump(mode="json", exclude={"seal", *_newer_fields(record.schema_version)})
    canonical = json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hmac.new(_bytes(secret), canonical.encode(), hashlib.sha256).hexdigest()


def verify_seal(record: SuspensionRecord, secret: Secret) -> bool:
    """Whether no byte of the record was changed since it was sealed."""
    return hmac.compare_digest(
        compute_seal(record, secret).encode(), str(record.seal or "").encode()
    )


def build_record(
    state: RunState, *, secret: Secret, now: datetime, elapsed_s: float, question: str, **asked: Any
) -> SuspensionRecord:
    """The sealed record of a run that stops to ask; it is the same after a way through JSON.

    ``asked`` is what else the record says of the question, by its fields. What JSON has no word for
    is kept as near as it can be: half a surrogate pair is a question mark, NaN is null, and null or
    zero for a number of the record itself.
    """
    executor = state.code_executor
    variables = sorted(getattr(executor, "variables", dict)())
    fields = {
        **state.carried(),
        "run_id": state.run_id,
        "session_id": state.session_id,
        "suspended_at": now.isoformat(),
        "messages": [
            each if isinstance(each, dict) else each.to_llm("default") for each in state.messages
        ],
        "iteration_count": state.iteration,
        "minted_refs": state.turn.minted_refs,
        "minted_live_names": state.turn.minted_live_names,
        "elapsed_seconds": elapsed_s,
        "lessons_learned": [lesson.without_data() for lesson in state.lessons_learned],
        "variables": {name: executor.origin_ledger.version(name) for name in variables},
        "pending_question": question,
        **asked,
    }
    text = json.dumps(fields, default=_foreign, ensure_ascii=False)
    whole = text.encode("utf-8", "replace")
    plain = json.loads(whole, parse_constant=lambda _: None)
    known = {name: value for name, value in plain.items() if value is not None}
    token = compute_suspension_token(
        run_id=known["run_id"], session_id=known["session_id"], secret=secret
    )
    record = SuspensionRecord.model_validate({**known, "suspension_token": token})
    return record.model_copy(update={"seal": compute_seal(record, secret)})


def _foreign(value: Any) -> Any:
    return to_jsonable_python(value, fallback=str, bytes_mode="base64")


def take_single_use(record: SuspensionRecord) -> bool:
    """Take the record's single use where no journal keeps it: by a file beside the keys.

    Returns ``False`` when it was taken before, by any process of this user. Where no file can be
    written, it is this process's alone.
    """
    from jupyter_core.paths import jupyter_data_dir  # deferred: only a resume needs it

    name = hashlib.sha256(record.nonce.encode("utf-8", "surrogatepass")).hexdigest()
    if name in _taken:
        return False
    _taken.add(name)
    try:
        return durable.create(Path(jupyter_data_dir()) / "parsimony" / "claims" / name, b"")
    except StorageError:
        return True


def check_reply(reply: str) -> None:
    """``ValueError`` when the answer holds no words."""
    if not reply.strip():
        raise ValueError("resume needs a non-empty user_reply")


def check_record(
    record: SuspensionRecord,
    reply: str,
    *,
    secret: Secret,
    now: datetime,
    max_age_s: float,
    workspace: str = "",
) -> None:
    """Refuse what must not be resumed: empty reply, version, token, age, seal, workspace, in
    this order.

    Raises ``ValueError``, ``SuspensionTokenMismatch``, ``SuspensionExpired`` or
    ``SuspensionElsewhere``. Single use is the last check and needs a claim, which is not here.
    """
    check_reply(reply)
    _check_version(record)
    if not verify_suspension_token(record=record, secret=secret):
        raise SuspensionTokenMismatch(
            "the token of this suspension was not issued under this key; nothing was run"
        )
    _check_age(record, now, max_age_s)
    if not (_is_bare(record) or verify_seal(record, secret)):
        raise SuspensionTokenMismatch(
            "the suspension record was changed after it was sealed; nothing was run"
        )
    _check_workspace(record, workspace)


def _is_bare(record: SuspensionRecord) -> bool:
    """Whether the record holds nothing that a seal has to vouch for."""
    return not (record.messages or record.seal or _set_beyond(record, 1))


def _set_beyond(record: SuspensionRecord, version: int) -> list[str]:
    """The fields that came after ``version`` and have another value than their default."""
    known = SuspensionRecord.model_fields
    return [
        name
        for name in sorted(_newer_fields(version))
        if getattr(record, name) != known[name].get_default(call_default_factory=True)
    ]


def _check_version(record: SuspensionRecord) -> None:
    version = record.schema_version
    if version > SCHEMA_VERSION:
        raise SuspensionTokenMismatch(
            f"a newer Parsimony asked this question (its record has version {version}, and this "
            f"one reads up to {SCHEMA_VERSION}): update parsimony-kernel and answer again, or run "
            "the cell again; nothing was run"
        )
    if version < 1:
        raise SuspensionTokenMismatch(
            f"no Parsimony writes suspension records of version {version}: run the cell again; "
            "nothing was run"
        )
    if smuggled := _set_beyond(record, version):
        raise SuspensionTokenMismatch(
            "the suspension record was changed after it was sealed, for version "
            f"{version} has no {', '.join(smuggled)}; nothing was run"
        )


def _check_workspace(record: SuspensionRecord, workspace: str) -> None:
    if not record.workspace or not workspace:
        return
    asked_in, here = Path(record.workspace), Path(workspace)
    try:
        is_elsewhere = asked_in.resolve() != here.resolve() and asked_in.is_dir()
    except PermissionError:
        is_elsewhere = True
    except (OSError, RuntimeError, ValueError):  # no such disk, a loop of links, a NUL
        is_elsewhere = False
    if is_elsewhere:
        raise SuspensionElsewhere(
            f"this question was asked in {record.workspace!r} and not here: answer it there, or "
            "run the cell again here; nothing was run"
        )


def _check_age(record: SuspensionRecord, now: datetime, max_age_s: float) -> None:
    try:
        suspended_at = datetime.fromisoformat(record.suspended_at)
        age = now - suspended_at
    except (ValueError, TypeError) as exc:
        raise SuspensionExpired(
            f"the suspension has no usable date ({record.suspended_at!r}); ask again"
        ) from exc
    if age.total_seconds() > max_age_s:
        raise SuspensionExpired(
            f"the question was asked {_in_words(age)} ago and answers are taken for "
            f"{_in_words(timedelta(seconds=max_age_s))}; run the cell again"
        )
    if age < -CLOCK_SKEW:
        raise SuspensionExpired(
            f"the suspension is dated in the future ({record.suspended_at}); check the clocks"
        )


def _in_words(span: timedelta) -> str:
    seconds = span.total_seconds()
    units = ((86400, "day"), (3600, "hour"), (60, "minute"))
    size, unit = next((each for each in units if seconds >= each[0]), (1, "second"))
    count = round(seconds / size)
    return f"{count} {unit}{'' if count == 1 else 's'}"
