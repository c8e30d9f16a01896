"""Classify an error by the rows of ``error_table.toml``, for tools and for providers.

A tool's error is the agent's business: if nothing structured identifies it, the text of the last
error may. A provider's error is the client's: it counts anywhere in the cause chain.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from parsimony_kernel.core import causes
from parsimony_kernel.core.evidence import TABLE, Evidence, chain_of, evidence_of, step_of, text_of
from parsimony_kernel.core.taxonomy import FailureType, Step

# The step metadata key for the name of the row found for its error; "" for none.
KNOWN = "error_row"
# Tools whose input is a program: a wrong argument in it is a mistake in the program.
CODE_TOOLS = frozenset({"run_code", "python", "execute", "execute_code", "shell", "bash"})

_NAME = r"(?:[\"'`][^\"'`\n]{0,60}[\"'`]|[\w.:/$-]+)"
_OUTSIDE = (FailureType.EXTERNAL_FAULT, FailureType.TIMEOUT)


@dataclass(frozen=True)
class Row:
    """One meaning of an error; any one of its marks is enough.

    Args:
        cause: the row of ``causes``; its ``type`` is the meaning of a tool's error.
        asked: "tool" or "provider" if the row applies only to errors of that source.
        names: class names of the error; ``behind`` are looked for along the whole chain.
        ours: our own exceptions, which are decisive whatever their text quotes.
        like: a pattern for such class names.
        sharp: words more specific than any code; ``words`` count if no code does, and not beside
            ``unless``.
        weak: numbers and names with several uses, so words are checked first.
        sentence: a person's text for a provider's error. It may hold ``{status}`` (such as "
            (status 503)", or nothing), ``{said}`` (": " and the provider's own words, or nothing)
            and ``{name}`` (the exception's class).
        remedy: what a person can do; a row with one has the sentence as its blocker.
    """

    name: str
    cause: causes.Cause
    asked: str = ""
    names: frozenset[str] = frozenset()
    behind: frozenset[str] = frozenset()
    ours: frozenset[str] = frozenset()
    like: re.Pattern[str] | None = None
    codes: frozenset[str] = frozenset()
    statuses: frozenset[int] = frozenset()
    errnos: frozenset[str] = frozenset()
    weak_names: frozenset[str] = frozenset()
    weak_statuses: frozenset[int] = frozenset()
    sharp: re.Pattern[str] | None = None
    words: re.Pattern[str] | None = None
    unless: re.Pattern[str] | None = None
    sentence: str = ""
    remedy: str = ""

    @property
    def type(self) -> FailureType:
        """The type of a tool's error of this row; ``UNKNOWN`` if no hint helps."""
        return self.cause.type or FailureType.UNKNOWN

    @property
    def cause_of_provider(self) -> causes.Cause:
        """The cause of a provider's error; late or unreadable answers are transient there."""
        weather = (causes.LATE, causes.BAD_ARGUMENTS)
        return causes.PROVIDER_FAULT if self.cause in weather else self.cause

    def has_code(self, seen: Evidence, status: int | None) -> bool:
        """Return whether a class, status or code identifies this row."""
        return bool(
            self.names & seen.names
            or self.behind & (seen.names | seen.causes)
            or (self.like and any(map(self.like.search, seen.names)))
            or self.codes & seen.codes
            or status in self.statuses
            or seen.errno in self.errnos
        )

    def has_weak_code(self, seen: Evidence, status: int | None) -> bool:
        """Return whether an ambiguous code suggests this row."""
        return bool(self.weak_names & seen.names) or status in self.weak_statuses

    def has_words(self, seen: Evidence, words: re.Pattern[str] | None) -> bool:
        """Return whether the text of the error matches."""
        is_excused = self.unless is not None and self.unless.search(seen.words)
        return words is not None and words.search(seen.words) is not None and not is_excused


def _numbers(text: str) -> Iterable[int]:
    for word in text.split():
        first, is_range, last = word.partition("-")
        yield from range(int(first), int(last) + 1) if is_range else (int(first),)


def _row(name: str, entry: Mapping[str, Any]) -> Row:
    made = dict(entry, name=name, cause=getattr(causes, entry["cause"]))
    for key, value in entry.items():
        if key in ("statuses", "weak_statuses"):
            made[key] = frozenset(_numbers(value))
        elif key in ("names", "weak_names", "behind", "ours", "codes", "errnos"):
            made[key] = frozenset(value.split())
        elif key in ("sharp", "words", "unless"):
            made[key] = re.compile("|".join(value).replace("{NAME}", _NAME), re.IGNORECASE)
        elif key == "like":
            made[key] = re.compile(value)
    return Row(**made)


# Exceptions after which the request may still have arrived.
IN_TRANSIT = frozenset(TABLE["in_transit"].split())
ROWS: Mapping[str, Row] = {name: _row(name, row) for name, row in TABLE["row"].items()}

_OF_TOOLS = [row for row in ROWS.values() if row.asked != "provider"]
_OF_PROVIDERS = [row for row in ROWS.values() if row.asked != "tool"]
# Ignore a status that only litellm claims if the connection broke or the answer could not be
# read: it invents one (a reset becomes a 500).
_BROKEN = ("unreached", "broken_off", "stream_cut", "odd_answer", "unreadable")


def of_step(step: Step) -> Row | None:
    """Classify the error of ``step``; an earlier result in its metadata is reused."""
    if isinstance(known := step.metadata.get(KNOWN), str):
        return ROWS.get(known)
    if step.error is None and step.exception_type is None:
        return None
    return of_tool(evidence_of(step), of_program=step.tool_called in CODE_TOOLS)


def of_tool(seen: Evidence, *, of_program: bool = False) -> Row | None:
    """Classify a tool's error; ``None`` if nothing identifies it.

    ``of_program`` means that the error came from code written by the agent: its arguments and
    structures are the code's own, so its words identify only causes outside it.
    """
    status = seen.any_status
    rows = [row for row in _OF_TOOLS if row.type in _OUTSIDE] if of_program else _OF_TOOLS
    weather = [row for row in _OF_TOOLS if row.cause is causes.PROVIDER_FAULT]
    return (
        _first(_OF_TOOLS, lambda row: bool(row.ours & seen.names))
        or _first(_OF_TOOLS, lambda row: row.has_words(seen, row.sharp))
        or (ROWS["deadline"] if _is_expired_deadline(seen) else None)
        or _first(_OF_TOOLS, lambda row: row.has_code(seen, status))
        or _first(weather, lambda row: bool(row.names & seen.causes))
        or _first(rows, lambda row: row.has_words(seen, row.words))
        or _first(_OF_TOOLS, lambda row: row.has_weak_code(seen, status))
    )


def _first(rows: Iterable[Row], holds: Callable[[Row], bool]) -> Row | None:
    return next(filter(holds, rows), None)


def of_provider(exc: BaseException) -> tuple[Row | None, Evidence]:
    """Classify a provider's error and return its evidence; text counts only if nothing else does.

    400, 401, 403 and 404 are never transient, whatever the text says.
    """
    last = evidence_of(step_of(exc, 0, ""))
    whole = "\n".join(text_of(link) for link in chain_of(exc))
    seen = replace(last, names=last.names | last.causes, words=whole)
    status = seen.status
    if status is None and not any(ROWS[name].names & seen.names for name in _BROKEN):
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
    """Return whether it is the ``TimeoutError`` of a deadline in the tool.

    That is the built-in class, either without text, which no library leaves empty, or worded as a
    deadline.
    """
    is_builtin = "TimeoutError" in seen.names <= {"TimeoutError", "OSError"} and not seen.errno
    deadline = ROWS["deadline"]
    return is_builtin and (not seen.words or deadline.has_words(seen, deadline.words))
