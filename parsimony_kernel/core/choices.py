"""The choices of a question, and the parser that maps an answer to one of them.

This is the only place that interprets "yes", "stop" and "go on". Each choice has an id, which is
stored in the sealed record. A click sends the choice's number; typed words are parsed here.
"""

import re
from collections.abc import Collection, Iterable, Sequence

from parsimony_kernel.core.kinds import FailureKind
from parsimony_kernel.core.state import SuspensionRecord
from parsimony_kernel.core.text import Worded


class Choice(Worded):
    """The choices of the gate's own questions. Choices made of data are known by number."""

    run_it = "run_it", "Run it"
    allow_for_turn = "allow_for_turn", "Allow this for the rest of the turn"
    do_not_run_it = "do_not_run_it", "Don't"
    happened = "happened", "It did"
    did_not_happen = "did_not_happen", "It did not"
    go_on = "go_on", "Go on"
    stop = "stop", "Stop here"


APPROVAL = (Choice.run_it, Choice.allow_for_turn, Choice.do_not_run_it)
ALLOWING = frozenset({Choice.run_it, Choice.allow_for_turn})
OUTCOME = (Choice.happened, Choice.did_not_happen, Choice.stop)
MORE = (Choice.go_on, Choice.stop)

# For questions about these, "stop" is a complete answer.
LIMITS = frozenset({FailureKind.iteration_limit, FailureKind.time_limit})

_SURE = r"(?:yes|y|ok|okay|sure|ja|go ahead|go on)"
_RUN_IT = re.compile(
    rf"(?:{_SURE}(?:[,.! ]+run it)?|run it)(?:[,.! ]+please)?[.! ]*", re.IGNORECASE
)
_NO = re.compile(
    r"^(?:n|no|nope|nein|non|halt|cancel|abort|quit|enough|end|genug|never"
    r"|(?:don.?t|do not)(?! stop))\b",
    re.IGNORECASE,
)
_GO_ON_INDEED = re.compile(r"\b(?:don.?t|do not|not|never) stop\b", re.IGNORECASE)
_STOP = re.compile(r"\bstopp?\b", re.IGNORECASE)
_GO_ON = re.compile(
    r"(?:please,? )?(?:go on|go ahead|yes|yep|y|ok|okay|sure|continue|proceed|more|keep going"
    r"|carry on|ja|weiter|oui|do)\b",
    re.IGNORECASE,
)
_HAPPENED = dict.fromkeys(("it did", "yes"), Choice.happened) | dict.fromkeys(
    ("it did not", "it didn't", "no"), Choice.did_not_happen
)


def labels_of(choices: Iterable[Choice | str]) -> tuple[str, ...]:
    """Return the label of each choice."""
    return tuple(each.words if isinstance(each, Choice) else str(each) for each in choices)


def ids_of(choices: Iterable[Choice | str]) -> tuple[str, ...]:
    """Return the record's id of each choice; for data, its number from 1."""
    return tuple(
        each.value if isinstance(each, Choice) else str(number)
        for number, each in enumerate(choices, start=1)
    )


def offered_in(record: SuspensionRecord) -> Sequence[str]:
    """Return the ids that ``record`` offers.

    The gate's own questions are recognised by their subject, since a record may predate ids and a
    policy may use other words.
    """
    if record.pending_effect:
        return OUTCOME
    if record.pending_call is not None:
        return APPROVAL
    if record.originating_failure_kind in LIMITS or record.originating_guard:
        return MORE
    return record.choice_ids or ids_of(record.choices)


def resolve(reply: str, choices: Sequence[str], ids: Sequence[str] = ()) -> tuple[str, str]:
    """Resolve ``reply`` to the answer and the id of the chosen choice ("" for free words).

    A number picks the choice with that number; in quotes it stays text.

    Raises:
        ValueError: the reply is empty, or there is no such choice.
    """
    text = reply.strip()
    if not text:
        raise ValueError(
            "The answer is empty. Give the number of a choice or some words: %agent answer 2"
        )
    known = ids or ids_of(choices)
    if text in choices:
        return text, known[choices.index(text)]
    if not choices:
        return text, ""
    if text.isdecimal():
        number = int(text)
        if not 1 <= number <= len(choices):
            raise ValueError(
                f"There is no choice {text}; there are {len(choices)}, numbered from 1. To answer "
                f'with the number itself, put it in quotes: %agent answer "{text}"'
            )
        return choices[number - 1], known[number - 1]
    quoted = len(text) > 2 and text[0] == text[-1] and text[0] in "\"'"
    return (text[1:-1] if quoted else text), ""


def read(reply: str, offered: Collection[str]) -> Choice | None:
    """Return the gate's choice that ``reply`` means; ``None`` if the words are unclear.

    Only a clear yes lets code run: any other words decline it, and may say why. Free words answer a
    question about a limit without stopping the run.
    """
    said = reply.strip()
    stops = _STOP.search(_GO_ON_INDEED.sub("", said)) is not None
    if Choice.run_it in offered:
        if said.casefold() == Choice.allow_for_turn.words.casefold():
            return Choice.allow_for_turn
        if _RUN_IT.fullmatch(said):
            return Choice.run_it
        return Choice.stop if stops else Choice.do_not_run_it
    if Choice.happened in offered:
        return Choice.stop if stops else _HAPPENED.get(said.casefold().rstrip(".! "))
    if Choice.go_on in offered:
        if stops or _NO.search(said):
            return Choice.stop
        return Choice.go_on if _GO_ON.match(said) else None
    return None
