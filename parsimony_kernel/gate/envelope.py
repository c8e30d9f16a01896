"""The one answer of the gate, for success and refusal alike.

A plain dict: the model's tool result, the line in the record and the history are this same value.
It is capped in size and scrubbed of secrets, and the model reads sentences in it, not tracebacks.
"""

import json
from collections.abc import Sequence
from typing import Any

from parsimony_kernel.agent.failure.kinds import Failure
from parsimony_kernel.llm.faults import scrub

Envelope = dict[str, Any]

MAX_TEXT = 4_000
MAX_BYTES = 24_000


def succeeded(
    requested: str, result: Any, *, state: str, valid_next_actions: Sequence[str]
) -> Envelope:
    """The envelope of an action that ran."""
    return _bounded(
        {
            "requested": requested,
            "result": _plain(result),
            "state": state,
            "valid_next_actions": list(valid_next_actions),
        }
    )


def refused(
    requested: str, failure: Failure, *, state: str, valid_next_actions: Sequence[str]
) -> Envelope:
    """The envelope of an action that was refused, or that ran and failed.

    The refusal's own fields (``known_actions``, ``reason``, ``timeout_seconds`` …) stand in
    ``failure.metadata["envelope"]``.
    """
    envelope: Envelope = {
        "error": str(failure.refusal or "action_error"),
        "requested": requested,
        **failure.metadata.get("envelope", {}),
        "message": failure.explanation,
    }
    observed = _plain(failure.partial_data)
    if observed not in (None, {}, []):
        envelope["result"] = observed
    envelope["state"] = state
    envelope["valid_next_actions"] = list(valid_next_actions)
    return _bounded(envelope)


def to_text(envelope: Envelope) -> str:
    """The envelope as the model reads it."""
    return json.dumps(envelope, ensure_ascii=False, default=str)


def cleaned(value: Any) -> Any:
    """``value``, JSON already, with secrets taken out of every text but pictures and charts."""
    if isinstance(value, dict):
        return {
            key: item if key in {"png_base64", "svg", "spec"} else cleaned(item)
            for key, item in value.items()
        }
    if isinstance(value, list):
        return [cleaned(item) for item in value]
    return scrub(value) if isinstance(value, str) else value


def _plain(value: Any) -> Any:
    for_model = getattr(value, "for_model", None)
    if for_model is not None:
        return _plain(for_model())
    dump = getattr(value, "model_dump", None)
    if dump is not None:
        return _plain(dump(mode="json"))
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(item) for item in value]
    if isinstance(value, str):
        return _short(scrub(value), MAX_TEXT)
    if value is None or isinstance(value, bool | int | float):
        return value
    return _short(scrub(str(value)), MAX_TEXT)


def _short(text: str, limit: int) -> str:
    if len(text) <= limit:
        return text
    head = limit * 2 // 3
    tail = limit - head
    return f"{text[:head]}\n… {len(text) - limit} characters left out …\n{text[-tail:]}"


def _bounded(envelope: Envelope) -> Envelope:
    clean = {key: _plain(value) for key, value in envelope.items()}
    size = len(to_text(clean))
    if size <= MAX_BYTES or "result" not in clean:
        return clean
    whole = json.dumps(clean["result"], ensure_ascii=False, default=str)
    clean["result"] = {"truncated": True, "text": _short(whole, MAX_BYTES // 2)}
    return clean
