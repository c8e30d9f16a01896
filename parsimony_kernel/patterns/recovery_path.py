"""Which way on after a failure: again, from a checkpoint, or only after reconciling."""

_TRANSIENT = frozenset({"429", "502", "503", "timeout"})


def recovery_path(error: str, side_effect_status: str, checkpoint_valid: bool) -> str:
    """One of four ways.

    Args:
        error: a status code as text, ``timeout``, ``worker_restarted`` or any other word.
        side_effect_status: ``none``, ``uncertain`` or ``committed``, as in ``Effect``.
        checkpoint_valid: whether the last checkpoint still describes the world.

    An uncertain effect comes before everything: however transient the error looks, the source of
    truth is asked before anything is done again. Whatever is not known stops.
    """
    if side_effect_status == "uncertain":
        return "reconcile before replay"
    if checkpoint_valid and error == "worker_restarted":
        return "resume checkpoint"
    if side_effect_status == "none" and error in _TRANSIENT:
        return "retry with backoff"
    return "stop or escalate"
