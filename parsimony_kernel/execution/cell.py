"""A cell of code: its file name, its source where tracebacks look for it, and its code objects."""

import ast
import inspect
import linecache
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from types import CodeType, TracebackType
from typing import Any

NAME_PREFIX = "<agent "
_FUTURE = 0x1FF0000  # the compiler flags that "from __future__ import" sets


@dataclass(frozen=True)
class Cell:
    """Compiled code. ``shown`` is the trailing expression, whose value is displayed.

    ``source`` is what the agent wrote; ``code`` is the same as Python, after transforms.
    ``starts`` are the lines on which its top-level statements begin.
    """

    source: str
    code: str
    filename: str
    body: CodeType | None
    shown: CodeType | None
    starts: tuple[int, ...] = ()

    def so_far(self, raised: TracebackType | None) -> str:
        """Where code was that was stopped, and what of it had run, in words."""
        while raised is not None and raised.tb_frame.f_code.co_filename != self.filename:
            raised = raised.tb_next
        if raised is None:
            return "; files that it wrote stay"
        at = max((each for each in self.starts if each <= raised.tb_lineno), default=1)
        above = {1: "", 2: " line 1 ran, and"}.get(at, f" lines 1 to {at - 1} ran, and")
        return f" in line {raised.tb_lineno};{above} files that it wrote stay"

    @property
    def parts(self) -> tuple[tuple[CodeType, bool], ...]:
        """The code objects in order, each with whether its value is displayed."""
        both = ((self.body, False), (self.shown, True))
        return tuple((code, shown) for code, shown in both if code is not None)


def cell_name(turn: int, step: int, source: str) -> str:
    """A file name for agent code, registered with ``source`` for tracebacks and ``inspect``.

    A name that stands for other code already, because its turn ran again, gets a number.
    """
    place = f"turn {turn} step {step}" if turn else f"step {step}"
    name, attempt = f"{NAME_PREFIX}{place}>", 1
    lines = [f"{line}\n" for line in source.splitlines()]
    while name in linecache.cache and linecache.getlines(name) != lines:
        attempt += 1
        name = f"{NAME_PREFIX}{place} run {attempt}>"
    # Without a modification time the entry stays when linecache checks for changed files.
    linecache.cache[name] = (len(source), None, lines, name)
    return name


def compile_cell(
    source: str,
    filename: str,
    *,
    code: str | None = None,
    transform: Callable[[ast.Module], ast.Module] | None = None,
) -> Cell:
    """Compile a cell; top-level ``await`` is allowed.

    Args:
        code: the source after IPython's transforms, where it differs.
        transform: a change to the tree, such as the shell's.

    Raises:
        SyntaxError: with ``filename`` and the line. Also ValueError for null bytes and
            RecursionError for nesting that is too deep, as ``compile`` does.
    """
    code = source if code is None else code
    tree = ast.parse(code, filename)
    starts = tuple(each.lineno for each in tree.body)
    last = tree.body[-1] if tree.body else None
    shown: ast.expr | None = None
    if isinstance(last, ast.Expr):
        quiet = _is_quiet(code, last)
        if transform is not None:
            tree = transform(tree)
        if not quiet and tree.body and isinstance(trailing := tree.body[-1], ast.Expr):
            shown = trailing.value
            tree.body.pop()
    elif transform is not None:
        tree = transform(tree)
    flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    body = None
    if tree.body:
        body = compile(tree, filename, "exec", flags, dont_inherit=True)
        flags |= body.co_flags & _FUTURE
    value = None
    if shown is not None:
        value = compile(ast.Expression(shown), filename, "eval", flags, dont_inherit=True)
    return Cell(source=source, code=code, filename=filename, body=body, shown=value, starts=starts)


def compile_expression(source: str, filename: str) -> Cell:
    """Compile one expression; a statement is a SyntaxError."""
    cell = compile_cell(source, filename)
    if cell.body is not None or cell.shown is None:
        raise SyntaxError(
            "eval takes exactly one expression; give statements to execute",
            (filename, 1, 1, source.splitlines()[0] if source.strip() else ""),
        )
    return cell


def evaluate(
    code: CodeType, namespace: dict[str, Any], local: dict[str, Any], show: Callable[[Any], None]
) -> None:
    """Run a code object that does not await, and show its value."""
    show(eval(code, namespace, local))


async def evaluate_awaiting(
    code: CodeType, namespace: dict[str, Any], local: dict[str, Any], show: Callable[[Any], None]
) -> None:
    """Run a code object that awaits, and show its value."""
    coroutine: Coroutine[Any, Any, Any] = eval(code, namespace, local)
    show(await coroutine)


def awaits(code: CodeType) -> bool:
    """Whether running the code object gives a coroutine."""
    return bool(code.co_flags & inspect.CO_COROUTINE)


def _is_quiet(code: str, last: ast.Expr) -> bool:
    """Whether a semicolon after the trailing expression asks not to show its value."""
    if last.end_lineno is None or last.end_col_offset is None:
        return False
    lines = code.splitlines(keepends=True)[last.end_lineno - 1 :]
    if not lines:
        return False
    rest = lines[0].encode()[last.end_col_offset :].decode(errors="replace")
    return rest.lstrip(" \t)").startswith(";")
