"""Constraints in words, and whether an agent's steps break them.

A constraint is a sentence that forbids quoted terms ("never call `delete_order`") or limits the
answer ("at most 50 words"), or a function that says whether a step breaks it. Any other sentence is
only a reminder and can't be broken.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from parsimony_kernel.core.kinds import Step

Constraint = str | Callable[[Step], bool]

NEGATED = re.compile(
    r"\b(?:not|no|never|nothing|none|neither|nor|without|cannot|missing|lacks?|unknown|instead"
    r"|nicht|kein\w*|nichts|ohne|nie|fehl\w*)\b|n[’']t\b",
    re.IGNORECASE,
)
_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+|;\s")
_FORBIDS = re.compile(
    r"\b(?:never|not|don[’']t|mustn[’']t|cannot|can[’']t|avoid|without|no)\b(?P<what>.+)",
    re.IGNORECASE,
)
_AT_MOST = re.compile(
    r"\b(?:at most|no more than|not more than|maximum(?: of)?|max|up to) (?P<n>\d+) words?\b",
    re.IGNORECASE,
)
_LITERAL = re.compile(r"`([^`]+)`|\"([^\"]+)\"|(?<!\w)'([^']+)'(?!\w)")


def sentences(text: str) -> Iterator[str]:
    """Split ``text`` into sentences; a line break ends a sentence, too."""
    return (part for part in _SENTENCE.split(text) if part.strip())


def holds(term: str, text: str) -> bool:
    """Whether ``text`` contains ``term`` as a whole word; case is ignored."""
    bounded = rf"(?<![A-Za-z0-9_]){re.escape(term.strip())}(?![A-Za-z0-9_])"
    return bool(term.strip()) and re.search(bounded, text, re.IGNORECASE) is not None


def given(tool_input: Any) -> str:
    """Render a call's arguments as text: names and values, unquoted."""
    match tool_input:
        case None:
            return ""
        case Mapping():
            return "\n".join(f"{name}: {given(value)}" for name, value in tool_input.items())
        case list() | tuple():
            return "\n".join(map(given, tool_input))
        case _:
            return str(tool_input)


def breaks(constraint: Constraint, steps: Sequence[Step]) -> bool:
    """Whether ``steps`` break a constraint."""
    if callable(constraint):
        return any(constraint(step) for step in steps)
    if limit := _AT_MOST.search(constraint):
        answer = next((step.llm_output for step in reversed(steps) if step.llm_output), "")
        return len(answer.split()) > int(limit["n"])
    forbidden = _FORBIDS.search(constraint)
    quoted = _LITERAL.findall(forbidden["what"]) if forbidden else []
    terms = [next(filter(None, groups)) for groups in quoted]
    return any(holds(term, _said(step)) for term in terms for step in steps)


def _said(step: Step) -> str:
    """Render a step's tool, arguments and assertions; negated sentences are no assertions."""
    asserted = (each for each in sentences(step.llm_output or "") if not NEGATED.search(each))
    return "\n".join((step.tool_called or "", given(step.tool_input), *asserted))


def changed_an_identifier(steps: Sequence[Step], summary: str, goal: Mapping[str, str]) -> bool:
    """Whether the run worked on another identifier than those of ``goal``.

    True if an argument of that name never had the value, or if the value is in no call, in no text
    of the model and not in its summary.
    """
    calls = [step.tool_input for step in steps if isinstance(step.tool_input, dict)]
    said = [text for step in steps for text in (given(step.tool_input), step.llm_output or "")]
    text = "\n".join((summary, *said))
    for name, wanted in goal.items():
        values = [str(each[name]) for each in calls if name in each]
        if (values and wanted not in values) or wanted not in text:
            return True
    return False
