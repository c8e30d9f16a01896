"""Extract the evidence of an error: class names, status, codes and words.

It comes from an exception or its text; its meaning is in ``error_table``. Classes are matched by
name along the whole cause chain, so no client library is imported.
"""

import builtins
import errno
import math
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from itertools import filterfalse
from pathlib import Path
from typing import Any

from parsimony_kernel.core.kinds import FailureRaised
from parsimony_kernel.core.taxonomy import Step

MAX_WORDS = 10_000

TABLE: Mapping[str, Any] = tomllib.loads(
    (Path(__file__).parent / "error_table.toml").read_text(encoding="utf-8")
)
_TEXT = {
    what: re.compile("|".join(patterns), 0 if what == "class" else re.IGNORECASE)
    for what, patterns in TABLE["text"].items()
    if isinstance(patterns, list)
}
_QUOTING = frozenset(TABLE["text"]["quoting"].split())
_TOO_GENERAL = frozenset({"object", "BaseException", "Exception"})
_TRACEBACK = "Traceback (most recent call last)"
# Where client libraries keep them: paths of attributes and keys.
_HEADERS = "response.headers litellm_response_headers headers"
_STATUSES = """
status_code response.status_code status http_status code response.ResponseMetadata.HTTPStatusCode"""
_CODES = "code type status error_code sqlite_errorname response.Error.Code error.code"


@dataclass(frozen=True)
class Evidence:
    """The evidence of an error.

    ``names`` are the classes of the error itself, ``causes`` those of the errors that led to it.
    ``status`` comes from a response, ``claimed`` only from litellm, ``said`` from the text. Codes
    are lower case, ``errno`` is symbolic, and ``words`` is the error's text without the leading
    class name.
    """

    names: frozenset[str] = frozenset()
    causes: frozenset[str] = frozenset()
    status: int | None = None
    claimed: int | None = None
    said: int | None = None
    codes: frozenset[str] = frozenset()
    errno: str = ""
    retry_after_s: float | None = None
    words: str = ""

    @property
    def any_status(self) -> int | None:
        """The status, from whichever source has one."""
        return self.status or self.claimed or self.said


def facts_of(exc: BaseException) -> dict[str, Any]:
    """Return the facts of ``exc`` beyond its text, as plain values for ``Step.metadata`` and
    journals.
    """
    chain = list(chain_of(exc))
    raised = (link.failure.type for link in chain if isinstance(link, FailureRaised))
    found: dict[str, Any] = {
        "type": next(raised, None),
        "names": _names([exc]),
        "causes": _names(chain[1:]),
        "codes": sorted({code.lower() for link in chain for code in _codes(link)}),
        "status": _first(_http_status, filterfalse(_is_wrapper, chain)),
        "claimed": _first(_http_status, filter(_is_wrapper, chain)),
        "errno": _first(_errno, chain),
        "retry_after_s": _first(retry_after, chain),
    }
    return {key: value for key, value in found.items() if value is not None}


def step_of(exc: BaseException, index: int, action: str, **fields: Any) -> Step:
    """Return the step that ended with ``exc``."""
    name, facts = type(exc).__name__, {**facts_of(exc), **fields.pop("metadata", {})}
    error = text_of(exc) or name
    return Step(index, action, error=error, exception_type=name, metadata=facts, **fields)


def evidence_of(step: Step) -> Evidence:
    """Return the evidence of a step's error; facts in its metadata outrank its text."""
    facts = step.metadata
    named = [str(name) for name in facts.get("names", ())]
    if step.exception_type:
        named.extend(_with_bases(step.exception_type))
    text = _terminal(str(step.error or ""))
    while prefix := _TEXT["class"].match(text):
        named.extend(_with_bases(prefix["name"]))
        text = text[prefix.end() :]
    names = frozenset(named) - _TOO_GENERAL
    if text in names:
        text = ""
    words = _TEXT["quoted"].sub("''", text) if names & _QUOTING or not names else text
    codes = (*facts.get("codes", ()), *_found("codes", words))
    said = _found("status", words)
    return Evidence(
        names=names,
        causes=frozenset(map(str, facts.get("causes", ()))),
        status=facts.get("status"),
        claimed=facts.get("claimed"),
        said=int(said[0]) if said else None,
        codes=frozenset(str(code).lower() for code in codes),
        errno=str(facts.get("errno") or _errno_in(words)),
        retry_after_s=facts.get("retry_after_s"),
        words=words,
    )


# An exception.


def chain_of(exc: BaseException) -> Iterator[BaseException]:
    """Yield ``exc`` and the errors that led to it, each once, nearest first."""
    waiting: list[Any] = [exc]
    seen: set[int] = set()
    while waiting:
        link = waiting.pop(0)
        if not isinstance(link, BaseException) or id(link) in seen:
            continue
        seen.add(id(link))
        yield link
        # litellm keeps the cause of a broken stream in an attribute.
        waiting += [peek(link, "original_exception"), link.__cause__]
        waiting.append(None if link.__suppress_context__ else link.__context__)
        waiting += link.exceptions if isinstance(link, BaseExceptionGroup) else ()


def peek(thing: object, name: str) -> Any:
    """Return an attribute; ``None`` if it is missing or raises."""
    try:
        return getattr(thing, name, None)
    except Exception:  # boundary: user object - a property of it
        return None


def text_of(exc: BaseException) -> str:
    """Return the exception's text without any traceback; empty if it cannot be made."""
    try:
        # litellm puts whole tracebacks into its messages; they are no evidence.
        return str(exc).partition(_TRACEBACK)[0]
    except Exception:  # boundary: user object - its __str__
        return ""


def error_body(exc: BaseException) -> Any:
    """Return the body of the error response, or its ``error`` member if it has one."""
    body = peek(exc, "body")
    if isinstance(body, Mapping) and isinstance(body.get("error"), Mapping):
        return body["error"]
    return body


def retry_after(exc: BaseException) -> float | None:
    """Return the seconds that the provider asks to wait, wherever the client keeps its headers.

    A date is compared with the ``Date`` of the same response, so no clock is read.
    """
    for path in _HEADERS.split():
        try:
            headers = {str(k).lower(): str(v) for k, v in dict(_at(exc, path) or {}).items()}
        except (TypeError, ValueError):
            continue
        for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
            with suppress(KeyError, ValueError):
                if math.isfinite(wait := float(headers[name]) * unit):
                    return max(0.0, wait)
        with suppress(KeyError, TypeError, ValueError):
            until = parsedate_to_datetime(headers["retry-after"])
            return max(0.0, (until - parsedate_to_datetime(headers["date"])).total_seconds())
    return None


def _first(read: Any, chain: Iterable[BaseException]) -> Any:
    return next((value for link in chain if (value := read(link)) is not None), None)


def _names(chain: Iterable[BaseException]) -> list[str]:
    seen = {each.__name__ for link in chain for each in type(link).__mro__}
    return sorted(seen - _TOO_GENERAL)


def _is_wrapper(exc: BaseException) -> bool:
    return type(exc).__module__.partition(".")[0] == "litellm"


def _at(thing: object, path: str) -> Any:
    """Return the value at the end of a path of attributes or keys."""
    for name in path.split("."):
        thing = thing.get(name) if isinstance(thing, Mapping) else peek(thing, name)
    return thing


def _codes(exc: BaseException) -> Iterable[str]:
    body = error_body(exc)
    sources = [_at(exc, path) for path in _CODES.split()]
    sources += (body.get(name) for name in ("code", "type", "status") if isinstance(body, Mapping))
    if callable(grpc := peek(exc, "code")):
        with suppress(Exception):  # boundary: user object - a method of it
            sources.append(peek(grpc(), "name"))
    return [each for each in sources if isinstance(each, str)]


def _http_status(exc: BaseException) -> int | None:
    candidates = (_at(exc, path) for path in _STATUSES.split())
    return next((int(c) for c in candidates if isinstance(c, int) and 400 <= c <= 599), None)


def _errno(exc: BaseException) -> str | None:
    number = peek(exc, "errno")
    return errno.errorcode.get(number) if isinstance(number, int) else None


# A text.


def _with_bases(name: str) -> Sequence[str]:
    last = name.rpartition(".")[2]
    known = getattr(builtins, last, None)
    if isinstance(known, type) and issubclass(known, BaseException):
        return [each.__name__ for each in known.__mro__]
    return [last]


def _terminal(text: str) -> str:
    """Return the error itself if ``text`` is a whole traceback: the text after its last frame."""
    _, is_traceback, after = text.rpartition(_TRACEBACK)
    if is_traceback:
        text = re.split(r"\n(?=\S)", after.rstrip(), maxsplit=1)[-1]
    return text[:MAX_WORDS]


def _found(what: str, words: str) -> list[str]:
    """Return the matches of the pattern ``what`` in ``words``."""
    return [next(filter(None, each.groups())) for each in _TEXT[what].finditer(words)]


def _errno_in(words: str) -> str:
    """Return the symbolic errno in the text, which may be written as a number."""
    found = (errno.errorcode.get(int(e), "") if e.isdigit() else e for e in _found("errno", words))
    return next((each for each in found if hasattr(errno, each)), "")
