"""Completion behind ``%%agent`` and ``%agent``, from the tables of ``arguments``.

IPython keeps the proposals that begin with the word at the cursor, so a completer only says what
could stand there. Nothing is imported and nobody is asked for it.
"""

from collections.abc import Callable, Iterable
from typing import Any

from parsimony_agent.arguments import CELL_FLAGS, COMMANDS, command_named

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
_MODEL_FLAGS = frozenset(name for flag in CELL_FLAGS if flag.dest == "model" for name in flag.names)


def proposals(line: str, models: Iterable[str] = MODEL_NAMES) -> list[str]:
    """What could stand at the end of ``line``, which is the text up to the cursor."""
    words = line.split()
    if not words or not words[0].startswith("%"):
        return []
    # The word at the cursor is still being typed.
    done = words[1:] if line[-1:].isspace() else words[1:-1]
    last = done[-1] if done else ""
    if words[0].startswith("%%"):
        if last in _MODEL_FLAGS:
            return list(models)
        return [name for flag in CELL_FLAGS for name in flag.names]
    if not done:
        return [command.name for command in COMMANDS]
    command = command_named(done[0])
    if command is not None and command.name == "model" and len(done) == 1:
        return list(models)
    if command is not None and command.first and len(done) == 1:
        return list(command.first)
    if command is not None and all(word.startswith("-") for word in done[1:]):
        return [name for flag in command.flags for name in flag.names]
    return []


class Completion:
    """Puts the completer into the shell and takes it out again."""

    def __init__(self, shell: Any, name: str) -> None:
        self._shell = shell
        self._keys = (f"%{name}", f"%%{name}")
        self._hook: Callable[[Any, Any], list[str]] | None = None

    def install(self) -> None:
        def complete(_shell: Any, event: Any) -> list[str]:
            return proposals(event.text_until_cursor)

        self._hook = complete
        for key in self._keys:
            self._shell.set_hook("complete_command", complete, str_key=key)

    def uninstall(self) -> None:
        # IPython has no call for this; the dispatcher's table of chains is its state.
        strings = self._shell.strdispatchers["complete_command"].strs
        for key in self._keys:
            chain = strings.get(key)
            if chain is None:
                continue
            chain.chain = [
                (priority, hook)
                for priority, hook in chain.chain
                if getattr(hook, "__func__", None) is not self._hook
            ]
            if not chain.chain:
                del strings[key]
        self._hook = None
