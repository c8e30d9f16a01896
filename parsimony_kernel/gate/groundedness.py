"""Groundedness: check a summary's statements against the results and actions of the run.

Numbers that no result supports are marked but shown. A name that exists nowhere, or a deed that
was not done, refuses the summary once. Anything with an innocent reading passes.
"""

import re
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from inspect import getattr_static, unwrap
from itertools import chain
from types import CodeType

from parsimony_kernel.core.causes import CLAIM_UNOBSERVED
from parsimony_kernel.core.kinds import Failure
from parsimony_kernel.gate.stages import Attempt, Stage
from parsimony_kernel.gate.support import PATTERNS, TABLE, Results, unsupported
from parsimony_kernel.triage.constraints import NEGATED, sentences

MAX_TEXT, MAX_MARKS = 20_000, 8

_SAID = {"return_done": "summary", "return_report": "body"}
_LIBRARIES = ("pandas", "numpy", "altair", "polars")
_KINDS = ("DataFrame", "Series", "Chart", "LazyFrame")
_FORMS = [
    (re.compile(form.format(verb=verbs), re.IGNORECASE), deed)
    for form in TABLE["forms"].values()
    for deed, (verbs, _) in TABLE["deeds"].items()
]


@dataclass
class Seen:
    """Evidence of a run.

    Args:
        results: tool results, the oldest first.
        words: the person's messages, and the results of earlier turns.
        names: existing variables and columns.
        code: code that ran to its end; comments are removed.
        earlier: results of earlier turns, and published outputs.
        published: whether the run published an output.
        acted: whether a tool had an effect that no code shows.
        refused: whether a summary of this run was refused before.
        exists: whether a file of that name appeared in the working folder since the run began.
    """

    results: Sequence[str]
    words: Sequence[str] = ()
    names: Collection[str] = ()
    code: Sequence[str] = ()
    earlier: Sequence[str] = ()
    published: bool = False
    acted: bool = False
    refused: bool = False
    exists: Callable[[str], bool] = lambda path: False

    def __post_init__(self) -> None:
        self.code = [re.sub(r"#[^\n]*", "", each) for each in self.code]

    def did(self, deed: str, sentence: str) -> bool:
        """Whether the deed that ``sentence`` reports may have been done."""
        named = [*chain(*(PATTERNS[kind].findall(sentence) for kind in ("span", "file", "quoted")))]
        code = "\n".join(self.code)
        calls = set(re.findall(r"([^\W\d]\w*)\s*\(", code))
        is_kept = {*self.names} & {*named} or PATTERNS["memory"].search(sentence)
        return bool(
            self.acted
            or (self.published and deed in ("published", "saved"))
            or any(self.exists(name) or any(name in e for e in self.earlier) for name in named)
            or (deed == "saved" and is_kept)
            or (deed == "deleted" and not PATTERNS["files"].search(sentence))
            or re.search(r"^\s*[!%]", code, re.M)
            or any(re.fullmatch(TABLE["deeds"][deed][1], call) for call in calls)
            or calls & {*self.names}
        )


def groundedness(seen: Callable[[], Seen], *, strict: bool = False) -> Stage:
    """Build a stage that marks unsupported statements in a summary or a report.

    Args:
        seen: returns the evidence of the run so far.
        strict: whether unsupported numbers, too, refuse a summary once.
    """

    def stage(attempt: Attempt) -> Failure | None:
        text = attempt.inputs.get(_SAID.get(attempt.action, ""))
        if not isinstance(text, str):
            return None
        held, is_report = seen(), attempt.action == "return_report"
        text = PATTERNS["fenced"].sub("\n", text[:MAX_TEXT])
        shown = held.results, [*held.words, *held.code]
        numbers = unsupported(text, Results(*shown)) if re.search(r"\d", text) else []
        unfounded = [] if is_report else [*unknown_names(text, held), *undone_deeds(text, held)]
        marks = [*unfounded, *numbers][:MAX_MARKS]
        if not (unfounded or (numbers and strict)) or held.refused or is_report:
            attempt.not_found.extend(marks)
            return None
        claims = marks if strict else unfounded[:MAX_MARKS]
        reason = f"The summary says what this run has not shown: {'; '.join(claims)}"
        return CLAIM_UNOBSERVED.failure(
            f"{reason}. Look with run_code, or leave it out; said again, it is shown with a mark. "
            "The run has not ended.",
            envelope={"reason": reason, "not_found": marks},
        )

    return stage


def without_marks(answer: str) -> str:
    """Remove the stage's marks from ``answer``: a marked statement is no evidence."""
    return re.sub(r'"not_found": ?\[[^\]]*\]', "", answer)


def was_refused(answer: str) -> bool:
    """Whether ``answer`` is this stage's refusal of a summary."""
    is_refusal = answer.startswith('{"error"') and '"requested": "return_done"' in answer[:300]
    return is_refusal and '"not_found"' in answer


def unknown_names(text: str, seen: Seen) -> Iterator[str]:
    """Yield the names of variables and columns in ``text`` that exist nowhere."""
    known = "\n".join((*seen.results, *seen.words, *seen.code))
    loaded = tuple(each for each in _LIBRARIES if each in sys.modules)
    for sentence in _stated(text, "setting"):
        for span in PATTERNS["span"].findall(sentence):
            name = re.sub(r"\([^()]*\)$|\[[^\[\]]*\]$", "", span.strip())
            root = name.partition(".")[0]
            is_known = root in seen.names or root in sys.modules or root in known
            is_name = PATTERNS["name"].fullmatch(name) and not PATTERNS["file"].fullmatch(name)
            if is_name and not is_known and name not in _library_names(loaded):
                yield f"`{name}`"


@lru_cache(maxsize=8)
def _library_names(loaded: tuple[str, ...]) -> frozenset[str]:
    """Collect functions, methods and parameters of the loaded libraries, importing nothing."""
    modules = [sys.modules[each] for each in loaded]
    kinds = [vars(module)[kind] for module in modules for kind in _KINDS if kind in vars(module)]
    held = [(name, getattr_static(e, name, None)) for e in (*modules, *kinds) for name in dir(e)]
    codes = (getattr(unwrap(f), "__code__", None) for _, f in held if callable(f))
    known = (code.co_varnames for code in codes if isinstance(code, CodeType))
    return frozenset(name for name, _ in held).union(*known)


def undone_deeds(text: str, seen: Seen) -> Iterator[str]:
    """Yield the sentences of ``text`` that report a deed that was not done."""
    for sentence in _stated(text, "earlier"):
        if not all(seen.did(deed, sentence) for form, deed in _FORMS if form.search(sentence)):
            yield f"“{sentence[:80]}”"


def _stated(text: str, unless: str) -> Iterator[str]:
    """Yield the sentences of ``text`` that assert something.

    Negated and hypothetical sentences, and those that match the pattern ``unless``, are skipped.
    """
    for sentence in sentences(text):
        plain = sentence.strip().lstrip("-*•#>_~ ✅✓")
        if not any(e.search(plain) for e in (NEGATED, PATTERNS["supposed"], PATTERNS[unless])):
            yield plain
