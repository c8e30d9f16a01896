"""What an error shows: class names, status, codes and words, from an exception or from its text.

Reading only; what it means is in ``error_table``. Classes are told apart by name along the whole
cause chain, so no client library is imported.
"""

import builtins
import errno
import json
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

from parsimony_kernel.core.kinds import FailureRaised, Step
from parsimony_kernel.core.text import from_json, words_of

MAX_WORDS = 10_000

TABLE: Mapping[str, Any] = tomllib.loads(
    (Path(__file__).parent / "error_table.toml").read_text(encoding="utf-8")
)
_TEXT = {
    what: re.compile("|".join(patterns), 0 if what in ("class", "repr") else re.IGNORECASE)
    for what, patterns in TABLE["text"].items()
    if isinstance(patterns, list)
}
_QUOTING = frozenset(TABLE["text"]["quoting"].split())
_OF_RPC = range(-33_000, -31_999)
_TOO_GENERAL = frozenset({"object", "BaseException", "Exception"})
_TRACEBACK = "Traceback (most recent call last)"
# Where clients keep them: attributes, and keys of what those hold.
_HEADERS = "response.headers litellm_response_headers headers"
_STATUSES = """
status_code response.status_code status http_status code response.ResponseMetadata.HTTPStatusCode"""
_CODES = "code type status error_code sqlite_errorname response.Error.Code error.code"


@dataclass(frozen=True)
class Evidence:
    """What an error shows.

    ``names`` are the classes of the error itself, ``causes`` those of what led to it. ``status``
    is the one that a response had, ``claimed`` one that only litellm says, ``said`` one in the
    text. Codes are lower case, those of JSON-RPC among them, ``errno`` is symbolic, and ``words``
    the text of the error without the class's name in front.
    """

    names: frozenset[str] = frozenset()
    causes: frozenset[str] = frozenset()
    status: int | None = None
    claimed: int | None = None
    said: int | None = None
    codes: frozenset[str] = frozenset()
    sqlstate: str = ""
    errno: str = ""
    retry_after_s: float | None = None
    words: str = ""

    @property
    def marks(self) -> frozenset[str]:
        """The classes of the error itself, its codes and the name of its system error."""
        return self.names | self.codes | {self.errno}

    @property
    def any_status(self) -> int | None:
        """The status, from wherever it is known."""
        return self.status or self.claimed or self.said


def facts_of(exc: BaseException) -> dict[str, Any]:
    """What ``exc`` shows beyond its text, plain enough for ``Step.metadata`` and a journal."""
    chain = list(chain_of(exc))
    raised = (link.failure.type for link in chain if isinstance(link, FailureRaised))
    found: dict[str, Any] = {
        "type": next(raised, None),
        "names": _names([exc]),
        "causes": _names(chain[1:]),
        "codes": sorted({code.lower() for link in chain for code in _codes(link)}),
        "status": _first(_http_status, filterfalse(_is_wrapper, chain)),
        "claimed": _first(_http_status, filter(_is_wrapper, chain)),
        "sqlstate": _first(_sqlstate, chain),
        "errno": _first(_errno, chain),
        "retry_after_s": _first(retry_after, chain),
    }
    return {key: value for key, value in found.items() if value is not None}


def step_of(exc: BaseException, index: int, action: str, **fields: Any) -> Step:
    """The step that ended with ``exc``."""
    name, facts = type(exc).__name__, {**facts_of(exc), **fields.pop("metadata", {})}
    error = text_of(exc) or name
    return Step(index, action, error=error, exception_type=name, metadata=facts, **fields)


def evidence_of(step: Step) -> Evidence:
    """What the error of ``step`` shows; facts in its metadata count before what its text says."""
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
    bare = _TEXT["quoted"].sub("''", text) if names & _QUOTING or not names else text
    words, shown = _error_body(text) or (bare, bare)
    of_reprs = (base for name in _found("repr", words) for base in _with_bases(name))
    codes = (*facts.get("codes", ()), *_found("codes", shown))
    # A number alone may be a key, a line or a price where its class says more.
    said = _found("status", shown) or _found("number", "" if names else shown)
    return Evidence(
        names=names,
        causes=frozenset((*map(str, facts.get("causes", ())), *of_reprs)),
        status=facts.get("status"),
        claimed=facts.get("claimed"),
        said=int(said[0]) if said else None,
        codes=frozenset(str(code).lower() for code in codes),
        sqlstate=str(facts.get("sqlstate") or next(iter(_found("sqlstate", words)), "")),
        errno=str(facts.get("errno") or _errno_in(words)),
        retry_after_s=facts.get("retry_after_s"),
        words=words,
    )


# An exception.


def chain_of(exc: BaseException) -> Iterator[BaseException]:
    """``exc`` and whatever led to it, each once, nearest first."""
    waiting: list[Any] = [exc]
    seen: set[int] = set()
    while waiting:
        link = waiting.pop(0)
        if not isinstance(link, BaseException) or id(link) in seen:
            continue
        seen.add(id(link))
        yield link
        # litellm keeps the reason of a broken stream in an attribute.
        waiting += [peek(link, "original_exception"), link.__cause__]
        waiting.append(None if link.__suppress_context__ else link.__context__)
        waiting += link.exceptions if isinstance(link, BaseExceptionGroup) else ()


def peek(thing: object, name: str) -> Any:
    """An attribute, or ``None`` where there is none or it breaks."""
    try:
        return getattr(thing, name, None)
    except Exception:  # boundary: user object - a property of it
        return None


def text_of(exc: BaseException) -> str:
    """The exception's words, without a traceback in them; empty where they cannot be had."""
    # litellm writes whole tracebacks into its messages; they are neither words nor evidence.
    return words_of(exc).partition(_TRACEBACK)[0]


def error_body(exc: BaseException) -> Any:
    """The body of the error response, its ``error`` member where it has one."""
    body = peek(exc, "body")
    if isinstance(body, Mapping) and isinstance(body.get("error"), Mapping):
        return body["error"]
    return body


def retry_after(exc: BaseException) -> float | None:
    """Seconds that the provider asks to wait, from any of the places where clients keep headers.

    A date is measured against the ``Date`` of the same response, so no clock is read.
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
    """What stands at the end of attributes, or keys."""
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
    numbers = (str(each) for each in sources if isinstance(each, int) and each in _OF_RPC)
    return [*(each for each in sources if isinstance(each, str)), *numbers]


def _http_status(exc: BaseException) -> int | None:
    candidates = (_at(exc, path) for path in _STATUSES.split())
    return next((int(c) for c in candidates if isinstance(c, int) and 400 <= c <= 599), None)


def _sqlstate(exc: BaseException) -> str | None:
    states = (peek(exc, name) for name in ("sqlstate", "pgcode"))
    return next((each for each in states if isinstance(each, str) and len(each) == 5), None)


def _errno(exc: BaseException) -> str | None:
    number = peek(exc, "errno")
    return errno.errorcode.get(number) if isinstance(number, int) else None


# A text.


def _terminal(text: str) -> str:
    """The error itself where ``text`` is a whole traceback: what follows its last frame."""
    _, is_traceback, after = text.rpartition(_TRACEBACK)
    if is_traceback:
        lines = after.splitlines()
        begin = (n for n, line in enumerate(lines) if line and not line[0].isspace() and n > 1)
        text = "\n".join(lines[next(begin, 0) :])
    return text[:MAX_WORDS]


_MESSAGE_KEYS = ("message", "errorMessage", "error_message", "detail", "title", "msg", "error")
_MARK_KEYS = ("code", "type", "status", "statusCode", "status_code", "codeName", "error")


def _error_body(text: str) -> tuple[str, str] | None:
    """The message, alone and with the marks, of an error response's body where ``text`` is one, in
    JSON. Whatever else stands in it is data."""
    body = from_json(text, {}) if text.startswith("{") else {}
    error = body.get("error")
    told = error if isinstance(error, Mapping) else body
    message = next((told[key] for key in _MESSAGE_KEYS if isinstance(told.get(key), str)), None)
    if message is None and told is body:
        return None
    marks = {key: told[key] for key in _MARK_KEYS if isinstance(told.get(key), str | int)}
    return message or "", f"{message or ''}\n{json.dumps(marks)}"


def _with_bases(name: str) -> Sequence[str]:
    last = name.rpartition(".")[2]
    known = getattr(builtins, last, None)
    if isinstance(known, type) and issubclass(known, BaseException):
        return [each.__name__ for each in known.__mro__]
    return [last]


def _found(what: str, words: str) -> list[str]:
    """What the pattern of ``what`` finds in ``words``."""
    return [next(filter(None, each.groups())) for each in _TEXT[what].finditer(words)]


def _errno_in(words: str) -> str:
    """The symbolic error number that stands in the text, by itself or as a number."""
    found = (errno.errorcode.get(int(e), "") if e.isdigit() else e for e in _found("errno", words))
    return next((each for each in found if hasattr(errno, each)), "")
