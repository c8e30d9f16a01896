"""The one answer of the gate, for success and refusal alike.

A plain dict: the model's tool result, the line in the record and the history are this same value.
It is capped in size and scrubbed of secrets, and the model reads sentences in it, not tracebacks.
"""

import json
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any

from parsimony_kernel.core.kinds import Failure
from parsimony_kernel.gate.rendition import Rendition, short

Envelope = dict[str, Any]

MAX_BYTES = 24_000
MAX_SENTENCE = 2_000

_MAX_NAME = 200
_MAX_DETAILS = 20
_MAX_DETAIL = 200
_MAX_FIELDS = 20
_MAX_BLOCKERS = 20
_MAX_BLOCKER = 500
_OWN = frozenset({"error", "requested", "message", "result", "state", "valid_next_actions"})
_LISTS = frozenset({"known_actions", "valid_next_actions"})
_NOTE = "The action was done; its result, or a part of it, cannot be shown."


def succeeded(
    requested: str,
    result: Any,
    *,
    state: str,
    valid_next_actions: Sequence[str],
    note: str = "",
    not_found: Sequence[str] = (),
) -> Envelope:
    """The envelope of an action that ran; ``note`` is what there is to say beside its result, and
    ``not_found`` what the action said and no result supports."""
    rendition = Rendition()
    envelope: Envelope = {
        "requested": Rendition(max_text=_MAX_NAME).of(requested),
        "result": rendition.of(result),
        "state": state,
        "valid_next_actions": _names(valid_next_actions),
    }
    notes = [note, "" if rendition.is_whole else _NOTE]
    if any(notes):
        envelope["note"] = Rendition(max_text=MAX_SENTENCE).of(" ".join(filter(None, notes)))
    if not_found:
        envelope["not_found"] = _names(not_found)
    return bounded(envelope)


def refused(
    requested: str, failure: Failure, *, state: str, valid_next_actions: Sequence[str]
) -> Envelope:
    """The envelope of an action that was refused, or that ran and failed.

    The refusal's own fields (``known_actions``, ``reason``, ``timeout_seconds`` …) stand in
    ``failure.metadata["envelope"]``.
    """
    envelope: Envelope = {
        "error": str(failure.refusal or "action_error"),
        "requested": Rendition(max_text=_MAX_NAME).of(requested),
        **_fields(failure.metadata.get("envelope", {})),
        "message": Rendition(max_text=MAX_SENTENCE).of(failure.explanation),
        "result": Rendition().of(failure.partial_data),
        "state": state,
        "valid_next_actions": _names(valid_next_actions),
    }
    if envelope["result"] in (None, {}, []):
        del envelope["result"]
    return bounded(envelope)


def told(failure: Failure) -> Failure:
    """The failure as everyone reads it: its texts capped, without secrets."""
    sentence, blocker = Rendition(max_text=MAX_SENTENCE), Rendition(max_text=_MAX_BLOCKER)
    metadata: dict[str, Any] = {
        key: sentence.text(value) if type(value) is str else value
        for key, value in failure.metadata.items()
    }
    if "envelope" in metadata:
        metadata["envelope"] = _fields(metadata["envelope"])
    return Failure(
        failure.kind,
        sentence.text(failure.explanation),
        tuple(blocker.text(each) for each in failure.blockers[:_MAX_BLOCKERS]),
        failure.suggested_action,
        failure.partial_data,
        metadata,
    )


def to_text(envelope: Envelope) -> str:
    """The envelope as the model reads it."""
    return json.dumps(envelope, ensure_ascii=False, default=str)


def _names(actions: Sequence[str]) -> Any:
    return Rendition(max_text=_MAX_NAME).of(list(actions))


def _fields(given: Mapping[str, Any]) -> Envelope:
    fields: Envelope = {}
    for name, value in islice(given.items(), _MAX_FIELDS):
        key = Rendition(max_text=_MAX_NAME).text(name)
        if key == "details":
            fields[key] = Rendition(max_text=_MAX_DETAIL, max_items=_MAX_DETAILS).of(value)
        elif key not in _OWN:
            fields[key] = Rendition(max_text=MAX_SENTENCE).of(value)
    return fields


def bounded(envelope: Envelope) -> Envelope:
    """The envelope within ``MAX_BYTES``, at the cost of its largest fields."""
    while _size(envelope) > MAX_BYTES:
        largest = max(envelope, key=lambda name: _size(envelope[name]))
        is_a_list = largest in _LISTS and len(envelope[largest]) > 1
        envelope[largest] = (_fewer if is_a_list else _shorter)(envelope[largest])
    return envelope


def _size(value: Any) -> int:
    return len(to_text(value).encode())


def _fewer(names: list[str]) -> list[str]:
    return [*names[: (len(names) - 1) // 2], "…"]


def _shorter(value: Any) -> Any:
    match value:
        case str():
            return short(value, len(value) // 2)
        case {"truncated": True, "text": str(text)}:
            return {"truncated": True, "text": short(text, len(text) // 2)}
    return {"truncated": True, "text": short(to_text(value), MAX_BYTES // 2)}
