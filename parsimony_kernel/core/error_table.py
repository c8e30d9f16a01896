"""What an error shows, and what it means: the rows of ``error_table.toml``, and how they are read.

An error shows class names, status, codes and words. Classes are told apart by name along the whole
cause chain, so no client library is imported.

The error of a tool is the agent's business: what nothing structured tells, the words of the last
error may. An error of a provider is the client's: it counts wherever in the cause chain it stands.
"""

import builtins
import errno
import json
import math
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from email.utils import parsedate_to_datetime
from functools import partial
from itertools import filterfalse
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict

from parsimony_kernel.core import causes
from parsimony_kernel.core.kinds import FailureRaised, FailureType, Step
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


# The key of a step's metadata with the name of the row that its error was found to have, "" for
# none.
KNOWN = "error_row"
# Tools whose input is a program: a wrong argument in it is a mistake in the program.
CODE_TOOLS = frozenset({"run_code", "python", "execute", "execute_code", "shell", "bash"})

_NAME = r"(?:[\"'`][^\"'`\n]{0,60}[\"'`]|[\w.:/$-]+)"
_OUTSIDE = (FailureType.EXTERNAL_FAULT, FailureType.TIMEOUT)


def _numbers(text: str) -> list[int]:
    ranges = (word.partition("-") for word in text.split())
    return [number for low, _, high in ranges for number in range(int(low), int(high or low) + 1)]


def _pattern(phrases: Iterable[str]) -> re.Pattern[str]:
    return re.compile("|".join(phrases).replace("{NAME}", _NAME), re.IGNORECASE)


# How an entry of the table is read.
_Words = Annotated[frozenset[str], BeforeValidator(str.split)]
_Numbers = Annotated[frozenset[int], BeforeValidator(_numbers)]
_Phrases = Annotated[re.Pattern[str] | None, BeforeValidator(_pattern)]


class Row(BaseModel):
    """One meaning: any of its marks is enough.

    Args:
        cause: the row of ``causes``; its ``type`` is the meaning of a tool's error.
        asked: "tool" or "provider" where the row is about the errors of one of them only.
        marks: classes of the error, its codes (lower case) and names of system errors (``EPIPE``).
        behind: classes that are looked for along the whole chain.
        ours: exceptions of our own, which say what they mean whatever their text quotes.
        like: what the name of such a class looks like.
        sqlstates: prefixes.
        sharp: words that say more exactly than any code; ``words`` count where no code does, and
            not beside ``unless``.
        weak: marks and statuses (``HTTP404``) that some use for quite different things: words come
            first.
        sentence: what a person is told of a provider's error. It may hold ``{status}`` (such as
            " (HTTP 503)", or nothing), ``{said}`` (": " and the provider's own words, or nothing)
            and ``{name}`` (the exception's class).
        remedy: what a person can do; a row with one has the sentence as its blocker.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    cause: Annotated[causes.Cause, BeforeValidator(partial(getattr, causes))]
    asked: str = ""
    marks: _Words = frozenset()
    behind: _Words = frozenset()
    ours: _Words = frozenset()
    like: re.Pattern[str] | None = None
    statuses: _Numbers = frozenset()
    sqlstates: Annotated[tuple[str, ...], BeforeValidator(str.split)] = ()
    weak: _Words = frozenset()
    sharp: _Phrases = None
    words: _Phrases = None
    unless: _Phrases = None
    sentence: str = ""
    remedy: str = ""

    @property
    def type(self) -> FailureType:
        """What a tool's error of this row is; ``UNKNOWN`` where no hint helps."""
        return self.cause.type or FailureType.UNKNOWN

    @property
    def cause_of_provider(self) -> causes.Cause:
        """The cause of a provider's error: what comes late or cannot be read is weather there."""
        weather = (causes.LATE, causes.BAD_ARGUMENTS)
        return causes.PROVIDER_FAULT if self.cause in weather else self.cause

    def has_code(self, seen: Evidence, status: int | None) -> bool:
        """Whether anything structured says it."""
        return bool(
            self.marks & seen.marks
            or self.behind & (seen.names | seen.causes)
            or (self.like and any(map(self.like.search, seen.names)))
            or status in self.statuses
            or seen.sqlstate.startswith(self.sqlstates or ("-",))
        )

    def has_weak_code(self, seen: Evidence, status: int | None) -> bool:
        """Whether something says it that may say something else."""
        return not self.weak.isdisjoint({*seen.marks, f"HTTP{status}"})

    def has_words(self, seen: Evidence, words: re.Pattern[str] | None) -> bool:
        """Whether the text of the error says it."""
        is_excused = self.unless is not None and self.unless.search(seen.words)
        return words is not None and words.search(seen.words) is not None and not is_excused


# Names of exceptions after which a request may have arrived all the same.
IN_TRANSIT = frozenset(TABLE["in_transit"].split())
ROWS: Mapping[str, Row] = {name: Row(name=name, **row) for name, row in TABLE["row"].items()}

_OF_TOOLS = [row for row in ROWS.values() if row.asked != "provider"]
_OF_PROVIDERS = [row for row in ROWS.values() if row.asked != "tool"]
# A status that only litellm claims counts for nothing once the connection broke, or the answer
# could not be read: it invents one (a reset becomes a 500).
_BROKEN = ("unreached", "broken_off", "stream_cut", "odd_answer", "unreadable")


def of_step(step: Step) -> Row | None:
    """What the error of ``step`` means by itself; as it was found before, where it was."""
    if isinstance(known := step.metadata.get(KNOWN), str):
        return ROWS.get(known)
    if step.error is None and step.exception_type is None:
        return None
    return of_tool(evidence_of(step), of_program=step.tool_called in CODE_TOOLS)


def of_tool(seen: Evidence, *, of_program: bool = False) -> Row | None:
    """What the error of a tool means; ``None`` where nothing tells.

    ``of_program`` says that the error came from code that the agent wrote: its arguments and
    structures are the code's own, so its words tell only what lies outside it.
    """
    status = seen.any_status
    rows = [row for row in _OF_TOOLS if row.type in _OUTSIDE] if of_program else _OF_TOOLS
    weather = [row for row in _OF_TOOLS if row.cause is causes.PROVIDER_FAULT]
    return (
        _first_row(_OF_TOOLS, lambda row: bool(row.ours & seen.names))
        or _first_row(_OF_TOOLS, lambda row: row.has_words(seen, row.sharp))
        or (ROWS["deadline"] if _is_expired_deadline(seen) else None)
        or _first_row(_OF_TOOLS, lambda row: row.has_code(seen, status))
        or _first_row(weather, lambda row: bool(row.marks & seen.causes))
        or _first_row(rows, lambda row: row.has_words(seen, row.words))
        or _first_row(_OF_TOOLS, lambda row: row.has_weak_code(seen, status))
    )


def _first_row(rows: Iterable[Row], holds: Callable[[Row], bool]) -> Row | None:
    return next(filter(holds, rows), None)


def of_provider(exc: BaseException) -> tuple[Row | None, Evidence]:
    """What an error of a provider means, with what it shows; text counts where nothing else does.

    400, 401, 403 and 404 are never weather, whatever the text beside them says.
    """
    last = evidence_of(step_of(exc, 0, ""))
    whole = "\n".join(text_of(link) for link in chain_of(exc))
    seen = replace(last, names=last.names | last.causes, words=whole)
    status = seen.status
    if status is None and not any(ROWS[name].marks & seen.names for name in _BROKEN):
        status = seen.claimed
    seen = replace(seen, status=status)
    for known in (status, seen.said):
        for row in _OF_PROVIDERS:
            if (
                row.has_code(seen, known)
                or row.has_weak_code(seen, known)
                or row.has_words(seen, row.sharp)
            ):
                return row, seen
    told = of_tool(last, of_program=True)
    is_weather = told is not None and told.cause in (causes.PROVIDER_FAULT, causes.LATE)
    return told if is_weather else None, seen


def _is_expired_deadline(seen: Evidence) -> bool:
    """Whether it is the ``TimeoutError`` of a deadline in the tool: the built-in one, bare, as no
    library says so little of its own, or in the words of a deadline."""
    is_builtin = "TimeoutError" in seen.names <= {"TimeoutError", "OSError"} and not seen.errno
    deadline = ROWS["deadline"]
    return is_builtin and (not seen.words or deadline.has_words(seen, deadline.words))
