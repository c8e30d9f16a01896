"""What is rewritten of a cell before it runs.

IPython does not await what a magic returns, so ``await`` is put before the call that the magic
line was turned into. Only a call that is a statement of its own is touched, and only where a cell
may await: not inside a function or a class, and never text inside strings.

IPython takes a line that ends in a question mark for a call for help. Behind a sub-command that
takes a text it is a part of the text.
"""

import ast
import re
import tokenize
from collections.abc import Callable, Iterator, Sequence

from IPython.core.inputtransformer2 import EscapedCommand, HelpEnd

from parsimony_agent.arguments import COMMANDS
from parsimony_kernel.analysis.parse import tree

_AWAITED = frozenset(command.name for command in COMMANDS.values() if command.awaits)
_OF_WORDS = "|".join(command.name for command in COMMANDS.values() if command.takes_text)
_MARGINS = frozenset({tokenize.INDENT, tokenize.DEDENT})
_CLOSED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)


def _calls(node: ast.AST, name: str) -> Iterator[tuple[ast.Call, list[ast.Constant]]]:
    """The calls of the magic ``name`` below ``node`` that are statements of the cell itself, in
    order: each with the line and, of a cell magic, the body."""
    for child in ast.iter_child_nodes(node):
        match child:
            case ast.Expr(
                value=ast.Call(
                    func=ast.Attribute(
                        value=ast.Call(func=ast.Name(id="get_ipython"), args=[]),
                        attr="run_cell_magic" | "run_line_magic",
                    ),
                    args=[ast.Constant(value=magic), *told],
                ) as call
            ) if magic == name:
                yield call, [each for each in told if isinstance(each, ast.Constant)]
            case _ if not isinstance(child, _CLOSED):
                yield from _calls(child, name)


def _is_awaited(words: Sequence[str]) -> bool:
    """Whether a sub-command gives a coroutine; its help is shown at once."""
    return not _AWAITED.isdisjoint(words[:1]) and words[1:] not in (["-h"], ["--help"])


def awaiting(name: str) -> Callable[[list[str]], list[str]]:
    """The transformation for ``shell.input_transformers_post``, for a magic called ``name``."""
    marks = (f"run_cell_magic('{name}'", f"run_line_magic('{name}'")

    def transform(lines: list[str]) -> list[str]:
        source = "".join(lines)
        if not any(mark in source for mark in marks):
            return lines
        # Positions of the ast count bytes.
        raw = source.encode().split(b"\n")
        # From the end backwards, so that the positions before stay true.
        for call, told in reversed(list(_calls(tree(source), name))):
            row, at = call.lineno - 1, call.col_offset
            match told:
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
    """The transformer for ``shell.input_transformer_manager``: lines of the magic called ``name``
    that end in a question, such as ``%agent answer is it the first?``."""
    question = re.compile(rf"\s*%{name}\s+(?:{_OF_WORDS})\s.*\S\s*\?\s*$")

    class Asking(EscapedCommand):
        """A magic line that ends in a question mark, taken before it is one for help."""

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
