"""What a run is held to: the contract and the rules of its task, and its procedure."""

import hashlib
import json
from typing import Any

from parsimony_kernel.agent.hooks import RunContext

# The version of records from which on they know it.
TERMS_SINCE = 3


def terms_of(context: RunContext) -> str:
    """A hash of the agent's contract, rules and procedure; empty when it has none of them."""
    contract, procedure = context.contract, context.procedure
    if contract is None and procedure is None and not context.rules:
        return ""
    told: dict[str, Any] = {"procedure": None if procedure is None else procedure.digest}
    if context.rules:
        told["rules"] = context.rules.in_words()
    if contract is not None:
        told["contract"] = {
            "allowed": _sorted(contract.allowed_tools),
            "serving": _sorted(contract.serving_tools),
            "identifiers": {name: str(value) for name, value in contract.identifiers.items()},
        }
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()


def _sorted(names: Any) -> list[str] | None:
    return None if names is None else sorted(names)
