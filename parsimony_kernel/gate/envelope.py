"""The one answer of the gate, for success and refusal alike.

A plain dict: the model's tool result, the line in the record and the history are this same value.
It is capped in size and scrubbed of secrets, and the model reads sentences in it, not tracebacks.
"""

import json
from collections.abc import Sequence
from typing import Any

from parsimony_kernel.agent.failure.kinds import Failure
from parsimony_kernel.llm.faults import Scrub, scrubber

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
            "result": result,
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
    envelope["result"] = failure.partial_data
    envelope["state"] = state
    envelope["valid_next_actions"] = list(valid_next_actions)
    bounded = _bounded(envelope)
    if bounded["result"] in (None, {}, []):
        del bounded["result"]
    return bounded


def plain(value: Any) -> Any:
    """``value`` as it stands in an envelope: JSON, capped, without secrets."""
    return _plain(value, scrubber())


def to_text(envelope: Envelope) -> str:
    """The envelope as the model reads it."""
    return json.dumps(envelope, ensure_ascii=False, default=str)


def cleaned(value: Any) -> Any:
    """``value``, JSON already, with secrets taken out of every text but pictures and charts."""
    return _cleaned(value, scrubber())


def _cleaned(value: Any, clean: Scrub) -> Any:
    if isinstance(value, dict):
        return {
            key: item if key in {"png_base64", "svg", "spec"} else _cleaned(item, clean)
            for key, item in value.items()
        }
    if isinstance(value, list):
        return [_cleaned(item, clean) for item in value]
    return clean(value) if isinstance(value, str) else value


def _plain(value: Any, clean: Scrub) -> Any:
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, str):
        return _short(clean(value), MAX_TEXT)
    if isinstance(value, dict):
        return {str(key): _plain(item, clean) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(item, clean) for item in value]
    for_model = getattr(value, "for_model", None)
    if for_model is not None:
        return _plain(for_model(), clean)
    dump = getattr(value, "model_dump", None)
    if dump is not None:
        return _plain(dump(mode="json"), clean)
    return _short(clean(str(value)), MAX_TEXT)


def _short(text: str, limit: int) -> str:
    if len(text) <= limit:
        return text
    head = limit * 2 // 3
    tail = limit - head
    return f"{text[:head]}\n… {len(text) - limit} characters left out …\n{text[-tail:]}"


def _bounded(envelope: Envelope) -> Envelope:
    plain: Envelope = _plain(envelope, scrubber())
    if len(to_text(plain)) > MAX_BYTES:
        whole = json.dumps(plain["result"], ensure_ascii=False, default=str)
        plain["result"] = {"truncated": True, "text": _short(whole, MAX_BYTES // 2)}
    return plain
