"""Words of charts: to draw, kinds, and how what is drawn is set apart."""

from parsimony_kernel.offline.lexicon.entries import Entry, Words, declined, entries

# What a word for a chart says of how many there are to be.
APART, TOGETHER = "apart", "together"
_CHART = ("chart", "plot", "graph", "diagram")


def _charts() -> dict[tuple[str, ...], Entry]:
    found: dict[tuple[str, ...], Entry] = {}
    kinds = {
        "line": "line",
        "time series": "line",
        "bar": "bar",
        "column": "bar",
        "scatter": "scatter",
        "pie": "",
        "box": "",
        "violin": "",
        "area": "",
        "map": "",
        "bubble": "",
        "radar": "",
    }
    for word, kind in kinds.items():
        for noun in (*_CHART, *(f"{noun}s" for noun in _CHART)):
            phrase = tuple(f"{word} {noun}".split())
            found[phrase] = ("kind", kind) if kind else ("unsupported", " ".join(phrase))
    return found


def _each(*said: str) -> str:
    """``said`` with every word for a chart in it."""
    return "|".join(text.format(noun) for text in said for noun in _CHART)


_ENTRIES = {
    **_charts(),
    **entries(
        "plot",
        APART,
        _each(
            "in separate {}s",
            "as separate {}s",
            "on separate {}s",
            "in different {}s",
            "in two {}s",
            "in their own {}s",
            "each in its own {}",
            "each on its own {}",
            "each in a {} of its own",
            "one {} each",
            "a {} each",
            "a {} for each of",
            "one {} for each of",
            "a separate {} for each of",
        )
        + "|separately|individually",
    ),
    **entries(
        "plot",
        TOGETHER,
        _each(
            "in one {}",
            "on one {}",
            "in a single {}",
            "on a single {}",
            "in the same {}",
            "on the same {}",
            "together in one {}",
            "together on one {}",
            "one {} of",
            "one {} with",
            "a single {} of",
            "a single {} with",
        ),
    ),
    **entries("show", None, "include|includes"),
    **entries("of", None, "showing|that shows|which shows|that show|which show"),
    **entries(
        "plot",
        None,
        "plot|plots|chart|charts|draw|graph|graphs|visualize|visualise|figure|sketch",
    ),
    **entries("kind", "line", "line|lines|trend|trend of|trends|time series|timeline"),
    **entries("stacked", None, "stacked"),
    **entries("kind", "bar", "bar|bars|barchart|barplot"),
    **entries("kind", "scatter", "scatter|scatterplot|scatterplots|relationship between"),
    **entries(
        "kind",
        "histogram",
        "histogram|histograms|distribution|distribution of|histogram of|distributions|"
        "distributions of|histograms of",
    ),
    **entries(
        "over_time",
        None,
        "over time|through time|across time|over the period|with time|changed|change|develop|"
        "developed|evolve|evolved",
    ),
    **entries(
        "color",
        None,
        "colored by|coloured by|color by|colour by|colored by the|coloured by the|"
        "with color by|with colour by|coloring by|colouring by|color|colour|one line per|"
        "one line for each|a line per|a line for each|with a line per|with one line per|"
        "a separate line for each|separate lines for each|split into|hue",
    ),
    **entries("vs", None, "vs|versus|against|as a function of|compared to|compared with"),
}
_DECLINED = {
    **declined("pie|map|boxplot|box plot|box|violin|small multiples|facet|facets|faceted|trellis"),
    **declined(
        _each(
            "a {} per",
            "one {} per",
            "a {} for each",
            "one {} for each",
            "a {} for every",
            "one {} for every",
            "a separate {} for each",
            "a separate {} per",
            "separate {}s for each",
            "separate {}s per",
        )
    ),
}

WORDS = Words(_ENTRIES, _DECLINED, actions=frozenset({"plot"}))
