"""Completion behind ``%%agent`` and ``%agent``, from the tables of ``arguments``.

IPython keeps the proposals that begin with the word at the cursor, so a completer only says what
could stand there. Nothing is imported for it, no session is opened, and no code of a person runs.
"""

from collections.abc import Callable, Iterable, Mapping
from itertools import pairwise
from types import ModuleType
from typing import Any

from IPython.core.completer import CompletionContext, SimpleCompletion, context_matcher

from parsimony_agent.arguments import CELL_FLAGS, COMMANDS, Flag, command_named
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

    def models() -> list[str]:
        made = [
            name
            for name, value in shell.user_ns.copy().items()
            if not name.startswith("_")
            and "stream" in type.__dict__["__dict__"].__get__(type(value))
        ]
        return [*MODEL_NAMES, *made]

    def context() -> list[str]:
        session = opened()
        known = variables() if session is None else known_names(session, shell)
        # A title with a space in it has to be quoted, which a proposal cannot do.
        return [name for name in known if not any(map(str.isspace, name))]

    return {
        "models": models,
        "variables": variables,
        "turns": turns,
        "artifacts": artifacts,
        "context": context,
    }


_NOTHING: Sources = {"models": lambda: MODEL_NAMES}


def proposals(line: str, known: Sources = _NOTHING) -> list[str]:
    """What could stand at the end of ``line``, which is the text up to the cursor."""
    words = line.split()
    if not words or not words[0].startswith("%"):
        return []
    # The word at the cursor is still being typed.
    done = words[1:] if line[-1:].isspace() else words[1:-1]

    def of(what: str) -> list[str]:
        return list(known[what]()) if what in known else []

    if words[0].startswith("%%"):
        value = _value(CELL_FLAGS, done, of)
        return [name for flag in CELL_FLAGS for name in flag.names] if value is None else value
    if not done:
        return [command.name for command in COMMANDS]
    command = command_named(done[0])
    if command is None:
        return []
    value = _value(command.flags, done, of)
    if value is not None:
        return value
    flags = {name: flag for flag in command.flags for name in flag.names}
    given = [
        word
        for before, word in pairwise(done)
        if word not in flags and not (before in flags and flags[before].metavar)
    ]
    found = [] if given else list(flags)
    if command.first and not given:
        return [*found, *command.first]
    if command.completes and len(given) < min(command.words or 1, 2 if command.first else 1):
        found += of(command.completes)
    return found


def _value(
    flags: Iterable[Flag], done: list[str], of: Callable[[str], list[str]]
) -> list[str] | None:
    """What the value of the flag may be that stands last in ``done``; ``None`` where none does."""
    for flag in flags:
        if done and done[-1] in flag.names and flag.metavar:
            return list(flag.choices) or of(flag.completes)
    return None


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
