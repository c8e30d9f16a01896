"""How a run ends, or waits, by its own word.

Values that a termination tool returns; the loop turns it into the terminal event. Their words are
texts, or they cannot be made.
"""

from pydantic.dataclasses import dataclass


@dataclass(frozen=True)
class TerminationRequest:
    """The model says that it is done, or, with blockers, that it cannot go on."""

    message: str
    blockers: tuple[str, ...] = ()
    suggested_next_steps: tuple[str, ...] = ()

    @property
    def is_done(self) -> bool:
        """Whether the task was finished."""
        return not self.blockers


@dataclass(frozen=True)
class SuspensionRequest:
    """The model asks the person. Returned by the ``ask_user`` tool."""

    question: str
    context: str | None = None
    choices: tuple[str, ...] = ()
