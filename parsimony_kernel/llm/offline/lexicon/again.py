"""Words that carry a request over from the one before."""

from parsimony_kernel.llm.offline.lexicon.entries import Words

WORDS = Words({})
