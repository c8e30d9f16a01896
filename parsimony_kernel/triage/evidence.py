"""What an error shows: class names, status, codes and words, from an exception or from its text.

Reading only; what it means is in ``classifier.codes`` and ``classifier.phrases``. Classes are told
apart by name, so no client library is imported.
"""

import builtins
import errno
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from parsimony_kernel.agent.failure.kinds import Failure, FailureRaised
from parsimony_kernel.llm.faults import chain_of, error_body, peek, retry_after, status_of, text_of
from parsimony_kernel.triage.taxonomy import Step

MAX_WORDS = 10_000

_TOO_GENERAL = frozenset({"object", "BaseException", "Exception"})
_STATUS_ATTRIBUTES = ("status", "http_status", "code")
_CODE_ATTRIBUTES = ("code", "type", "error_code", "sqlite_errorname")


@dataclass(frozen=True)
class Evidence:
    """What the terminal error of a step shows.

    ``names`` are the classes of the error itself, ``causes`` those of what led to it. Codes are
    lower case, ``errno`` is symbolic, ``rpc`` is a JSON-RPC code and ``words`` the text without
    the class's name in front.
    """

    names: frozenset[str] = frozenset()
    causes: frozenset[str] = frozenset()
    status: int | None = None
    codes: frozenset[str] = frozenset()
    sqlstate: str = ""
    errno: str = ""
    rpc: int | None = None
    retry_after_s: float | None = None
    words: str = ""


def facts_of(exc: BaseException) -> dict[str, Any]:
    """What ``exc`` shows beyond its text, plain enough for ``Step.metadata`` and a journal."""
    chain = list(chain_of(exc))
    found: dict[str, Any] = {
        **({"type": told.type} if (told := _failure_in(chain)) is not None else {}),
        "names": _names([exc]),
        "causes": _names(chain[1:]),
        "codes": sorted({code.lower() for link in chain for code in _codes(link)}),
    }
    for key, read in (
        ("status", _http_status),
        ("sqlstate", _sqlstate),
        ("errno", _errno),
        ("rpc", _rpc_code),
        ("retry_after_s", retry_after),
    ):
        known = (value for link in chain if (value := read(link)) is not None)
        if (first := next(known, None)) is not None:
            found[key] = first
    return found


def step_of(exc: BaseException, index: int, action: str, **fields: Any) -> Step:
    """The step that ended with ``exc``."""
    metadata = {**facts_of(exc), **fields.pop("metadata", {})}
    return Step(
        index,
        action,
        error=text_of(exc) or type(exc).__name__,
        exception_type=type(exc).__name__,
        metadata=metadata,
        **fields,
    )


def evidence_of(step: Step) -> Evidence:
    """What the error of ``step`` shows; facts in its metadata count before what its text says."""
    facts = step.metadata
    named = [str(name) for name in facts.get("names", ())]
    if step.exception_type:
        named.extend(_with_bases(step.exception_type))
    text = _terminal(str(step.error or ""))
    prefix = _CLASS.match(text)
    while prefix:
        named.extend(_with_bases(prefix["name"]))
        text = text[prefix.end() :]
        prefix = _CLASS.match(text)
    names = frozenset(named) - _TOO_GENERAL
    if text in names:
        text = ""
    if body := _error_body(text):
        words, marks = body
        shown = f"{words}\n{marks}"
    else:
        shown = words = _QUOTED.sub("''", text) if names & _QUOTING or not names else text
    return Evidence(
        names=names,
        causes=frozenset(str(name) for name in facts.get("causes", ())) | _named_in(words),
        status=facts.get("status") or _status_in(shown),
        codes=frozenset(str(code).lower() for code in facts.get("codes", ())) | _codes_in(shown),
        sqlstate=str(facts.get("sqlstate") or _sqlstate_in(words)),
        errno=str(facts.get("errno") or _errno_in(words)),
        rpc=facts["rpc"] if "rpc" in facts else _rpc_in(shown),
        retry_after_s=facts.get("retry_after_s"),
        words=words,
    )


def _failure_in(chain: Iterable[BaseException]) -> Failure | None:
    return next((link.failure for link in chain if isinstance(link, FailureRaised)), None)


_TRACEBACK = "Traceback (most recent call last)"


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
    """The message and the marks of an error response's body where ``text`` is one, in JSON.
    Whatever else stands in it is data."""
    if not text.startswith("{"):
        return None
    try:
        body = json.loads(text)
    except (ValueError, RecursionError):
        return None
    error = body.get("error")
    is_nested = isinstance(error, Mapping)
    told = error if is_nested else body
    message = next((told[key] for key in _MESSAGE_KEYS if isinstance(told.get(key), str)), None)
    if message is None and not is_nested:
        return None
    marks = {key: told[key] for key in _MARK_KEYS if isinstance(told.get(key), str | int)}
    return message or "", json.dumps(marks)


def _names(chain: Iterable[BaseException]) -> list[str]:
    seen = {each.__name__ for link in chain for each in type(link).__mro__}
    return sorted(seen - _TOO_GENERAL)


def _codes(exc: BaseException) -> Iterable[str]:
    body = error_body(exc)
    sources: list[Any] = [peek(exc, name) for name in _CODE_ATTRIBUTES]
    if isinstance(body, Mapping):
        sources.extend(body.get(name) for name in ("code", "type", "status"))
    aws = peek(exc, "response")
    if isinstance(aws, Mapping) and isinstance(aws.get("Error"), Mapping):
        sources.append(aws["Error"].get("Code"))
    yield from (source for source in sources if isinstance(source, str))
    if callable(grpc := peek(exc, "code")):
        try:
            name = peek(grpc(), "name")
        except Exception:  # a foreign method may do anything, and its trouble is not the news
            return
        if isinstance(name, str):
            yield name


def _http_status(exc: BaseException) -> int | None:
    if (known := status_of(exc)) is not None:
        return known
    aws = peek(exc, "response")
    meta = aws.get("ResponseMetadata") if isinstance(aws, Mapping) else None
    candidates = [peek(exc, name) for name in _STATUS_ATTRIBUTES]
    if isinstance(meta, Mapping):
        candidates.append(meta.get("HTTPStatusCode"))
    return next((int(c) for c in candidates if isinstance(c, int) and 400 <= c <= 599), None)


def _sqlstate(exc: BaseException) -> str | None:
    for name in ("sqlstate", "pgcode"):
        if isinstance(state := peek(exc, name), str) and len(state) == 5:
            return state
    return None


def _errno(exc: BaseException) -> str | None:
    number = peek(exc, "errno")
    return errno.errorcode.get(number) if isinstance(number, int) else None


def _rpc_code(exc: BaseException) -> int | None:
    for code in (peek(peek(exc, "error"), "code"), peek(exc, "code")):
        if isinstance(code, int) and -33000 <= code <= -32000:
            return int(code)
    return None


# The class in front of a message, as tracebacks and wrappers write it.
_CLASS = re.compile(
    r"\(?(?P<name>(?:[A-Za-z_]\w*\.)*[A-Z]\w*"
    r"(?:Error|Exception|Timeout|Exhausted|Unavailable|Interrupt|NotFound|Violation|Failure))"
    r"(?:\s*:\s+|\)\s+|\s+-\s+(?!\d))"
)
# Data errors quote what they were given, and what they quote says nothing about the cause.
_QUOTING = frozenset(
    {
        *("ValueError", "TypeError", "LookupError", "AssertionError", "DataError"),
        *("FileNotFoundError", "FileExistsError", "PermissionError", "IsADirectoryError"),
        *("ValidationError", "SchemaError"),
    }
)
# HTTP clients quote the status that they report.
_QUOTED = re.compile(
    r"(?<!\w)(?<!error )'[^'\n]*'(?!\w)|(?<!error )\"[^\"\n]*\"|`[^`\n]*`", re.IGNORECASE
)


def _with_bases(name: str) -> list[str]:
    last = name.rpartition(".")[2]
    known = getattr(builtins, last, None)
    if isinstance(known, type) and issubclass(known, BaseException):
        return [each.__name__ for each in known.__mro__]
    return [last]


_REPR = re.compile(r"\b([A-Z]\w*(?:Error|Disconnected|IncompleteRead|Timeout))\(")


def _named_in(words: str) -> frozenset[str]:
    """Classes whose ``repr`` stands in the text."""
    return frozenset(base for name in _REPR.findall(words) for base in _with_bases(name))


_STATUS = re.compile(
    r"^\W*(?P<a>[45]\d\d)(?=[,.:)]?\s+(?-i:[A-Z({])|\)\s*$)"
    r"|\b(?:HTTP(?:/\d(?:\.\d)?)?(?: (?:error|status))?|(?:status|error|response)[ _]?(?:code)?)"
    r"\s*[:=(]?\s*(?P<b>[45]\d\d)\b(?!\s*(?:rows|records|files|lines|bytes|items))"
    r"|\b(?:code|status(?:_?code)?)[\"']?\s*[:=]\s*(?P<j>[45]\d\d)\b"
    r"|\bHttpError (?P<c>[45]\d\d)\b"
    r"|^(?P<l>[45]\d\d), message="
    r"|^(?:Client|Server) error '(?P<d>[45]\d\d) "
    r"|: (?:Client|Server) error '(?P<e>[45]\d\d) "
    r"|^\w+(?:Error|Exception)?\((?P<f>[45]\d\d),"
    r"|\b(?P<g>[45]\d\d) (?:Client|Server) Error\b"
    r"|\b(?:returned|responded with|received) (?:(?:an?|HTTP|status|error|code) )*"
    r"(?P<k>429|50[0234])(?=\W*$|[.,;:]| (?:from|for|error|status|response)\b)"
    r"|\b(?P<h>429) Too Many Requests\b"
    r"|\b(?P<i>50[0234]) (?:Internal Server Error|Bad Gateway|Service (?:Temporarily )?Unavailable"
    r"|Gateway Time-?out)\b",
    re.IGNORECASE,
)


def _status_in(words: str) -> int | None:
    found = _STATUS.search(words)
    return None if found is None else int(next(group for group in found.groups() if group))


_CODE = re.compile(r"[\"'](?:code|type|status|error|codeName)[\"']\s*:\s*[\"']([\w.-]+)[\"']")
_AWS = re.compile(r"An error occurred \((\w+)\) when calling")
_GRPC = re.compile(r"\bStatusCode\.([A-Z_]+)")
_LED_BY = re.compile(r"^\((\w+)\) ")


def _codes_in(words: str) -> frozenset[str]:
    found = [each for pattern in (_CODE, _AWS, _GRPC, _LED_BY) for each in pattern.findall(words)]
    return frozenset(each.lower() for each in found)


_ERRNO = re.compile(r"\[Errno (\d+)\]")
_SYMBOL = re.compile(r"\b(E[A-Z]{4,12})\b")


def _errno_in(words: str) -> str:
    if found := _ERRNO.search(words):
        return errno.errorcode.get(int(found[1]), "")
    symbols = (each for each in _SYMBOL.findall(words) if hasattr(errno, each))
    return next(symbols, "")


_STATE = re.compile(r"^\d+ \((\w{5})\):|\bSQLSTATE[\[:=( ]+(\w{5})\b")


def _sqlstate_in(words: str) -> str:
    found = _STATE.search(words)
    return "" if found is None else found[1] or found[2]


_RPC = re.compile(r"(?<!\d)-(32[0-7]\d\d)\b")


def _rpc_in(words: str) -> int | None:
    found = _RPC.search(words)
    return None if found is None else -int(found[1])
