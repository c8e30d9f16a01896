"""Rules first, a model only where they cannot tell."""

from collections.abc import Sequence
from typing import Protocol

from parsimony_kernel.triage.classifier.rules import RulesClassifier
from parsimony_kernel.triage.taxonomy import FailureType, Step, TriageContext


class Classifier(Protocol):
    """What finds the type of a failure."""

    async def classify(
        self, trajectory: Sequence[Step], task: str = "", *, run: TriageContext | None = None
    ) -> FailureType:
        """The type of the failure that ``trajectory`` ended with."""
        ...


class HybridClassifier:
    """``rules``, and ``llm`` when they say ``UNKNOWN``."""

    def __init__(self, llm: Classifier, rules: Classifier | None = None) -> None:
        self._llm = llm
        self._rules = rules or RulesClassifier()

    async def classify(
        self, trajectory: Sequence[Step], task: str = "", *, run: TriageContext | None = None
    ) -> FailureType:
        """The type of the failure that ``trajectory`` ended with."""
        kind = await self._rules.classify(trajectory, task, run=run)
        if kind is not FailureType.UNKNOWN:
            return kind
        return await self._llm.classify(trajectory, task, run=run)
