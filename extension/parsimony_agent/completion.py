"""Completion for ``%%agent`` and ``%agent``, from the tables of ``arguments``.

IPython filters by the word at the cursor, so a completer lists everything that fits there.
Completion imports nothing, opens no session and runs no user code.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from IPython.core.completer import CompletionContext, SimpleCompletion, context_matcher

from parsimony_agent.arguments import CELL, COMMANDS, MODEL_NAMES, flags_of
from parsimony_kernel.lineage.snapshot import visible


def proposals(line: str, variables: Iterable[str]) -> list[str]:
    """Return the words that could end ``line``, the text up to the cursor."""
    known = {"models": MODEL_NAMES, "commands": COMMANDS, "variables": variables}

    def values(row: Mapping[str, Any]) -> list[str]:
        return list(row.get("choices", ()) or known.get(row.get("completes", ""), ()))

    magic, *words = line.split() or [""]
    # The last word is incomplete unless a space follows it.
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
    return [*flags, *(value for row in places for value in values(row))]


def matcher(name: str, shell: Any) -> Any:
    """Return the completer of the magics called ``name``, for ``shell.Completer.custom_matchers``.

    It suppresses other completers when it has proposals, since files would not fit there.
    """

    @context_matcher()  # type: ignore[untyped-decorator]
    def agent_matcher(context: CompletionContext) -> dict[str, Any]:
        line = context.text_until_cursor
        if line.partition(" ")[0] not in (f"%{name}", f"%%{name}"):
            return {"completions": []}
        proposed = proposals(line, visible(shell.user_ns, shell.user_ns_hidden))
        fitting = [SimpleCompletion(each) for each in proposed if each.startswith(context.token)]
        return {"completions": fitting, "suppress": bool(fitting)}

    return agent_matcher
