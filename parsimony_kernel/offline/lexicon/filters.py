"""Words of filters: which rows are kept."""

from parsimony_kernel.offline.lexicon.entries import Words, declined, entries

_ENTRIES = {
    **entries("only", None, "filter|keep|select|restrict|limit|narrow|subset|keep only"),
    **entries("just", None, "only|just|solely"),
    **entries(
        "filter_to",
        None,
        "filter to|filter for|filter by|filter on|restrict to|limit to|narrow to|narrow down to",
    ),
    **entries("where", "where", "where|whose|that have|which have|who have|that has"),
    **entries("where", "with", "with"),
    **entries("where", "in", "in|during|within|on|at|inside"),
    **entries("where", "for", "for|when"),
    **entries("where", "from", "from"),
    **entries(
        "not",
        None,
        "not|except|except for|excluding|exclude|without|but not|other than|not in|not from|"
        "is not|are not|apart from|remove|drop|leave out|omit",
    ),
    **entries("is", None, "is|are|was|were|equals|equal to|be|being|is equal to|equal|exactly"),
    **entries(
        "cmp",
        ">",
        "greater than|more than|above|over|exceeding|higher than|larger than|bigger than|"
        "exceeds|exceed|is above|is over|is greater than|is more than|are above|are over|"
        "is higher than|is larger than|better than",
    ),
    **entries(
        "cmp",
        ">=",
        "at least|no less than|not less than|not below|greater than or equal to|is at least|"
        "greater or equal to|a minimum of",
    ),
    **entries(
        "cmp",
        "<",
        "less than|fewer than|below|under|lower than|smaller than|is below|is under|"
        "is less than|is lower than|are below|are under|is smaller than",
    ),
    **entries(
        "cmp",
        "<=",
        "at most|no more than|not more than|up to|not above|less than or equal to|is at most|"
        "less or equal to|a maximum of",
    ),
    **entries("comparative", (">", "weight"), "heavier than"),
    **entries("comparative", ("<", "weight"), "lighter than"),
    **entries("comparative", (">", "price"), "more expensive than|pricier than|dearer than"),
    **entries("comparative", ("<", "price"), "cheaper than|less expensive than"),
    **entries("comparative", (">", "temperature"), "hotter than|warmer than"),
    **entries("comparative", ("<", "temperature"), "colder than|cooler than"),
    **entries("comparative", (">", "length"), "longer than"),
    **entries("comparative", ("<", "length"), "shorter than"),
    **entries("comparative", (">", "height"), "taller than"),
    **entries("comparative", (">", "speed"), "faster than"),
    **entries("comparative", ("<", "speed"), "slower than"),
    **entries("comparative", (">", "age"), "older than"),
    **entries("comparative", ("<", "age"), "younger than"),
    **entries("cmp", "!=", "not equal to|is not equal to"),
    **entries(
        "suffix",
        ">=",
        "or more|or higher|or above|and above|and up|or greater|or later|and later|or over|onwards",
    ),
    **entries(
        "suffix",
        "<=",
        "or less|or lower|or below|and below|or fewer|or earlier|and earlier",
    ),
    **entries("time", ">", "after|later than|is after"),
    **entries("time", "<", "before|earlier than|is before|prior to"),
    **entries("time", ">=", "since|starting in|starting from|beginning in"),
    **entries("time", "<=", "until|till|through|up until"),
    **entries(
        "lacks",
        "missing",
        "have no|has no|had no|with no|having no|that have no|that has no|which have no|lack|"
        "lacks|lacking|is missing|are missing|is null|are null|is empty|are empty|is unknown|"
        "missing|missing values|missing value|null values|nulls|empty values|nan values|nans",
    ),
    **entries(
        "lacks",
        "present",
        "is not missing|are not missing|is not null|is not empty|is known",
    ),
    **entries("between", None, "between|is between|are between|in between"),
    **entries("to", None, "to"),
}
_DECLINED = declined(
    "contains|contain|containing|starts with|starting with|ends with|ending with|"
    "last year|last month|today|yesterday|this year|this month|last week|recent|"
    "latest data"
)

WORDS = Words(_ENTRIES, _DECLINED, actions=frozenset({"only", "filter_to", "not"}))
