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
    field_validator,
)

from parsimony_kernel.core.config import MAX_PINNED, MAX_PINNED_LENGTH
from parsimony_kernel.core.contract import ActionContract
from parsimony_kernel.core.fuzzy import suggestion
from parsimony_kernel.gate.procedure import Edge, Guard, Procedure, ProcedureError
from parsimony_kernel.gate.rules import NO_RULES, Rules
from parsimony_kernel.tools import Tools
from parsimony_kernel.triage.policy import FailurePolicy

# A file of a person's own is far smaller; one that is larger was not written by hand.
MAX_CHARACTERS = 262_144

RULES = "rules"
PROCEDURE = ("start", "final", "states", "edges")
_RULES = tuple(each.name for each in fields(Rules))


class Written:
    """The ``value`` of ``text``; its ``problems`` say where, what is wrong, and what to do.

    Values are texts, lists and mappings, so that a state called ``no`` is one; those of a policy
    are what YAML takes them for. ``ProcedureError`` for no YAML, and for what is too large or has
    aliases.
    """

    def __init__(self, text: str, source: str) -> None:
        self.source = source
        self.problems: list[tuple[int, str]] = []
        self._lines: dict[tuple[Any, ...], int] = {}
        self._met: set[int] = set()
        if len(text) > MAX_CHARACTERS:
            self._refuse(f": it has more than {MAX_CHARACTERS} characters; shorten it.")
        try:
            self._loader = yaml.SafeLoader(text)
            root = self._loader.get_single_node()
            self.value: Any = None if root is None else self._plain(root, ())
        except RecursionError:
            self._refuse(": it is nested too deeply; write it flat.")
        except yaml.YAMLError as exc:
            mark = getattr(exc, "problem_mark", None)
            line = "" if mark is None else f", line {mark.line + 1}"
            said = getattr(exc, "problem", None) or " ".join(str(exc).split())
            self._refuse(f"{line}: this is no YAML ({said}); mend it.")

    def say(self, at: tuple[Any, ...], problem: str) -> None:
        """Note a problem of the value at the path ``at``, or of the nearest around it."""
        while at not in self._lines and at:
            at = at[:-1]
        self._say(self._lines.get(at, 0), problem)

    def line(self, at: tuple[Any, ...]) -> str:
        """Where the value at the path ``at`` stands."""
        return f"{self.source}, line {self._lines[at]}"

    def error(self, name: str) -> ProcedureError:
        """All problems, by their lines."""
        return ProcedureError(name, (problem for _, problem in sorted(self.problems)))

    def _say(self, line: int, problem: str) -> None:
        where = f", line {line}" if line else ""
        self.problems.append((line, f"{self.source}{where}: {problem}"))

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
            return self._scalar(node, line) if at[:1] == ("policy",) else node.value
        values: dict[str, Any] = {}
        for key, value in node.value:
            line = key.start_mark.line + 1
            if not isinstance(key, yaml.ScalarNode):
                self._say(line, "a key is a name; write a name before the ':'.")
            elif key.value in values:
                self._say(line, f"{key.value!r} stands twice; leave one out.")
            else:
                values[key.value] = self._plain(value, here := (*at, key.value))
                self._lines[here] = line
        return values

    def _scalar(self, node: yaml.ScalarNode, line: int) -> Any:
        try:
            return self._loader.construct_object(node)
        except Exception:  # boundary: tool - a constructor of YAML, for a value that is none
            self._say(line, "this value does not fit its tag; mend it, or drop the tag.")
            return None


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
        raise written.error(source) from None
    procedure = _procedure(written, task, guards or {}, tools)
    if task.model_fields_set <= {"name"}:
        written.say((), f"the file says nothing; give it some of {', '.join(_PARTS)}.")
    policy = None if task.policy is None else _policy(written, task.policy)
    if written.problems:
        raise written.error(task.name or source)
    rules = Rules(**{each: getattr(task, each) for each in _RULES})
    contract = None if task.contract is None else task.contract.as_value()
    return Playbook(procedure, contract, rules, task.constraints, policy, task.classifier)


# -- the fields of the file


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _tool(name: str, info: ValidationInfo) -> str:
    tools = info.context
    if tools is None or name in tools:
        return name
    raise ValueError(f"there is no tool {name!r}; {suggestion(name, tools)}")


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

    @field_validator("intent_tools")
    @classmethod
    def _are_allowed(cls, names: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
        allowed = info.data.get("tools") or names
        if other := next((each for each in names if each not in allowed), None):
            raise ValueError(
                f"{other!r} is none of the contract's tools; add it to them, or leave it out here."
            )
        return names

    def as_value(self) -> ActionContract:
        """The contract."""
        tools, serving = (
            None if each is None else frozenset(each) for each in (self.tools, self.intent_tools)
        )
        return ActionContract(tools, serving, self.identifiers)


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


_PARTS = tuple(each for each in TaskFile.model_fields if each != "name")
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
        said = f"{name!r} is not a field; {suggestion(name, known.split(', '))}"
    elif kind == "missing":
        said = f"{what} lacks {name!r}; add it."
    elif kind == "model_type":
        said = f"{what} has to be fields: {known}."
    elif kind == "string_type":
        said = f"{name}: a line of text is expected; write one, in quotes if it has a colon."
    elif kind == "value_error":
        said = str(error["ctx"]["error"])
    written.say(at, said)


# -- what they say


def _procedure(
    written: Written, task: TaskFile, guards: Mapping[str, Guard], tools: Tools | None
) -> Procedure | None:
    missing = [each for each in PROCEDURE if each not in task.model_fields_set]
    if missing:
        for each in missing if len(missing) < len(PROCEDURE) else ():
            written.say((), f"the procedure lacks {each!r}; add it.")
        return None
    edges = tuple(
        Edge(each.action, start, each.to, each.guard, written.line(("edges", number)))
        for number, each in enumerate(task.edges)
        for start in each.from_
    )
    name = task.name or written.source
    try:
        procedure = Procedure(name, task.states, task.start, task.final, edges, dict(guards))
        if tools is not None:
            procedure.check_actions(tuple(tools))
    except ProcedureError as exc:
        written.problems += ((0, problem) for problem in exc.problems)
        return None
    return procedure


def _policy(written: Written, entries: Mapping[str, Any]) -> FailurePolicy:
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
