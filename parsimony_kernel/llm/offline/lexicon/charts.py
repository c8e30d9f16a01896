"""Words of charts: to draw, kinds, and how what is drawn is set apart."""

from parsimony_kernel.llm.offline.lexicon.entries import Entry, Words, declined, entries


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
        for noun in ("chart", "charts", "plot", "plots", "graph", "graphs", "diagram"):
            phrase = tuple(f"{word} {noun}".split())
            found[phrase] = ("kind", kind) if kind else ("unsupported", " ".join(phrase))
    return found


_ENTRIES = {
    **_charts(),
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
        "histogram|histograms|distribution|distribution of|histogram of",
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
_DECLINED = declined("pie|map|boxplot|box plot|box|violin")

WORDS = Words(_ENTRIES, _DECLINED, actions=frozenset({"plot"}))
