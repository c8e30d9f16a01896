"""What is known of measures and months by their names."""

from parsimony_kernel.offline.words import word_set

# Measures whose total says something; others are averaged unless the request says otherwise.
ADDITIVE = word_set(
    "sale revenue amount quantity profit unit turnover production volume order spend "
    "spending income expense precipitation rainfall export import visit click download "
    "passenger death birth case generation"
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
