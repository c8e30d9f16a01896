"""What a person is told of a provider's exception, in one sentence and with what can be done.

What the exception means is in ``core.error_table``. A failure that leaves here carries no key:
every foreign word in it went through ``scrub``.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from parsimony_kernel.core.causes import CAPABILITY_GAP
from parsimony_kernel.core.error_table import of_provider
from parsimony_kernel.core.evidence import chain_of, error_body, text_of
from parsimony_kernel.core.kinds import Failure, FailureRaised
from parsimony_kernel.core.redaction import scrub

_SAID_LENGTH = 300


@dataclass(frozen=True)
class Wording:
    """What is said of one row.

    ``sentence`` may hold ``{status}`` (such as " (status 503)", or nothing), ``{said}`` (": " and
    the provider's own words, or nothing) and ``{name}`` (the exception's class). ``remedy`` is
    what a person can do; a row with one has the sentence as its blocker.
    """

    sentence: str
    remedy: str = ""


_NO_ANSWER = Wording("The provider did not answer in time{status}.")
_THEIR_FAULT = Wording("The provider has a fault of its own{status}.")
_UNREADABLE = Wording("The provider's answer could not be read.")
_BROKEN = Wording("The connection to the provider broke off.")
WORDINGS: Mapping[str, Wording] = {
    "client_missing": Wording(
        "The model's client library cannot be used{said}.",
        "Install what is missing into the kernel's environment, or reinstall litellm.",
    ),
    "certificate": Wording(
        "The provider's certificate could not be verified.",
        "Point SSL_CERT_FILE to the certificates that your network uses.",
    ),
    "too_long": Wording("The request is longer than the model's context{status}."),
    "against_policy": Wording("The provider refused the request under its content policy{status}."),
    "quota": Wording(
        "The account's quota or credit at the provider is used up{status}.",
        "Check the account's billing, or choose another model.",
    ),
    "no_key": Wording(
        "No API key was given for the model.",
        "Set the provider's environment variable to a key, then start the turn again.",
    ),
    # The provider's words are left out: some echo the key.
    "bad_key": Wording(
        "The provider did not accept the API key{status}.",
        "Set the provider's environment variable to a valid key, then start the turn again.",
    ),
    "not_allowed": Wording(
        "The API key may not use this model or this endpoint{status}.",
        "Ask the provider for access, or choose another model.",
    ),
    "no_provider": Wording(
        "The model's name does not say which provider it belongs to.",
        "Write provider/model, such as openai/gpt-5.",
    ),
    "not_found": Wording(
        "The provider does not know the model{status}{said}.",
        "Check the model's name, written provider/model, and the address of the endpoint.",
    ),
    "rate_limit": Wording("The provider limits the rate of requests{status}."),
    "no_answer": _NO_ANSWER,
    "deadline": _NO_ANSWER,
    "their_fault": _THEIR_FAULT,
    "outage": _THEIR_FAULT,
    "odd_answer": _UNREADABLE,
    "unreadable": _UNREADABLE,
    "unreached": Wording("No connection to the provider could be made."),
    "broken_off": _BROKEN,
    "stream_cut": _BROKEN,
    "refused": Wording(
        "The provider refused the request{status}{said}.",
        "Check the model's settings, or choose another model.",
    ),
}
_OTHERWISE = Wording(
    "The model could not be asked: {name}{said}.",
    "Choose another model; if it happens again, report it with this sentence.",
)


def translate(
    exc: BaseException,
    *,
    secrets: Iterable[str] = (),
    environ: Mapping[str, str] | None = None,
) -> Failure:
    """The failure that ``exc`` means. Never raises, and never returns ``None``.

    Args:
        exc: what a client raised; its causes, contexts and groups are looked at too.
        secrets: values that must not appear in the text, such as a key from the configuration.
        environ: where ``scrub`` finds more of them; the process's environment by default.

    ``metadata`` holds ``type``, ``exception``, and where they are known ``status_code``,
    ``retry_after_s`` (seconds) and ``remedy``.
    """
    chain = tuple(chain_of(exc))
    for link in chain:
        if isinstance(link, FailureRaised):
            return link.failure
    row, seen = of_provider(exc)
    wording = _OTHERWISE if row is None else WORDINGS[row.name]
    cause = CAPABILITY_GAP if row is None else row.cause_of_provider
    shows_status = "{status}" in wording.sentence and seen.status is not None
    said = scrub(_said(chain), secrets=secrets, environ=environ)
    sentence = wording.sentence.format(
        status=f" (status {seen.status})" if shows_status else "",
        said=f": {said}" if said else "",
        name=type(exc).__name__,
    )
    metadata: dict[str, Any] = {"exception": type(exc).__name__}
    if shows_status:
        metadata["status_code"] = seen.status
    if seen.retry_after_s is not None:
        metadata["retry_after_s"] = seen.retry_after_s
    if wording.remedy:
        metadata["remedy"] = wording.remedy
    return cause.failure(
        f"{sentence} {wording.remedy}" if wording.remedy else sentence,
        blockers=(sentence,) if wording.remedy else (),
        **metadata,
    )


_WRAPPING = re.compile(r"^(?:(?:litellm\.)?[A-Za-z]*(?:Error|Exception|Timeout)\s*(?::|-)\s*)+")


def _said(chain: tuple[BaseException, ...]) -> str:
    """The provider's words on one line, without the wrappers' names in front."""
    bodies = (body for link in chain if isinstance(body := error_body(link), Mapping))
    told = next((str(body["message"]) for body in bodies if body.get("message")), None)
    text = told if told is not None else _WRAPPING.sub("", text_of(chain[0]))
    line = " ".join(text.split()).rstrip(".")
    return line if len(line) <= _SAID_LENGTH else line[:_SAID_LENGTH].rstrip() + "…"
