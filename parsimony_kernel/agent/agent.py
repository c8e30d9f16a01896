"""The agent: wiring, and nothing else.

It brings together a model, an executor, tools, limits and a policy, and hands them to the loop.
"""

import os
import uuid
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import aclosing
from typing import Any

from parsimony_kernel.agent.cancellation import CancellationRequest
from parsimony_kernel.agent.config import AgentGuardrails, FileStore
from parsimony_kernel.agent.events import AgentEvent
from parsimony_kernel.agent.failure.keyring import Keyring
from parsimony_kernel.agent.failure.policy import DefaultPolicy, RecoveryPolicy
from parsimony_kernel.agent.failure.suspension import Secret
from parsimony_kernel.agent.hooks import RunHooks
from parsimony_kernel.agent.loop import MAX_SUSPENSION_AGE_S, resume_run, run_loop
from parsimony_kernel.agent.models import AgentContext
from parsimony_kernel.agent.outputs import AgentResult, collect
from parsimony_kernel.agent.prompts import INSTRUCTIONS, request_message
from parsimony_kernel.agent.state import RunState, SuspensionRecord
from parsimony_kernel.agent.termination_tools import termination_tools
from parsimony_kernel.clock import SYSTEM_CLOCK, Clock
from parsimony_kernel.execution.executor import BaseCodeExecutor
from parsimony_kernel.llm.base import ChatModel
from parsimony_kernel.toolbox.code import code_tools
from parsimony_kernel.tools import Tool, Tools


def __getattr__(name: str) -> Any:
    if name == "litellm":  # seconds to import, so only for who asks
        import litellm

        return litellm
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


class Agent:
    """Runs requests with a model and tools.

    Args:
        model: a litellm model name, ``"offline"``, or a ``ChatModel``.
        api_key: passed to the provider; never stored.
        model_config: litellm's keyword arguments instead of ``model``.
        instructions: the system prompt; the notebook agent's by default.
        code_executor: where ``run_code`` runs; a private ``CodeExecutor`` by default.
        output_factory: for that default executor.
        guardrails: limits; see ``AgentGuardrails``.
        session_id: the conversation's id, a fresh one by default.
        file_store: handed to the run's state for the host's tools.
        model_id: what the record calls the model.
        policy: answers failures; ``DefaultPolicy`` by default.
        suspension_secret: signs suspensions; the user's key file by default.
        tools: tools beside ``run_code`` and the three that end a run; a ``Tools`` replaces all.

    Raises ``TypeError`` when neither ``model`` nor ``model_config`` is given.
    """

    def __init__(
        self,
        model: str | ChatModel | None = None,
        api_key: str | None = None,
        model_config: Mapping[str, Any] | ChatModel | None = None,
        instructions: str | None = None,
        code_executor: BaseCodeExecutor | None = None,
        output_factory: Any = None,
        guardrails: AgentGuardrails | None = None,
        session_id: str | None = None,
        file_store: FileStore | None = None,
        model_id: str | None = None,
        policy: RecoveryPolicy | None = None,
        suspension_secret: Secret | None = None,
        tools: Tools | Iterable[Tool] | None = None,
        *,
        key_id: str = "",
        hooks: RunHooks | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self.model_config = _config(model, api_key, model_config)
        self.model_id = model_id or _name(self.model_config)
        self.guardrails = guardrails or AgentGuardrails()
        self.instructions = INSTRUCTIONS if instructions is None else instructions
        self.policy = policy or DefaultPolicy()
        self.session_id = session_id or uuid.uuid4().hex
        self.code_executor = code_executor or _private_executor(output_factory)
        self.file_store = file_store
        self.hooks = hooks or RunHooks()
        self.clock = clock
        self._secret = suspension_secret
        self._key_id = key_id
        self.tools = tools if isinstance(tools, Tools) else self._default_tools() + (tools or ())

    @property
    def suspension_secret(self) -> Secret:
        """The key that seals suspensions."""
        self._unlock()
        assert self._secret is not None
        return self._secret

    @property
    def key_id(self) -> str:
        """Which key that is."""
        self._unlock()
        return self._key_id

    def start(
        self,
        message: str,
        *,
        ctx: AgentContext | None = None,
        run_id: str | None = None,
        cancellation: CancellationRequest | None = None,
    ) -> RunState:
        """The state of a run that is about to begin."""
        context = ctx or AgentContext()
        state = RunState(
            session_id=self.session_id,
            model_id=self.model_id,
            messages=[
                *(earlier.to_llm("default") for earlier in context.messages),
                request_message(message, context.notebook),
            ],
            started_monotonic_s=self.clock.monotonic(),
            files=self.file_store,
            code_executor=self.code_executor,
            cancellation=cancellation,
        )
        if run_id is not None:
            state.run_id = run_id
        return state

    async def run(
        self,
        message: str,
        *,
        ctx: AgentContext | None = None,
        cancellation: CancellationRequest | None = None,
    ) -> AsyncGenerator[AgentEvent, None]:
        """Work on ``message``, yielding what happens; the last event is terminal."""
        state = self.start(message, ctx=ctx, cancellation=cancellation)
        async with aclosing(run_loop(self, state, cancellation=cancellation)) as events:
            async for event in events:
                yield event

    async def ask(self, message: str, *, ctx: AgentContext | None = None) -> AgentResult:
        """``run``, collected."""
        return collect([event async for event in self.run(message, ctx=ctx)], context=ctx)

    async def resume(
        self,
        record: SuspensionRecord,
        reply: str,
        *,
        cancellation: CancellationRequest | None = None,
        max_suspension_age_s: float = MAX_SUSPENSION_AGE_S,
    ) -> AsyncGenerator[AgentEvent, None]:
        """Go on from ``record`` with the person's answer; see ``resume_run`` for the errors."""
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

    def _default_tools(self) -> Tools:
        return (
            code_tools(self.code_executor, timeout_s=self.guardrails.tool_timeout_s)
            + termination_tools()
        )

    def _unlock(self) -> None:
        if self._secret is None:
            key = Keyring.open(None, os.environ).current()
            self._secret, self._key_id = key.secret, key.key_id


def _config(
    model: str | ChatModel | None,
    api_key: str | None,
    model_config: Mapping[str, Any] | ChatModel | None,
) -> Mapping[str, Any] | ChatModel:
    if model_config is not None:
        return model_config
    if model is None:
        raise TypeError("Agent needs a model, such as model='offline', or a model_config")
    if not isinstance(model, str):
        return model
    return {"model": model} if api_key is None else {"model": model, "api_key": api_key}


def _name(config: Mapping[str, Any] | ChatModel) -> str:
    return str(config["model"]) if isinstance(config, Mapping) else config.name


def _private_executor(output_factory: Any) -> BaseCodeExecutor:
    from parsimony_kernel.execution.executor import CodeExecutor

    return CodeExecutor(output_factory=output_factory)
