"""What must be known, or cannot be done: raised where it is found, made a step by the planner."""

from collections.abc import Iterable, Sequence

from parsimony_kernel.offline.words import spoken

STOP = "Stop here"


class Missing(Exception):
    """Something must be known first."""


class Ask(Missing):
    """A person must say."""

    def __init__(self, question: str, choices: Sequence[str] = (), context: str = "") -> None:
        super().__init__(question)
        self.question, self.choices, self.context = question, tuple(choices), context


class LookFor(Missing):
    """The data must be searched for these words."""

    def __init__(self, words: Iterable[str]) -> None:
        self.words = tuple(dict.fromkeys(words))
        super().__init__(spoken(self.words))


class CountDistinct(Missing):
    """It must be known how many different values these columns have."""

    def __init__(self, columns: Iterable[str]) -> None:
        self.columns = tuple(dict.fromkeys(columns))
        super().__init__(spoken(self.columns))


class Declined(Missing):
    """It cannot be done; ``blockers`` say why and ``steps`` what would help."""

    def __init__(self, rationale: str, blockers: Sequence[str], steps: Sequence[str] = ()) -> None:
        super().__init__(rationale)
        self.rationale, self.blockers, self.steps = rationale, tuple(blockers), tuple(steps)


class Stopped(Missing):
    """The person said to stop."""


def is_stop(reply: str) -> bool:
    """Whether a reply says to do nothing more."""
    return reply.strip().casefold().rstrip(".!") in {
        "stop", "stop here", "cancel", "no", "never mind", "nevermind", "abort", "quit", "nothing",
    }  # fmt: skip


def not_understood(words: Iterable[str]) -> Declined:
    """Words that are in no place of the grammar."""
    listed = list(words)
    return Declined(
        f"I did not understand {spoken(repr(w) for w in listed)}.",
        [f"{w!r} is outside of what the offline model understands" for w in listed],
    )
