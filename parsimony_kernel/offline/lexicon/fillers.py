"""Words that join others or say nothing by themselves."""

from parsimony_kernel.offline.lexicon.entries import Words, entries

_ENTRIES = {
    **entries("of", None, "of|of the"),
    **entries("and", None, "and|or|and also|as well as|and the|then|and then|plus|both|also"),
    **entries(
        "ref",
        None,
        "it|them|this|that|result|results|the result|the results|these|those|output|outcome",
    ),
    **entries(
        "noun",
        None,
        "data|dataset|datasets|table|tables|frame|dataframe|data frame|rows|row|records|"
        "record|entries|observations|file|files|csv|values|value|column|columns|items|"
        "everything|all of it|spreadsheet|sheet|parquet|excel|json|csv file|parquet file|"
        "json file|excel file|them all|series|points|numbers|type|types|kind|kinds|category|"
        "categories|class",
    ),
    **entries(
        "skip",
        None,
        "the|a|an|please|pls|plz|me|my|i|i'd|i'm|you|could|can|would|will|like|want|wish|to know|"
        "need|us|our|we|its|their|there|here|all|any|some|so|now|quick|quickly|nice|simple|"
        "short|small|let|let's|lets|does|did|do|have|has|had|having|been|hello|hi|hey|thanks|"
        "thank|kindly|using|use|take|next|finally|first of all|after that|afterwards|"
        "which is|which are|that is|that are|who are|came|come|comes|coming|made|folder|"
        "notebook|how|much|if|i want to|i would like to|want to|like to|need to|try to|"
        "able to|go ahead and|respectively|how did|how does|how do|how has|how have|they|he|"
        "she|whole|entire|full|different kinds of|kind of|type of|types of|kinds of|single|"
        "there are|there is|are there|is there|do we have|generated|generates|produces|"
        "consumed|consumes|sold|sells|sell|earned|produced|built|seen|recorded|reached|got|"
        "bought|ordered|per cent|information|info|about|behave|look|looks|like this|by far|"
        "overall|group of",
    ),
}

WORDS = Words(_ENTRIES)
