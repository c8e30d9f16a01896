"""A procedure as a drawing: Mermaid's ``stateDiagram-v2``."""

from parsimony_kernel.gate.procedure import Procedure

_PLAIN = frozenset(" _-.,'")


def drawn(procedure: Procedure, *, at: str | None = None) -> str:
    """The text of the diagram. The state ``at`` is marked as the one where a run stands.

    States have numbers for names and their own names as text, in which whatever could be syntax
    is written as a character reference.
    """
    number = {state: f"s{index}" for index, state in enumerate(procedure.states)}
    lines = ["stateDiagram-v2"]
    lines += [f'    state "{_escaped(state)}" as {name}' for state, name in number.items()]
    lines.append(f"    [*] --> {number[procedure.start]}")
    for edge in procedure.edges:
        label = _escaped(edge.action if edge.guard is None else f"{edge.action} [{edge.guard}]")
        lines.append(f"    {number[edge.source]} --> {number[edge.target]} : {label}")
    lines += [f"    {number[state]} --> [*]" for state in dict.fromkeys(procedure.final)]
    if at is not None:
        lines += ["    classDef here stroke-width:3px", f"    class {number[at]} here"]
    return "\n".join(lines) + "\n"


def _escaped(text: str) -> str:
    flat = " ".join(text.split())
    return "".join(c if c.isalnum() or c in _PLAIN else f"#{ord(c)};" for c in flat)
