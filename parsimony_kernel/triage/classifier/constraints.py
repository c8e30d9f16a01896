"""Whether what an agent did or said breaks a constraint that was put in words.

A constraint is a sentence ("never call `delete_order`", "answer in at most 50 words", "use only
search and fetch"), a literal that must not occur ("DROP TABLE"), or a function of a step that says
whether the step breaks it. A sentence that cannot be read this way is never broken.
"""

import json
import re
from collections.abc import Callable, Iterable, Sequence

from parsimony_kernel.gate.prose import NEGATED, sentences
from parsimony_kernel.triage.taxonomy import Step

Constraint = str | Callable[[Step], bool]

_FORBIDS = re.compile(
    r"\b(?:never|do not|don[’']t|must not|mustn[’']t|may not|should not|shall not|cannot|can[’']t"
    r"|avoid|without|no|forbidden to|not allowed to|prohibited to|not)\b(?: ever)?\s+(?P<what>.+)",
    re.IGNORECASE,
)
_ONLY = re.compile(
    r"\b(?:use|call|using|calling) only\b(?P<a>.+)|\bonly (?:use|call)\b(?P<b>.+)", re.IGNORECASE
)
_AT_MOST = re.compile(
    r"\b(?:at most|no more than|not more than|maximum(?: of)?|max|up to|under|fewer than|less than)"
    r" (?P<n>\d+) (?P<of>words?|characters?|(?:tool )?calls?|steps?)\b",
    re.IGNORECASE,
)
_STRICT = re.compile(r"\b(?:under|fewer than|less than)\b", re.IGNORECASE)
_LITERAL = re.compile(r"`([^`]+)`|\"([^\"]+)\"|(?<!\w)'([^']+)'(?!\w)")
_IDENTIFIER = re.compile(r"\b[A-Za-z]+(?:[_./-][A-Za-z0-9]+)+\b|\b[A-Z]{2,}(?: [A-Z]{2,})*\b")
_WORD = re.compile(r"[A-Za-z]+")
# Verbs that say nothing by themselves: what follows them is what is forbidden.
_PLAIN_VERBS = frozenset(
    {
        *("use", "using", "call", "mention", "say", "include", "contain", "output", "write"),
        *("reveal", "import", "run", "invoke", "execute", "tool", "tools", "function", "word"),
        *("the", "a", "an", "any", "of", "to", "in", "on", "with", "for", "and", "or"),
    }
)


def broken(constraints: Iterable[Constraint], steps: Sequence[Step]) -> Constraint | None:
    """The first of ``constraints`` that ``steps`` break."""
    return next((each for each in constraints if _breaks(each, steps)), None)


def _breaks(constraint: Constraint, steps: Sequence[Step]) -> bool:
    if callable(constraint):
        return any(constraint(step) for step in steps)
    if steps and _is_named_in_error(constraint, steps[-1].error or ""):
        return True
    if limit := _AT_MOST.search(constraint):
        return _exceeds(limit, steps)
    if only := _ONLY.search(constraint):
        allowed = {word.casefold() for word in re.findall(r"[\w.-]+", only["a"] or only["b"])}
        return any(
            step.tool_called and step.tool_called.casefold() not in allowed for step in steps
        )
    if forbidden := _FORBIDS.search(constraint):
        return any(_does(forbidden["what"], step) for step in steps)
    return any(_holds(constraint, _said(step)) for step in steps)


def _is_named_in_error(constraint: str, error: str) -> bool:
    told = error.casefold()
    return constraint.casefold().strip(" .") in told and bool(constraint.strip(" ."))


def _exceeds(limit: re.Match[str], steps: Sequence[Step]) -> bool:
    bound = int(limit["n"]) - bool(_STRICT.search(limit[0]))
    unit = limit["of"].casefold()
    if unit.startswith("step"):
        return len(steps) > bound
    if "call" in unit:
        return sum(1 for step in steps if step.tool_called) > bound
    said = next((step.llm_output for step in reversed(steps) if step.llm_output), "")
    return (len(said) if unit.startswith("char") else len(said.split())) > bound


def _does(what: str, step: Step) -> bool:
    terms = [next(filter(None, groups)) for groups in _LITERAL.findall(what)]
    terms = terms or _IDENTIFIER.findall(what)
    if terms:
        return any(_holds(term, _said(step)) for term in terms)
    words = [_stem(word) for word in _WORD.findall(re.split(r"[.;,(]", what)[0])]
    telling = [word for word in words if word not in _PLAIN_VERBS]
    if not telling:
        return False
    if words[0] in _PLAIN_VERBS:
        return any(_holds(telling[0], text) for text in _said(step).splitlines())
    verb, *rest = telling
    called = {_stem(word) for word in _WORD.findall((step.tool_called or "").replace("_", " "))}
    given = {_stem(word) for word in _WORD.findall(_input(step))}
    return verb in called and (not rest or bool(set(rest) & (called | given)))


def _holds(term: str, text: str) -> bool:
    bounded = rf"(?<![A-Za-z0-9_]){re.escape(term.strip())}(?![A-Za-z0-9_])"
    return bool(term.strip()) and re.search(bounded, text, re.IGNORECASE) is not None


def _said(step: Step) -> str:
    """What the agent called, gave and asserted; where it says that it will not, it asserts not."""
    asserted = (part for part in sentences(step.llm_output or "") if not NEGATED.search(part))
    return "\n".join((step.tool_called or "", _input(step), *asserted))


def _input(step: Step) -> str:
    given = step.tool_input
    if given is None or isinstance(given, str):
        return given or ""
    return json.dumps(given, ensure_ascii=False, default=str)


def _stem(word: str) -> str:
    lower = word.casefold()
    return lower[:-1] if len(lower) > 3 and lower.endswith("s") else lower
