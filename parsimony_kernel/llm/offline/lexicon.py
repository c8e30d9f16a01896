"""The words that have a meaning of their own in a request.

Data only: a phrase, the kind of item that it is, and its value. Longer phrases win.
"""

from typing import Any

from parsimony_kernel.llm.offline.words import word_set

Entry = tuple[str, Any]


def _entries(kind: str, value: Any, phrases: str) -> dict[tuple[str, ...], Entry]:
    return {tuple(p.split()): (kind, value) for p in phrases.split("|")}


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
        "heat": "",
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


LEXICON: dict[tuple[str, ...], Entry] = {
    **_entries("load", None, "load|open|read|import|load in|load up|read in"),
    **_entries(
        "describe",
        None,
        "describe|summarise|summarize|summary|summary of|a summary of|overview|overview of|profile|"
        "look at|take a look at|have a look at|inspect|explore|what is in|what's in|whats in|"
        "statistics|stats|summary statistics|descriptive statistics|basic statistics|"
        "statistics of|statistics for|summary statistics of|summary statistics for|"
        "how many columns|what columns|which columns|column names|schema|data types|dtypes",
    ),
    **_entries(
        "show",
        None,
        "show|display|list|print|give|tell|find|get|see|compute|calculate|what is|what's|whats|"
        "what are|what was|what were|present|return|determine|work out|view|show me|give me",
    ),
    **_entries(
        "plot", None, "plot|plots|chart|charts|draw|graph|graphs|visualize|visualise|figure|sketch"
    ),
    **_entries("make", None, "make|create|build|produce|generate|prepare|do|add"),
    **_entries("only", None, "filter|keep|select|restrict|limit|narrow|subset|keep only"),
    **_entries("just", None, "only|just|solely"),
    **_entries(
        "filter_to",
        None,
        "filter to|filter for|filter by|filter on|restrict to|limit to|narrow to|narrow down to",
    ),
    **_entries("group", None, "group|aggregate|resample|break down|split"),
    **_entries("compare", None, "compare|compare the|differ|differs|vary|varies"),
    **_entries("sort", None, "sort|sorted|order|ordered|arrange|rank"),
    **_entries(
        "sort_by", None, "sorted by|sort by|ordered by|order by|ranked by|rank by|in order of"
    ),
    **_entries("publish", None, "publish|save|export|store|publish it|save it"),
    **_entries("report", None, "report"),
    **_entries("refresh", None, "refresh"),
    **_entries(
        "new_data",
        None,
        "with the new data|with new data|with the changed data|with changed data|"
        "with the updated data|with the latest data|from the new data|using the new data|"
        "on the new data|with the new file|with the new files|with the changed sources",
    ),
    **_entries("called", None, "called|named|titled|entitled|with the title|with title"),
    **_entries("as", None, "as|into"),
    # charts
    **_charts(),
    **_entries("kind", "line", "line|lines|trend|trend of|trends|time series|timeline"),
    **_entries("stacked", None, "stacked"),
    **_entries("kind", "bar", "bar|bars|barchart|barplot"),
    **_entries("kind", "scatter", "scatter|scatterplot|scatterplots|relationship between"),
    **_entries(
        "kind", "histogram", "histogram|histograms|distribution|distribution of|histogram of"
    ),
    **_entries(
        "over_time",
        None,
        "over time|through time|across time|over the period|with time|changed|"
        "change|develop|developed|evolve|evolved",
    ),
    **_entries(
        "color",
        None,
        "colored by|coloured by|color by|colour by|colored by the|coloured by the|"
        "with color by|with colour by|coloring by|colouring by|color|colour|one line per|"
        "one line for each|a line per|a line for each|with a line per|with one line per|"
        "a separate line for each|separate lines for each|split into|hue",
    ),
    **_entries("vs", None, "vs|versus|against|as a function of|compared to|compared with"),
    # aggregation
    **_entries("func", "mean", "mean|average|avg|averages|means|mean of|average of"),
    **_entries("func", "sum", "sum|total|totals|sum of|total of|sum up|add up"),
    **_entries("func", "median", "median|medians|median of"),
    **_entries(
        "func",
        "count",
        "count|counts|count of|counts of|how many|number of|the number of|frequency|"
        "frequency of|frequencies of|count the",
    ),
    **_entries(
        "func",
        "nunique",
        "number of distinct|number of different|number of unique|how many distinct|"
        "how many different|how many unique|count of distinct|count distinct",
    ),
    **_entries("func", "min", "min|minimum|minimum of|minima"),
    **_entries("func", "max", "max|maximum|maximum of|maxima"),
    **_entries("func", "std", "std|standard deviation|standard deviation of"),
    **_entries("distinct", None, "unique|distinct|different|unique values of|distinct values of"),
    **_entries("by", None, "by|per|by the|per the"),
    **_entries(
        "by",
        None,
        "for each|for every|in each|in every|each|every|of each|of every|grouped by|group by|"
        "broken down by|broken out by|aggregated by|split by|across|between the|across the|"
        "among|at each",
    ),
    **_entries("freq", "hour", "hourly"),
    **_entries("freq", "day", "daily"),
    **_entries("freq", "week", "weekly"),
    **_entries("freq", "month", "monthly"),
    **_entries("freq", "quarter", "quarterly"),
    **_entries("freq", "year", "yearly|annual|annually"),
    **_entries("unit", "hour", "hour|hours"),
    **_entries("unit", "day", "day|days|date|dates|calendar day"),
    **_entries("unit", "week", "week|weeks"),
    **_entries("unit", "month", "month|months"),
    **_entries("unit", "quarter", "quarter|quarters"),
    **_entries("unit", "year", "year|years"),
    **_entries("unit", "weekday", "weekday|weekdays|day of week|day of the week|days of the week"),
    **_entries(
        "unit", "month_name", "month of year|month of the year|calendar month|calendar months"
    ),
    # ranks
    **_entries("top", "desc", "top|first few|best"),
    **_entries("top", "asc", "bottom|worst"),
    **_entries("head", "head", "first"),
    **_entries("head", "tail", "last"),
    **_entries("super", "desc", "highest|largest|biggest|greatest|most|high"),
    **_entries("super", "asc", "lowest|smallest|least|fewest|low"),
    **_entries(
        "super", "common", "most common|most frequent|commonest|most often|occurs most|most popular"
    ),
    **_entries("which", None, "which|what|who|where is|which one"),
    **_entries("direction", "desc", "descending|in descending order|from high to low|desc"),
    **_entries("direction", "asc", "ascending|in ascending order|from low to high|asc"),
    # filters
    **_entries("where", "where", "where|whose|that have|which have|having|who have|that has"),
    **_entries("where", "with", "with"),
    **_entries("where", "in", "in|during|within|on|at|inside"),
    **_entries("where", "for", "for|when"),
    **_entries("where", "from", "from"),
    **_entries("of", None, "of|of the"),
    **_entries(
        "not",
        None,
        "not|except|except for|excluding|exclude|without|but not|other than|not in|not from|is not|"
        "are not|apart from|remove|drop|leave out|omit",
    ),
    **_entries("is", None, "is|are|was|were|equals|equal to|be|being|is equal to|equal|exactly"),
    **_entries(
        "cmp",
        ">",
        "greater than|more than|above|over|exceeding|higher than|larger than|bigger than|"
        "exceeds|exceed|is above|is over|is greater than|is more than|are above|are over|"
        "is higher than|is larger than|better than",
    ),
    **_entries(
        "cmp",
        ">=",
        "at least|no less than|not less than|not below|greater than or equal to|"
        "is at least|greater or equal to|a minimum of",
    ),
    **_entries(
        "cmp",
        "<",
        "less than|fewer than|below|under|lower than|smaller than|is below|is under|"
        "is less than|is lower than|are below|are under|is smaller than",
    ),
    **_entries(
        "cmp",
        "<=",
        "at most|no more than|not more than|up to|not above|less than or equal to|is at most|"
        "less or equal to|a maximum of",
    ),
    **_entries("comparative", (">", "weight"), "heavier than"),
    **_entries("comparative", ("<", "weight"), "lighter than"),
    **_entries("comparative", (">", "price"), "more expensive than|pricier than|dearer than"),
    **_entries("comparative", ("<", "price"), "cheaper than|less expensive than"),
    **_entries("comparative", (">", "temperature"), "hotter than|warmer than"),
    **_entries("comparative", ("<", "temperature"), "colder than|cooler than"),
    **_entries("comparative", (">", "length"), "longer than"),
    **_entries("comparative", ("<", "length"), "shorter than"),
    **_entries("comparative", (">", "height"), "taller than"),
    **_entries("comparative", (">", "speed"), "faster than"),
    **_entries("comparative", ("<", "speed"), "slower than"),
    **_entries("comparative", (">", "age"), "older than"),
    **_entries("comparative", ("<", "age"), "younger than"),
    **_entries("cmp", "!=", "not equal to|is not equal to"),
    **_entries(
        "suffix",
        ">=",
        "or more|or higher|or above|and above|and up|or greater|or later|and later|or over|onwards",
    ),
    **_entries(
        "suffix", "<=", "or less|or lower|or below|and below|or fewer|or earlier|and earlier"
    ),
    **_entries("time", ">", "after|later than|is after"),
    **_entries("time", "<", "before|earlier than|is before|prior to"),
    **_entries("time", ">=", "since|starting in|starting from|beginning in"),
    **_entries("time", "<=", "until|till|through|up until"),
    **_entries(
        "lacks",
        "missing",
        "have no|has no|had no|with no|having no|that have no|that has no|which have no|lack|lacks|"
        "lacking|is missing|are missing|is null|are null|is empty|are empty|is unknown|"
        "missing|missing values|missing value|null values|nulls|empty values|nan values|nans",
    ),
    **_entries(
        "lacks", "present", "is not missing|are not missing|is not null|is not empty|is known"
    ),
    **_entries("between", None, "between|is between|are between|in between"),
    **_entries("to", None, "to"),
    **_entries("and", None, "and|or|and also|as well as|and the|then|and then|plus|both|also"),
    **_entries(
        "ref",
        None,
        "it|them|this|that|result|results|the result|the results|these|those|output|outcome",
    ),
    **_entries(
        "noun",
        None,
        "data|dataset|datasets|table|tables|frame|dataframe|data frame|rows|row|records|record|"
        "entries|observations|file|files|csv|values|value|column|columns|items|everything|"
        "all of it|spreadsheet|sheet|parquet|excel|json|csv file|parquet file|json file|"
        "excel file|them all|series|points|numbers|type|types|kind|kinds|category|categories|class",
    ),
    **_entries(
        "skip",
        None,
        "the|a|an|please|me|my|i|i'd|i'm|you|could|can|would|will|like|want|wish|to know|need|"
        "us|our|we|its|their|there|here|all|any|some|so|now|quick|quickly|nice|simple|short|"
        "small|let|let's|lets|does|did|do|have|has|had|having|been|hello|hi|hey|thanks|thank|"
        "kindly|using|use|take|next|finally|first of all|after that|afterwards|which is|which are|"
        "that is|that are|who are|came|come|comes|coming|made|folder|notebook|how|much|if|"
        "i want to|i would like to|want to|like to|need to|try to|able to|go ahead and|"
        "respectively|how did|how does|how do|how has|how have|they|he|she|whole|entire|full|"
        "different kinds of|kind of|"
        "type of|types of|kinds of|single|there are|there is|are there|is there|do we have|"
        "generated|generates|produces|consumed|consumes|sold|sells|sell|earned|produced|built|seen|recorded|reached|got|bought|ordered|"
        "per cent|information|info|about|behave|look|looks|like this|by far|overall|group of",
    ),
}

# What people ask of such a tool and this model does not do. Seen as a word of its own, unless a
# column has the name.
_UNSUPPORTED = _entries(
    "unsupported",
    None,
    "join|merge|combine|concatenate|correlate|correlation|correlations|regress|"
    "regression|predict|forecast|train|cluster|classify|pivot|heatmap|heat map|"
    "pie|map|boxplot|box plot|box|violin|email|mail|send|download|upload|"
    "scrape|fetch|translate|delete|rename|clean|impute|interpolate|fill|replace|"
    "convert|deduplicate|simulate|optimize|optimise|test|dashboard|slides|"
    "pdf|write|model|fit|smooth|normalize|normalise|moving average|"
    "rolling average|rolling mean|rolling|cumulative|growth|percent change|"
    "percentage|share of|ratio|ratio of|difference between|outliers|outlier|"
    "anomalies|explain why|why|google|search|install|run|execute|sum squares|"
    "contains|contain|containing|starts with|starting with|ends with|ending with|"
    "percentile|quantile|variance|mode|weighted|year over year|last year|"
    "last month|today|yesterday|this year|this month|last week|recent|latest data",
)
LEXICON = {**{k: ("unsupported", " ".join(k)) for k in _UNSUPPORTED}, **LEXICON}

LONGEST = max(map(len, LEXICON))

# A superlative adjective ranks by a measure that it only implies.
ADJECTIVES: dict[tuple[str, ...], tuple[str, tuple[str, ...]]] = {
    tuple(words.split()): (direction, tuple(measures.split("|")))
    for words, direction, measures in (
        ("most expensive", "desc", "price|cost"),
        ("priciest", "desc", "price|cost"),
        ("least expensive", "asc", "price|cost"),
        ("cheapest", "asc", "price|cost"),
        ("heaviest", "desc", "weight|mass"),
        ("lightest", "asc", "weight|mass"),
        ("fastest", "desc", "speed"),
        ("slowest", "asc", "speed"),
        ("tallest", "desc", "height"),
        ("shortest", "asc", "height|length|duration"),
        ("longest", "desc", "length|duration"),
        ("hottest", "desc", "temp max|temp"),
        ("warmest", "desc", "temp max|temp"),
        ("coldest", "asc", "temp min|temp"),
        ("coolest", "asc", "temp min|temp"),
        ("windiest", "desc", "wind"),
        ("wettest", "desc", "precipitation"),
        ("rainiest", "desc", "precipitation"),
        ("driest", "asc", "precipitation"),
        ("most powerful", "desc", "horsepower|power"),
        ("strongest", "desc", "horsepower|power|strength"),
        ("least powerful", "asc", "horsepower|power"),
        ("oldest", "asc", "date|year"),
        ("newest", "desc", "date|year"),
        ("latest", "desc", "date|year"),
        ("most recent", "desc", "date|year"),
        ("earliest", "asc", "date|year"),
        ("most profitable", "desc", "profit"),
        ("best selling", "desc", "sales|revenue|units|quantity"),
        ("most populous", "desc", "population"),
    )
}

# Measures whose total says something; others are averaged unless the request says otherwise.
ADDITIVE = word_set(
    "sale revenue amount quantity profit unit turnover production volume order spend "
    "spending income expense precipitation rainfall export import visit click download "
    "passenger death birth case generation"
)

ACTIONS = frozenset(
    {
        "load",
        "describe",
        "show",
        "plot",
        "make",
        "only",
        "filter_to",
        "group",
        "compare",
        "sort",
        "publish",
        "report",
        "refresh",
        "which",
        "unsupported",
        "not",
    }
)

MONTHS = {
    name: number
    for number, names in enumerate(
        (
            "january jan",
            "february feb",
            "march mar",
            "april apr",
            "may",
            "june jun",
            "july jul",
            "august aug",
            "september sep sept",
            "october oct",
            "november nov",
            "december dec",
        ),
        start=1,
    )
    for name in names.split()
}

FUNCTION_WORDS = {
    "mean": "mean",
    "sum": "total",
    "median": "median",
    "count": "count",
    "nunique": "number of distinct",
    "min": "minimum",
    "max": "maximum",
    "std": "standard deviation of",
}
