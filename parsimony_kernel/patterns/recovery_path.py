"""Recovery path after a failure: retry, resume from a checkpoint, reconcile first, or stop."""

_TRANSIENT = frozenset({"429", "502", "503", "timeout"})


def recovery_path(error: str, side_effect_status: str, checkpoint_valid: bool) -> str:
    """Choose one of four recovery paths.

    An uncertain effect takes precedence: however transient the error looks, the source of truth is
    checked before anything is repeated. Any unknown case stops or escalates.

    Args:
        error: a status code as text, ``timeout``, ``worker_restarted`` or any other word.
        side_effect_status: ``none``, ``uncertain`` or ``committed``, as in ``Effect``.
        checkpoint_valid: whether the last checkpoint still matches the real state.

    Returns:
        "reconcile before replay", "resume checkpoint", "retry with backoff" or "stop or escalate".
    """
    if side_effect_status == "uncertain":
        return "reconcile before replay"
    if checkpoint_valid and error == "worker_restarted":
        return "resume checkpoint"
    if side_effect_status == "none" and error in _TRANSIENT:
        return "retry with backoff"
    return "stop or escalate"
