"""Task files: the YAML definition of a task's procedure, contract, rules and recovery policy.

The rules are enforced; ``constraints`` are only reminders to the model.

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
      HALLUCINATED_STATE: rollback_to_checkpoint
      default: escalate
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Annotated, Any, NoReturn

import yaml
from pydantic import AfterValidator, BeforeValidator, Field, ValidationError, ValidationInfo

from parsimony_kernel.core.config import MAX_PINNED, MAX_PINNED_LENGTH, ActionContract
from parsimony_kernel.core.fuzzy import suggestion
from parsimony_kernel.gate.procedure import Edge, Guard, Procedure, ProcedureError
from parsimony_kernel.gate.rules import Fields, Name, Names, Rules, ToolName, listed, one_of
from parsimony_kernel.tools import Tools
from parsimony_kernel.triage.policy import STRATEGIES, FailurePolicy

# Far more than anyone writes by hand.
MAX_CHARACTERS = 262_144

# Location of a value in the file: the keys and list indices that lead to it.
Path = tuple[Any, ...]


@dataclass(frozen=True)
class Playbook:
    """Parsed task file, as an agent's arguments.

    Args:
        procedure: states and the order of the actions; ``None`` if not given.
        contract: the allowed tools and identifiers; ``None`` if not given.
        rules: the prohibitions; empty if not given.
        pinned_constraints: reminders that enforce nothing; empty if not given.
        policy: recovery strategy by type of failure; ``None`` if not given.
    """

    procedure: Procedure | None = None
    contract: ActionContract | None = None
    rules: Rules = field(default_factory=Rules)
    pinned_constraints: tuple[str, ...] = ()
    policy: FailurePolicy | None = None


def from_yaml(
    text: str,
    *,
    tools: Tools | None = None,
    guards: Mapping[str, Guard] | None = None,
    source: str = "task file",
) -> Playbook:
    """Parse a task file.

    Args:
        text: YAML, at most ``MAX_CHARACTERS`` long.
        tools: the run's tools, against which names are checked; without them any name passes.
        guards: the functions that the procedure may name.
        source: name of the text in errors, such as the file's name.

    Returns:
        The parsed task.

    Raises:
        ProcedureError: every problem with its line; problems of the procedure are looked for only
            if the fields are valid.
    """
    written = _Written(text, source)
    try:
        task = TaskFile.model_validate(written.value, context=tools)
    except ValidationError as exc:
        found = sorted((written.line(each["loc"]), _in_words(each)) for each in exc.errors())
        problems = [f"{written.place(line)}: {problem}" for line, problem in found]
        raise ProcedureError(source, problems) from None
    own, policy = task.contract, {kind: STRATEGIES[name] for kind, name in task.policy.items()}
    return Playbook(
        _procedure(written, task, guards or {}),
        None if own is None else ActionContract(own.tools, own.intent_tools, own.identifiers),
        Rules(**task.model_dump(include={*Rules.model_fields}, exclude_unset=True)),
        task.constraints,
        FailurePolicy(**policy) if policy else None,
    )


class _Written:
    """YAML text parsed to ``value``, with the line of each part.

    Scalars stay text, so a state may be called ``no``. Raises ``ProcedureError`` for invalid or
    too large YAML, for duplicate keys and for repeated aliases.
    """

    def __init__(self, text: str, source: str) -> None:
        self.source = source
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
            why = getattr(exc, "problem", None) or " ".join(str(exc).split())
            self._refuse(getattr(exc, "problem_mark", None), f"this is not valid YAML ({why}).")

    def line(self, at: Path) -> int:
        """Return the line of the value at a path, or of its nearest parent; 0 if there is none."""
        while at not in self._lines and at:
            at = at[:-1]
        return self._lines.get(at, 0)

    def place(self, line: int) -> str:
        """Render a line number for a person."""
        return f"{self.source}, line {line}" if line else self.source

    def _refuse(self, mark: Any, problem: str) -> NoReturn:
        place = self.place(0 if mark is None else mark.line + 1)
        raise ProcedureError(self.source, [f"{place}: {problem}"]) from None

    def _read(self, node: Any, at: Path) -> Any:
        self._lines.setdefault(at, node.start_mark.line + 1)
        if id(node) in self._met:  # a few nested aliases can expand to millions of values
            self._refuse(node.start_mark, "an alias (*) repeats this; write it out instead.")
        self._met.add(id(node))
        if isinstance(node, yaml.ScalarNode):
            return node.value
        if not node.value:
            self._refuse(node.start_mark, "this is empty; fill it in, or leave it out.")
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


# -- the fields of the file


ToolSet = Annotated[frozenset[ToolName], BeforeValidator(listed)]
FailureName = Annotated[
    str, one_of("type of failure", [each.name for each in fields(FailurePolicy)])
]
StrategyName = Annotated[str, one_of("strategy", STRATEGIES)]
Reminder = Annotated[
    str,
    Field(min_length=1, max_length=MAX_PINNED_LENGTH),
    BeforeValidator(lambda it: " ".join(it.split()) if isinstance(it, str) else it),
]


class EdgeFields(Fields):
    """An edge of the procedure, or one edge from each of several states."""

    action: ToolName
    from_: Names = Field(alias="from")
    to: Name
    guard: Name | None = None


def _allowed(names: frozenset[str], info: ValidationInfo) -> frozenset[str]:
    tools = info.data.get("tools")
    for name in sorted(names - (names if tools is None else tools)):
        raise ValueError(f"{name!r} is none of the contract's tools; add it there, or take it out")
    return names


class ContractFields(Fields):
    """The contract: allowed tools, those that serve the task's intent, and its identifiers."""

    tools: ToolSet | None = None
    intent_tools: Annotated[ToolSet, AfterValidator(_allowed)] | None = None
    identifiers: dict[Name, Name] = Field(default_factory=dict)


class TaskFile(Rules):
    """Schema of a task file."""

    name: Name = ""
    start: Name = ""
    final: Names = ()
    states: Names = ()
    edges: tuple[EdgeFields, ...] = ()
    contract: ContractFields | None = None
    constraints: Annotated[
        tuple[Reminder, ...], Field(max_length=MAX_PINNED), BeforeValidator(listed)
    ] = ()
    policy: dict[FailureName, StrategyName] = Field(default_factory=dict)


_OF_PROCEDURE = ("start", "final", "states", "edges")
_MODELS: Mapping[Any, type[Fields]] = {"contract": ContractFields, "edges": EdgeFields}


def _in_words(error: Any) -> str:
    """Render a pydantic error for the author of the file."""
    at = error["loc"]
    name = next((each for each in reversed(at) if isinstance(each, str)), "the file")
    match error["type"]:
        case "extra_forbidden":
            fields = _MODELS.get(at[0], TaskFile).model_fields.items()
            known = [each.alias or own for own, each in fields]
            return f"{name!r} is not a field; {suggestion(name, known)}"
        case "missing":
            return f"{name!r} is missing; add it."
        case "string_type":
            return f"{name}: a line of text is expected; write one, in quotes if it has a colon."
        case "value_error":
            return str(error["ctx"]["error"])
    return f"{name}: {error['msg']}."


# -- from fields to a procedure


def _procedure(written: _Written, task: TaskFile, guards: Mapping[str, Guard]) -> Procedure | None:
    name = task.name or written.source
    missing = [each for each in _OF_PROCEDURE if each not in task.model_fields_set]
    if len(missing) == len(_OF_PROCEDURE) and task.model_fields_set != {"name"}:
        return None
    if missing:
        place = written.place(written.line(()))
        lacks = (f"{place}: the procedure lacks {each!r}; add it." for each in missing)
        raise ProcedureError(name, lacks)
    edges = tuple(
        Edge(each.action, start, each.to, each.guard, written.place(written.line(("edges", n))))
        for n, each in enumerate(task.edges)
        for start in each.from_
    )
    try:
        return Procedure(name, task.states, task.start, task.final, edges, dict(guards))
    except ProcedureError as exc:  # those of an edge name its line
        told = [(each.partition(":")[0], each) for each in exc.problems]
        problems = [
            f"{written.place(written.line((at,)))}, {each}" if at in _OF_PROCEDURE else each
            for at, each in told
        ]
        raise ProcedureError(name, problems) from None
