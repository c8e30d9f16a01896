"""Rewrite a cell before it runs: await agent magics, and keep question marks in requests.

IPython does not await what a magic returns, so ``await`` is inserted before the call that the magic
line was translated into. Only calls that are statements of their own are changed, and only where a
cell may await: not in functions or classes, and never text in strings.

IPython treats a line that ends in a question mark as a help request. After a sub-command that takes
text, the question mark belongs to the text.
"""

import ast
import re
import tokenize
from collections.abc import Callable, Iterator, Sequence

from IPython.core.inputtransformer2 import EscapedCommand, HelpEnd

from parsimony_agent.arguments import COMMANDS
from parsimony_kernel.analysis.parse import parse

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
