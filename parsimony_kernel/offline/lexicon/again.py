"""Words that carry a request over from the one before."""

from parsimony_kernel.offline.lexicon.entries import Words, entries

_ENTRIES = {
    **entries(
        "again",
        "same",
        "same|the same|same thing|the same thing|do the same|do the same thing|same again|"
        "the same again|same as before|the same as before|like before|repeat|repeat it|"
        "repeat that|repeat this|do it again|do that again|do this again|once more|again|redo|"
        "redo it|redo that",
    ),
    **entries("again", "about", "what about|how about|what about the|how about the"),
    **entries("instead", "instead", "instead|too|as well"),
    **entries("instead", "of", "instead of|rather than|in place of"),
    **entries("instead", "but", "but"),
    **entries("instead", "ok", "ok|okay|alright|hmm"),
    **entries(
        "group",
        None,
        "break it down|break that down|break this down|split it|split that|split this",
    ),
}

WORDS = Words(_ENTRIES, actions=frozenset({"again"}))
