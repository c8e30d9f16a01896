"""Words of aggregates: functions, groups, and parts of time."""

from parsimony_kernel.offline.lexicon.entries import Words, declined, entries

_ENTRIES = {
    **entries("func", "mean", "mean|average|avg|averages|means|mean of|average of"),
    **entries("func", "sum", "sum|total|totals|sum of|total of|sum up|add up"),
    **entries("func", "median", "median|medians|median of"),
    **entries(
        "func",
        "count",
        "count|counts|count of|counts of|how many|number of|the number of|frequency|"
        "frequency of|frequencies of|count the",
    ),
    **entries(
        "func",
        "nunique",
        "number of distinct|number of different|number of unique|how many distinct|"
        "how many different|how many unique|count of distinct|count distinct",
    ),
    **entries("func", "min", "min|minimum|minimum of|minima"),
    **entries("func", "max", "max|maximum|maximum of|maxima"),
    **entries("func", "std", "std|standard deviation|standard deviation of"),
    **entries("distinct", None, "unique|distinct|different|unique values of|distinct values of"),
    **entries("by", None, "by|per|by the|per the"),
    **entries(
        "by",
        None,
        "for each|for every|in each|in every|each|every|of each|of every|grouped by|group by|"
        "broken down by|broken out by|aggregated by|split by|across|between the|across the|"
        "among|at each",
    ),
    **entries("freq", "hour", "hourly"),
    **entries("freq", "day", "daily"),
    **entries("freq", "week", "weekly"),
    **entries("freq", "month", "monthly"),
    **entries("freq", "quarter", "quarterly"),
    **entries("freq", "year", "yearly|annual|annually"),
    **entries("unit", "hour", "hour|hours"),
    **entries("unit", "day", "day|days|date|dates|calendar day"),
    **entries("unit", "week", "week|weeks"),
    **entries("unit", "month", "month|months"),
    **entries("unit", "quarter", "quarter|quarters"),
    **entries("unit", "year", "year|years"),
    **entries("unit", "weekday", "weekday|weekdays|day of week|day of the week|days of the week"),
    **entries(
        "unit",
        "month_name",
        "month of year|month of the year|calendar month|calendar months",
    ),
}
_DECLINED = declined(
    "sum squares|percentile|quantile|variance|mode|weighted|smooth|normalize|normalise|"
    "moving average|rolling average|rolling mean|rolling|cumulative|growth|"
    "percent change|percentage|share of|year over year|regress|regression|predict|"
    "forecast|train|cluster|classify|model|fit|outliers|outlier|anomalies"
)

WORDS = Words(_ENTRIES, _DECLINED)
