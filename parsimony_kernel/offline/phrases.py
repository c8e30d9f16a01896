"""What the offline model understands, as examples that are tested one by one.

Read off the rules of the grammar; the documentation and the refusals print it.
"""

from parsimony_kernel.offline.grammar import (
    deriving,
    joining,
    loading,
    publishing,
    refreshing,
    reporting,
)
from parsimony_kernel.offline.grammar.rules import Phrase
from parsimony_kernel.offline.grammar.statement import RULES

_REAL_MODEL = (
    "For anything else set a model, with its key in the environment: "
    "%agent model openai/gpt-5 (OPENAI_API_KEY), or %%agent --model NAME for one cell."
)


def what_it_understands() -> tuple[Phrase, ...]:
    """An example of every rule of the grammar, with what it does."""
    listed = [
        loading.PHRASE,
        *(p for rule in RULES.values() for p in (rule.phrase, *rule.more)),
        *deriving.PHRASES,
        *joining.PHRASES,
        *publishing.PHRASES,
        *reporting.PHRASES,
        *refreshing.PHRASES,
    ]
    return tuple(dict.fromkeys(listed))


def as_markdown() -> str:
    """The table of examples in Markdown."""
    rows = [f"| {_cell(_said(p))} | {_cell(p.does)} |" for p in what_it_understands()]
    return "\n".join(["| a request | what it does |", "| --- | --- |", *rows])


def _said(phrase: Phrase) -> str:
    return ", then ".join(f"`{request}`" for request in (*phrase.after, phrase.example))


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def help_steps(*, short: bool = False) -> list[str]:
    """What to try instead, as suggested next steps."""
    shown = [loading.PHRASE, RULES["plot"].phrase]
    if not short:
        shown += [RULES["top"].phrase, publishing.PHRASES[0]]
    steps = [f"Try for instance: {phrase.example!r}" for phrase in shown]
    if not short:
        steps.insert(
            0,
            "The offline model can load and join files, add columns, count and fill missing "
            "values, describe, filter, group and aggregate, resample by time, rank, correlate, "
            "draw line, bar and scatter charts, histograms and heat maps, publish datasets, "
            "charts and reports, refresh what is published, and go on from the request before.",
        )
    return [*steps, _REAL_MODEL]
