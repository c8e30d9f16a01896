"""Words of missing values: to count, drop and fill them."""

from parsimony_kernel.llm.offline.lexicon.entries import Words, declined

_DECLINED = declined("impute|interpolate|fill")

WORDS = Words({}, _DECLINED)
