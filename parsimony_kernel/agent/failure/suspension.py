"""Seal a suspended run, and verify its record.

There are two seals. The token proves that a holder of the secret issued the ids of a record, and
can be verified alone; the seal covers every other byte. The secret is never part of a record. The
seal of an older version covers the fields of that version, so older records stay valid.
"""

import hashlib
import hmac
import json
import secrets
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from pydantic_core import to_jsonable_python

from parsimony_kernel.core.state import SCHEMA_VERSION, RunState, SuspensionRecord
from parsimony_kernel.core.state import SuspensionRequest as SuspensionRequest
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

# The records that this process has claimed, by the names of their claim files.
_taken: set[str] = set()

# Tolerates a record from a machine whose clock is a little ahead.
CLOCK_SKEW_S = 300.0
_CHANGED = "the suspension record was changed after it was sealed"


class SuspensionTokenMismatch(ValueError):
    """The token, the seal or the version doesn't match the record and the secret."""


class SuspensionExpired(ValueError):
    """The record is too old, or dated in the future."""


class SuspensionConsumed(ValueError):
    """The record was already resumed; a record can be answered once."""


class SuspensionElsewhere(ValueError):
    """The question was asked in another workspace, which is still there."""


def _mac(secret: Secret, message: str) -> str:
    # A secret from the environment can contain lone surrogates, one for each undecodable byte.
    raw = secret.encode("utf-8", "surrogatepass") if isinstance(secret, str) else secret
    if not raw:
        raise ValueError("the suspension secret is empty; give a key of at least one byte")
    return hmac.new(raw, message.encode(), hashlib.sha256).hexdigest()


def compute_suspension_token(
    *, run_id: str, session_id: str, secret: Secret, nonce: str | None = None
) -> str:
    """Return ``"{nonce}.{hex}"``: HMAC-SHA256 over ``run_id:session_id:nonce``.

    Raises ``ValueError`` for an empty secret.
    """
    fresh = secrets.token_hex(16) if nonce is None else nonce
    return f"{fresh}.{_mac(secret, f'{run_id}:{session_id}:{fresh}')}"


def verify_suspension_token(*, record: SuspensionRecord, secret: Secret) -> bool:
    """Whether the record's token was issued for its ids with ``secret``; constant time."""
    expected = compute_suspension_token(
        run_id=record.run_id, session_id=record.session_id, secret=secret, nonce=record.nonce
    )
    return hmac.compare_digest(expected.encode(), record.suspension_token.encode())


def _newer_fields(version: int) -> set[str]:
    return {name for added, names in ADDED_FIELDS.items() if added > version for name in names}


def compute_seal(record: SuspensionRecord, secret: Secret) -> str:
    """Return the MAC of all fields of the record's version except the seal, as canonical JSON."""
    body = record.model_dump(mode="json", exclude={"seal", *_newer_fields(record.schema_version)})
    return _mac(secret, json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=True))


def verify_seal(record: SuspensionRecord, secret: Secret) -> bool:
    """Whether the record is unchanged since it was sealed."""
    seal = str(record.seal or "")
    return hmac.compare_digest(compute_seal(record, secret).encode(), seal.encode())


def build_record(
    state: RunState, *, secret: Secret, now: datetime, elapsed_s: float, question: str, **asked: Any
) -> SuspensionRecord:
    """Build and seal the record of a run that asks a question; it survives a round trip via JSON.

    ``asked`` holds the record's other fields about the question. Values that JSON can't express are
    approximated: half a surrogate pair becomes a question mark and NaN becomes null, or the default
    where it is a field of the record itself.
    """
    executor = state.code_executor
    variables = sorted(getattr(executor, "variables", dict)())
    chat = (each if isinstance(each, dict) else each.to_llm("default") for each in state.messages)
    fields = {
        **state.carried(),
        "run_id": state.run_id,
        "session_id": state.session_id,
        "suspended_at": now.isoformat(),
        "messages": list(chat),
        "iteration_count": state.iteration,
        "minted_refs": state.turn.minted_refs,
        "minted_live_names": state.turn.minted_live_names,
        "elapsed_seconds": elapsed_s,
        "lessons_learned": [lesson.without_data() for lesson in state.lessons_learned],
        "variables": {name: executor.origin_ledger.version(name) for name in variables},
        "pending_question": question,
        **asked,
    }
    text = json.dumps(fields, default=_foreign, ensure_ascii=False).encode("utf-8", "replace")
    plain = json.loads(text, parse_constant=lambda _: None)
    known = {name: value for name, value in plain.items() if value is not None}
    token = compute_suspension_token(
        run_id=known["run_id"], session_id=known["session_id"], secret=secret
    )
    record = SuspensionRecord.model_validate({**known, "suspension_token": token})
    return record.model_copy(update={"seal": compute_seal(record, secret)})


def _foreign(value: Any) -> Any:
    return to_jsonable_python(value, fallback=str, bytes_mode="base64")


def take_single_use(record: SuspensionRecord) -> bool:
    """Claim the record's single use with a file beside the keys, for use without a journal.

    Returns ``False`` when any process of this user claimed it before. If no file can be written,
    the claim holds for this process only.
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
    """Raise ``ValueError`` for an empty answer."""
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
    """Raise if ``record`` must not be resumed.

    Checks in this order: empty reply, version, token, age, seal, workspace. Single use is the last
    check; it needs a claim, which is made elsewhere.

    Args:
        record: the record to check.
        reply: the person's answer.
        secret: the key that sealed the record.
        now: the current time.
        max_age_s: the accepted age, in seconds.
        workspace: the current workspace; empty if there is none.

    Raises:
        ValueError: the reply is empty.
        SuspensionTokenMismatch: the version, the token or the seal is wrong.
        SuspensionExpired: the record is too old, or dated in the future.
        SuspensionElsewhere: the question was asked in another workspace.
    """
    check_reply(reply)
    if problem := _misfit(record):
        raise SuspensionTokenMismatch(f"{problem}; nothing was run")
    if not verify_suspension_token(record=record, secret=secret):
        raise SuspensionTokenMismatch(
            "the token of this suspension was not issued under this key; nothing was run"
        )
    if problem := _untimely(record.suspended_at, now, max_age_s):
        raise SuspensionExpired(problem)
    # A record without messages and newer fields has nothing to seal, so it may lack a seal.
    is_bare = not (record.messages or record.seal or _set_beyond(record, 1))
    if not (is_bare or verify_seal(record, secret)):
        raise SuspensionTokenMismatch(f"{_CHANGED}; nothing was run")
    if _is_elsewhere(record.workspace, workspace):
        raise SuspensionElsewhere(
            f"this question was asked in {record.workspace!r} and not here: answer it there, or "
            "run the cell again here; nothing was run"
        )


def _set_beyond(record: SuspensionRecord, version: int) -> list[str]:
    """Return the fields added after ``version`` that differ from their defaults."""
    return sorted(record.model_dump(include=_newer_fields(version), exclude_defaults=True))


def _misfit(record: SuspensionRecord) -> str:
    """Explain why a record of this version can't be read; empty if it can."""
    version = record.schema_version
    if version > SCHEMA_VERSION:
        return (
            f"a newer Parsimony asked this question (its record has version {version}, and this "
            f"one reads up to {SCHEMA_VERSION}): update parsimony-kernel and answer again, or run "
            "the cell again"
        )
    if version < 1:
        return f"no Parsimony writes suspension records of version {version}: run the cell again"
    smuggled = ", ".join(_set_beyond(record, version))
    return f"{_CHANGED}, for version {version} has no {smuggled}" if smuggled else ""


def _is_elsewhere(asked_in: str, workspace: str) -> bool:
    """Whether a question was asked in another workspace that is still there."""
    if not asked_in or not workspace:
        return False
    folder = Path(asked_in)
    try:
        return folder.resolve() != Path(workspace).resolve() and folder.is_dir()
    except PermissionError:
        return True
    except (OSError, RuntimeError, ValueError):  # no such disk, a loop of links, a NUL
        return False


def _untimely(suspended_at: str, now: datetime, max_age_s: float) -> str:
    """Explain what is wrong with the date of a record; empty if nothing is."""
    try:
        age_s = (now - datetime.fromisoformat(suspended_at)).total_seconds()
    except (ValueError, TypeError):
        return f"the suspension has no usable date ({suspended_at!r}); ask again"
    if age_s > max_age_s:
        return (
            f"the question was asked {_in_words(age_s)} ago and answers are taken for "
            f"{_in_words(max_age_s)}; run the cell again"
        )
    if age_s < -CLOCK_SKEW_S:
        return f"the suspension is dated in the future ({suspended_at}); check the clocks"
    return ""


def _in_words(seconds: float) -> str:
    units = ((86_400, "day"), (3_600, "hour"), (60, "minute"))
    size, unit = next((each for each in units if seconds >= each[0]), (1, "second"))
    count = round(seconds / size)
    return f"{count} {unit}{'' if count == 1 else 's'}"
