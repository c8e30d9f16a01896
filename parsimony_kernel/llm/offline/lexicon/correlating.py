"""Words of correlation, and of heat maps."""

from parsimony_kernel.llm.offline.lexicon.entries import Words, declined

_DECLINED = declined(
    "correlate|correlation|correlations|heatmap|heat map|heat chart|heat charts|heat plot|"
    "heat plots|heat graph|heat graphs|heat diagram"
)

WORDS = Words({}, _DECLINED)
