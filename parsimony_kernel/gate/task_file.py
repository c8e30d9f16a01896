"""What a file says about a task: its procedure, its contract, its rules, and its recovery policy.

The rules are enforced; ``constraints`` are reminders in words.

Each part is optional. Every error names the line.

    name: orders
    start: new
    final: [done]
    states: [new, ordered, done]
    edges:
      - {action: take_order, from: new, to: ordered}
      - {action: pay, from: [ordered], to: done, guard: has_items}
    contract:
      tools: [query_db, calculate_shipping]
      intent_tools: [query_db]
      identifiers: {order_id: A102}
    forbid_tools: [refund]
    max_words: 50
    constraints:
      - Write amounts in euros.
    policy:
      EXTERNAL_FAULT: backoff_and_retry
      HALLUCINATED_STATE: {strategy: rollback_to_checkpoint, max_attempts: 2}
      default: escalate
    classifier: hybrid
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NoReturn

import yaml
from pydantic import BeforeValidator, Field, ValidationError, ValidationInfo, field_validator

from parsimony_kernel.core.config import MAX_PINNED, MAX_PINNED_LENGTH
from parsimony_kernel.core.contract import ActionContract
from parsimony_kernel.core.fuzzy import suggestion
from parsimony_kernel.gate.procedure import Edge, Guard, Procedure, ProcedureError
from parsimony_kernel.gate.rules import (
    NO_RULES,
    Fields,
    Name,
    Names,
    Rules,
    ToolName,
    listed,
)
from parsimony_kernel.tools import Tools
from parsimony_kernel.triage.policy import FailurePolicy

# A file of a person's own is far smaller; one that is larger was not written by hand.
MAX_CHARACTERS = 262_144

RULES = "rules"

# Where a value stands in the file: the keys and the places in lists that lead to it.
Path = tuple[Any, ...]


@dataclass(frozen=True)
class Playbook:
    """How a task is to be done, and what is done when it fails. What is not said is ``None``.

    Args:
        procedure: what may be done after what.
        contract: what the task allows.
        rules: what is refused.
        constraints: at most five reminders that stand last in every prompt.
        policy: what answers a failure, by its type.
        classifier: ``rules``, ``hybrid`` or ``llm``, which tells that type where nothing else does.
    """

    procedure: Procedure | None = None
    contract: ActionContract | None = None
    rules: Rules = NO_RULES
    constraints: tuple[str, ...] = ()
    policy: FailurePolicy | None = None
    classifier: str = ""


def from_yaml(
    text: str,
    *,
    tools: Tools | None = None,
    guards: Mapping[str, Guard] | None = None,
    source: str = "task file",
) -> Playbook:
    """Parse a task's file.

    Args:
        text: YAML, at most ``MAX_CHARACTERS`` long.
        tools: those of the run, against which names are checked; without them any name passes.
        guards: the functions that the procedure may name.
        source: what errors call the text, such as the file's name.

    Returns:
        What the file says of the task.

    Raises:
        ProcedureError: each problem with its line: first those of shape, then those of meaning.
    """
    written = _Written(text, source)
    try:
        task = TaskFile.model_validate(written.value, context=tools)
    except ValidationError as exc:
        for error in sorted(exc.errors(), key=lambda each: written.line(each["loc"])):
            written.say(error["loc"], _in_words(error))
        raise ProcedureError(source, written.problems) from None
    procedure = _procedure(written, task, guards or {})
    policy = None if task.policy is None else _policy(written, task.policy)
    if task.model_fields_set <= {"name"}:
        written.say((), f"the file says nothing; give it some of {', '.join(_PARTS)}.")
    if written.problems:
        raise ProcedureError(task.name or source, written.problems)
    rules = Rules(**task.model_dump(include={*Rules.model_fields}, exclude_unset=True))
    said, contract = task.contract, None
    if said is not None:
        contract = ActionContract(said.tools, said.intent_tools, said.identifiers)
    return Playbook(procedure, contract, rules, task.constraints, policy, task.classifier)


class _Written:
    """The ``value`` of a YAML text; its ``problems`` say where, what is wrong, and what to do.

    Values are texts, lists and mappings, so that a state called ``no`` is one; those of a policy
    are what YAML takes them for. ``ProcedureError`` for what is no YAML, is too large, or stands
    there twice.
    """

    def __init__(self, text: str, source: str) -> None:
        self.source = source
        self.problems: list[str] = []
        self._lines: dict[Path, int] = {}
        self._met: set[int] = set()
        if len(text) > MAX_CHARACTERS:
            self._refuse(None, f"it has more than {MAX_CHARACTERS} characters; shorten it.")
        try:
            root = yaml.compose(text, Loader=yaml.SafeLoader)
            self.value: Any = None if root is None else self._read(root, ())
        except RecursionError:
            self._refuse(None, "it is nested too deeply; write it flat.")
        except yaml.YAMLError as exc:
            said = getattr(exc, "problem", None) or " ".join(str(exc).split())
            self._refuse(getattr(exc, "problem_mark", None), f"this is no YAML ({said}); mend it.")

    def line(self, at: Path) -> int:
        """The line of the value at a path, or of the nearest around it; 0 where there is none."""
        while at not in self._lines and at:
            at = at[:-1]
        return self._lines.get(at, 0)

    def place(self, line: int) -> str:
        """The line for a person."""
        return f"{self.source}, line {line}" if line else self.source

    def say(self, at: Path, problem: str) -> None:
        """Note a problem of the value at the path ``at``."""
        self.problems.append(f"{self.place(self.line(at))}: {problem}")

    def _refuse(self, mark: Any, problem: str) -> NoReturn:
        place = self.place(0 if mark is None else mark.line + 1)
        raise ProcedureError(self.source, [f"{place}: {problem}"]) from None

    def _read(self, node: Any, at: Path) -> Any:
        self._lines.setdefault(at, node.start_mark.line + 1)
        if id(node) in self._met:  # few lines with aliases may stand for millions
            self._refuse(node.start_mark, "an alias (*) repeats this; write it out instead.")
        self._met.add(id(node))
        if isinstance(node, yaml.ScalarNode):
            return _typed(node.value) if at[:1] == ("policy",) and not node.style else node.value
        if not node.value:
            self._refuse(node.start_mark, "nothing stands in here; write it, or leave it out.")
        if isinstance(node, yaml.SequenceNode):
            return [self._read(each, (*at, number)) for number, each in enumerate(node.value)]
        values: dict[str, Any] = {}
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode):
                self._refuse(key.start_mark, "a key is a name; write a name before the ':'.")
            if key.value in values:
                self._refuse(key.start_mark, f"{key.value!r} stands twice; leave one out.")
            self._lines[(*at, key.value)] = key.start_mark.line + 1
            values[key.value] = self._read(value, (*at, key.value))
        return values


def _typed(text: str) -> Any:
    """What YAML takes a text for; the text itself where that has no value."""
    with suppress(ValueError, yaml.YAMLError):
        return yaml.safe_load(text)
    return text


# -- the fields of the file


_NOTHING = ("", "~", "null")
ToolSet = Annotated[frozenset[ToolName], BeforeValidator(listed)]
Reminder = Annotated[
    str,
    Field(min_length=1, max_length=MAX_PINNED_LENGTH),
    BeforeValidator(lambda it: " ".join(it.split()) if isinstance(it, str) else it),
]


class EdgeFields(Fields):
    """An edge of the procedure, or one from each of several states."""

    action: ToolName
    from_: Names = Field(alias="from")
    to: Name
    guard: Annotated[Name | None, BeforeValidator(lambda it: None if it in _NOTHING else it)] = None


class ContractFields(Fields):
    """What the task allows: tools, those that serve it, and what it is about."""

    tools: ToolSet | None = None
    intent_tools: ToolSet | None = None
    identifiers: dict[Name, Name] = Field(default_factory=dict)

    @field_validator("intent_tools")
    @classmethod
    def _are_allowed(cls, names: frozenset[str], info: ValidationInfo) -> frozenset[str]:
        if others := sorted(names - (info.data.get("tools") or names)):
            what = f"{others[0]!r} is none of the contract's tools"
            raise ValueError(f"{what}; add it to them, or leave it out here.")
        return names


class TaskFile(Rules):
    """What may stand in the file."""

    name: Name = ""
    start: Name = ""
    final: Names = ()
    states: Names = ()
    edges: tuple[EdgeFields, ...] = ()
    contract: ContractFields | None = None
    constraints: Annotated[
        tuple[Reminder, ...], Field(max_length=MAX_PINNED), BeforeValidator(listed)
    ] = ()
    policy: dict[str, Any] | None = None
    classifier: Literal["", "rules", "hybrid", "llm"] = ""


_PARTS = tuple(each for each in TaskFile.model_fields if each != "name")
_OF_PROCEDURE = ("start", "final", "states", "edges")
_MODELS: Mapping[Any, tuple[str, type[Fields]]] = {
    "contract": ("the contract", ContractFields),
    "edges": ("an edge", EdgeFields),
}


def _in_words(error: Any) -> str:
    """One of pydantic's errors, for who wrote the file."""
    at = error["loc"]
    what, model = _MODELS.get(at[0] if at else "", ("the file", TaskFile))
    known = [each.alias or name for name, each in model.model_fields.items()]
    name = next((each for each in reversed(at) if isinstance(each, str)), "")
    match error["type"]:
        case "extra_forbidden":
            return f"{name!r} is not a field; {suggestion(name, known)}"
        case "missing":
            return f"{what} lacks {name!r}; add it."
        case "model_type":
            return f"{what} has to be fields: {', '.join(known)}."
        case "string_type":
            return f"{name}: a line of text is expected; write one, in quotes if it has a colon."
        case "value_error":
            return str(error["ctx"]["error"])
    return f"{name}: {error['msg']}."


# -- what they say


def _procedure(written: _Written, task: TaskFile, guards: Mapping[str, Guard]) -> Procedure | None:
    missing = [each for each in _OF_PROCEDURE if each not in task.model_fields_set]
    if missing:
        for each in missing if len(missing) < len(_OF_PROCEDURE) else ():
            written.say((), f"the procedure lacks {each!r}; add it.")
        return None
    edges = tuple(
        Edge(each.action, start, each.to, each.guard, written.place(written.line(("edges", n))))
        for n, each in enumerate(task.edges)
        for start in each.from_
    )
    try:
        return Procedure(
            task.name or written.source, task.states, task.start, task.final, edges, dict(guards)
        )
    except ProcedureError as exc:
        written.problems += exc.problems
        return None


def _policy(written: _Written, entries: Mapping[str, Any]) -> FailurePolicy:
    stated: dict[str, Any] = {}
    for key, entry in entries.items():
        name = key.upper()
        try:
            if name in stated:
                raise ValueError(f"{key} stands twice; leave one out")
            FailurePolicy.from_dict({name: entry})
            stated[name] = entry
        except ValueError as exc:
            written.say(("policy", key), f"{exc}.")
    return FailurePolicy.from_dict(stated)
