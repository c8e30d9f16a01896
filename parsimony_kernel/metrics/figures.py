"""What the events of runs add up to.

Pure, and the one place that says what counts as what. The unit is an execution: what happens
between a person's word and the next, up to a terminal event or to the next ``RunStarted``; a run
that asks in between and goes on is two of them.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from parsimony_kernel.core.events import (
    AgentError,
    AgentEvent,
    BudgetWarning,
    Handoff,
    LLMCallCompleted,
    PartialRunSummary,
    RunCancelled,
    RunCompleted,
    RunStarted,
    ToolEvent,
    TurnForgotten,
    TurnTakenBack,
    UserInputRequested,
)
from parsimony_kernel.core.kinds import Failure, FailureKind
from parsimony_kernel.core.refusals import GUIDANCE

Outcome = Literal["completed", "asked", "handed_off", "stopped", "cancelled"]
# A safe answer, or a clean way to a person.
SAFE: frozenset[Outcome] = frozenset({"completed", "asked", "handed_off"})

# The one strategy of falling back that a run has; it is ``AgentError.fallback`` that shows it.
FALLBACK_MODEL = "fallback_model"
REFUSAL = "refusal"


@dataclass(frozen=True)
class Execution:
    """What one execution came to so far.

    Attributes:
        steps: tool calls that were begun.
        tokens: prompt and answer together, by model.
        token_budget: the most that was allowed, ``None`` for no limit.
        budget_share: the part of it that is used.
        loops: how often repetition was detected.
        fallbacks: the strategy of each.
        interventions: what was done about each failure: ``refusal``, ``retry``,
            ``narrow_scope``, the strategy of a fallback, ``ask_user``, ``handoff`` or ``stop``.
        validated: actions that the gate judged.
        rejections: the refusal's wire name for each action that it did not let through.
        open_breakers: services that were left alone, by name.
        outcome: ``None`` while there is no terminal event.
        is_answer: whether it began with a person's answer.
    """

    steps: int = 0
    tokens: Mapping[str, int] = field(default_factory=dict)
    token_budget: int | None = None
    budget_share: float | None = None
    loops: int = 0
    fallbacks: tuple[str, ...] = ()
    interventions: tuple[str, ...] = ()
    validated: int = 0
    rejections: tuple[str, ...] = ()
    open_breakers: frozenset[str] = frozenset()
    outcome: Outcome | None = None
    is_answer: bool = False

    @property
    def total_tokens(self) -> int:
        """Over all models."""
        return sum(self.tokens.values())

    @property
    def is_safe(self) -> bool:
        """Whether it ended in a safe answer or a clean way to a person."""
        return self.outcome in SAFE


def after(execution: Execution, event: AgentEvent) -> Execution:
    """``execution`` once ``event`` has happened too."""
    match event:
        case RunStarted():
            return Execution(token_budget=event.max_tokens, is_answer=event.reply is not None)
        case ToolEvent(completed=False):
            return replace(execution, steps=execution.steps + 1)
        case ToolEvent():
            return _judged(execution, event)
        case LLMCallCompleted():
            return _spent(execution, event)
        case BudgetWarning(guard="tokens"):
            return _used(execution, event.used / event.limit)
        case AgentError():
            done = FALLBACK_MODEL if event.fallback else event.action
            fell = (*execution.fallbacks, FALLBACK_MODEL) if event.fallback else execution.fallbacks
            return _failed(replace(execution, fallbacks=fell), event.failure, done)
        case RunCompleted():
            return replace(execution, outcome="completed")
        case UserInputRequested():
            return _asked(execution, event)
        case Handoff():
            handed = replace(execution, outcome="handed_off")
            return _failed(handed, event.failure, "handoff") if event.failure else handed
        case PartialRunSummary():
            # Where nothing ran, it was the person who answered that it should end.
            declined = execution.is_answer and not execution.steps and not execution.tokens
            stopped = replace(execution, outcome="stopped")
            return stopped if declined else _failed(stopped, None, "stop")
        case RunCancelled():
            return replace(execution, outcome="cancelled")
        case _:
            return execution


def _judged(execution: Execution, event: ToolEvent) -> Execution:
    result = event.result or {}
    if result.get("stopped") or "waiting" in result:
        return execution
    judged = replace(execution, validated=execution.validated + 1)
    if event.failure is not None and event.failure.kind is FailureKind.loop_detected:
        judged = replace(judged, loops=judged.loops + 1)
    error = str(result.get("error"))
    if error not in GUIDANCE:
        return judged
    return replace(
        judged,
        rejections=(*judged.rejections, error),
        interventions=(*judged.interventions, REFUSAL),
    )


def _spent(execution: Execution, event: LLMCallCompleted) -> Execution:
    spent = event.prompt_tokens + event.completion_tokens
    tokens = {**execution.tokens, event.model: execution.tokens.get(event.model, 0) + spent}
    counted = replace(execution, tokens=tokens)
    budget = counted.token_budget
    return _used(counted, counted.total_tokens / budget) if budget else counted


def _used(execution: Execution, share: float) -> Execution:
    # A warning counts what earlier executions of the run have used as well.
    return replace(execution, budget_share=max(share, execution.budget_share or 0.0))


def _asked(execution: Execution, event: UserInputRequested) -> Execution:
    asked = replace(execution, outcome="asked")
    kind = event.originating_failure_kind
    if kind is None and not event.suspension_record.originating_guard:
        return asked  # the model's own question
    loops = asked.loops + (kind is FailureKind.loop_detected)
    return replace(asked, loops=loops, interventions=(*asked.interventions, "ask_user"))


def _failed(execution: Execution, failure: Failure | None, done: str | None) -> Execution:
    loops, names = execution.loops, execution.open_breakers
    if failure is not None:
        loops += failure.kind is FailureKind.loop_detected
        if failure.metadata.get("breaker") == "open":
            names |= {str(failure.metadata.get("model", ""))}
    interventions = (*execution.interventions, done) if done else execution.interventions
    return replace(execution, loops=loops, open_breakers=names, interventions=interventions)


def executions(events: Iterable[AgentEvent]) -> tuple[Execution, ...]:
    """The executions of one run, in order. What was done to a run later is none."""
    found: list[Execution] = []
    for event in events:
        if isinstance(event, TurnTakenBack | TurnForgotten):
            continue
        if not found or found[-1].outcome is not None or isinstance(event, RunStarted):
            found.append(Execution())
        found[-1] = after(found[-1], event)
    return tuple(found)


@dataclass(frozen=True)
class Figures:
    """What executions come to together. Rates are shares of 1, ``None`` where nothing counts.

    Attributes:
        loop_rate, fallback_rate: shares of the executions in which there was one.
        recovery_rate: of the executions that needed an intervention, those that ended safely.
        rejection_rate: of the actions that the gate judged, those that it refused.
        p99_steps, p99_tokens, p99_budget_share: not exceeded by 99 of 100 executions.
    """

    executions: int = 0
    outcomes: Mapping[str, int] = field(default_factory=dict)
    steps: int = 0
    tokens: Mapping[str, int] = field(default_factory=dict)
    looped: int = 0
    fell_back: int = 0
    intervened: int = 0
    recovered: int = 0
    interventions: Mapping[str, int] = field(default_factory=dict)
    validated: int = 0
    rejections: Mapping[str, int] = field(default_factory=dict)
    open_breakers: tuple[str, ...] = ()
    p99_steps: int | None = None
    p99_tokens: int | None = None
    p99_budget_share: float | None = None

    @property
    def loop_rate(self) -> float | None:
        return ratio(self.looped, self.executions)

    @property
    def fallback_rate(self) -> float | None:
        return ratio(self.fell_back, self.executions)

    @property
    def breakers_open(self) -> int:
        return len(self.open_breakers)

    @property
    def recovery_rate(self) -> float | None:
        return ratio(self.recovered, self.intervened)

    @property
    def rejection_rate(self) -> float | None:
        return ratio(sum(self.rejections.values()), self.validated)


def ratio(part: float, whole: float) -> float | None:
    """``part`` of ``whole``; ``None`` of nothing."""
    return part / whole if whole else None


def gathered(each: Sequence[Execution]) -> Figures:
    """The figures of executions, of whatever runs. One without an outcome counts as well."""
    intervened = [one for one in each if one.interventions]
    shares = [one.budget_share for one in each if one.budget_share is not None]
    tokens: Counter[str] = Counter()
    for one in each:
        tokens.update(one.tokens)
    return Figures(
        executions=len(each),
        outcomes=_counted(one.outcome or "open" for one in each),
        steps=sum(one.steps for one in each),
        tokens=dict(sorted(tokens.items())),
        looped=sum(one.loops > 0 for one in each),
        fell_back=sum(bool(one.fallbacks) for one in each),
        intervened=len(intervened),
        recovered=sum(one.is_safe for one in intervened),
        interventions=_counted(name for one in each for name in one.interventions),
        validated=sum(one.validated for one in each),
        rejections=_counted(name for one in each for name in one.rejections),
        open_breakers=tuple(sorted({name for one in each for name in one.open_breakers})),
        p99_steps=_p99([one.steps for one in each]),
        p99_tokens=_p99([one.total_tokens for one in each]),
        p99_budget_share=_p99(shares),
    )


def of_runs(runs: Iterable[Iterable[AgentEvent]]) -> Figures:
    """The figures of runs, each given as its events."""
    return gathered([one for run in runs for one in executions(run)])


def _counted(names: Iterable[str]) -> dict[str, int]:
    return dict(sorted(Counter(names).items()))


def _p99(values: Sequence[Any]) -> Any:
    """The smallest value that 99 of 100 do not exceed (nearest rank)."""
    if not values:
        return None
    return sorted(values)[-(-len(values) * 99 // 100) - 1]


def to_json(figures: Figures) -> dict[str, Any]:
    """Plain data, the rates with it."""
    plain = {
        name: dict(value) if isinstance(value, Mapping) else value
        for name, value in vars(figures).items()
    }
    plain["open_breakers"] = list(figures.open_breakers)
    rates = ("loop_rate", "fallback_rate", "recovery_rate", "rejection_rate")
    return plain | {name: getattr(figures, name) for name in rates}


def to_text(figures: Figures) -> str:
    """A table for people, one line a figure."""
    rows = [
        ("Executions", _with_parts(figures.executions, figures.outcomes)),
        ("Steps", f"{figures.steps:,} (99 % have at most {_number(figures.p99_steps)})"),
        ("Tokens", _with_parts(sum(figures.tokens.values()), figures.tokens)),
        ("Tokens, 99 % at most", _number(figures.p99_tokens)),
        ("Share of the token budget", f"{_percent(figures.p99_budget_share)} (99 % at most)"),
        ("Loop rate", _rate(figures.loop_rate, figures.looped, figures.executions)),
        ("Fallback rate", _rate(figures.fallback_rate, figures.fell_back, figures.executions)),
        (
            "Interventions",
            _with_parts(sum(figures.interventions.values()), figures.interventions),
        ),
        ("Recovery rate", _rate(figures.recovery_rate, figures.recovered, figures.intervened)),
        (
            "Validation rejection rate",
            _rate(figures.rejection_rate, sum(figures.rejections.values()), figures.validated),
        ),
        ("Rejections", _with_parts(sum(figures.rejections.values()), figures.rejections)),
        ("Breakers met open", ", ".join(figures.open_breakers) or "none"),
    ]
    width = max(len(name) for name, _ in rows)
    return "\n".join(f"{name:<{width}}  {value}" for name, value in rows)


def _with_parts(total: int, parts: Mapping[str, int]) -> str:
    inside = ", ".join(f"{name} {count:,}" for name, count in parts.items())
    return f"{total:,} ({inside})" if inside else f"{total:,}"


def _rate(rate: float | None, part: int, whole: int) -> str:
    return "–" if rate is None else f"{_percent(rate)} ({part:,} of {whole:,})"


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{share:.1%}".replace("%", " %")


def _number(value: int | None) -> str:
    return "–" if value is None else f"{value:,}"
