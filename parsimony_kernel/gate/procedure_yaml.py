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

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import yaml

from parsimony_kernel.core.fuzzy import nearest
from parsimony_kernel.gate.procedure import Edge, Guard, Procedure, ProcedureError

FIELDS = ("name", "start", "final", "states", "edges")
# A file of a person's own is far smaller; one that is larger was not written by hand.
MAX_CHARACTERS = 262_144
MAX_PARTS = 10_000
REQUIRED = ("start", "final", "states", "edges")
_EDGE_FIELDS = ("action", "from", "to", "guard")
_EDGE_REQUIRED = ("action", "from", "to")
_PART_CHARACTERS = 64
_NULL = "tag:yaml.org,2002:null"


def from_yaml(
    text: str, *, guards: Mapping[str, Guard] | None = None, source: str = "procedure"
) -> Procedure:
    """The procedure that ``text`` describes; ``source`` names the text in errors.

    ``guards`` are the functions that the text may name. ``ProcedureError`` says everything that is
    wrong with the text, or with the procedure.
    """
    reader = Reader(source)
    written = reader.mapping(composed(text, source), FIELDS, REQUIRED, "the procedure")
    name = reader.name(written["name"]) if "name" in written else source
    procedure = reader.procedure(written, name, guards or {})
    if procedure is None:
        raise ProcedureError(name, reader.problems)
    return procedure


def composed(text: str, source: str) -> Any:
    """The root node of ``text``, ``None`` when it is empty.

    ``ProcedureError`` for no YAML, and for what contains itself or is too large. What is returned
    may be walked and written out: its aliases make it no larger than ``MAX_PARTS``.
    """
    if len(text) > MAX_CHARACTERS:
        raise ProcedureError(
            source, [f"{source}: it has more than {MAX_CHARACTERS} characters; shorten it."]
        )
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
        if root is not None and _parts(root, source, {}) > MAX_PARTS:
            raise ProcedureError(
                source,
                [
                    f"{source}, line {root.start_mark.line + 1}: with its aliases written out "
                    f"this is more than {MAX_PARTS} parts; shorten it."
                ],
            )
        return root
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


def _parts(node: Any, source: str, counted: dict[int, int | None]) -> int:
    """How many parts ``node`` has once its aliases are written out. Long text counts as several.

    ``counted`` is what is known of other nodes, ``None`` while one is being counted.
    """
    if isinstance(node, yaml.ScalarNode):
        return 1 + len(node.value) // _PART_CHARACTERS
    if id(node) not in counted:
        counted[id(node)] = None
        held = chain(*node.value) if isinstance(node, yaml.MappingNode) else node.value
        counted[id(node)] = 1 + sum(_parts(each, source, counted) for each in held)
    parts = counted[id(node)]
    if parts is None:
        line = node.start_mark.line + 1
        raise ProcedureError(
            source, [f"{source}, line {line}: this contains itself; write it out."]
        )
    return parts


@dataclass
class Reader:
    """Reads nodes, and goes on after a problem to find the others.

    ``problems`` has a sentence for each: where it is, what is wrong, what to do.
    """

    source: str
    problems: list[str] = field(default_factory=list)

    def place(self, node: Any) -> str:
        """Where ``node`` begins: the source and the line."""
        return f"{self.source}, line {node.start_mark.line + 1}"

    def mapping(
        self, node: Any, fields: tuple[str, ...], required: tuple[str, ...], what: str
    ) -> dict[str, Any]:
        """The values of ``fields`` in a mapping that has all the ``required`` ones."""
        if not isinstance(node, yaml.MappingNode):
            where = self.source if node is None else self.place(node)
            self.problems.append(f"{where}: {what} has to be fields: {', '.join(fields)}.")
            return {}
        read: dict[str, Any] = {}
        for key, value in self.entries(node):
            name = key.value
            if name in fields:
                read[name] = value
                continue
            likely = nearest(name, fields)
            remedy = f"did you mean {likely!r}?" if likely else f"use {', '.join(fields)}."
            self.say(key, f"{name!r} is not a field; {remedy}")
        self.require(node, read, required, what)
        return read

    def entries(self, node: Any) -> Iterator[tuple[Any, Any]]:
        """The keys and values of a mapping, each key once, and only keys that are names."""
        seen: set[str] = set()
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode):
                what = "a mapping" if isinstance(key, yaml.MappingNode) else "a list"
                self.say(key, f"a key is a name, and this is {what}; write a name before the ':'.")
            elif key.value in seen:
                self.say(key, f"{key.value!r} stands twice; leave one out.")
            else:
                seen.add(key.value)
                yield key, value

    def require(
        self, node: Any, read: Mapping[str, Any], required: Iterable[str], what: str
    ) -> None:
        """Say which of the ``required`` fields were not read."""
        for name in required:
            if name not in read:
                self.say(node, f"{what} lacks {name!r}; add it.")

    def say(self, node: Any, problem: str) -> None:
        """Note what is wrong at ``node`` and what to do."""
        self.problems.append(f"{self.place(node)}: {problem}")

    def name(self, node: Any) -> str:
        """A name as it is written, empty when there is none."""
        if node is None:  # that it is missing has been said
            return ""
        if isinstance(node, yaml.ScalarNode) and node.value.strip():
            return str(node.value)
        self.say(node, "a name is expected here; write one.")
        return ""

    def names(self, node: Any) -> tuple[str, ...]:
        """A list of names, or a single one."""
        if isinstance(node, yaml.SequenceNode):
            return tuple(self.name(each) for each in node.value)
        return () if node is None else (self.name(node),)

    def procedure(
        self, written: Mapping[str, Any], name: str, guards: Mapping[str, Guard]
    ) -> Procedure | None:
        """The procedure in the fields of a file; ``None`` when anything was wrong so far.

        ``ProcedureError`` when it can be read and cannot be walked.
        """
        states = self.names(written.get("states"))
        start = self.name(written.get("start"))
        final = self.names(written.get("final"))
        edges = tuple(self._edges(written.get("edges")))
        if self.problems:
            return None
        return Procedure(name, states, start, final, edges, dict(guards))

    def _edges(self, node: Any) -> Iterator[Edge]:
        if node is None:
            return
        if not isinstance(node, yaml.SequenceNode):
            self.say(node, "the edges are a list; begin each with '-'.")
            return
        for each in node.value:
            read = self.mapping(each, _EDGE_FIELDS, _EDGE_REQUIRED, "an edge")
            guard = read.get("guard")
            unguarded = guard is None or guard.tag == _NULL
            action, target = self.name(read.get("action")), self.name(read.get("to"))
            named = None if unguarded else self.name(guard)
            for start in self.names(read.get("from")):
                yield Edge(action, start, target, named, self.place(each))
