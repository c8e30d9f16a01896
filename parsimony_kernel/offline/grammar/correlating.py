"""Rules for how columns go together: correlation and heat maps."""

from parsimony_kernel.offline.grammar.items import Item
from parsimony_kernel.offline.grammar.reader import Reader
from parsimony_kernel.offline.grammar.rules import Phrase, Rule

UNSAID = "unsaid"


def _correlation(reader: Reader, item: Item, following: Item | None) -> None:
    made = reader.made
    if item.value and made.correlation not in (None, UNSAID, item.value):
        made.unsupported.append(item.text)
    made.correlation = item.value or made.correlation or UNSAID
    reader.close()
    if reader.role != "measure" and not made.measures:
        reader.role = "measure"


_PAIR = Phrase(
    "correlation between horsepower and weight",
    "computes how two measures go together: Pearson, or Spearman by rank",
    "number",
    (
        "correlation of horsepower and weight",
        "correlate horsepower with weight",
        "how are horsepower and weight correlated?",
        "what is the correlation between horsepower and weight?",
    ),
)
_WITH_ONE = Phrase(
    "correlations with horsepower",
    "ranks the other measures by how they go with one",
    "table",
    (
        "what correlates with horsepower?",
        "which columns are correlated with horsepower?",
        "show the correlations with horsepower",
    ),
)
_BY = Phrase(
    "correlation between horsepower and weight by origin",
    "correlates within groups",
    "table",
    (
        "correlation of horsepower and weight for each origin",
        "correlate horsepower with weight by origin",
        "correlation between horsepower and weight per origin",
    ),
)
_MATRIX = Phrase(
    "correlation matrix of cars",
    "correlates every measure with every other",
    "table",
    (
        "correlations of cars",
        "show the correlation matrix of cars",
        "correlations between the columns of cars",
    ),
)
_MAP = Phrase(
    "correlation heat map of cars",
    "draws correlations as a heat map",
    "heat map",
    (
        "heat map of the correlations of cars",
        "plot the correlation matrix of cars as a heatmap",
        "correlations of cars as a heat map",
    ),
)
_GROUPS = Phrase(
    "heat map of mean horsepower by origin and year",
    "draws a measure by two groupings",
    "heat map",
    (
        "heatmap of average horsepower per origin and year",
        "mean horsepower by origin and year as a heat map",
        "draw a heat map of the mean horsepower for each origin and year",
    ),
)

RULES: tuple[Rule, ...] = (
    Rule("correlation", _correlation, _PAIR, (_WITH_ONE, _BY, _MATRIX, _MAP, _GROUPS)),
)
