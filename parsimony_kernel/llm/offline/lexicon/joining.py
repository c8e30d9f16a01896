"""Words that bring two tables together."""

from parsimony_kernel.llm.offline.lexicon.entries import Words, declined

_DECLINED = declined("join|merge|combine|concatenate")

WORDS = Words({}, _DECLINED)
