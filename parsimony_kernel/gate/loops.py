"""Loop detection: judge calls together with their results.

A call that would only repeat a known result is a loop; a call whose result changes is not, however
often it is made. Identifiers are compared exactly and only the words around them fuzzily, so three
orders looked up in the same words stay three questions.

``Repetition`` is immutable: ``after`` returns a new one, ``before`` only checks, and ``to_json``
saves it completely.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from rapidfuzz import fuzz

from parsimony_kernel.core.causes import LOOP
from parsimony_kernel.core.chat import loop_signature
from parsimony_kernel.core.kinds import Failure
from parsimony_kernel.gate.groundedness import PATTERNS, TABLE
from parsimony_kernel.gate.stages import Attempt, Stage

# Calls kept: two rounds of the longest cycle, and two more for a streak that began before it.
KEPT = 8
LONGEST_CYCLE = 3
EQUAL_OBSERVATIONS = 3
MAX_SHOWN = 400
_MAX_TEXT = 1_000
_ALIKE = 90.0

# Names of free-text arguments. All other arguments are compared exactly.
FREE_TEXT = frozenset(TABLE["loops"]["free_text"].split())


class Call(NamedTuple):
    """Comparable form of a call, with its result; lists are sorted.

    Attributes:
        tool: name of the tool.
        signature: digest of the whole call.
        exact: digest of the arguments that are not free text, and of numbers and signs in it.
        is_bare: whether ``exact`` covers nothing but identifiers.
        subjects: the identifiers.
        words: the words of the free text.
        observation: digest of the result.
        shown: beginning of the result.
        is_late: whether it timed out, so that a repeat would redo what it had done by then.
    """

    tool: str
    signature: str
    exact: str
    is_bare: bool
    subjects: list[str]
    words: list[str]
    observation: str = ""
    shown: str = ""
    is_late: bool = False


@dataclass(frozen=True)
class Repetition:
    """The last calls of a run with their results, oldest first."""

    seen: tuple[Call, ...] = ()

    def after(
        self,
        tool_name: str,
        args: Mapping[str, Any],
        observation: str,
        *,
        is_late: bool = False,
        read: str | None = None,
    ) -> "Repetition":
        """Add a completed call.

        Args:
            tool_name: the tool.
            args: its arguments.
            observation: its result, without secrets.
            is_late: whether it timed out.
            read: the part of the observation that the model read, if not all.

        Returns:
            The last ``KEPT`` calls, including this one.
        """
        # Memory addresses differ each time and carry no information.
        whole = PATTERNS["memory_address"].sub("0x…", observation.strip())
        told = whole if read is None else PATTERNS["memory_address"].sub("0x…", read.strip())
        digest = hashlib.sha256(whole.encode("utf-8", "surrogatepass")).hexdigest()[:32]
        line = " ".join(told[: 10 * MAX_SHOWN].split())
        shown = line if len(line) <= MAX_SHOWN else line[: MAX_SHOWN - 1].rstrip() + "…"
        call = _call_of(tool_name, args)
        made = call._replace(observation=digest, shown=shown, is_late=is_late)
        return Repetition((*self.seen, made)[-KEPT:])

    @property
    def is_news(self) -> bool:
        """Whether the newest call gave a result that the same call had not given recently."""
        seen_results = [(each.signature, each.observation) for each in self.seen]
        return bool(seen_results) and seen_results[-1] not in seen_results[:-1]

    def before(self, tool_name: str, args: Mapping[str, Any]) -> Failure | None:
        """Return the refusal of a call that would continue a loop, quoting the known result."""
        call = _call_of(tool_name, args)
        for each in self.seen:
            if each.is_late and each.signature == call.signature:
                return _refusal("late", tool_name, each.shown)
        for length in range(1, LONGEST_CYCLE + 1):
            if first := self._begins_again(call, length):
                return _refusal("repeat" if length == 1 else "cycle", tool_name, first.shown)
        last = self.seen[-EQUAL_OBSERVATIONS:]
        is_same = len(last) == EQUAL_OBSERVATIONS and len({each.observation for each in last}) == 1
        is_new_tool = call.tool not in {each.tool for each in last}
        if is_same and not is_new_tool and all(_are_alike(each, call) for each in last):
            return _refusal("no_new_information", tool_name, last[-1].shown)
        return None

    def _begins_again(self, call: Call, length: int) -> Call | None:
        """Return the call that ``call`` repeats if it would begin a third equal round.

        A round has ``length`` calls.
        """
        first, second = self.seen[-2 * length : -length], self.seen[-length:]
        are_equal = _are_the_same if length == 1 else _are_alike
        # A single call whose answer alternates is polling, not a cycle.
        is_round = length == 1 or len({each.signature for each in second}) > 1
        if len(first) < length or not is_round or not are_equal(second[0], call):
            return None
        rounds = zip(first, second, strict=True)
        is_again = all(a.observation == b.observation and are_equal(a, b) for a, b in rounds)
        return second[0] if is_again else None

    def to_json(self) -> list[dict[str, Any]]:
        """Return JSON-compatible values; see ``from_json``."""
        return [each._asdict() for each in self.seen]

    @classmethod
    def from_json(cls, value: Sequence[Mapping[str, Any]]) -> "Repetition":
        """Restore the value of ``to_json``; calls in the format of another release are dropped."""
        return cls(tuple(Call(**each) for each in value if each.keys() == {*Call._fields}))


def not_repeating(current: Callable[[], Repetition]) -> Stage:
    """Build a stage that refuses calls that continue a loop.

    ``current`` returns the run's calls so far. Tools that end or suspend the run pass, and so do
    approved actions.
    """

    def stage(attempt: Attempt) -> Failure | None:
        if attempt.tools[attempt.action].terminal or attempt.approved is not None:
            return None
        return current().before(attempt.action, attempt.inputs)

    return stage


def _refusal(kind: str, tool: str, known: str) -> Failure:
    """Build the refusal of a call, quoting the ``known`` result."""
    count, reason = TABLE["loops"]["reasons"][kind]
    details = {"loop": kind, "count": count, "already_known": known}
    return LOOP.failure(
        f"Skipped {tool}: {reason}. Known result: {known or 'no output'}. "
        "Use it, or do something else.",
        tool_name=tool,
        repeat_count=count,
        envelope={"reason": reason, "details": details},
    )


_SAYS_LITTLE = frozenset(TABLE["loops"]["little"].split())


def _call_of(tool_name: str, args: Mapping[str, Any]) -> Call:
    free = {k: v for k, v in args.items() if k in FREE_TEXT and isinstance(v, str)}
    if sum(map(len, free.values())) > _MAX_TEXT:
        free = {}
    subject, text = PATTERNS["subject"], " ".join(free.values())
    seen_results = {each.strip("\"'`") for each in subject.findall(text)}
    parts = {each for each in seen_results if PATTERNS["part"].fullmatch(each)}
    rest = subject.sub(" ", text)
    words = {word.casefold() for word in PATTERNS["word"].findall(rest)}
    others = {name: value for name, value in args.items() if name not in {*free, "_ui_message"}}
    named = {each for each in map(str, others.values()) if subject.fullmatch(each[:200])}
    marks = sorted({*PATTERNS["mark"].findall(rest), *parts})
    return Call(
        tool_name,
        loop_signature(tool_name, dict(args)),
        loop_signature(tool_name, {"others": others, "marks": marks}),
        len(named) == len(others) and not marks,
        sorted(named | seen_results - parts),
        sorted(words - _SAYS_LITTLE),
    )


def _are_the_same(a: Call, b: Call) -> bool:
    return a.signature == b.signature


def _are_alike(a: Call, b: Call) -> bool:
    """Whether two calls ask the same in other words, or ask different tools about one subject."""
    if a.tool != b.tool:
        return bool(a.subjects) and a.subjects == b.subjects and a.is_bare and b.is_bare
    is_same = (a.subjects, a.exact) == (b.subjects, b.exact)
    has_words = bool(a.subjects) or _say_the_same(a.words, b.words)
    return _are_the_same(a, b) or (is_same and has_words)


def _say_the_same(a: Sequence[str], b: Sequence[str]) -> bool:
    """Whether each word of either list has a similar one in the other; false for empty lists."""
    return bool(a and b) and all(
        max(fuzz.ratio(word, other) for other in others) >= _ALIKE
        for words, others in ((a, b), (b, a))
        for word in words
    )
