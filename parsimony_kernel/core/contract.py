"""The contract of a task, which judges whether an action is allowed."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from parsimony_kernel.core.fuzzy import suggestion


@dataclass(frozen=True)
class ActionContract:
    """What a task allows.

    Args:
        allowed_tools: the tools that may be called; ``None`` allows all.
        serving_tools: those of them that serve the task's intent; ``None`` means all.
        identifiers: what the task is about, such as ``{"order_id": "A102"}``. An action bound by an
            identifier must carry the first of them, under its name or as ``id``, and no action may
            contradict any. A text identifier also matches an integer written the same.

    An identifier binds the tools that take it: those with a parameter of its name, and for the
    first identifier also those with a parameter ``id``. A tool such as ``run_code`` takes neither,
    and its code is not inspected. A tool whose parameters are unknown is bound.
    """

    allowed_tools: frozenset[str] | None = None
    serving_tools: frozenset[str] | None = None
    identifiers: Mapping[str, object] = field(default_factory=dict)

    def violation(
        self,
        tool_name: str,
        tool_args: Mapping[str, Any],
        parameters: Collection[str] | None = None,
    ) -> str | None:
        """Return what the action violates, in a few words; checks tool, intent, then identifiers.

        ``parameters`` are the tool's parameter names, ``None`` if unknown.
        """
        if self.allowed_tools is not None and tool_name not in self.allowed_tools:
            return "tool not allowed"
        if self.serving_tools is not None and tool_name not in self.serving_tools:
            return "tool does not match intent"
        for position, (name, value) in enumerate(self.identifiers.items()):
            spellings = (name, "id") if position == 0 else (name,)
            told = [tool_args[each] for each in spellings if each in tool_args]
            binds = parameters is None or not set(spellings).isdisjoint(parameters)
            is_missing = position == 0 and binds and not told
            if is_missing or not all(_is_the_same(each, value) for each in told):
                return f"{_in_words(name)} changed"
        return None

    def check_tools(self, known: Collection[str]) -> None:
        """Check that every tool named here is among the ``known`` ones.

        Raises:
            ValueError: one is not.
        """
        named = frozenset().union(self.allowed_tools or (), self.serving_tools or ())
        for name in sorted(named.difference(known)):
            raise ValueError(
                f"the contract names {name!r}, which is no tool; {suggestion(name, known)}"
            )


def _is_the_same(told: object, value: object) -> bool:
    if type(told) is int and isinstance(value, str):
        return str(told) == value
    return told == value


def _in_words(name: str) -> str:
    stem = name.removesuffix("_id")
    return f"{stem.replace('_', ' ')} ID" if stem != name else name
