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
from parsimony_agent.cell import Session, known_names

# What a word may be, by the name that the tables give it.
Source = Callable[[str], Iterable[str]]

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


def source_of(shell: Any, opened: Callable[[], "Session | None"]) -> Source:
    """What ``shell`` and its session, where one is open, have to propose."""

    def found(kind: str) -> Iterable[str]:
        session = opened()
        match kind:
            case "models":
                return MODEL_NAMES
            case "commands":
                return COMMANDS
            case "turns" if session is not None:
                return [str(turn.ordinal) for turn in session.turns()]
            case "artifacts" if session is not None:
                return [each.title for each in session.artifacts()]
            case "context" if session is not None:
                # A title with a space in it has to be quoted, which a proposal cannot do.
                return [name for name in known_names(session, shell) if len(name.split()) == 1]
            case "variables" | "context":
                return [
                    name
                    for name, value in shell.user_ns.copy().items()
                    if not (name.startswith("_") or name in shell.user_ns_hidden)
                    and type(value) is not ModuleType
                ]
        return ()

    return found


def proposals(line: str, found: Source) -> list[str]:
    """What could stand at the end of ``line``, which is the text up to the cursor."""

    def values(row: Mapping[str, Any]) -> list[str]:
        return list(row.get("choices", ()) or found(row.get("completes", "")))

    magic, *words = line.split() or [""]
    # The word at the cursor is still being typed.
    done = words if line[-1:].isspace() else words[:-1]
    if magic.startswith("%%"):
        command, done = CELL, ["", *done]
    elif magic.startswith("%") and not done:
        return list(COMMANDS)
    elif magic.startswith("%") and done[0] in COMMANDS:
        command = COMMANDS[done[0]]
    else:
        return []
    flags = flags_of(command.arguments)
    with_value = {name for name, row in flags.items() if "action" not in row}
    if done[-1] in with_value:
        return values(flags[done[-1]])
    places = [row for name, row in command.arguments.items() if not name.startswith("-")]
    given = [
        word for before, word in pairwise(done) if word not in flags and before not in with_value
    ]
    following = [value for row in places[len(given) : len(given) + 1] for value in values(row)]
    return following if given and command is not CELL else [*flags, *following]


def matcher(name: str, found: Source) -> Any:
    """The completer of the magics called ``name``, for ``shell.Completer.custom_matchers``. Where
    it has something to propose, nobody else is asked: a file would not fit there."""

    @context_matcher()  # type: ignore[untyped-decorator]
    def agent_matcher(context: CompletionContext) -> dict[str, Any]:
        line = context.text_until_cursor
        is_ours = line.partition(" ")[0] in (f"%{name}", f"%%{name}")
        proposed = proposals(line, found) if is_ours else []
        fitting = [SimpleCompletion(each) for each in proposed if each.startswith(context.token)]
        return {"completions": fitting, "suppress": bool(fitting)}

    return agent_matcher
