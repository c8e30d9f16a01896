"""Whether a run goes round in a loop: calls and what they showed, judged together.

A call that would show again what is known is a loop; a call whose answer changes is not, however
often it is made. Identifiers are compared exactly and only the words around them by likeness, so
that three orders looked up in the same words stay three questions.

A value: ``after`` gives another, ``before`` changes nothing, and ``to_json`` keeps all of it.
"""

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

from rapidfuzz import fuzz

from parsimony_kernel.core.calls import loop_signature
from parsimony_kernel.core.causes import LOOP
from parsimony_kernel.core.kinds import Failure
from parsimony_kernel.gate.stages import Attempt, Stage

# Two rounds of the longest cycle, and room for a streak that began before it.
KEPT = 8
LONGEST_CYCLE = 3
EQUAL_OBSERVATIONS = 3
MAX_SHOWN = 400
_MAX_TEXT = 1_000
_ALIKE = 90.0

# The arguments that hold words for a reader. Whatever else a call has is compared exactly.
FREE_TEXT = frozenset(
    {"description", "goal", "message", "prompt", "q", "query", "question", "search", "task", "text"}
)

Kind = Literal["repeat", "cycle", "no_new_information", "late"]


@dataclass(frozen=True)
class Call:
    """What a call is, for comparing.

    ``subjects`` are the identifiers in it, ``numbers`` its other numbers and signs, ``words`` the
    words of its free text; ``exact`` is a digest of everything that is not free text, and
    ``is_bare`` says that this is nothing but subjects.
    """

    tool: str
    signature: str
    exact: str
    is_bare: bool
    subjects: tuple[str, ...]
    numbers: tuple[str, ...]
    words: tuple[str, ...]


@dataclass(frozen=True)
class Seen:
    """A call that was made: a digest of what it showed, and the beginning of that.

    ``is_late`` says that it did not end in time, so that what it had done by then would be done
    once more.
    """

    call: Call
    observation: str
    shown: str
    is_late: bool = False


@dataclass(frozen=True)
class Loop:
    """Why a call would be one too many.

    ``count`` is how often the run would have done the same, this call included, and ``known`` is
    what it showed so far, shortened.
    """

    kind: Kind
    tool: str
    count: int
    known: str

    @property
    def reason(self) -> str:
        """One clause."""
        match self.kind:
            case "late":
                return f"{self.tool} did not end in time with just this, and would not now"
            case "repeat":
                return f"this would be call {self.count} of {self.tool} that shows the same"
            case "cycle":
                return f"the same calls in turn would begin round {self.count} and show the same"
            case "no_new_information":
                return f"{self.count - 1} calls about this in a row showed the same"


@dataclass(frozen=True)
class Repetition:
    """The last calls of a run and what they showed, oldest first."""

    seen: tuple[Seen, ...] = ()

    def after(
        self,
        tool_name: str,
        args: Mapping[str, Any],
        observation: str,
        *,
        is_late: bool = False,
        read: str | None = None,
    ) -> "Repetition":
        """The same with a call that was made. ``observation`` is what it showed, free of secrets,
        and ``read`` what the model read of that, where it was not all."""
        plain = _plain(observation)
        shown = _shortened(plain if read is None else _plain(read))
        made = Seen(_call_of(tool_name, args), _digest(plain), shown, is_late)
        return Repetition((*self.seen, made)[-KEPT:])

    @property
    def is_news(self) -> bool:
        """Whether the newest call showed what the same call had not shown lately."""
        if not self.seen:
            return False
        newest = self.seen[-1]
        return not any(
            each.call.signature == newest.call.signature and each.observation == newest.observation
            for each in self.seen[:-1]
        )

    def before(self, tool_name: str, args: Mapping[str, Any]) -> Loop | None:
        """The loop that this call would go round once more, if it is one."""
        call = _call_of(tool_name, args)
        return (
            self._late(call)
            or self._repeat(call)
            or self._cycle(call)
            or self._no_new_information(call)
        )

    def to_json(self) -> list[dict[str, Any]]:
        """Plain values; see ``from_json``."""
        return [{**vars(each), "call": dict(vars(each.call))} for each in self.seen]

    @classmethod
    def from_json(cls, value: Sequence[Mapping[str, Any]]) -> "Repetition":
        """What ``to_json`` gave, in another process."""
        return cls(
            tuple(
                Seen(
                    _call_from(each["call"]),
                    each["observation"],
                    each["shown"],
                    each.get("is_late", False),
                )
                for each in value
            )
        )

    def _late(self, call: Call) -> Loop | None:
        for each in self.seen:
            if each.is_late and each.call.signature == call.signature:
                return Loop("late", call.tool, 2, each.shown)
        return None

    def _repeat(self, call: Call) -> Loop | None:
        last = self.seen[-2:]
        if len(last) < 2 or any(each.call.signature != call.signature for each in last):
            return None
        if not _show_the_same(last):
            return None
        return Loop("repeat", call.tool, 3, last[-1].shown)

    def _cycle(self, call: Call) -> Loop | None:
        for length in range(2, LONGEST_CYCLE + 1):
            last = self.seen[-2 * length :]
            if len(last) < 2 * length:
                return None
            first, second = last[:length], last[length:]
            # One call whose answer goes to and fro is polled, not gone round in.
            turning = len({each.call.signature for each in second}) > 1
            same = all(
                a.observation == b.observation and _are_alike(a.call, b.call)
                for a, b in zip(first, second, strict=True)
            )
            if turning and same and _are_alike(second[0].call, call):
                return Loop("cycle", call.tool, 3, second[0].shown)
        return None

    def _no_new_information(self, call: Call) -> Loop | None:
        last = self.seen[-EQUAL_OBSERVATIONS:]
        if (
            len(last) < EQUAL_OBSERVATIONS
            or not _show_the_same(last)
            or call.tool not in {each.call.tool for each in last}
            or not all(_are_alike(each.call, call) for each in last)
        ):
            return None
        return Loop("no_new_information", call.tool, len(last) + 1, last[-1].shown)


def not_repeating(current: Callable[[], Repetition]) -> Stage:
    """A stage that refuses what would go round in a loop, quoting what is known. ``current`` gives
    the run's repetition at that moment. A tool that ends or suspends the run passes."""

    def stage(attempt: Attempt) -> Failure | None:
        if attempt.tools[attempt.action].terminal or attempt.approved is not None:
            return None
        loop = current().before(attempt.action, attempt.inputs)
        return None if loop is None else refusal_of(loop)

    return stage


def refusal_of(loop: Loop) -> Failure:
    """The refusal of the call that would go round in ``loop``."""
    return LOOP.failure(
        f"{loop.tool} was not run: {loop.reason}. Already known: {loop.known or 'no output'}. "
        "Use it, or do something else.",
        tool_name=loop.tool,
        repeat_count=loop.count,
        envelope={
            "reason": loop.reason,
            "details": {"loop": loop.kind, "count": loop.count, "already_known": loop.known},
        },
    )


_ADDRESS = re.compile(r"\b0x[0-9a-f]{6,}\b", re.IGNORECASE)
_SUBJECT = re.compile(
    r"""https?://[^\s'"<>]+ | [\w.+-]+@[\w-]+\.[\w.-]+ | "[^"]{1,200}" | (?<!\w)'[^']{1,200}'(?!\w)
    | `[^`]{1,200}` | (?:[\w.~-]*/)+[\w.-]+
    | (?<![\w-])(?=[\w-]*[^\W\d])(?=[\w-]*\d)\w[\w-]*""",
    re.VERBOSE,
)
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
_SIGN = re.compile(r"[+#<>=!$€£%&*^|]+")
_YEAR = re.compile(r"(?:19|20)\d\d")
_WORD = re.compile(r"[^\W\d_]+")
_LITTLE = frozenset(
    _WORD.findall(
        "a about again all also an and any are as at be by can current currently details did do "
        "does find for from get give has have how i in info information is it latest look lookup "
        "me my now of on one or please search show status tell that the their there this to up "
        "want was what when where which who will with you your"
    )
)


def _call_of(tool_name: str, args: Mapping[str, Any]) -> Call:
    free = {
        name: value for name, value in args.items() if name in FREE_TEXT and isinstance(value, str)
    }
    if sum(map(len, free.values())) > _MAX_TEXT:
        free = {}
    text = " ".join(free.values())
    rest = _SUBJECT.sub(" ", text)
    told = {each.strip("\"'`") for each in (*_SUBJECT.findall(text), *_long(rest))}
    exact = {name: value for name, value in args.items() if name not in {*free, "_ui_message"}}
    named = [_as_subject(value) for value in exact.values()]
    subjects = {each for each in told if not _is_qualifier(each)}
    return Call(
        tool_name,
        loop_signature(tool_name, dict(args)),
        loop_signature(tool_name, exact),
        all(each is not None for each in named),
        tuple(sorted(subjects | {each for each in named if each is not None})),
        tuple(sorted({*_NUMBER.findall(rest), *_SIGN.findall(rest), *told} - subjects)),
        tuple(word for each in _WORD.findall(rest) if (word := each.casefold()) not in _LITTLE),
    )


def _long(text: str) -> list[str]:
    return [each for each in _NUMBER.findall(text) if len(each) >= 4]


def _is_qualifier(token: str) -> bool:
    """Whether it says which part of something is meant, such as 2023 or Q1, not which thing."""
    if not re.fullmatch(r"[\w.,-]+", token) or not re.search(r"\d", token):
        return False
    return len(token) < 4 or (len(token) <= 6 and _YEAR.search(token) is not None)


def _as_subject(value: Any) -> str | None:
    if not isinstance(value, str | int) or isinstance(value, bool):
        return None
    text = str(value)
    found = len(text) <= 200 and (_SUBJECT.fullmatch(text) or _long(text) == [text])
    told = text.strip("\"'`")
    return told if found and not _is_qualifier(told) else None


def _call_from(value: Mapping[str, Any]) -> Call:
    lists = {name: tuple(value[name]) for name in ("subjects", "numbers", "words")}
    return Call(**{**value, **lists})


def _are_alike(a: Call, b: Call) -> bool:
    """Whether two calls ask the same in other words."""
    if a.signature == b.signature:
        return True
    if a.subjects != b.subjects or a.numbers != b.numbers:
        return False
    if a.tool != b.tool:
        return bool(a.subjects) and a.is_bare and b.is_bare
    if a.exact != b.exact:
        return False
    return bool(a.subjects) or _say_the_same(a.words, b.words)


def _say_the_same(a: Sequence[str], b: Sequence[str]) -> bool:
    """Whether each word of either has one like it in the other. No words say nothing."""
    if not a or not b:
        return False
    return all(any(fuzz.ratio(x, y) >= _ALIKE for y in b) for x in a) and all(
        any(fuzz.ratio(x, y) >= _ALIKE for x in a) for y in b
    )


def _show_the_same(seen: Sequence[Seen]) -> bool:
    return all(a.observation == b.observation for a, b in pairwise(seen))


def _plain(observation: str) -> str:
    # The address of an object is another each time and tells nothing.
    return _ADDRESS.sub("0x…", observation.strip())


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def _shortened(text: str) -> str:
    line = " ".join(text[: 10 * MAX_SHOWN].split())
    return line if len(line) <= MAX_SHOWN else line[: MAX_SHOWN - 1].rstrip() + "…"
