"""What a person replied to a question that had choices.

The wording of a question is its identity; an answer is found again by it.
"""

from collections.abc import Mapping, Sequence

from parsimony_kernel.offline.columns import near_values, same_value
from parsimony_kernel.offline.missing import Ask, Declined, Stopped, is_stop

_YES = frozenset({"yes", "y", "ok", "okay", "sure", "yes please", "that one", "do it"})


def choose(
    answers: Mapping[str, str], question: str, options: Sequence[str], context: str = ""
) -> str:
    """The option that the person chose; raises ``Ask`` until one was."""
    asked = question
    for _ in range(3):
        reply = answers.get(asked)
        if reply is None:
            raise Ask(asked, options, context)
        if is_stop(reply):
            raise Stopped(question)
        for option in options:
            if same_value(reply, option):
                return option
        if len(options) == 1 and reply.strip().casefold().rstrip(".!") in _YES:
            return options[0]
        near = near_values(reply, options)
        if len(near) == 1:
            return near[0]
        asked = f"{reply[:80]!r} is none of the choices. {question}"
    raise Declined(
        "The answers fit none of the choices.", [question], ["Say it in the request instead."]
    )
