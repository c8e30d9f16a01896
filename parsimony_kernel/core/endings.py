"""The requests by which a model ends or suspends its run.

Termination tools return them; the loop turns them into the terminal event. Their fields are
validated as text.
"""

from pydantic.dataclasses import dataclass


@dataclass(frozen=True)
class TerminationRequest:
    """The model is done, or, with blockers, cannot continue."""

    message: str
    blockers: tuple[str, ...] = ()
    suggested_next_steps: tuple[str, ...] = ()

    @property
    def is_done(self) -> bool:
        """Whether the task was completed."""
        return not self.blockers


@dataclass(frozen=True)
class SuspensionRequest:
    """The model asks the person a question; returned by the ``ask_user`` tool."""

    question: str
    context: str | None = None
    choices: tuple[str, ...] = ()
