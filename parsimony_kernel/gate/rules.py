"""Rules in words that an action is held to before it runs.

A rule is one of a task's pinned constraints. It is enforced where its sentence can be judged for
sure: a limit ("at most 5 tool calls", "answer in at most 50 words"), a list of tools ("use only
search and fetch"), a thing that is not to be used ("never import os", "do not call
`delete_order`"), or a text that must not occur ("DROP TABLE"). Everything else is a reminder: what
holds only sometimes ("unless", "for", "in"), what a plain word names ("no index", "no totals"),
and what is not to be changed, since code may name it and only read it. A refusal that is wrong
stops work that nobody forbade.

No boundary against an attack: code has many names for one thing. What code reaches is screened.
"""

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from enum import Enum

from parsimony_kernel.analysis.read import read
from parsimony_kernel.core.causes import RULE_BROKEN
from parsimony_kernel.core.kinds import Action, Failure
from parsimony_kernel.core.refusals import RefusalError
from parsimony_kernel.core.taxonomy import Step
from parsimony_kernel.gate.contract import is_work
from parsimony_kernel.gate.prose import FILE
from parsimony_kernel.gate.stages import Attempt, Stage
from parsimony_kernel.triage.constraints import (
    Limit,
    asserted,
    given,
    holds,
    limit_in,
    sentences,
    telling,
    terms_in,
    words_in,
)

Breach = Callable[[Step, Sequence[Step]], bool]

_COMMENT = re.compile(
    r"(\"\"\".*?\"\"\"|'''.*?'''|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*')|#[^\n]*", re.DOTALL
)
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
_TURNS = re.compile(
    r",?\s+(?:but|instead|rather|because|since|so)\b|,\s*(?:use|call|prefer|take|try|it|they|this"
    r"|that|there)\b|:\s|\s\(",
    re.IGNORECASE,
)
_AND = re.compile(r",|\b(?:and|or|nor)\b", re.IGNORECASE)
_ARTICLE = re.compile(r"\b(?:the|tools?|functions?)\b", re.IGNORECASE)
_WORD = re.compile(r"\w[\w.-]*")
_FILES = re.compile(r"(?:any |the )?files? (?:from|in|of|under)\s+", re.IGNORECASE)
_USE_OF = re.compile(
    r"(?:the |any )?(?P<verb>use|using|usage|calls?|calling|running|executing|imports?|importing) "
    r"(?:(?:of|to) )?",
    re.IGNORECASE,
)
_NAME = re.compile(r"[A-Za-z_]\w*(?:\.\w+)*")
# Words in capitals, or with hyphens, that name nothing unless they are quoted.
_VAGUE = re.compile(r"[A-Z]+|[A-Za-z0-9-]+")
_LINKS = frozenset(
    {
        *("a", "an", "the", "any", "and", "or", "nor", "ever", "here", "please", "anymore"),
        *("tool", "tools", "function", "functions", "method", "methods", "library", "libraries"),
        *("package", "packages", "module", "modules", "variable", "variables", "file", "files"),
        *("word", "words", "name", "names", "folder", "table", "statement", "statements"),
    }
)
# Words that are of no use but as names in code.
_CODE_WORDS = frozenset(
    {
        *("eval", "exec", "getattr", "setattr", "delattr", "hasattr", "globals", "locals"),
        *("os", "sys", "subprocess", "shutil", "pathlib", "importlib", "ctypes", "asyncio"),
        *("multiprocessing", "sqlite3", "urllib", "urllib3", "httpx", "aiohttp", "boto3"),
        *("pandas", "numpy", "polars", "scipy", "sklearn", "statsmodels", "matplotlib", "seaborn"),
        *("altair", "plotly", "bokeh", "duckdb", "sqlalchemy", "pyarrow", "pyspark", "dask"),
        *("torch", "tensorflow", "keras", "xgboost", "lightgbm", "catboost", "networkx"),
        *("geopandas", "xarray", "numba", "sympy", "nltk", "spacy", "gensim", "openpyxl"),
    }
)
_CALLING = frozenset(
    {"call", "calls", "calling", "run", "running", "invoke", "execute", "executing"}
)
_IMPORTING = frozenset({"import", "imports", "importing"})
_USING = frozenset({"", "use", "using", "usage", "load", "read", "open", "query"})
_SAYING = frozenset({"say", "mention", "reveal", "disclose", "tell", "claim", "promise", "include"})
_ANYTHING = frozenset({"anything", "everything", "something", "thing"})

# What may stand beside a limit of the answer, of the calls, of the steps: more is of a part of it.
_ANSWER = frozenset(
    {
        *("answer", "answers", "reply", "replies", "respond", "response", "responses"),
        *("summary", "summaries", "summarize", "summarise"),
    }
)
_OF_ANSWER = _ANSWER | {
    *("a", "the", "your", "final", "whole", "please", "you", "must", "should", "shall", "may"),
    *("in", "with", "within", "of", "to", "is", "be", "has", "have", "are", "keep", "limit"),
    *("write", "give", "make", "use", "long", "total", "it"),
}
_OF_STEPS = frozenset(
    {
        *("use", "make", "take", "please", "you", "may", "must", "should", "can", "the", "in"),
        *("total", "altogether", "overall"),
    }
)
_OF_CALLS = _OF_STEPS | {
    *("call", "do", "run", "be", "it", "of", "to", "tool", "with", "within", "finish", "done"),
    *("solve", "task", "this", "work", "need"),
}
# The errors of calls that began to run.
_RAN = frozenset({RefusalError.action_error, RefusalError.action_timeout})


def within_rules(rules: Iterable[str], made: Callable[[], Iterable[Step]] = tuple) -> Stage:
    """A stage that refuses what breaks one of ``rules``, naming it.

    ``made`` gives the steps of the run so far, as ``from_messages`` makes them. A plan passes, and
    a tool that ends or suspends the run, save for what a summary says.
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
    said = [each.strip() for each in sentences(rule)]
    found = [breach for each in said if (breach := _breach(each, tools))]
    if len(said) == 1 and terms_in(said[0]) == [literal := said[0].strip("`\"'")]:
        found = [_occurs(literal)]
    return (lambda step, made: any(breach(step, made) for breach in found)) if found else None


def _breach(sentence: str, tools: Collection[str]) -> Breach | None:
    if limit := limit_in(sentence):
        return _limit(sentence.replace(limit.phrase, " "), limit, tools)
    if only := _ONLY.match(sentence):
        return _only(only["what"], tools)
    forbidden = _FORBIDS.match(sentence)
    return None if forbidden is None else _forbidden(forbidden, tools)


def _limit(beside: str, limit: Limit, tools: Collection[str]) -> Breach | None:
    """``beside`` is what the sentence says apart from the limit."""
    words = set(re.findall(r"\w+", beside.casefold()))
    if limit.unit in ("word", "character"):
        if not words <= _OF_ANSWER or (words and words.isdisjoint(_ANSWER)):
            return None
        return lambda step, made: _size(step.llm_output or "", limit.unit) > limit.bound
    named = {name for name in tools if holds(name, beside)}
    known = _OF_STEPS if limit.unit == "step" else _OF_CALLS
    if not words - {name.casefold() for name in named} <= known:
        return None

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
    if _SOMETIMES.search(what):
        return None
    verb, rest = _verb_and_rest(what, is_thing=bool(found["thing"]))
    if verb in _SAYING:
        said = _things(rest, ())
        return _says(said) if said else None
    if verb in _IMPORTING:
        imported = _things(rest, None)
        return _uses(imported, _Use.imported) if imported else None
    is_call = verb in _CALLING
    if is_call or verb in _USING:
        used = _things(_FILES.sub("", rest, count=1), {*map(str.casefold, tools), *_CODE_WORDS})
        if used:
            return _uses(used, _Use.called if is_call else _Use.named)
    terms = terms_in(rest)
    if _NARROWS.search(rest.rpartition(terms[-1])[2] if terms else rest):
        return None
    words = set(telling(words_in(rest))) - _ANYTHING
    if is_call or verb in _USING:
        told = {*words_in(verb), *words}
        deeds = {name for name in tools if words and _words_of(name) == told}
    else:
        deeds = {name for name in tools if set(words_in(verb)) & _words_of(name)}
    return _does(deeds, terms, words) if deeds else None


def _verb_and_rest(what: str, *, is_thing: bool) -> tuple[str, str]:
    """What is not to be done, and to what; no verb where only a thing is named."""
    terms = terms_in(what)
    if is_thing and (use := _USE_OF.match(what)):
        return use["verb"].casefold(), what[use.end() :]
    if is_thing or (terms and what.lstrip("`\"'").startswith(terms[0])):
        return "", what
    verb, _, rest = what.partition(" ")
    return verb.casefold().strip(".!"), rest


def _things(text: str, known: Collection[str] | None) -> list[str]:
    """The things in a list of them; none when it says anything else.

    Of words that are no identifiers and not quoted, the ``known`` ones are things; all when
    ``None``.
    """
    things = terms_in(text)
    is_quoted = any(f"{mark}{things[0]}" in text for mark in "`\"'") if things else False
    if not is_quoted and any(_VAGUE.fullmatch(thing) for thing in things):
        return []
    for thing in things:
        text = text.replace(thing, " ")
    for part in _AND.split(text):
        words = [word.rstrip(".-") for word in _WORD.findall(part)]
        telling_words = [word for word in words if word.casefold() not in _LINKS]
        is_name = known is None or all(
            word.casefold() in known or "_" in word or "." in word for word in telling_words
        )
        if len(telling_words) > 1 or not is_name:
            return []
        things += telling_words
    return things


class _Use(Enum):
    """How code may use a name."""

    called = "called"
    imported = "imported"
    named = "named"


def _uses(things: Sequence[str], how: _Use) -> Breach:
    """Of tools by their names, of code by what it names, of files and phrases wherever they are."""
    names = [re.sub(r"\(.*\)$", "", thing.strip()) for thing in things]
    texts = [name for name in names if not _NAME.fullmatch(name) or FILE.fullmatch(name)]
    called = {name.casefold() for name in names}

    def uses(step: Step, made: Sequence[Step]) -> bool:
        if (step.tool_called or "").casefold() in called:
            return True
        if any(holds(text, given(step.tool_input)) for text in texts):
            return True
        return any(_is_among(name, _used(step, how)) for name in names)

    return uses


def _used(step: Step, how: _Use) -> frozenset[str]:
    if "code" not in step.metadata:
        return frozenset()
    cell = read(step.metadata["code"])
    commands = {each.name or each.text.partition(" ")[0] for each in cell.magics}
    called = commands | {each.name for each in cell.calls}
    match how:
        case _Use.called:
            return frozenset(called)
        case _Use.imported:
            return cell.imported
    return cell.imported | cell.looked_up | called


def _is_among(name: str, written: frozenset[str]) -> bool:
    """Whether ``name``, or something that ends in it, stands in ``written``."""
    return any(each == name or each.endswith(f".{name}") for each in written)


def _says(things: Sequence[str]) -> Breach:
    return lambda step, made: _names_one(things, asserted(step.llm_output or ""))


def _occurs(literal: str) -> Breach:
    says = _says([literal])
    return lambda step, made: (
        holds(literal, f"{step.tool_called}\n{given(step.tool_input)}") or says(step, made)
    )


def _names_one(things: Sequence[str], text: str) -> bool:
    return any(holds(thing, text) or holds(f"{thing}s", text) for thing in things)


def _does(deeds: Collection[str], terms: Sequence[str], words: Collection[str]) -> Breach:
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
    """The action as a step; ``None`` when it is no work and no summary stands in it."""
    tool = attempt.tools[attempt.action]
    if not is_work(tool):
        summary = attempt.inputs.get("summary")
        is_said = tool.terminal and isinstance(summary, str)
        return Step(0, attempt.action, llm_output=summary) if is_said else None
    if tool.tool_type != "code":
        return Step(0, attempt.action, tool_called=attempt.action, tool_input=attempt.inputs)
    # The rest of it, and its comments, are words about the code.
    code = _without_comments(str(attempt.inputs.get("code", "")))
    return Step(
        0,
        attempt.action,
        tool_called=attempt.action,
        tool_input={"code": code},
        metadata={"code": code},
    )


def _has_run(step: Step, attempt: Attempt) -> bool:
    tool = attempt.tools.get(step.tool_called or "")
    ran = step.tool_output is not None or step.metadata.get("refusal") in _RAN
    return tool is not None and is_work(tool) and ran


def _refusal(attempt: Attempt, rule: str) -> Failure:
    return RULE_BROKEN.failure(
        f"{attempt.action} breaks a rule of this task: {rule!r}. Nothing was run. Keep to the "
        "rule, or end the run and say what it leaves undone.",
        # The model may send another action; one that breaks a rule again goes to a person.
        action=Action.retry,
        tool_name=attempt.action,
        envelope={"reason": f"it breaks the rule {rule!r}", "details": {"rule": rule}},
    )


def _without_comments(code: str) -> str:
    """``code`` as it runs; its texts stay."""
    return _COMMENT.sub(lambda found: found[1] or "", code) if "#" in code else code
