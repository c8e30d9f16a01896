"""What may not be put before a person or on the disk with a secret in it.

A call that waits is sealed with its exact arguments, and what is published keeps its code: neither
can be cleaned, so a secret in them is refused. The model is told where to read it instead. The
record of writes is only compared and told, so it can be.
"""

from collections.abc import Mapping
from typing import Any

from parsimony_kernel.core.causes import BAD_ARGUMENTS
from parsimony_kernel.core.effects import Effects, Standing, action_sha
from parsimony_kernel.core.kinds import Failure
from parsimony_kernel.gate.stages import Attempt, Stage
from parsimony_kernel.lineage.ledger import OriginLedger
from parsimony_kernel.llm.secrets import Secrets

_INSTEAD = "Read it from os.environ[…] where it is needed, and never write it out"


def showing_none(secrets: Secrets) -> Stage:
    """Nobody is asked about a call with a secret in it."""

    def stage(attempt: Attempt) -> Failure | None:
        if secrets.of_json(dict(attempt.inputs)) == dict(attempt.inputs):
            return None
        return _refused(attempt, "the person would be asked about a call with a secret in it")

    return stage


def publishing_none(secrets: Secrets, ledger: OriginLedger, run_id: str) -> Stage:
    """Nothing is published whose words or code hold a secret."""

    def stage(attempt: Attempt) -> Failure | None:
        if attempt.tools[attempt.action].tool_type != "publish":
            return None
        if secrets.of_json(dict(attempt.inputs)) != dict(attempt.inputs):
            return _refused(attempt, "what would be published holds a secret")
        if any(map(secrets.are_in, _code(attempt, ledger, run_id))):
            return _refused(attempt, "the code that would be published with it holds a secret")
        return None

    return stage


class DiscreetEffects:
    """The record of writes ``kept``, without ``secrets`` in it.

    Of inputs that hold one a hash is put down too, so that another write stays another.
    """

    def __init__(self, kept: Effects, secrets: Secrets) -> None:
        self._kept = kept
        self._secrets = secrets

    def standing(
        self, key: str, action: str = "", inputs: Mapping[str, Any] | None = None
    ) -> Standing | None:
        told = None if inputs is None else self._told(action, inputs)
        return self._kept.standing(key, action, told)

    def intend(self, key: str, action: str, inputs: Mapping[str, Any]) -> bool:
        return self._kept.intend(key, action, self._told(action, inputs))

    def commit(self, key: str, answer: Any) -> None:
        self._kept.commit(key, self._secrets.of_json(answer))

    def withdraw(self, key: str) -> None:
        self._kept.withdraw(key)

    def _told(self, action: str, inputs: Mapping[str, Any]) -> Mapping[str, Any]:
        told = self._secrets.of_json(dict(inputs))
        return inputs if told == inputs else {**told, "": action_sha(action, inputs)}


def _code(attempt: Attempt, ledger: OriginLedger, run_id: str) -> list[str]:
    """The cells that publishing would keep beside what it publishes."""
    variable = attempt.inputs.get("variable")
    if isinstance(variable, str):
        return [origin.code for origin in ledger.ancestry(variable)]
    if not attempt.inputs.get("code") and "name" in attempt.inputs:
        return [cell.code for cell in ledger.cell_runs() if cell.run_id == run_id]
    return []


def _refused(attempt: Attempt, why: str) -> Failure:
    return BAD_ARGUMENTS.failure(
        f"{attempt.action}: {why}. {_INSTEAD}; then call {attempt.action} again. Nothing was run.",
        envelope={"reason": why},
    )
