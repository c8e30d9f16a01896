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

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Annotated, Any, Literal, NoReturn

import yaml
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    NonNegativeInt,
    ValidationError,
    ValidationInfo,
)

from parsimony_kernel.core.config import MAX_PINNED, MAX_PINNED_LENGTH
from parsimony_kernel.core.contract import ActionContract
from parsimony_kernel.core.fuzzy import nearest
from parsimony_kernel.gate.procedure import Edge, Guard, Procedure, ProcedureError
from parsimony_kernel.gate.rules import NO_RULES, Rules
from parsimony_kernel.tools import Tools
from parsimony_kernel.triage.policy import FailurePolicy

# A file of a person's own is far smaller; one that is larger was not written by hand.
MAX_CHARACTERS = 262_144
_LINE = re.compile(r", line (\d+)")

RULES = "rules"
PROCEDURE = ("start", "final", "states", "edges")
_RULES = tuple(each.name for each in fields(Rules))


class Written:
    """The ``value`` of ``text``; its ``problems`` say where, what is wrong, and what to do.

    Values are texts, lists and mappings; a state called ``no`` is one. ``ProcedureError`` for no
    YAML, and for what is too large or has aliases.
    """

    def __init__(self, text: str, source: str) -> None:
        self.source = source
        self.problems: list[str] = []
        self._lines: dict[tuple[Any, ...], int] = {}
        self._keys: dict[tuple[Any, ...], int] = {}
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

    def say(self, at: tuple[Any, ...], problem: str, *, key: bool = False) -> None:
        """Note a problem of the value at the path ``at``, or of its ``key``."""
        lines = self._keys if key else self._lines
        while at not in lines and at:
            at = at[:-1]
        line = f", line {lines[at]}" if at in lines else ""
        self.problems.append(f"{self.source}{line}: {problem}")

    def line(self, at: tuple[Any, ...]) -> str:
        """Where the value at the path ``at`` stands."""
        return f"{self.source}, line {self._lines[at]}"

    def in_order(self) -> list[str]:
        """The problems, by their lines."""
        found = ((_LINE.search(each, len(self.source)), each) for each in self.problems)
        return [said for _, said in sorted((int(at[1]) if at else 0, said) for at, said in found)]

    def _refuse(self, problem: str) -> NoReturn:
        raise ProcedureError(self.source, [f"{self.source}{problem}"]) from None

    def _plain(self, node: Any, at: tuple[Any, ...]) -> Any:
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
    written = Written(text, source)
    try:
        task = TaskFile.model_validate(written.value, context=tools)
    except ValidationError as exc:
        errors = exc.errors()
        within = {each["loc"][:-1] for each in errors}
        for error in errors:
            # What stands there and is wrong was said.
            if error["type"] != "too_short" or error["loc"] not in within:
                _say(written, error)
        raise ProcedureError(source, written.in_order()) from None
    name = task.name or source
    procedure = None
    if missing := [each for each in PROCEDURE if each not in task.model_fields_set]:
        for each in missing if len(missing) < len(PROCEDURE) else ():
            written.say((), f"the procedure lacks {each!r}; add it.")
    else:
        procedure = _procedure(written, task, name, guards or {}, tools)
    if task.model_fields_set <= {"name"}:
        expected = ", ".join((*PROCEDURE, *_PARTS))
        written.say((), f"the file says nothing; give it some of {expected}.")
    contract = None if task.contract is None else _contract(written, task.contract)
    policy = None if task.policy is None else _policy(written, text)
    if written.problems:
        raise ProcedureError(name, written.in_order())
    rules = Rules(**{each: getattr(task, each) for each in _RULES})
    return Playbook(procedure, contract, rules, task.constraints, policy, task.classifier)


# -- the fields of the file


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _tool(name: str, info: ValidationInfo) -> str:
    tools = info.context
    if tools is None or name in tools:
        return name
    likely = nearest(name, tools)
    remedy = f"did you mean {likely!r}?" if likely else f"there are {', '.join(tools)}."
    raise ValueError(f"there is no tool {name!r}; {remedy}")


_Some = Field(min_length=1)
Name = Annotated[str, Field(pattern=r"\S")]
Names = Annotated[tuple[Name, ...], BeforeValidator(_listed)]
Named = Annotated[Names, _Some]
ToolNames = Annotated[
    tuple[Annotated[Name, AfterValidator(_tool)], ...], BeforeValidator(_listed), _Some
]
Reminder = Annotated[
    str,
    Field(min_length=1, max_length=MAX_PINNED_LENGTH),
    BeforeValidator(lambda it: " ".join(it.split()) if isinstance(it, str) else it),
]
Reminders = Annotated[
    tuple[Reminder, ...], Field(min_length=1, max_length=MAX_PINNED), BeforeValidator(_listed)
]
Guarded = Annotated[
    Name | None, BeforeValidator(lambda it: None if it in ("", "~", "null") else it)
]


class _Fields(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class EdgeFields(_Fields):
    """An edge of the procedure, or one from each of several states."""

    action: Name
    from_: Names = Field(alias="from")
    to: Name
    guard: Guarded = None


class ContractFields(_Fields):
    """What the task allows: tools, those that serve it, and what it is about."""

    tools: ToolNames | None = None
    intent_tools: ToolNames | None = None
    identifiers: dict[Name, Name] = {}


class TaskFile(_Fields):
    """What may stand in the file."""

    name: Name = ""
    start: Name = ""
    final: Names = ()
    states: Names = ()
    edges: tuple[EdgeFields, ...] = ()
    contract: ContractFields | None = None
    forbid_tools: ToolNames = ()
    only_tools: ToolNames = ()
    forbid_imports: Named = ()
    forbid_text: Named = ()
    max_tool_calls: NonNegativeInt | None = None
    max_words: NonNegativeInt | None = None
    constraints: Reminders = ()
    policy: Annotated[dict[str, Any], _Some] | None = None
    classifier: Literal["", "rules", "hybrid", "llm"] = ""


_PARTS = ("contract", *_RULES, "constraints", "policy", "classifier")
_MODELS: Mapping[Any, tuple[str, type[BaseModel]]] = {
    "contract": ("the contract", ContractFields),
    "edges": ("an edge", EdgeFields),
}


def _say(written: Written, error: Any) -> None:
    """Say one of pydantic's errors as this file's."""
    at, kind = error["loc"], error["type"]
    what, model = _MODELS.get(at[0] if at else "", ("the file", TaskFile))
    known = ", ".join(each.alias or name for name, each in model.model_fields.items())
    name = next((each for each in reversed(at) if isinstance(each, str)), "")
    said = f"{name}: {error['msg']}."
    if kind == "extra_forbidden":
        likely = nearest(name, known.split(", "))
        remedy = f"did you mean {likely!r}?" if likely else f"use {known}."
        said = f"{name!r} is not a field; {remedy}"
    elif kind == "missing":
        said = f"{what} lacks {name!r}; add it."
    elif kind == "model_type":
        said = f"{what} has to be fields: {known}."
    elif kind == "string_type":
        said = f"{name}: a line of text is expected; write one, in quotes if it has a colon."
    elif kind == "value_error":
        said = str(error["ctx"]["error"])
    written.say(at, said, key=kind == "extra_forbidden")


# -- what they say


def _procedure(
    written: Written,
    task: TaskFile,
    name: str,
    guards: Mapping[str, Guard],
    tools: Tools | None,
) -> Procedure | None:
    edges = tuple(
        Edge(each.action, start, each.to, each.guard, written.line(("edges", number)))
        for number, each in enumerate(task.edges)
        for start in each.from_
    )
    try:
        procedure = Procedure(name, task.states, task.start, task.final, edges, dict(guards))
        if tools is not None:
            procedure.check_actions(tuple(tools))
    except ProcedureError as exc:
        written.problems += exc.problems
        return None
    return procedure


def _contract(written: Written, read: ContractFields) -> ActionContract:
    for number, name in enumerate(read.intent_tools or ()):
        if read.tools and name not in read.tools:
            said = (
                f"{name!r} is none of the contract's tools; add it to them, or leave it out here."
            )
            written.say(("contract", "intent_tools", number), said)
    return ActionContract(
        frozenset(read.tools) if read.tools else None,
        frozenset(read.intent_tools) if read.intent_tools else None,
        read.identifiers,
    )


def _policy(written: Written, text: str) -> FailurePolicy | None:
    """The policy, whose values are what YAML takes them for."""
    try:
        entries = yaml.safe_load(text)["policy"]
    except (yaml.YAMLError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
        written.say(("policy",), "a value here does not fit its tag; mend it, or drop the tag.")
        return None
    named = {str(key).upper(): (key, entry) for key, entry in entries.items()}
    for key in entries:
        if named[str(key).upper()][0] != key:
            written.say(("policy", key), f"{key} stands twice; leave one out.", key=True)
    for kind, (key, entry) in named.items():
        try:
            FailurePolicy.from_dict({kind: entry})
        except ValueError as exc:
            written.say(("policy", key), f"{exc}.")
    return None if written.problems else FailurePolicy.from_dict(dict(named.values()))
