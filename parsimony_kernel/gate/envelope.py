"""The one answer of the gate, for success and refusal alike.

A plain dict: the model's tool result, the line in the record and the history are this same value.
It is capped in size and scrubbed of secrets, and the model reads sentences in it, not tracebacks.
"""

import json
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

from parsimony_kernel.core.kinds import Failure
from parsimony_kernel.gate.jsonable import Renderer, short

Envelope = dict[str, Any]

# In bytes of the whole, and in characters of its parts.
MAX_BYTES = 24_000
MAX_SENTENCE = 2_000
_MAX_NAME = 200
_MAX_BLOCKER = 500
# How many of the fields that a failure brings, of the details in one, and of blockers.
_MAX_MANY = 20
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
    """The envelope of an action that ran.

    Args:
        requested: the name of the tool.
        result: what it answered, of any kind.
        state: the state of the procedure; without one "running", "suspended", "done" …
        valid_next_actions: what may be requested now.
        note: what there is to say beside the result.
        not_found: what the action said and no result supports.

    Returns:
        At most ``MAX_BYTES`` of JSON, without secrets.
    """
    render = Renderer()
    envelope: Envelope = {
        "requested": render.of(requested, max_text=_MAX_NAME),
        "result": render.of(result),
        "state": state,
        "valid_next_actions": list(valid_next_actions),
    }
    if notes := " ".join(filter(None, (note, "" if render.is_whole else _NOTE))):
        envelope["note"] = render.of(notes, max_text=MAX_SENTENCE)
    if not_found:
        envelope["not_found"] = render.of(list(not_found), max_text=_MAX_NAME)
    return bounded(envelope)


def refused(
    requested: str, failure: Failure, *, state: str, valid_next_actions: Sequence[str]
) -> Envelope:
    """The envelope of an action that was refused, or that ran and failed.

    Args:
        requested: the name of the tool.
        failure: why, as ``told`` gives it; its ``metadata["envelope"]`` holds the refusal's own
            fields (``known_actions``, ``reason``, ``timeout_seconds`` …).
        state: as in ``succeeded``, or "over".
        valid_next_actions: what may be requested now.

    Returns:
        At most ``MAX_BYTES`` of JSON, without secrets.
    """
    render = Renderer()
    envelope: Envelope = {
        "error": str(failure.refusal or "action_error"),
        "requested": render.of(requested, max_text=_MAX_NAME),
        **failure.metadata.get("envelope", {}),
        "message": failure.explanation,
    }
    if (result := render.of(failure.partial_data)) not in (None, {}, []):
        envelope["result"] = result
    return bounded({**envelope, "state": state, "valid_next_actions": list(valid_next_actions)})


def told(failure: Failure) -> Failure:
    """The failure as everyone reads it: its texts capped, without secrets."""
    render = Renderer()

    def sentence(text: str) -> str:
        return str(render.of(text, max_text=MAX_SENTENCE))

    fields: Envelope = {}
    for name, value in islice(failure.metadata.get("envelope", {}).items(), _MAX_MANY):
        key = render.of(name, max_text=_MAX_NAME)
        if key == "details":
            fields[key] = render.of(value, max_text=_MAX_NAME, max_items=_MAX_MANY)
        elif key not in _OWN:
            fields[key] = render.of(value, max_text=MAX_SENTENCE)
    metadata = {
        key: sentence(value) if type(value) is str else value
        for key, value in failure.metadata.items()
    }
    blockers = (render.of(each, max_text=_MAX_BLOCKER) for each in failure.blockers[:_MAX_MANY])
    return replace(
        failure,
        explanation=sentence(failure.explanation),
        blockers=tuple(blockers),
        metadata=metadata | ({"envelope": fields} if "envelope" in metadata else {}),
    )


def to_text(envelope: Envelope) -> str:
    """The envelope as the model reads it."""
    return json.dumps(envelope, ensure_ascii=False, default=str)


def bounded(envelope: Envelope) -> Envelope:
    """The envelope within ``MAX_BYTES``, at the cost of its largest fields."""
    while _size(envelope) > MAX_BYTES:
        largest = max(envelope, key=lambda name: _size(envelope[name]))
        envelope[largest] = _smaller(envelope[largest], is_names=largest in _LISTS)
    return envelope


def _size(value: Any) -> int:
    return len(to_text(value).encode())


def _smaller(value: Any, *, is_names: bool) -> Any:
    match value:
        case [_, _, *_] if is_names:
            return [*value[: (len(value) - 1) // 2], "…"]
        case str():
            return short(value, len(value) // 2)
        case {"truncated": True, "text": str(text)}:
            return {"truncated": True, "text": short(text, len(text) // 2)}
    return {"truncated": True, "text": short(to_text(value), MAX_BYTES // 2)}
