"""What to do about a failure, as frozen values, and what a strategy is.

``RecoveryAction.RETRY(hint=…)`` and its six siblings make them; ``RecoveryAction.RETRY`` is also
their class, for ``isinstance`` and ``match``.
"""

import functools
import inspect
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Concatenate, ParamSpec, Protocol, overload

from parsimony_kernel.triage.taxonomy import FailureContext


@dataclass(frozen=True)
class RecoveryAction:
    """One of seven plans."""

    name: ClassVar[str] = ""

    RETRY: ClassVar[type["Retry"]]
    REPLAN: ClassVar[type["Replan"]]
    ROLLBACK: ClassVar[type["Rollback"]]
    RESUME: ClassVar[type["Resume"]]
    ESCALATE: ClassVar[type["Escalate"]]
    SUSPEND: ClassVar[type["Suspend"]]
    ABORT: ClassVar[type["Abort"]]


@dataclass(frozen=True)
class Retry(RecoveryAction):
    """The same step again, after ``delay`` seconds, knowing ``hint`` and the values of ``inject``.

    ``ValueError`` when the delay is negative.
    """

    name: ClassVar[str] = "RETRY"
    hint: str | None = None
    inject: Mapping[str, Any] | None = None
    delay: float = 0.0

    def __post_init__(self) -> None:
        if not self.delay >= 0:
            raise ValueError(f"a delay is 0 or more seconds, not {self.delay!r}")


@dataclass(frozen=True)
class Replan(RecoveryAction):
    """Another way to the same goal, knowing ``hint``."""

    name: ClassVar[str] = "REPLAN"
    hint: str | None = None


@dataclass(frozen=True)
class Rollback(RecoveryAction):
    """Back to a state whose checks passed; ``None`` is the newest."""

    name: ClassVar[str] = "ROLLBACK"
    checkpoint_id: str | None = None


@dataclass(frozen=True)
class Resume(RecoveryAction):
    """On from a part of the plan that is open; ``None`` is the first."""

    name: ClassVar[str] = "RESUME"
    from_subgoal: str | None = None


@dataclass(frozen=True)
class Escalate(RecoveryAction):
    """Hand the task to a person."""

    name: ClassVar[str] = "ESCALATE"
    message: str = ""


@dataclass(frozen=True)
class Suspend(RecoveryAction):
    """Ask a person and wait."""

    name: ClassVar[str] = "SUSPEND"
    message: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Abort(RecoveryAction):
    """Stop, with what there is."""

    name: ClassVar[str] = "ABORT"
    reason: str = ""


RecoveryAction.RETRY = Retry
RecoveryAction.REPLAN = Replan
RecoveryAction.ROLLBACK = Rollback
RecoveryAction.RESUME = Resume
RecoveryAction.ESCALATE = Escalate
RecoveryAction.SUSPEND = Suspend
RecoveryAction.ABORT = Abort

ACTIONS: Mapping[str, type[RecoveryAction]] = {
    each.name: each for each in (Retry, Replan, Rollback, Resume, Escalate, Suspend, Abort)
}

Strategy = Callable[[FailureContext], Awaitable[RecoveryAction]]
Settings = ParamSpec("Settings")


class Configurable(Protocol[Settings]):
    """A strategy, and what makes a strategy with other settings."""

    __name__: str

    @overload
    def __call__(  # type: ignore[overload-overlap]  # no setting is a FailureContext
        self, context: FailureContext, /
    ) -> Awaitable[RecoveryAction]: ...

    @overload
    def __call__(self, *args: Settings.args, **kwargs: Settings.kwargs) -> Strategy: ...


def configurable(
    function: Callable[Concatenate[FailureContext, Settings], Awaitable[RecoveryAction]],
) -> Configurable[Settings]:
    """``function`` as a strategy, which called with settings alone gives a strategy with them.

    ``TypeError``, at once, for settings that it does not have.
    """
    signature = inspect.signature(function)

    @functools.wraps(function)
    def strategy(*given: Any, **settings: Any) -> Any:
        if given and isinstance(given[0], FailureContext):
            return function(*given, **settings)
        signature.bind(None, *given, **settings)

        @functools.wraps(function)
        async def configured(context: FailureContext) -> RecoveryAction:
            return await function(context, *given, **settings)

        return configured

    return strategy
