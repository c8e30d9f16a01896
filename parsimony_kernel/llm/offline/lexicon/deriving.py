"""Words of new columns that are computed from others."""

from parsimony_kernel.llm.offline.lexicon.entries import Words, declined

_DECLINED = declined("ratio|ratio of|difference between|convert")

WORDS = Words({}, _DECLINED)
