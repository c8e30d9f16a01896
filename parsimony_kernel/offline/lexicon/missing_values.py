"""Words of missing values: to count, drop and fill them."""

from parsimony_kernel.offline.lexicon.entries import Words, entries

_VALUES = (
    "missing values|missing value|missing data|missing entries|missing observations|"
    "missing cells|null values|nulls|empty values|empty cells|nan values|nans|nan|blanks|"
    "blank values|blank cells"
)
_ROWS = "incomplete rows|incomplete records|incomplete"
_ANYWHERE = frozenset(f"{_VALUES}|{_ROWS}".split("|"))


def says_anywhere(words: str) -> bool:
    """Whether ``words`` say by themselves that something is missing, in whichever column."""
    low = words.casefold()
    return low in _ANYWHERE or any(low.endswith(f" {said}") for said in _ANYWHERE)


def _said(verbs: str, nouns: str, between: str = "") -> str:
    """Every verb before every noun; one of the words ``between``, or none, joins them."""
    words = ["", *between.split("|")]
    phrases = (f"{v} {w} {n}" for v in verbs.split("|") for w in words for n in nouns.split("|"))
    return "|".join(dict.fromkeys(" ".join(phrase.split()) for phrase in phrases))


def _each(nouns: str, ends: str) -> str:
    return "|".join(f"{noun} {end}" for noun in nouns.split("|") for end in ends.split("|"))


_COUNTED = "|".join(
    (
        _said(
            "are there|is there|do we have|do i have|"
            "share of|percentage of|percent of|fraction of|proportion of|overview of|summary of|"
            "summarise|summarize|describe|report of",
            _VALUES,
            "the|all|all the|any|no",
        ),
        _said("which columns have|what columns have|columns with", _VALUES, "any"),
        _each(
            _VALUES,
            "by column|per column|for each column|in each column|in every column|of each column|"
            "of every column|across columns|across the columns|count|counts|share|report",
        ),
        "values are missing|values missing|entries are missing|percent missing|"
        "percentage missing|share missing|percent missing per column|"
        "percentage missing per column|share missing per column|"
        "percent missing by column|percentage missing by column|how many values are missing|"
        "how many are missing|how much data is missing|how much is missing|"
        "what is missing|what's missing|whats missing|is anything missing|"
        "is any data missing|are any values missing|are values missing|where is data missing|"
        "where are values missing|missingness|missing value counts|null count|null counts",
    )
)
_PRESENT = _said(
    "|".join(("no", "with no", "that have no", "which have no", "that has no", "have no")),
    f"{_VALUES}|missing",
)
_FILLED = _said(
    "fill|fill in|fill up|impute|replace|substitute",
    f"{_VALUES}|na|nas|missing|gaps",
    "the|all|all the|all of the|any|every",
)
_ENTRIES = {
    **entries("missing", "count", _COUNTED),
    **entries(
        "missing",
        "drop",
        "dropna|drop na|drop nas|complete rows|complete cases|complete records",
    ),
    **entries("fill", None, f"{_FILLED}|fill|fill in|fill up|fillna|impute"),
    **entries("fill", "forward", "forward fill|ffill|fill forward|carry forward"),
    **entries("fill", "backward", "backward fill|back fill|backfill|bfill|fill backward"),
    **entries("fill", "linear", "interpolate"),
    **entries(
        "lacks",
        "missing",
        "missing data|missing entries|missing observations|missing cells|empty cells|nan|blanks|"
        f"blank values|blank cells|{_ROWS}",
    ),
    **entries("lacks", "present", _PRESENT),
}

WORDS = Words(_ENTRIES, actions=frozenset({"fill", "missing"}))
