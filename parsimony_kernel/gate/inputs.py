"""The inputs of a call, spelled one way: what an approval and an idempotency key are made of."""

from collections.abc import Mapping
from typing import Any

from parsimony_kernel.tools import Tool


def inputs_of(tool: Tool, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """``inputs`` as the body understands them, with its defaults, as JSON: ``"10"`` is 10 where a
    number is asked for.

    What does not come out the same each time, or says less as JSON, stays as it was sent, and so
    does all of what does not fit.
    """
    try:
        model = tool.arguments
        parsed, again = model.model_validate(dict(inputs)), model.model_validate(dict(inputs))
        dumped = parsed.model_dump(mode="json", warnings=False)
        read = model.model_validate({name: dumped[name] for name in parsed.model_fields_set})
        kept = [
            name
            for name in dumped
            if getattr(parsed, name) == getattr(again, name) == getattr(read, name)
        ]
    except Exception:  # boundary: user object - with checks of its own
        return dict(inputs)
    return {**inputs, **{name: _whole(dumped[name]) for name in kept}}


def _whole(value: Any) -> Any:
    """The JSON ``value`` with each number the same with and without a fraction of nothing."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, list):
        return [_whole(each) for each in value]
    return {k: _whole(v) for k, v in value.items()} if isinstance(value, dict) else value
