"""Translate provider exceptions into failures with one sentence and a remedy.

The table of exceptions is in ``core.error_table``. These failures contain no key: all foreign text
in them has passed ``scrub``.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from parsimony_kernel.core.causes import CAPABILITY_GAP
from parsimony_kernel.core.error_table import chain_of, error_body, of_provider, text_of
from parsimony_kernel.core.kinds import Failure, FailureRaised
from parsimony_kernel.core.redaction import scrub

_SAID_LENGTH = 300
# For an exception without a row in the table.
_OTHERWISE = (
    "The model could not be asked: {name}{said}.",
    "Choose another model; if it happens again, report it with this sentence.",
)


def gap(sentence: str, remedy: str, **known: Any) -> Failure:
    """Build the failure of a model that can't be asked at all, with a remedy."""
    told = f"{sentence} {remedy}"
    return CAPABILITY_GAP.failure(told, blockers=(sentence,), remedy=remedy, **known)


def translate(
    exc: BaseException, *, secrets: Iterable[str] = (), environ: Mapping[str, str] | None = None
) -> Failure:
    """Translate an exception into a ``Failure``. Never raises.

    Args:
        exc: the client's exception; its causes, contexts and groups are examined too.
        secrets: values that must not appear in the text, such as a configured key.
        environ: the environment in which ``scrub`` finds more secrets; the process's by default.

    Returns:
        A failure whose ``metadata`` holds ``type``, ``exception`` and, if known, ``status_code``,
        ``retry_after_s`` (seconds) and ``remedy``.
    """
    chain = tuple(chain_of(exc))
    for link in chain:
        if isinstance(link, FailureRaised):
            return link.failure
    row, seen = of_provider(exc)
    template, remedy = _OTHERWISE if row is None else (row.sentence, row.remedy)
    cause = CAPABILITY_GAP if row is None else row.cause_of_provider
    shows_status = "{status}" in template and seen.status is not None
    said = scrub(_said(chain), secrets=secrets, environ=environ)
    sentence = template.format(
        status=f" (HTTP {seen.status})" if shows_status else "",
        said=f": {said}" if said else "",
        name=type(exc).__name__,
    )
    known: dict[str, Any] = {
        "exception": type(exc).__name__,
        "status_code": seen.status if shows_status else None,
        "retry_after_s": seen.retry_after_s,
        "remedy": remedy or None,
    }
    return cause.failure(
        f"{sentence} {remedy}" if remedy else sentence,
        blockers=(sentence,) if remedy else (),
        **{name: value for name, value in known.items() if value is not None},
    )


_WRAPPING = re.compile(r"^(?:(?:litellm\.)?[A-Za-z]*(?:Error|Exception|Timeout)\s*(?::|-)\s*)+")


def _said(chain: tuple[BaseException, ...]) -> str:
    """Return the provider's message in one line, without the wrappers' names in front.

    For a missing package it is the message of the ``ImportError``, which clients wrap as a lost
    connection.
    """
    bodies = (body for link in chain if isinstance(body := error_body(link), Mapping))
    told = next((str(body["message"]) for body in bodies if body.get("message")), None)
    missing = next((link for link in chain if isinstance(link, ImportError)), chain[0])
    text = told if told is not None else _WRAPPING.sub("", text_of(missing))
    line = " ".join(text.split()).rstrip(".")
    return line if len(line) <= _SAID_LENGTH else line[:_SAID_LENGTH].rstrip() + "…"
