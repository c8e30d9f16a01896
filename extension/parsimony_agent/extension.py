"""Install the extension into a shell, and remove it again: magics, input transformers, completion.

Everything installed here is removed here, in reverse order. Nothing here imports anything heavy.

IPython does not await what a magic returns, so ``await`` is inserted before the call that the magic
line was translated into. Only calls that are statements of their own are changed, and only where a
cell may await: not in functions or classes, and never text in strings.

IPython treats a line that ends in a question mark as a help request. After a sub-command that takes
text, the question mark belongs to the text.

IPython filters proposals by the word at the cursor, so the completer lists everything that fits
there. It imports nothing, opens no session and runs no user code.
"""

from __future__ import annotations

import ast
import re
import tokenize
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import Any
from weakref import WeakKeyDictionary

from IPython.core.completer import CompletionContext, SimpleCompletion, context_matcher
from IPython.core.inputtransformer2 import EscapedCommand, HelpEnd
from traitlets.config import Config

from parsimony_agent.arguments import CELL, COMMANDS, MODEL_NAMES, flags_of
from parsimony_agent.cell import SessionFactory, open_in
from parsimony_agent.magics import AgentMagics
from parsimony_agent.pending import SilentStop, TurnError
from parsimony_agent.settings import ParsimonyAgent, config_of_files
from parsimony_kernel.analysis.parse import parse
from parsimony_kernel.core.deferred import defer_grammar_of_addresses
from parsimony_kernel.lineage.snapshot import visible

_AWAITED = frozenset(command.name for command in COMMANDS.values() if command.awaits)
_OF_WORDS = "|".join(command.name for command in COMMANDS.values() if command.takes_text)
_MARGINS = frozenset({tokenize.INDENT, tokenize.DEDENT})
_CLOSED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)


def _calls(node: ast.AST, name: str) -> Iterator[tuple[ast.Call, list[ast.Constant]]]:
    """Yield the calls of the magic ``name`` below ``node`` that are statements of the cell itself.

    They come in order, each with its constant arguments: the line and, for a cell magic, the body.
    """
    for child in ast.iter_child_nodes(node):
        match child:
            case ast.Expr(
                value=ast.Call(
                    func=ast.Attribute(
                        value=ast.Call(func=ast.Name(id="get_ipython"), args=[]),
                        attr="run_cell_magic" | "run_line_magic",
                    ),
                    args=[ast.Constant(value=magic), *arguments],
                ) as call
            ) if magic == name:
                yield call, [each for each in arguments if isinstance(each, ast.Constant)]
            case _ if not isinstance(child, _CLOSED):
                yield from _calls(child, name)


def _is_awaited(words: Sequence[str]) -> bool:
    """Return whether a sub-command returns a coroutine; its help does not, it is shown at once."""
    return not _AWAITED.isdisjoint(words[:1]) and words[1:] not in (["-h"], ["--help"])


def awaiting(name: str) -> Callable[[list[str]], list[str]]:
    """Return the transformer that awaits the magic ``name``.

    It is for ``shell.input_transformers_post``.
    """
    marks = (f"run_cell_magic('{name}'", f"run_line_magic('{name}'")

    def transform(lines: list[str]) -> list[str]:
        source = "".join(lines)
        if not any(mark in source for mark in marks):
            return lines
        # AST column offsets count bytes.
        raw = source.encode().split(b"\n")
        # Backwards, so that earlier positions stay valid.
        for call, arguments in reversed(list(_calls(parse(source)[0], name))):
            row, at = call.lineno - 1, call.col_offset
            match arguments:
                case [_, ast.Constant(value="", end_col_offset=int(end)) as body]:
                    # IPython refuses an empty body before the magic sees it.
                    raw[row] = raw[row][: body.col_offset] + rb"'\n'" + raw[row][end:]
                case [] | [ast.Constant(), ast.Constant(value=int())]:
                    continue
                case [ast.Constant(value=line)] if not _is_awaited(str(line).split()):
                    continue
            raw[row] = raw[row][:at] + b"await " + raw[row][at:]
        return b"\n".join(raw).decode().splitlines(keepends=True)

    return transform


def asking(name: str) -> type[EscapedCommand]:
    """Return the token transformer for lines of the magic ``name`` that end in a question mark.

    For ``shell.input_transformer_manager``; such a line is ``%agent answer is it the first?``.
    """
    question = re.compile(rf"\s*%{name}\s+(?:{_OF_WORDS})\s.*\S\s*\?\s*$")

    class Asking(EscapedCommand):
        """A magic line that ends in a question mark, matched before IPython takes it for help."""

        priority = HelpEnd.priority - 1

        @classmethod
        def find(
            cls, tokens_by_line: Sequence[Sequence[tokenize.TokenInfo]]
        ) -> EscapedCommand | None:
            for tokens in tokens_by_line:
                first = next((t for t in tokens if t.type not in _MARGINS), None)
                if first is not None and first.string == "%" and question.match(first.line):
                    return cls(first.start)
            return None

    return Asking


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


NAME = "agent"
SECOND_NAME = "parsimony"

# The magics of each shell, and the stack that removes them.
_installed: WeakKeyDictionary[Any, tuple[AgentMagics, ExitStack]] = WeakKeyDictionary()


def here() -> AgentMagics:
    """Return the magics of the current shell.

    Raises:
        TurnError: the extension is not loaded; the message says how to load it.
    """
    from IPython.core import getipython

    shell = getipython.get_ipython()
    if shell not in _installed:
        raise TurnError(
            "The agent is not loaded in this shell. Load it with %load_ext parsimony_agent."
        )
    return _installed[shell][0]


def install(shell: Any, session_factory: SessionFactory = open_in) -> AgentMagics:
    """Load the extension into ``shell`` unless it is already there; return its magics.

    Prints a line only if the usual name of the magic was taken.
    """
    if shell in _installed:
        return _installed[shell][0]
    defer_grammar_of_addresses()
    known = shell.magics_manager
    taken = any(NAME in table for table in (*known.magics.values(), known.lazy_magics))
    name = SECOND_NAME if taken else NAME
    # IPython's configuration files override Jupyter's.
    config = config_of_files()
    config.merge(getattr(shell, "config", None) or Config())
    settings = ParsimonyAgent(config=config)
    silence = SilentStop(shell)
    magics = AgentMagics(shell, f"%{name}", settings, silence.install, session_factory)
    hooks: tuple[tuple[list[Any], Any], ...] = (
        (shell.input_transformers_post, awaiting(name)),
        (shell.input_transformer_manager.token_transformers, asking(name)),
        (shell.Completer.custom_matchers, matcher(name, shell)),
        (shell.configurables, settings),
    )
    undo = ExitStack()
    shell.register_magic_function(magics.agent, magic_kind="line_cell", magic_name=name)
    undo.callback(_remove_magic, shell, name, magics.agent)
    for there, hook in hooks:
        there.append(hook)
        undo.callback(_remove_hook, there, hook)
    silence.install()
    undo.callback(silence.uninstall)
    magics.user_cells.install()
    undo.callback(magics.user_cells.uninstall)
    undo.callback(magics.close)
    _installed[shell] = magics, undo
    if taken:
        print(
            f"Parsimony Agent: %%{NAME} belongs to another extension here, so the agent is "
            f"%%{name} and %{name}."
        )
    return magics


def uninstall(shell: Any) -> None:
    """Remove the extension from ``shell`` if loaded, except what others have replaced since."""
    if shell in _installed:
        _installed.pop(shell)[1].close()


def _remove_magic(shell: Any, name: str, magic: Any) -> None:
    for table in shell.magics_manager.magics.values():
        if table.get(name) == magic:
            del table[name]


def _remove_hook(hooks: list[Any], hook: Any) -> None:
    hooks[:] = [each for each in hooks if each is not hook]
