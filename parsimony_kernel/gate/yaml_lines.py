"""A file in YAML as plain values, and the line of each.

Names are taken as they are written: a state called ``no`` is one.
"""

import re
from collections.abc import Iterable
from itertools import chain
from typing import Any, Final

import yaml
from yaml.constructor import SafeConstructor

from parsimony_kernel.gate.procedure import ProcedureError

# A file of a person's own is far smaller; one that is larger was not written by hand.
MAX_CHARACTERS = 262_144
MAX_PARTS = 10_000
# What stands where a value could not be read, which was said.
UNREADABLE: Final = object()

_PART_CHARACTERS = 64
_LINE = re.compile(r", line (\d+)")

At = tuple[Any, ...]


class Written:
    """The ``value`` of ``text``; its ``problems`` say where, what is wrong, and what to do.

    Below the key ``typed`` values are what YAML takes them for; elsewhere they are texts, lists and
    mappings. ``ProcedureError`` for no YAML, and for what contains itself or is too large.
    """

    def __init__(self, text: str, source: str, typed: str) -> None:
        self.source = source
        self.problems: list[str] = []
        self._typed = typed
        self._lines: dict[At, int] = {}
        self._keys: dict[At, int] = {}
        if len(text) > MAX_CHARACTERS:
            raise self._no_file(f": it has more than {MAX_CHARACTERS} characters; shorten it.")
        try:
            root = yaml.compose(text, Loader=yaml.SafeLoader)
            if root is not None and self._parts(root, {}) > MAX_PARTS:
                line = root.start_mark.line + 1
                raise self._no_file(
                    f", line {line}: with its aliases written out this is more than {MAX_PARTS} "
                    "parts; shorten it."
                )
            self.value = None if root is None else self._plain(root, ())
        except RecursionError:
            raise self._no_file(": it is nested too deeply; write it flat.") from None
        except yaml.YAMLError as exc:
            mark = getattr(exc, "problem_mark", None) or getattr(exc, "context_mark", None)
            line = "" if mark is None else f", line {mark.line + 1}"
            said = getattr(exc, "problem", None) or " ".join(str(exc).split())
            raise self._no_file(f"{line}: this is no YAML ({said}); mend it.") from None

    def say(self, at: At, problem: str, *, key: bool = False) -> None:
        """Note a problem of the value at the path ``at``, or of its ``key``."""
        lines = self._keys if key else self._lines
        while at not in lines and at:
            at = at[:-1]
        line = f", line {lines[at]}" if at in lines else ""
        self.problems.append(f"{self.source}{line}: {problem}")

    def line(self, at: At) -> str:
        """Where the value at the path ``at`` stands."""
        return f"{self.source}, line {self._lines[at]}"

    def in_order(self) -> list[str]:
        """The problems, by their lines."""
        found = ((_LINE.search(each, len(self.source)), each) for each in self.problems)
        return [said for _, said in sorted((int(at[1]) if at else 0, said) for at, said in found)]

    def _no_file(self, problem: str) -> ProcedureError:
        return ProcedureError(self.source, [f"{self.source}{problem}"])

    def _parts(self, node: Any, counted: dict[int, int | None]) -> int:
        """How many parts ``node`` has once its aliases are written out; long text is several.

        ``counted`` is what is known of other nodes, ``None`` while one is being counted.
        """
        if isinstance(node, yaml.ScalarNode):
            return 1 + len(node.value) // _PART_CHARACTERS
        if id(node) not in counted:
            counted[id(node)] = None
            held: Iterable[Any] = node.value
            held = chain(*node.value) if isinstance(node, yaml.MappingNode) else held
            counted[id(node)] = 1 + sum(self._parts(each, counted) for each in held)
        parts = counted[id(node)]
        if parts is None:
            line = node.start_mark.line + 1
            raise self._no_file(f", line {line}: this contains itself; write it out.")
        return parts

    def _plain(self, node: Any, at: At) -> Any:
        self._lines[at] = node.start_mark.line + 1
        if isinstance(node, yaml.SequenceNode):
            return [self._plain(each, (*at, number)) for number, each in enumerate(node.value)]
        if len(at) > 1 and at[0] == self._typed:
            return self._construct(node, at)
        if isinstance(node, yaml.ScalarNode):
            return node.value
        values: dict[str, Any] = {}
        for key, value in node.value:
            self._keys[here := (*at, key.value if key.id == "scalar" else None)] = (
                key.start_mark.line + 1
            )
            if here[-1] is None:
                what = "a mapping" if key.id == "mapping" else "a list"
                said = f"a key is a name, and this is {what}; write a name before the ':'."
                self.say(here, said, key=True)
            elif key.value in values:
                self.say(here, f"{key.value!r} stands twice; leave one out.", key=True)
            else:
                values[key.value] = self._plain(value, here)
        return values

    def _construct(self, node: Any, at: At) -> Any:
        try:
            return SafeConstructor().construct_document(node)
        except yaml.YAMLError as exc:
            self.say(at, f"this cannot be read ({' '.join(str(exc).split())}); mend it.")
        except ValueError as exc:
            self.say(at, f"{exc}.")
        except (ArithmeticError, AttributeError, LookupError, TypeError):
            self.say(at, "a value here does not fit its tag; mend it, or leave the tag out.")
        return UNREADABLE
