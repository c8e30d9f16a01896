"""Verbs: what is to be done with a table, and how it is called."""

from parsimony_kernel.offline.lexicon.entries import Words, declined, entries

_ENTRIES = {
    **entries("load", None, "load|open|read|import|load in|load up|read in"),
    **entries(
        "describe",
        None,
        "describe|summarise|summarize|summary|summary of|a summary of|overview|overview of|"
        "profile|look at|take a look at|have a look at|inspect|explore|what is in|what's in|"
        "whats in|statistics|stats|summary statistics|descriptive statistics|"
        "basic statistics|statistics of|statistics for|summary statistics of|"
        "summary statistics for|how many columns|what columns|which columns|column names|"
        "schema|data types|dtypes",
    ),
    **entries(
        "show",
        None,
        "show|display|list|print|give|tell|find|get|see|compute|calculate|what is|what's|"
        "whats|what are|what was|what were|present|return|determine|work out|view|show me|"
        "give me",
    ),
    **entries("make", None, "make|create|build|produce|generate|prepare|add"),
    **entries("group", None, "group|aggregate|resample|break down|split"),
    **entries("compare", None, "compare|compare the|differ|differs|vary|varies"),
    **entries("sort", None, "sort|sorted|order|arrange|rank"),
    **entries(
        "sort_by",
        None,
        "sorted by|sort by|ordered by|order by|ranked by|rank by|in order of",
    ),
    **entries("publish", None, "publish|save|export|store|publish it|save it"),
    **entries("report", None, "report"),
    **entries("refresh", None, "refresh"),
    **entries(
        "new_data",
        None,
        "with the new data|with new data|with the changed data|with changed data|"
        "with the updated data|with the latest data|from the new data|using the new data|"
        "on the new data|with the new file|with the new files|with the changed sources",
    ),
    **entries("called", None, "called|named|titled|entitled|with the title|with title"),
    **entries("as", None, "as|into"),
    **entries("which", None, "which|what|who|where is|which one"),
}
_DECLINED = declined(
    "email|mail|send|download|upload|scrape|fetch|translate|delete|rename|clean|replace|"
    "deduplicate|simulate|optimize|optimise|test|dashboard|slides|pdf|write|pivot|"
    "explain why|why|google|search|install|run|execute"
)

WORDS = Words(
    _ENTRIES,
    _DECLINED,
    actions=frozenset(
        {
            "load",
            "describe",
            "show",
            "make",
            "group",
            "compare",
            "sort",
            "publish",
            "report",
            "refresh",
            "which",
            "unsupported",
        }
    ),
)
