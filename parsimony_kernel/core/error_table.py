"""What an error means: the rows of ``error_table.toml``, and the two ways in which they are read.

The error of a tool is the agent's business: what nothing structured tells, the words of the last
error may. An error of a provider is the client's: it counts wherever in the cause chain it stands.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict

from parsimony_kernel.core import causes
from parsimony_kernel.core.evidence import TABLE, Evidence, chain_of, evidence_of, step_of, text_of
from parsimony_kernel.core.kinds import FailureType, Step

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
        _first(_OF_TOOLS, lambda row: bool(row.ours & seen.names))
        or _first(_OF_TOOLS, lambda row: row.has_words(seen, row.sharp))
        or (ROWS["deadline"] if _is_expired_deadline(seen) else None)
        or _first(_OF_TOOLS, lambda row: row.has_code(seen, status))
        or _first(weather, lambda row: bool(row.marks & seen.causes))
        or _first(rows, lambda row: row.has_words(seen, row.words))
        or _first(_OF_TOOLS, lambda row: row.has_weak_code(seen, status))
    )


def _first(rows: Iterable[Row], holds: Callable[[Row], bool]) -> Row | None:
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
