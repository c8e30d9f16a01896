"""The models of one run, in the order in which they are wanted, each behind its breaker.

The chain makes single attempts and says what came of them. Whether to try again is the funnel's;
that a run stops asking after so many failures in a row holds whatever the policy.
"""

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

from parsimony_kernel.core.cancellation import CancellationRequest
from parsimony_kernel.core.causes import BREAKER_OPEN
from parsimony_kernel.core.chat import Beat, ChatModel, Completion, Delta, ModelRequest
from parsimony_kernel.core.clock import SYSTEM_CLOCK, Clock
from parsimony_kernel.core.kinds import Failure, FailureKind
from parsimony_kernel.limits.breaker import Breakers, CircuitOpenError
from parsimony_kernel.llm.chokepoint import call_llm
from parsimony_kernel.llm.transcript import Repairer

# Over all models of a chain. Three models with the default budget of three retries use it up.
MAX_FAILING_REQUESTS = 12


class Chain:
    """Asks the current model; ``move_on`` makes the next one current.

    ``models`` must not be empty. ``breakers`` outlive the run: a provider that was down a moment
    ago is not found out anew.
    """

    def __init__(
        self, models: Sequence[ChatModel], breakers: Breakers, clock: Clock = SYSTEM_CLOCK
    ) -> None:
        if not models:
            raise ValueError("a chain needs at least one model")
        self._models = tuple(models)
        self._breakers = breakers
        self._clock = clock
        self._repairer = Repairer()
        self._at = 0
        self._failing = 0

    @property
    def current(self) -> ChatModel:
        """The model that answers next."""
        return self._models[self._at]

    @property
    def is_spent(self) -> bool:
        """Whether as many requests failed in a row as a run may make."""
        return self._failing >= MAX_FAILING_REQUESTS

    @property
    def is_open(self) -> bool:
        """Whether the current model is left alone: asking it now would make no request."""
        return self._breakers.of(service_of(self.current)).state == "open"

    def move_on(self) -> str | None:
        """Give up on the current model for this run; the name of the next, if there is one."""
        if self._at + 1 >= len(self._models):
            return None
        self._at += 1
        return self.current.name

    async def ask(
        self, request: ModelRequest, *, cancellation: CancellationRequest
    ) -> AsyncGenerator[Delta | Beat | Completion | Failure, None]:
        """Ask the current model once; see ``call_llm``.

        A model whose breaker is open is not asked: that is a ``Failure`` too, whose metadata
        holds ``breaker`` and ``retry_in_s``.
        """
        model = self.current
        try:
            permit = self._breakers.of(service_of(model)).admit()
        except CircuitOpenError as refused:
            yield _left_alone(model.name, refused.retry_in_s)
            return
        try:
            answers = call_llm(
                model,
                request,
                cancellation=cancellation,
                clock=self._clock,
                repair=self._repairer.repair,
            )
            async with aclosing(answers):
                async for item in answers:
                    if isinstance(item, Completion):
                        permit.succeeded()
                        self._failing = 0
                    elif isinstance(item, Failure):
                        self._failing += 1
                        if item.kind is FailureKind.transient_provider:
                            permit.failed()
                    yield item
        finally:
            permit.released()


def service_of(model: ChatModel) -> str:
    """What fails together: the model's ``service`` where it has one, else its name."""
    return str(getattr(model, "service", model.name))


def _left_alone(name: str, seconds: float) -> Failure:
    sentence = f"{name} failed several times in a row and is left alone for {seconds:.0f} s more."
    return BREAKER_OPEN.failure(
        sentence,
        model=name,
        breaker="open",
        retry_in_s=seconds,
        remedy="Run the cell again then, or choose another model.",
    )
