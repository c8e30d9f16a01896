"""Words of correlation, and of heat maps."""

from parsimony_kernel.offline.lexicon.entries import Words, declined, entries

_SAID = (
    "correlation|correlations|correlation between|correlations between|correlation of|"
    "correlations of|correlation with|correlations with|correlation matrix|correlation table|"
    "correlation coefficient|correlation coefficients|correlation coefficient between|"
    "correlation coefficient of|correlation matrix of|correlation matrix for"
)
_ENTRIES = {
    **entries(
        "correlation",
        "",
        f"{_SAID}|corr|correlate|correlates|correlated|correlate with|correlates with|"
        "correlated with|are correlated|is correlated|are correlated with|is correlated with|"
        "strongest correlation|strongest correlations|highest correlations|"
        "which columns correlate|which columns are correlated|what columns correlate|"
        "which columns correlate with|which columns are correlated with|"
        "what columns are correlated with|what correlates with|which columns correlate most with|"
        "correlate most with|correlates most with|most correlated with|"
        "which columns are most correlated with|what is most correlated with|"
        "strongest correlation with|strongest correlations with",
    ),
    **entries(
        "correlation",
        "pearson",
        "|".join(f"pearson {said}" for said in _SAID.split("|"))
        + "|using pearson|with pearson|by pearson|pearson's r",
    ),
    **entries(
        "correlation",
        "spearman",
        "|".join(f"{way} {said}" for way in ("spearman", "rank") for said in _SAID.split("|"))
        + "|spearman rank correlation|spearman rank correlation between|"
        "spearman rank correlation of|using spearman|with spearman|by spearman|spearman's rho",
    ),
    **entries(
        "kind",
        "heatmap",
        "heatmap|heatmaps|heat map|heat maps|heat chart|heat charts|heat plot|heat plots|"
        "heat graph|heat graphs|heat diagram|heatmap of|heat map of",
    ),
}
_DECLINED = declined(
    "kendall|kendall's tau|partial correlation|autocorrelation|covariance|cross correlation|"
    "significant|significance|p value|causation|cause|causes"
)

WORDS = Words(_ENTRIES, _DECLINED, actions=frozenset({"correlation"}))
