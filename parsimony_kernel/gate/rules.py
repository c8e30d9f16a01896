"""Rules in words that an action is held to before it runs.

A rule is one of a task's pinned constraints. It is enforced where its sentence can be judged for
sure: a limit ("at most 5 tool calls", "answer in at most 50 words"), a list of tools ("use only
search and fetch"), a thing that is not to be used ("never import os", "do not call
`delete_order`"), or a text that must not occur ("DROP TABLE"). Everything else is a reminder: what
holds only sometimes ("unless", "for", "in"), and what is not to be changed, since code may name it
and only read it. A refusal that is wrong stops work that nobody forbade.

No boundary against an attack: code has many names for one thing. What code reaches is screened.
"""

import re
from collections.abc import Callable, Collection, Iterable, Sequence

from parsimony_kernel.agent.failure.causes import RULE_BROKEN
from parsimony_kernel.agent.failure.kinds import Action, Failure
from parsimony_kernel.gate.prose import sentences
from parsimony_kernel.gate.refusal import RefusalError
from parsimony_kernel.gate.stages import Attempt, Stage
from parsimony_kernel.gate.written import without_comments
from parsimony_kernel.triage.classifier.constraints import (
    Limit,
    asserted,
    given,
    holds,
    limit_in,
    telling,
    terms_in,
    words_in,
)
from parsimony_kernel.triage.taxonomy import Step

Breach = Callable[[Step, Sequence[Step]], bool]

_FORBIDS = re.compile(
    r"\W*(?:please |you |the agent )?(?:(?P<thing>no|avoid)|never|do not|don[’']t|must not"
    r"|mustn[’']t|may not|should not|shall not|cannot|can[’']t)(?: ever)?\s+(?P<what>.+)",
    re.IGNORECASE | re.DOTALL,
)
_ONLY = re.compile(
    r"\W*(?:please |you may )?(?:(?:use|call) only|only (?:use|call))\s+(?P<what>.+)",
    re.IGNORECASE | re.DOTALL,
)
_SOMETIMES = re.compile(
    r"\b(?:unless|if|when(?:ever)?|while|before|after|until|till|except|without|again|twice|once"
    r"|only|more|than|other|else|same|both|together|whose|who|which|that|per|each|every)\b",
    re.IGNORECASE,
)
_NARROWS = re.compile(
    r"\b(?:for|in|on|from|to|with|within|inside|as|at|by|of|into|about)\b", re.IGNORECASE
)
_TURNS = re.compile(r",?\s+(?:but|instead|rather)\b|,\s*(?:use|call|prefer|take|try)\b", re.I)
_OF_ANSWER = re.compile(
    r"\b(?:answers?|repl(?:y|ies)|respond|responses?|summar\w+)\b|^\W*(?:at most|under|max)",
    re.IGNORECASE,
)
_AND = re.compile(r",|\b(?:and|or|nor)\b", re.IGNORECASE)
_ARTICLE = re.compile(r"\b(?:the|tools?|functions?)\b", re.IGNORECASE)
# Doing this with a thing is naming it.
_USING = frozenset(
    {
        *("use", "using", "call", "calling", "run", "running", "import", "importing"),
        *("invoke", "execute", "load", "read", "open", "query"),
    }
)
_SAYING = frozenset({"say", "mention", "reveal", "disclose", "tell", "claim", "promise", "include"})
# The errors of calls that began to run.
_RAN = frozenset({RefusalError.action_error, RefusalError.action_timeout})


def within_rules(rules: Iterable[str], made: Callable[[], Iterable[Step]] = tuple) -> Stage:
    """A stage that refuses what breaks one of ``rules``, naming it.

    ``made`` gives the steps of the run so far, as ``from_messages`` makes them. A tool that ends or
    suspends the run passes, save for what a summary says.
    """
    pinned = tuple(rules)

    def stage(attempt: Attempt) -> Failure | None:
        step = _proposed(attempt)
        if step is None:
            return None
        held = [(rule, each) for rule in pinned if (each := breach_of(rule, attempt.tools))]
        done = [each for each in made() if _has_run(each, attempt)] if held else []
        broken = next((rule for rule, breaks in held if breaks(step, done)), None)
        return None if broken is None else _refusal(attempt, broken)

    return stage


def breach_of(rule: str, tools: Collection[str]) -> Breach | None:
    """What tells whether a step breaks ``rule``; ``None`` when the rule is a reminder.

    It is given the step and those that ran before it. ``tools`` are the names that can be
    called.
    """
    found = [breach for each in sentences(rule) if (breach := _breach(each.strip(), tools))]
    return (lambda step, made: any(breach(step, made) for breach in found)) if found else None


def _breach(sentence: str, tools: Collection[str]) -> Breach | None:
    if limit := limit_in(sentence):
        return _limit(sentence, limit, tools)
    if only := _ONLY.match(sentence):
        return _only(only["what"], tools)
    if forbidden := _FORBIDS.match(sentence):
        return _forbidden(forbidden, tools)
    literal = sentence.strip("`\"'")
    return _occurs([literal]) if terms_in(sentence) == [literal] else None


def _limit(sentence: str, limit: Limit, tools: Collection[str]) -> Breach | None:
    if _SOMETIMES.search(sentence.replace(limit.phrase, "")):
        return None
    if limit.unit in ("word", "character"):
        if not _OF_ANSWER.search(sentence):
            return None
        return lambda step, made: _size(step.llm_output or "", limit.unit) > limit.bound
    named = {name for name in tools if holds(name, sentence)}

    def counts(step: Step) -> bool:
        return step.tool_called is not None and (not named or step.tool_called in named)

    return lambda step, made: counts(step) and sum(map(counts, made)) >= limit.bound


def _size(said: str, unit: str) -> int:
    return len(said) if unit == "character" else len(said.split())


def _only(what: str, tools: Collection[str]) -> Breach | None:
    allowed = {_ARTICLE.sub("", each).strip(" .`\"'") for each in _AND.split(what)} - {""}
    if not allowed or not allowed <= set(tools):
        return None
    return lambda step, made: step.tool_called is not None and step.tool_called not in allowed


def _forbidden(found: re.Match[str], tools: Collection[str]) -> Breach | None:
    what = _TURNS.split(found["what"])[0]
    terms = terms_in(what)
    if _SOMETIMES.search(what) or _NARROWS.search(what.rpartition(terms[-1])[2] if terms else what):
        return None
    is_named_first = bool(terms) and what.lstrip("`\"'").startswith(terms[0])
    verb, _, rest = ("", "", what) if found["thing"] or is_named_first else what.partition(" ")
    verb = verb.casefold().strip(".!")
    things = terms or _single_words(rest)
    if verb in _SAYING:
        return _says(things) if things else None
    if not verb or verb in _USING:
        things = [*things, *(name for name in tools if holds(name, rest))]
        return _calls(things) if things else None
    deeds = {name for name in tools if set(words_in(verb)) & _words_of(name)}
    return _does(deeds, terms, telling(words_in(rest))) if deeds else None


def _single_words(text: str) -> list[str]:
    """The things in a list of them; none when one takes more than a word."""
    each = [telling(words_in(part)) for part in _AND.split(text)]
    return [words[0] for words in each] if all(len(words) == 1 for words in each) else []


def _calls(things: Sequence[str]) -> Breach:
    return lambda step, made: _names_one(things, f"{step.tool_called}\n{given(step.tool_input)}")


def _says(things: Sequence[str]) -> Breach:
    return lambda step, made: _names_one(things, asserted(step.llm_output or ""))


def _occurs(things: Sequence[str]) -> Breach:
    calls, says = _calls(things), _says(things)
    return lambda step, made: calls(step, made) or says(step, made)


def _names_one(things: Sequence[str], text: str) -> bool:
    return any(holds(thing, text) or holds(f"{thing}s", text) for thing in things)


def _does(deeds: Collection[str], terms: Sequence[str], words: Sequence[str]) -> Breach:
    """Of tools whose names tell what they do, and what it is done to."""

    def does(step: Step, made: Sequence[Step]) -> bool:
        called = step.tool_called
        if called is None or called not in deeds:
            return False
        taken = f"{called}\n{given(step.tool_input)}"
        if terms:
            return _names_one(terms, taken)
        is_told = bool(_words_of(called) & set(words))
        return not words or is_told or set(words) <= set(words_in(taken))

    return does


def _words_of(name: str) -> set[str]:
    return set(words_in(name.replace("_", " ")))


def _proposed(attempt: Attempt) -> Step | None:
    """The action as a step; ``None`` when it ends or suspends the run and no summary with it."""
    tool = attempt.tools[attempt.action]
    if tool.terminal:
        summary = attempt.inputs.get("summary")
        return Step(0, attempt.action, llm_output=summary) if isinstance(summary, str) else None
    inputs = attempt.inputs
    if tool.tool_type == "code":  # the rest of it, and its comments, are words about the code
        inputs = {"code": without_comments(str(inputs.get("code", "")))}
    return Step(0, attempt.action, tool_called=attempt.action, tool_input=inputs)


def _has_run(step: Step, attempt: Attempt) -> bool:
    tool = attempt.tools.get(step.tool_called or "")
    is_work = tool is not None and not tool.terminal
    return is_work and (step.tool_output is not None or step.metadata.get("refusal") in _RAN)


def _refusal(attempt: Attempt, rule: str) -> Failure:
    return RULE_BROKEN.failure(
        f"{attempt.action} breaks a rule of this task: {rule!r}. Nothing was run. Keep to the "
        "rule, or end the run and say what it leaves undone.",
        # The model may send another action; one that breaks a rule again goes to a person.
        action=Action.retry,
        tool_name=attempt.action,
        envelope={"reason": f"it breaks the rule {rule!r}", "details": {"rule": rule}},
    )
