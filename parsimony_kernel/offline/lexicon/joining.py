"""Words that bring two tables together."""

from parsimony_kernel.offline.lexicon.entries import Words, declined, entries

_ENTRIES = {
    **entries("join", None, "join|merge|combine|join together|merge together"),
    **entries("join", "left", "left join|left outer join|left merge"),
    **entries("join", "right", "right join|right outer join|right merge"),
    **entries("join", "inner", "inner join|inner merge"),
    **entries("join", "outer", "outer join|full join|full outer join|outer merge"),
}
_DECLINED = declined("concatenate")

WORDS = Words(_ENTRIES, _DECLINED, actions=frozenset({"join"}))
