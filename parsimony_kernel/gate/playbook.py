"""What a file says about a task: its procedure, its contract, its rules, and its recovery policy.

The rules are enforced; ``constraints`` are reminders in words.

Each part is optional; ``procedure_yaml`` describes the first. Every error names the line.

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

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import yaml
from yaml.constructor import SafeConstructor

from parsimony_kernel.core.config import MAX_PINNED, MAX_PINNED_LENGTH
from parsimony_kernel.core.contract import ActionContract
from parsimony_kernel.core.fuzzy import nearest
from parsimony_kernel.core.taxonomy import Step
from parsimony_kernel.gate.contract import within_contract
from parsimony_kernel.gate.procedure import Guard, Procedure, ProcedureError
from parsimony_kernel.gate.procedure_yaml import FIELDS, REQUIRED, Reader, composed
from parsimony_kernel.gate.rules import NO_RULES, Rules, within_rules
from parsimony_kernel.gate.stages import Stage
from parsimony_kernel.tools import Tools
from parsimony_kernel.triage.policy import FailurePolicy

RULES = "rules"
CLASSIFIERS = (RULES, "hybrid", "llm")
_RULES = tuple(each.name for each in fields(Rules))
_PARTS = ("contract", *_RULES, "constraints", "policy", "classifier")
_CONTRACT_FIELDS = ("tools", "intent_tools", "identifiers")


@dataclass(frozen=True)
class Playbook:
    """How a task is to be done, and what is done when it fails. What is not said is ``None``.

    Args:
        procedure: what may be done after what.
        contract: what the task allows.
        rules: what is refused.
        constraints: at most five reminders that stand last in every prompt.
        policy: what answers a failure, by its type.
        classifier: one of ``CLASSIFIERS``, which tells that type where nothing else does.
    """

    procedure: Procedure | None = None
    contract: ActionContract | None = None
    rules: Rules = NO_RULES
    constraints: tuple[str, ...] = ()
    policy: FailurePolicy | None = None
    classifier: str = ""


def task_stages(
    contract: ActionContract | None,
    rules: Rules,
    made: Callable[[], Sequence[Step]] = tuple,
) -> tuple[Stage, ...]:
    """The stages of a task's own terms, which stand behind the tools' validators.

    ``made`` gives the steps of the run so far.
    """
    held = () if contract is None else (within_contract(contract),)
    return (*held, *within_rules(rules, made))


def from_yaml(
    text: str,
    *,
    tools: Tools | None = None,
    guards: Mapping[str, Guard] | None = None,
    source: str = "playbook",
) -> Playbook:
    """The playbook that ``text`` describes; ``source`` names the text in errors.

    ``tools`` are those of the run, against which names are checked; ``guards`` are the functions
    that the procedure may name. ``ProcedureError`` says everything that is wrong with the text.
    """
    root = composed(text, source)
    reader = Reader(source)
    written = reader.mapping(root, (*FIELDS, *_PARTS), (), "the playbook")
    name = reader.name(written["name"]) if "name" in written else source
    has_procedure = not written.keys().isdisjoint(REQUIRED)
    if has_procedure:
        reader.require(root, written, REQUIRED, "the procedure")
    elif not reader.problems and written.keys().isdisjoint(_PARTS):
        expected = ", ".join((*REQUIRED, *_PARTS))
        reader.say(root, f"the playbook says nothing; give it some of {expected}.")
    procedure = None
    try:
        if has_procedure:
            procedure = reader.procedure(written, name, guards or {})
        if procedure is not None and tools is not None:
            procedure.check_actions(tuple(tools))
    except ProcedureError as exc:
        reader.problems += exc.problems
    contract = _contract(reader, written.get("contract"), tools)
    rules = _rules(reader, written, tools)
    constraints = _constraints(reader, written.get("constraints"))
    policy = _policy(reader, written.get("policy"))
    classifier = _classifier(reader, written.get("classifier"))
    if procedure is not None and contract is not None and tools is not None:
        reader.problems += _shut_edges(procedure, contract, tools)
    if reader.problems:
        raise ProcedureError(name, reader.problems)
    return Playbook(procedure, contract, rules, constraints, policy, classifier)


def _shut_edges(procedure: Procedure, contract: ActionContract, tools: Tools) -> Iterator[str]:
    for edge in procedure.edges:
        tool = tools.get(edge.action)
        is_work = tool is not None and not tool.terminal
        if is_work and contract.tools is not None and edge.action not in contract.tools:
            yield (
                f"{edge.place}: {edge} is never taken, because the contract does not allow "
                f"{edge.action!r}; name it among the contract's tools, or leave the edge out."
            )


def _contract(reader: Reader, node: Any, tools: Tools | None) -> ActionContract | None:
    if node is None:
        return None
    read = reader.mapping(node, _CONTRACT_FIELDS, (), "the contract")
    if node.value == []:
        reader.say(node, f"the contract says nothing; give it {', '.join(_CONTRACT_FIELDS)}.")
    allowed = _tools_in(reader, read.get("tools"), tools)
    serving = _tools_in(reader, read.get("intent_tools"), tools)
    for name, each in serving.items():
        if allowed and name not in allowed:
            remedy = "add it to them, or leave it out here."
            reader.say(each, f"{name!r} is none of the contract's tools; {remedy}")
    return ActionContract(
        frozenset(allowed) if allowed else None,
        frozenset(serving) if serving else None,
        _identifiers(reader, read.get("identifiers")),
    )


def _rules(reader: Reader, written: Mapping[str, Any], tools: Tools | None) -> Rules:
    read: dict[str, Any] = {}
    for name in _RULES:
        node = written.get(name)
        if node is None:
            continue
        if name.endswith("_tools"):
            read[name] = tuple(_tools_in(reader, node, tools))
        elif name.startswith("forbid_"):
            read[name] = tuple(reader.name(each) for each in _items(node))
            if not read[name]:
                reader.say(node, f"{name} names nothing; name something, or leave it out.")
        else:
            text = node.value if isinstance(node, yaml.ScalarNode) else ""
            read[name] = int(text) if text.isdecimal() else 0
            if not text.isdecimal():
                reader.say(node, f"{name} is a whole number of 0 or more, such as 5.")
    return Rules(**read)


def _tools_in(reader: Reader, node: Any, tools: Tools | None) -> dict[str, Any]:
    """The nodes of the tools that are named, by name; none when the field is left out."""
    if node is None:
        return {}
    named = {reader.name(each): each for each in _items(node)}
    if not named:
        reader.say(node, "no tool is named here; name one, or leave the field out.")
    for name, each in named.items():
        if tools is not None and name and name not in tools:
            likely = nearest(name, tools)
            remedy = f"did you mean {likely!r}?" if likely else f"there are {', '.join(tools)}."
            reader.say(each, f"there is no tool {name!r}; {remedy}")
    return named


def _identifiers(reader: Reader, node: Any) -> dict[str, str]:
    if node is None:
        return {}
    if not isinstance(node, yaml.MappingNode):
        reader.say(node, "identifiers are names with values; write them as {order_id: A102}.")
        return {}
    return {reader.name(key): reader.name(value) for key, value in reader.entries(node)}


def _constraints(reader: Reader, node: Any) -> tuple[str, ...]:
    if node is None:
        return ()
    items = _items(node)
    if not items:
        reader.say(node, "no rule stands here; write one, or leave the field out.")
    if len(items) > MAX_PINNED:
        reader.say(
            items[MAX_PINNED],
            f"this is more than {MAX_PINNED} rules, and each is heeded less; drop some.",
        )
    return tuple(_rule(reader, each) for each in items)


def _rule(reader: Reader, node: Any) -> str:
    text = " ".join(node.value.split()) if isinstance(node, yaml.ScalarNode) else ""
    if not text:
        reader.say(node, "a rule is a line of text; write one, in quotes if it has a colon.")
    elif len(text) > MAX_PINNED_LENGTH:
        reader.say(
            node, f"a rule of {len(text)} characters; {MAX_PINNED_LENGTH} are the most, shorten it."
        )
    return text


def _policy(reader: Reader, node: Any) -> FailurePolicy | None:
    if node is None:
        return None
    if not isinstance(node, yaml.MappingNode) or not node.value:
        reader.say(
            node, "a policy maps types of failures to strategies; write {default: escalate}."
        )
        return None
    entries: dict[str, Any] = {}
    for key, value in reader.entries(node):
        kind = key.value.upper()
        if kind in entries:
            reader.say(key, f"{kind} stands twice; leave one out.")
        if value.value == []:
            reader.say(value, f"{kind} has no strategy; write one, or leave the line out.")
        read = [_strategy(reader, kind, each) for each in _items(value)]
        entries[kind] = read if isinstance(value, yaml.SequenceNode) else read[0]
    return None if reader.problems else FailurePolicy.from_dict(entries)


def _classifier(reader: Reader, node: Any) -> str:
    named = "" if node is None else reader.name(node)
    if named and named not in CLASSIFIERS:
        reader.say(node, f"{named!r} is no classifier; write {', '.join(CLASSIFIERS)}.")
    return named


def _strategy(reader: Reader, kind: str, node: Any) -> Any:
    """The plain value of one strategy, which a policy can be made of."""
    try:
        entry = SafeConstructor().construct_document(node)
        FailurePolicy.from_dict({kind: entry})
    except yaml.YAMLError as exc:
        reader.say(node, f"this cannot be read ({' '.join(str(exc).split())}); mend it.")
    except RecursionError:
        reader.say(node, "this is nested too deeply; write it flat.")
    except ValueError as exc:
        reader.say(node, f"{exc}.")
    except (ArithmeticError, AttributeError, LookupError, TypeError):
        reader.say(node, "a value here does not fit its tag; mend it, or leave the tag out.")
    else:
        return entry
    return None


def _items(node: Any) -> list[Any]:
    """The nodes of a list, or the only one."""
    return list(node.value) if isinstance(node, yaml.SequenceNode) else [node]
