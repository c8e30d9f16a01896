"""Hooks of a run for its host, with the defaults of an agent without one.

A run reaches its host only through ``RunHooks``: subclass it and set an instance as the agent's
``hooks``. ``RunContext`` is the run's view of the agent itself.
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any

from parsimony_kernel.agent.chart_images import MOST_PICTURES
from parsimony_kernel.agent.failure.recovery import RecoveryContext
from parsimony_kernel.agent.failure.suspension import take_single_use
from parsimony_kernel.agent.prompts import came_since, observed, persons_words
from parsimony_kernel.agent.resolve import Config, resolve_models
from parsimony_kernel.agent.termination_tools import termination_tools
from parsimony_kernel.core.chat import ChatModel, ToolCall
from parsimony_kernel.core.config import ActionContract, AgentGuardrails
from parsimony_kernel.core.effects import Effects, MemoryEffects
from parsimony_kernel.core.events import AgentEvent
from parsimony_kernel.core.outputs import FigureObject, KernelOutput
from parsimony_kernel.core.state import RunState, SuspensionRecord
from parsimony_kernel.gate.approval import Approving
from parsimony_kernel.gate.column_check import columns_exist, frame_of
from parsimony_kernel.gate.gate import Gate, StepOutcome
from parsimony_kernel.gate.groundedness import Seen, groundedness, was_refused, without_marks
from parsimony_kernel.gate.loops import Repetition, not_repeating
from parsimony_kernel.gate.procedure import Procedure, Walker
from parsimony_kernel.gate.rules import NO_RULES, Rules, nothing_open, task_stages
from parsimony_kernel.gate.stages import STAGES, Stage
from parsimony_kernel.limits.breaker import Breakers
from parsimony_kernel.lineage.checkpoint import Change
from parsimony_kernel.lineage.file_backups import Files
from parsimony_kernel.llm.secrets import Secrets
from parsimony_kernel.tools import Tool, Tools
from parsimony_kernel.triage.classify import Classifier, RulesClassifier, from_messages

# This process's record of outside writes, for runs without a journal.
_effects = MemoryEffects()


class RunHooks:
    """The interface between the loop and its host.

    ``breakers`` (of models) and ``tool_breakers`` outlive a run when the hooks do.
    """

    def __init__(
        self, breakers: Breakers | None = None, tool_breakers: Breakers | None = None
    ) -> None:
        self.breakers = breakers or Breakers()
        self._tool_breakers = tool_breakers or Breakers()
        # A host's own hooks outlive its runs. Default hooks may be created for each run, so they
        # share the record of this process.
        self._effects: Effects = _effects if type(self) is RunHooks else MemoryEffects()

    def models(self, context: "RunContext") -> Sequence[ChatModel]:
        """Return the models of this run, the preferred one first."""
        return resolve_models(context.model_config)

    def secrets(self, context: "RunContext") -> Secrets:
        """Return the redactor with the values that no text of this run may show."""
        return Secrets.of(self.models(context))

    def tools(self, context: "RunContext") -> Tools:
        """Return the tools of the run: the agent's own, plus the termination tools if it has
        none."""
        own = Tools() + context.tools
        return own if any(tool.terminal for tool in own.values()) else own + termination_tools()

    def offered(self, tools: Tools) -> Tools:
        """Select the tools that requests describe; the others remain callable."""
        return tools

    def gate(self, tools: Tools, context: "RunContext", state: RunState) -> Gate:
        """Build the gate for this run's actions.

        It enforces the contract, the rules and the procedure. With an executor it also checks
        actions against the run's observations: code may use existing columns only, a summary may
        claim only what tools returned, and a call is refused when its result is already known.
        """
        strict = context.guardrails.claims == "strict"
        checks = () if state.code_executor is None else _grounded(tools, state, strict=strict)
        task = task_stages(context.contract, context.rules, lambda: from_messages(state.messages))
        return Gate(
            tools,
            timeout_s=context.guardrails.tool_timeout_s,
            stages=(*STAGES, *task, *checks, *self.stages(state)),
            effects=self.effects(state),
            run_id=state.run_id,
            breakers=self._tool_breakers,
            approvals=self.approvals(state),
            walker=Walker(context.procedure, state.procedure_state),
        )

    async def kept(self, call: ToolCall, outcome: StepOutcome, state: RunState) -> StepOutcome:
        """Save what ``call`` returned, and note it in the outcome; does nothing by default."""
        return outcome

    def shared(self, call: ToolCall, outcome: StepOutcome) -> StepOutcome:
        """Return the part of an outcome that a model may read; all of it by default.

        A failure is in both ``failure`` and ``result``.
        """
        return outcome

    def pictures(self, outcome: StepOutcome) -> Sequence[FigureObject]:
        """Return the charts of an outcome that a model may see; by default the first few."""
        data = outcome.result.data
        shown = data.shown if isinstance(data, KernelOutput) else ()
        return [each for each in shown if isinstance(each, FigureObject)][:MOST_PICTURES]

    def shared_names(self, words: str) -> str:
        """Return the part of a text with variable names that a model may read; all by default."""
        return words

    def stages(self, state: RunState) -> tuple[Stage, ...]:
        """Return the host's own checks of actions, which run after all others."""
        return ()

    def approvals(self, state: RunState) -> Approving | None:
        """Return the approval policy for actions; by default none, so nobody is asked."""
        return None

    def effects(self, state: RunState) -> Effects:
        """Return the record of this run's outside writes."""
        return self._effects

    def drain(self) -> list[AgentEvent]:
        """Return the events that tools emitted since the last call of this method, in order."""
        return []

    def variables(self, state: RunState) -> tuple[str, ...]:
        """Return the names that this run has bound so far."""
        return ()

    def files(self, state: RunState) -> Files | None:
        """Return the backup of files that this run overwrites; by default there is none."""
        return None

    def ended(self, state: RunState, change: Change | None) -> None:
        """Handle the end or suspension of the run; ``change`` is its change of the variables."""

    def news_since(self, record: SuspensionRecord) -> Sequence[dict[str, Any]]:
        """Return messages about notebook changes for a resumed run; none by default."""
        return ()

    def claim(self, record: SuspensionRecord) -> bool:
        """Claim the record's single use; ``False`` when it was claimed before."""
        return take_single_use(record)


def _grounded(tools: Tools, state: RunState, *, strict: bool) -> tuple[Stage, ...]:
    variables: Callable[[], Mapping[str, Any]] = getattr(state.code_executor, "variables", dict)
    code = {name for name, tool in tools.items() if tool.tool_type == "code"}
    publishing = {name for name, tool in tools.items() if tool.tool_type == "publish"}
    acting = {name for name, tool in tools.items() if tool.effect != "none" and not tool.terminal}

    def seen() -> Seen:
        (results, words, earlier), live = observed(state.messages), variables()
        frames = filter(None, map(frame_of, live.values()))
        # Calls that raised, were refused or were skipped have no output and don't count as run.
        done = [each for each in from_messages(state.messages) if each.tool_output is not None]
        called = {each.tool_called for each in done}
        ran = (each.tool_input for each in done if each.tool_called in code)
        return Seen(
            [without_marks(each) for each in results if not was_refused(each)],
            words,
            {*live, *tools, *(name for frame in frames for name in frame.names())},
            [str(given.get("code", "")) for given in ran if isinstance(given, Mapping)],
            earlier,
            published=not publishing.isdisjoint(called),
            acted=not (acting - publishing - code).isdisjoint(called),
            refused=any(map(was_refused, results)),
            exists=lambda path: came_since(path, state.started_at),
        )

    return (
        columns_exist(variables, lambda: persons_words(state.messages)),
        groundedness(seen, strict=strict),
        nothing_open(lambda: state.open_subgoals),
        not_repeating(lambda: Repetition.from_json(state.repetition)),
    )


def _plain(value: Any) -> Any:
    return sorted(value) if isinstance(value, Set) else str(value)


@dataclass(frozen=True, kw_only=True)
class RunContext(RecoveryContext):
    """A run's view of its agent, read once at the start; the only place that fills in defaults.

    The run keeps these objects: it sees a policy or tool that changes itself, but an object that is
    newly set on the agent takes effect in the next run.

    Args:
        model_config: litellm's keyword arguments, chat models, or names; the hooks resolve it.
    """

    model_config: Config | Sequence[Config]
    guardrails: AgentGuardrails = field(default_factory=AgentGuardrails)
    instructions: str | None = None
    tools: Iterable[Tool] | Tools = ()
    hooks: RunHooks = field(default_factory=RunHooks)
    contract: ActionContract | None = None
    rules: Rules = NO_RULES
    procedure: Procedure | None = None
    classifier: Classifier = field(default_factory=RulesClassifier)
    pinned_constraints: Sequence[str] = ()
    workspace: str = ""

    @property
    def terms(self) -> str:
        """The hash of the contract, the rules and the procedure; empty without any of them."""
        facts = {
            "contract": self.contract and vars(self.contract),
            "rules": self.rules.in_words(),
            "procedure": self.procedure and self.procedure.digest,
        }
        text = json.dumps(facts, sort_keys=True, default=_plain)
        return hashlib.sha256(text.encode()).hexdigest() if any(facts.values()) else ""
