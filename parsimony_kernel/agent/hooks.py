"""What a host may add to a run, with the defaults that a bare agent gets.

The loop reads six attributes of an agent (``guardrails``, ``policy``, ``suspension_secret``,
``model_config``, ``instructions``, ``tools``); everything optional comes through this class.
Subclass it and set it as the agent's ``hooks``.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from parsimony_kernel.agent.events import AgentEvent
from parsimony_kernel.agent.evidence import (
    came_since,
    code_that_ran,
    earlier,
    observed,
    said,
    succeeded,
)
from parsimony_kernel.agent.state import RunState, SuspensionRecord
from parsimony_kernel.agent.termination_tools import termination_tools
from parsimony_kernel.gate.claims import claims_observed
from parsimony_kernel.gate.effects import Effects, MemoryEffects
from parsimony_kernel.gate.frame_columns import frame_of
from parsimony_kernel.gate.gate import Gate, StepOutcome
from parsimony_kernel.gate.goal import about_the_goal
from parsimony_kernel.gate.grounding import columns_exist
from parsimony_kernel.gate.open_parts import nothing_open
from parsimony_kernel.gate.playbook import task_stages
from parsimony_kernel.gate.procedure import Walker
from parsimony_kernel.gate.repetition import Repetition, not_repeating
from parsimony_kernel.gate.stages import STAGES, Stage
from parsimony_kernel.limits.breaker import Breakers
from parsimony_kernel.lineage.checkpoint import Change
from parsimony_kernel.llm.base import ChatModel, ToolCall
from parsimony_kernel.llm.resolve import resolve_models
from parsimony_kernel.llm.secrets import Secrets
from parsimony_kernel.tools import Tools
from parsimony_kernel.triage.classifier.hybrid import Classifier
from parsimony_kernel.triage.classifier.rules import RulesClassifier
from parsimony_kernel.triage.trajectory import from_messages

# Nonces that this process has resumed. Without a journal, single use is kept per process.
_consumed: set[str] = set()
# What its runs have written outside, for the same reason.
_effects = MemoryEffects()


class RunHooks:
    """The seam between the loop and its host.

    ``breakers``, of models, and ``tool_breakers`` outlive a run when the hooks do.
    """

    def __init__(
        self, breakers: Breakers | None = None, tool_breakers: Breakers | None = None
    ) -> None:
        self.breakers = breakers or Breakers()
        self._tool_breakers = tool_breakers or Breakers()
        # A host's own hooks outlive its runs, the defaults are made anew for each.
        self._effects: Effects = _effects if type(self) is RunHooks else MemoryEffects()

    def models(self, agent: Any) -> Sequence[ChatModel]:
        """The models that answer this run, the preferred one first."""
        return resolve_models(agent.model_config)

    def secrets(self, agent: Any) -> Secrets:
        """What no text of this run may show."""
        return Secrets.of(self.models(agent))

    def tools(self, agent: Any) -> Tools:
        """What the model may call: the agent's tools, and those that end a run."""
        own = agent.tools if isinstance(agent.tools, Tools) else Tools(agent.tools or ())
        return own if any(tool.terminal for tool in own.values()) else own + termination_tools()

    def gate(self, tools: Tools, agent: Any, state: RunState) -> Gate:
        """The gate through which this run's actions pass.

        A run keeps the contract and the rules of its task and walks its procedure. One with an
        executor is held to what it has observed: code may use the columns that exist, a summary
        may say what tools have answered, and what is known is not asked again.
        """
        checks = () if state.code_executor is None else _grounded(tools, state)
        contract = getattr(agent, "contract", None)
        task = (
            *task_stages(contract, state.pinned_constraints, lambda: from_messages(state.messages)),
            *about_the_goal(contract, lambda: from_messages(state.messages)),
        )
        procedure = getattr(agent, "procedure", None)
        return Gate(
            tools,
            timeout_s=agent.guardrails.tool_timeout_s,
            stages=(*STAGES, *task, *checks, *self.stages(state)),
            effects=self.effects(state),
            run_id=state.run_id,
            breakers=self._tool_breakers,
            walker=None if procedure is None else Walker.at(procedure, state.procedure_state),
        )

    def shared(self, call: ToolCall, outcome: StepOutcome) -> StepOutcome:
        """What a model may read of the outcome of ``call``: all of it. A failure stands in
        ``failure`` and in ``result``."""
        return outcome

    def shared_names(self, words: str) -> str:
        """What a model may read of words that name variables: all of them."""
        return words

    def stages(self, state: RunState) -> tuple[Stage, ...]:
        """What the host checks of each action, after everything else."""
        return ()

    def effects(self, state: RunState) -> Effects:
        """The record of this run's writes."""
        return self._effects

    def classifier(self, agent: Any) -> Classifier:
        """What tells the type of a failure that the gate does not know."""
        own: Classifier | None = getattr(agent, "classifier", None)
        return own or RulesClassifier()

    def identifiers(self, agent: Any) -> Mapping[str, str]:
        """The values that the task is about, by argument name."""
        contract = getattr(agent, "contract", None)
        return {} if contract is None else {k: str(v) for k, v in contract.identifiers.items()}

    def drain(self) -> list[AgentEvent]:
        """Events that tools emitted since the last call, in order."""
        return []

    def variables(self, state: RunState) -> tuple[str, ...]:
        """The names that this run has bound so far."""
        return ()

    def ended(self, state: RunState, change: Change | None) -> None:
        """The run has ended, or waits; ``change`` is what its code did to the variables."""

    def changes_since(self, record: SuspensionRecord) -> str | None:
        """What the resumed run is told about the namespace; ``None`` when nothing changed."""
        return None

    def claim(self, record: SuspensionRecord) -> bool:
        """Take the record's single use. ``False`` when it was taken before."""
        if record.nonce in _consumed:
            return False
        _consumed.add(record.nonce)
        return True


def _grounded(tools: Tools, state: RunState) -> tuple[Stage, ...]:
    variables: Callable[[], Mapping[str, Any]] = getattr(state.code_executor, "variables", dict)
    code = {name for name, tool in tools.items() if tool.tool_type == "code"}
    publishing = {name for name, tool in tools.items() if tool.tool_type == "publish"}
    working = {name for name, tool in tools.items() if not tool.terminal}
    return (
        columns_exist(variables, lambda: said(state.messages)),
        claims_observed(
            lambda: observed(state.messages),
            lambda: _known_names(variables()),
            lambda: succeeded(state.messages, publishing),
            lambda: succeeded(state.messages, working),
            code=lambda: code_that_ran(state.messages, code),
            earlier=lambda: earlier(state.messages),
            exists=lambda path: came_since(path, state.started_at),
        ),
        nothing_open(lambda: state.open_subgoals),
        not_repeating(lambda: Repetition.from_json(state.repetition)),
    )


def _known_names(variables: Mapping[str, Any]) -> frozenset[str]:
    frames = filter(None, map(frame_of, variables.values()))
    return frozenset(variables).union(*(frame.names() for frame in frames))


def hooks_of(agent: Any) -> RunHooks:
    """The agent's hooks, or the defaults."""
    hooks = getattr(agent, "hooks", None)
    return hooks if isinstance(hooks, RunHooks) else RunHooks()
