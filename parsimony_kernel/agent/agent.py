"""The public ``Agent``: wiring and nothing else.

Combines a model, an executor, tools, limits and a policy, and passes them to the loop.
"""

import uuid
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import aclosing
from typing import Any

from parsimony_kernel.agent.failure.suspension import Secret, SuspensionTokenMismatch
from parsimony_kernel.agent.hooks import RunContext, RunHooks
from parsimony_kernel.agent.loop import MAX_SUSPENSION_AGE_S, resume_run, run_loop
from parsimony_kernel.agent.prompts import INSTRUCTIONS
from parsimony_kernel.agent.resolve import Config, names_in, resolve_models
from parsimony_kernel.agent.termination_tools import termination_tools
from parsimony_kernel.core import config
from parsimony_kernel.core.cancellation import CancellationRequest
from parsimony_kernel.core.causes import DefaultPolicy, RecoveryPolicy
from parsimony_kernel.core.clock import SYSTEM_CLOCK, Clock
from parsimony_kernel.core.config import ActionContract, AgentGuardrails, FileStore
from parsimony_kernel.core.conversation import AgentContext, opening
from parsimony_kernel.core.events import AgentEvent, AgentResult, collect
from parsimony_kernel.core.state import RunState, SuspensionRecord
from parsimony_kernel.execution.base import BaseCodeExecutor
from parsimony_kernel.gate.procedure import Procedure
from parsimony_kernel.gate.rules import NO_RULES, Rules
from parsimony_kernel.limits.breaker import Breakers
from parsimony_kernel.storage.keyring import Keyring
from parsimony_kernel.toolbox.run_tools import code_tools, stored_file_tools
from parsimony_kernel.tools import Tool, Tools, tool
from parsimony_kernel.triage.classify import Classifier
from parsimony_kernel.triage.policy import FailurePolicy, PolicyRecovery


def __getattr__(name: str) -> Any:
    if name == "litellm":  # imports for seconds, so only on request
        from parsimony_kernel.llm.litellm_model import import_litellm

        return import_litellm()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


Models = Config | Sequence[Config]


class Agent:
    """An agent that runs requests with a model and tools.

    Args:
        model: a litellm model name, ``"offline"``, or a ``ChatModel``; a list of these, or
            comma-separated names, is a fallback chain.
        api_key: passed to the provider; never stored.
        model_config: litellm's keyword arguments instead of ``model``, or a list of such mappings.
        instructions: the system prompt; the notebook agent's by default.
        code_executor: runs the code of ``run_code``; a private ``CodeExecutor`` by default.
        output_factory: passed to that default executor.
        guardrails: limits; see ``AgentGuardrails``.
        session_id: the conversation's id; a new one by default.
        file_store: storage for the run's files. It adds the tools ``read_file`` and
            ``write_file``.
        model_id: the model's name in the record.
        policy: decides how to recover from failures; ``DefaultPolicy`` by default. A
            ``triage.policy.FailurePolicy`` decides by failure type.
        suspension_secret: signs suspensions; by default the key comes from the user's key files.
        tools: tools or typed functions, in addition to ``run_code`` and the three termination
            tools; a ``Tools`` replaces all of them.
        pinned_constraints: at most five reminders, placed last in every prompt.
        contract: what the task allows; an action that breaks it does not run.
        rules: what the task forbids, see ``gate.rules``; an action that breaks one does not run.
        procedure: a state machine of the allowed actions; only its edges can be taken.
        classifier: determines the type of a failure whose type is unknown. The type selects a hint
            and the strategy of a ``FailurePolicy``. Rule-based by default; a ``HybridClassifier``
            asks a model where the rules can't decide.

    Raises:
        TypeError: neither ``model`` nor ``model_config`` is given.
        ValueError: no model is named; there are too many, empty or too long constraints; or the
            contract or the procedure names a tool that doesn't exist.
    """

    def __init__(
        self,
        model: Models | None = None,
        api_key: str | None = None,
        model_config: Models | None = None,
        instructions: str | None = None,
        code_executor: BaseCodeExecutor | None = None,
        output_factory: Any = None,
        guardrails: AgentGuardrails | None = None,
        session_id: str | None = None,
        file_store: FileStore | None = None,
        model_id: str | None = None,
        policy: RecoveryPolicy | FailurePolicy | None = None,
        suspension_secret: Secret | None = None,
        tools: Tools | Iterable[Tool | Callable[..., Any]] | None = None,
        *,
        pinned_constraints: Iterable[str] = (),
        contract: ActionContract | None = None,
        rules: Rules = NO_RULES,
        procedure: Procedure | None = None,
        classifier: Classifier | None = None,
        keyring: Keyring | None = None,
        workspace: str = "",
        hooks: RunHooks | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self.model_config = _config(model, api_key, model_config)
        named = (each.name for each in resolve_models(self.model_config))
        self.model_id = model_id or ", ".join(named)
        self.guardrails = guardrails or AgentGuardrails()
        self.instructions = INSTRUCTIONS if instructions is None else instructions
        if rules:
            listed = "\n".join(f"- {each}" for each in rules.in_words())
            self.instructions += f"\n\nRules of this task, which the gate enforces\n{listed}"
        if isinstance(policy, FailurePolicy):
            policy = PolicyRecovery(policy)
        self.policy: RecoveryPolicy = policy or DefaultPolicy()
        self.session_id = session_id or uuid.uuid4().hex
        self.code_executor = code_executor or _private_executor(output_factory)
        self.file_store, self.workspace, self.clock = file_store, workspace, clock
        self.hooks = hooks or RunHooks(Breakers(clock))
        self.pinned_constraints = _pinned(pinned_constraints)
        self.contract, self.rules, self.procedure = contract, rules, procedure
        self.classifier = classifier
        self._secret, self._keyring = suspension_secret, keyring or Keyring()
        if isinstance(tools, Tools):
            self.tools = tools
        else:
            given = [each if isinstance(each, Tool) else tool(each) for each in tools or ()]
            own = code_tools(self.code_executor, timeout_s=self.guardrails.tool_timeout_s)
            self.tools = own + termination_tools() + given
        known = stored_file_tools(file_store) + self.hooks.tools(RunContext.of(self))
        if contract is not None:
            contract.check_tools(known)
        if procedure is not None:
            procedure.check_actions(known)

    @property
    def suspension_secret(self) -> Secret:
        """The key that seals suspensions.

        Raises:
            StorageError: there is none, or it cannot be read.
        """
        return self.signing_key()[0]

    def signing_key(self, key_id: str = "") -> tuple[Secret, str]:
        """Return a key and its id: the key ``key_id``, or by default the current one.

        The key is read on each call, since keys are rotated. Raises ``SuspensionTokenMismatch``
        with the reason when an old key is not here any more.
        """
        if self._secret is not None:
            return self._secret, ""
        key = self._keyring.get(key_id) if key_id else self._keyring.current()
        if key is None:
            raise SuspensionTokenMismatch(
                f"The key {key_id[:40]!r} that signed this question is not on this "
                "machine: answer where it was asked, or run the cell again."
            )
        return key.secret, key.key_id

    def start(
        self,
        message: str,
        *,
        ctx: AgentContext | None = None,
        run_id: str | None = None,
        cancellation: CancellationRequest | None = None,
    ) -> RunState:
        """Create the initial state of a run.

        Args:
            message: the request.
            ctx: earlier messages, and what the model is told of the notebook.
            run_id: the id of the run; a new one by default.
            cancellation: set it to stop the run.
        """
        given, secrets = ctx or AgentContext(), self.hooks.secrets(RunContext.of(self))
        before = [{**each.to_llm("default"), "metadata": each.metadata} for each in given.messages]
        return RunState(
            run_id=run_id or uuid.uuid4().hex,
            session_id=self.session_id,
            model_id=self.model_id,
            messages=secrets.of_prose([*before, *opening(message, given.notebook)]),
            started_monotonic_s=self.clock.monotonic(),
            pinned_constraints=list(map(secrets.clean, self.pinned_constraints)),
            workspace=self.workspace,
            files=self.file_store,
            code_executor=self.code_executor,
            cancellation=cancellation,
        )

    async def run(
        self,
        message: str,
        *,
        ctx: AgentContext | None = None,
        cancellation: CancellationRequest | None = None,
    ) -> AsyncGenerator[AgentEvent, None]:
        """Run a request and yield its events; the last one is terminal.

        Args:
            message: the request.
            ctx: earlier messages, and what the model is told of the notebook.
            cancellation: set it to stop the run, which then ends with ``RunCancelled``.
        """
        state = self.start(message, ctx=ctx, cancellation=cancellation)
        async with aclosing(run_loop(self, state)) as events:
            async for event in events:
                yield event

    async def ask(self, message: str, *, ctx: AgentContext | None = None) -> AgentResult:
        """Run a request and return the collected result.

        Args:
            message: the request.
            ctx: earlier messages, and what the model is told of the notebook.

        Returns:
            The result, also of a run that failed or asks; see ``AgentResult``.
        """
        return collect([event async for event in self.run(message, ctx=ctx)], context=ctx)

    async def resume(
        self,
        record: SuspensionRecord,
        reply: str,
        *,
        cancellation: CancellationRequest | None = None,
        max_suspension_age_s: float = MAX_SUSPENSION_AGE_S,
    ) -> AsyncGenerator[AgentEvent, None]:
        """Resume a suspended run with the person's answer and yield its further events.

        Args:
            record: the sealed record from ``UserInputRequested``.
            reply: the number or the text of a choice, or free text.
            cancellation: set it to stop the run.
            max_suspension_age_s: how old the record may be, in seconds.

        Raises:
            ValueError: the answer is empty or none of the possible ones, or the rules of the run
                have changed.
            SuspensionTokenMismatch: the token, the seal or the version is wrong.
            SuspensionExpired: the record is too old, or dated in the future.
            SuspensionElsewhere: the question was asked in another workspace.
            SuspensionConsumed: the question was answered before.
        """
        resumed = resume_run(
            self,
            record,
            reply,
            files=self.file_store,
            code_executor=self.code_executor,
            cancellation=cancellation,
            max_suspension_age_s=max_suspension_age_s,
        )
        async with aclosing(resumed) as events:
            async for event in events:
                yield event


def _config(model: Models | None, api_key: str | None, model_config: Models | None) -> Models:
    if model_config is not None:
        return model_config
    if model is None:
        raise TypeError("Agent needs a model, such as model='offline', or a model_config")
    if api_key is None:
        return model
    named = names_in(model) if isinstance(model, str) else ()
    if len(named) != 1:
        raise TypeError("api_key goes with one model's name; give each of several its own config")
    return {"model": named[0], "api_key": api_key}


def _pinned(given: Iterable[str]) -> tuple[str, ...]:
    rules = (given,) if isinstance(given, str) else tuple(given)
    are_short = all(each.strip() and len(each) <= config.MAX_PINNED_LENGTH for each in rules)
    if len(rules) > config.MAX_PINNED or not are_short:
        raise ValueError(
            f"pinned_constraints are at most {config.MAX_PINNED} rules of 1 to "
            f"{config.MAX_PINNED_LENGTH} characters each; what is longer belongs into the "
            "instructions"
        )
    return rules


def _private_executor(output_factory: Any) -> BaseCodeExecutor:
    from parsimony_kernel.execution.executor import CodeExecutor

    return CodeExecutor(output_factory=output_factory)
