"""A procedure from YAML.

Every error names the line. Names are taken as they are written: a state called ``no`` is one.

    name: orders
    start: new
    final: [done]
    states: [new, ordered, done]
    edges:
      - {action: take_order, from: new, to: ordered}
      - {action: pay, from: [ordered], to: done, guard: has_items}
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml

from parsimony_kernel.gate.procedure import Edge, Guard, Procedure, ProcedureError
from parsimony_kernel.gate.stages import nearest

_FIELDS = ("name", "start", "final", "states", "edges")
_REQUIRED = ("start", "final", "states", "edges")
_EDGE_FIELDS = ("action", "from", "to", "guard")
_EDGE_REQUIRED = ("action", "from", "to")
_NULL = "tag:yaml.org,2002:null"


def from_yaml(
    text: str, *, guards: Mapping[str, Guard] | None = None, source: str = "procedure"
) -> Procedure:
    """The procedure that ``text`` describes; ``source`` names the text in errors.

    ``guards`` are the functions that the text may name. ``ProcedureError`` says everything that is
    wrong with the text, or with the procedure.
    """
    reader = _Reader(source)
    written = reader.mapping(_composed(text, source), _FIELDS, _REQUIRED, "the procedure")
    name = reader.name(written["name"]) if "name" in written else source
    states = reader.names(written.get("states"))
    start = reader.name(written.get("start"))
    final = reader.names(written.get("final"))
    edges = tuple(reader.edges(written.get("edges")))
    if reader.problems:
        raise ProcedureError(name, reader.problems)
    return Procedure(name, states, start, final, edges, dict(guards or {}))


def _composed(text: str, source: str) -> Any:
    try:
        return yaml.compose(text, Loader=yaml.SafeLoader)
    except RecursionError:
        raise ProcedureError(
            source, [f"{source}: it is nested too deeply; write it flat."]
        ) from None
    except yaml.MarkedYAMLError as exc:
        mark = exc.problem_mark or exc.context_mark
        line = f", line {mark.line + 1}" if mark is not None else ""
        raise ProcedureError(
            source, [f"{source}{line}: this is no YAML ({exc.problem}); mend the line."]
        ) from None
    except yaml.YAMLError as exc:
        said = " ".join(str(exc).split())
        raise ProcedureError(source, [f"{source}: this is no YAML ({said}); mend it."]) from None


@dataclass
class _Reader:
    """Reads nodes, and goes on after a problem to find the others."""

    source: str
    problems: list[str] = field(default_factory=list)

    def place(self, node: Any) -> str:
        return f"{self.source}, line {node.start_mark.line + 1}"

    def mapping(
        self, node: Any, fields: tuple[str, ...], required: tuple[str, ...], what: str
    ) -> dict[str, Any]:
        if not isinstance(node, yaml.MappingNode):
            where = self.source if node is None else self.place(node)
            self.problems.append(f"{where}: {what} has to be fields: {', '.join(fields)}.")
            return {}
        read: dict[str, Any] = {}
        for key, value in node.value:
            name = str(key.value)
            if name not in fields:
                likely = nearest(name, fields)
                remedy = f"did you mean {likely!r}?" if likely else f"use {', '.join(fields)}."
                self.problems.append(f"{self.place(key)}: {name!r} is not a field; {remedy}")
            elif name in read:
                self.problems.append(f"{self.place(key)}: {name!r} stands twice; leave one out.")
            else:
                read[name] = value
        self.problems += [
            f"{self.place(node)}: {what} lacks {name!r}; add it."
            for name in required
            if name not in read
        ]
        return read

    def name(self, node: Any) -> str:
        if node is None:  # that it is missing has been said
            return ""
        if isinstance(node, yaml.ScalarNode) and node.value.strip():
            return str(node.value)
        self.problems.append(f"{self.place(node)}: a name is expected here; write one.")
        return ""

    def names(self, node: Any) -> tuple[str, ...]:
        if isinstance(node, yaml.SequenceNode):
            return tuple(self.name(each) for each in node.value)
        return () if node is None else (self.name(node),)

    def edges(self, node: Any) -> Iterator[Edge]:
        if node is None:
            return
        if not isinstance(node, yaml.SequenceNode):
            self.problems.append(f"{self.place(node)}: the edges are a list; begin each with '-'.")
            return
        for each in node.value:
            read = self.mapping(each, _EDGE_FIELDS, _EDGE_REQUIRED, "an edge")
            guard = read.get("guard")
            unguarded = guard is None or guard.tag == _NULL
            action, target = self.name(read.get("action")), self.name(read.get("to"))
            named = None if unguarded else self.name(guard)
            for start in self.names(read.get("from")):
                yield Edge(action, start, target, named, self.place(each))
