"""Completion behind ``%%agent`` and ``%agent``, from the tables of ``arguments``.

IPython keeps the proposals that begin with the word at the cursor, so a completer only says what
could stand there. Nothing is imported for it, no session is opened, and no code of a person runs.
"""

from collections.abc import Callable, Iterable, Mapping
from itertools import pairwise
from types import ModuleType
from typing import Any

from IPython.core.completer import CompletionContext, SimpleCompletion, context_matcher

from parsimony_agent.arguments import CELL, COMMANDS, flags_of
from parsimony_agent.sessions import Session, known_names

# What a word may be, by the name that the tables give it.
Sources = Mapping[str, Callable[[], Iterable[str]]]

# Prefixes that name a provider, to go on typing from, and the embedded model.
MODEL_NAMES = (
    "offline",
    "anthropic/",
    "azure/",
    "gemini/",
    "mistral/",
    "ollama_chat/",
    "openai/",
    "openrouter/",
)


def sources(shell: Any, opened: Callable[[], "Session | None"]) -> Sources:
    """What ``shell`` and its session, where one is open, have to propose."""

    def variables() -> list[str]:
        hidden = shell.user_ns_hidden
        return [
            name
            for name, value in shell.user_ns.copy().items()
            if not name.startswith("_") and name not in hidden and type(value) is not ModuleType
        ]

    def turns() -> list[str]:
        session = opened()
        return [] if session is None else [str(turn.ordinal) for turn in session.turns()]

    def artifacts() -> list[str]:
        session = opened()
        return [] if session is None else [each.title for each in session.artifacts()]

    def context() -> list[str]:
        session = opened()
        known = variables() if session is None else known_names(session, shell)
        # A title with a space in it has to be quoted, which a proposal cannot do.
        return [name for name in known if not any(map(str.isspace, name))]

    return {
        "models": lambda: MODEL_NAMES,
        "variables": variables,
        "turns": turns,
        "artifacts": artifacts,
        "context": context,
        "commands": lambda: COMMANDS,
    }


_NOTHING: Sources = {"models": lambda: MODEL_NAMES}


def proposals(line: str, known: Sources = _NOTHING) -> list[str]:
    """What could stand at the end of ``line``, which is the text up to the cursor."""
    magic, *words = line.split() or [""]
    # The word at the cursor is still being typed.
    done = words if line[-1:].isspace() else words[:-1]
    if magic.startswith("%%"):
        command, done = CELL, ["", *done]
    elif not magic.startswith("%"):
        return []
    elif not done:
        return list(COMMANDS)
    elif done[0] in COMMANDS:
        command = COMMANDS[done[0]]
    else:
        return []
    flags = flags_of(command.arguments)
    with_value = {name for name, row in flags.items() if "action" not in row}
    if done[-1] in with_value:
        return _values(flags[done[-1]], known)
    places = [row for name, row in command.arguments.items() if not name.startswith("-")]
    given = [
        word for before, word in pairwise(done) if word not in flags and before not in with_value
    ]
    if command is CELL or not given:
        return [*flags, *(_values(places[0], known) if places else [])]
    return _values(places[len(given)], known) if len(given) < len(places) else []


def _values(row: Mapping[str, Any], known: Sources) -> list[str]:
    """What the value of an argument may be."""
    found = known.get(row.get("completes", ""), tuple)
    return list(row.get("choices", ())) or list(found())


def matcher(name: str, known: Sources) -> Any:
    """The completer of the magics called ``name``, for ``shell.Completer.custom_matchers``. Where
    it has something to propose, nobody else is asked: a file would not fit there."""

    @context_matcher()  # type: ignore[untyped-decorator]
    def agent_matcher(context: CompletionContext) -> dict[str, Any]:
        line = context.text_until_cursor
        is_ours = line.partition(" ")[0] in (f"%{name}", f"%%{name}")
        found = proposals(line, known) if is_ours else []
        fitting = [SimpleCompletion(each) for each in found if each.startswith(context.token)]
        return {"completions": fitting, "suppress": bool(fitting)}

    return agent_matcher
