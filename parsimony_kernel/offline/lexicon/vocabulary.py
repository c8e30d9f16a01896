"""All words with a meaning of their own. Longer phrases win; no phrase has two meanings."""

from parsimony_kernel.offline.lexicon import (
    again,
    aggregates,
    charts,
    correlating,
    deriving,
    fillers,
    filters,
    joining,
    missing_values,
    ranks,
    verbs,
)
from parsimony_kernel.offline.lexicon.entries import Entry

MODULES = (
    again.WORDS,
    aggregates.WORDS,
    charts.WORDS,
    correlating.WORDS,
    deriving.WORDS,
    fillers.WORDS,
    filters.WORDS,
    joining.WORDS,
    missing_values.WORDS,
    ranks.WORDS,
    verbs.WORDS,
)

# What is not done is seen as a word of its own, unless it has a meaning or a column has the name.
LEXICON: dict[tuple[str, ...], Entry] = {
    **{phrase: entry for words in MODULES for phrase, entry in words.declined.items()},
    **{phrase: entry for words in MODULES for phrase, entry in words.entries.items()},
}
LONGEST = max(map(len, LEXICON))
ACTIONS = frozenset(kind for words in MODULES for kind in words.actions)
