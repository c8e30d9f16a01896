"""Words of order: the first, the top, the most, and what adjectives rank by."""

from parsimony_kernel.offline.lexicon.entries import Words, entries

_ENTRIES = {
    **entries("top", "desc", "top|first few|best"),
    **entries("top", "asc", "bottom|worst"),
    **entries("head", "head", "first"),
    **entries("head", "tail", "last"),
    **entries("super", "desc", "highest|largest|biggest|greatest|most|high"),
    **entries("super", "asc", "lowest|smallest|least|fewest|low"),
    **entries(
        "super",
        "common",
        "most common|most frequent|commonest|most often|occurs most|most popular",
    ),
    **entries("direction", "desc", "descending|in descending order|from high to low|desc"),
    **entries("direction", "asc", "ascending|in ascending order|from low to high|asc"),
}

WORDS = Words(_ENTRIES)

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
