"""A file in YAML as plain values, and the line of each.

Names are taken as they are written: a state called ``no`` is one.
"""

import re
from typing import Any, NoReturn

import yaml

from parsimony_kernel.gate.procedure import ProcedureError

# A file of a person's own is far smaller; one that is larger was not written by hand.
MAX_CHARACTERS = 262_144

_LINE = re.compile(r", line (\d+)")

At = tuple[Any, ...]


class Written:
    """The ``value`` of ``text``; its ``problems`` say where, what is wrong, and what to do.

    Values are texts, lists and mappings. ``ProcedureError`` for no YAML, and for what is too large
    or has aliases.
    """

    def __init__(self, text: str, source: str) -> None:
        self.source = source
        self.problems: list[str] = []
        self._lines: dict[At, int] = {}
        self._keys: dict[At, int] = {}
        self._met: set[int] = set()
        if len(text) > MAX_CHARACTERS:
            self._refuse(f": it has more than {MAX_CHARACTERS} characters; shorten it.")
        try:
            root = yaml.compose(text, Loader=yaml.SafeLoader)
            self.value: Any = None if root is None else self._plain(root, ())
        except RecursionError:
            self._refuse(": it is nested too deeply; write it flat.")
        except yaml.YAMLError as exc:
            mark = getattr(exc, "problem_mark", None)
            line = "" if mark is None else f", line {mark.line + 1}"
            said = getattr(exc, "problem", None) or " ".join(str(exc).split())
            self._refuse(f"{line}: this is no YAML ({said}); mend it.")

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

    def _refuse(self, problem: str) -> NoReturn:
        raise ProcedureError(self.source, [f"{self.source}{problem}"]) from None

    def _plain(self, node: Any, at: At) -> Any:
        self._lines[at] = line = node.start_mark.line + 1
        if id(node) in self._met:  # few lines with aliases may stand for millions
            self._refuse(f", line {line}: an alias (*) repeats this; write it out instead.")
        self._met.add(id(node))
        if isinstance(node, yaml.SequenceNode):
            return [self._plain(each, (*at, number)) for number, each in enumerate(node.value)]
        if isinstance(node, yaml.ScalarNode):
            return node.value
        values: dict[str, Any] = {}
        for key, value in node.value:
            name = key.value if isinstance(key, yaml.ScalarNode) else None
            self._keys[here := (*at, name)] = key.start_mark.line + 1
            if name is None:
                self.say(here, "a key is a name; write a name before the ':'.", key=True)
            elif name in values:
                self.say(here, f"{name!r} stands twice; leave one out.", key=True)
            else:
                values[name] = self._plain(value, here)
        return values
