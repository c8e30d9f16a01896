"""A cell of code: its file name, its source where tracebacks look for it, its code objects, and the
tasks that it starts.

asyncio passes a ``SystemExit`` that leaves a task on to the runner of the event loop, which in a
kernel is the kernel itself. So tasks of code contain it. The task factory is installed once per
loop and stays, because a task may outlive its cell and start more tasks; a context variable marks
the tasks of code.
"""

import ast
import asyncio
import inspect
import linecache
from collections.abc import Callable, Coroutine, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import partial
from types import CodeType, TracebackType
from typing import Any

from parsimony_kernel.execution.run_scope import setting

NAME_PREFIX = "<agent "
_FUTURE = 0x1FF0000  # the compiler flags that "from __future__ import" sets


@dataclass(frozen=True)
class Part:
    """One compiled top-level statement.

    ``lines`` are its first and last line, inclusive; ``is_shown`` marks the trailing expression,
    whose value is displayed.
    """

    code: CodeType
    lines: tuple[int, int]
    is_shown: bool = False

    @property
    def awaits(self) -> bool:
        """Whether evaluating it returns a coroutine."""
        return bool(self.code.co_flags & inspect.CO_COROUTINE)


@dataclass(frozen=True)
class Cell:
    """A compiled cell, statement by statement; ``code`` is the text after IPython's transforms."""

    code: str
    filename: str
    parts: tuple[Part, ...] = ()

    @property
    def awaits(self) -> bool:
        """Whether evaluating any statement returns a coroutine."""
        return any(part.awaits for part in self.parts)

    def text(self, part: Part) -> str:
        """Return the Python code of one statement."""
        return "\n".join(self.code.splitlines()[part.lines[0] - 1 : part.lines[1]])

    def rest(self, index: int) -> "Cell":
        """Return the cell from statement ``index`` on, with unchanged line numbers."""
        start = self.parts[index].lines[0] - 1
        left = "\n" * start + "\n".join(self.code.splitlines()[start:])
        return replace(self, code=left, parts=self.parts[index:])

    def left_at(self, error: BaseException | None) -> int:
        """Return the cell's line at which ``error`` left it; 0 when the traceback has none."""
        raised = None if error is None else from_cell(traceback_of(error), self.filename)
        return 0 if raised is None else raised.tb_lineno

    def so_far(self, error: BaseException | None) -> str:
        """Describe where the code was stopped, and which lines had run."""
        line = self.left_at(error)
        if not line:
            return "; files that it wrote stay"
        at = max((part.lines[0] for part in self.parts if part.lines[0] <= line), default=1)
        above = {1: "", 2: " line 1 ran, and"}.get(at, f" lines 1 to {at - 1} ran, and")
        return f" in line {line};{above} files that it wrote stay"


# The base descriptors: a user's exception class may override the attribute.
_TRACEBACK = BaseException.__dict__["__traceback__"]
traceback_of: Callable[[BaseException], TracebackType | None] = _TRACEBACK.__get__
set_traceback: Callable[[BaseException, TracebackType | None], None] = _TRACEBACK.__set__


def from_cell(raised: TracebackType | None, filename: str) -> TracebackType | None:
    """Return the traceback from the cell's first frame on, without our own callers."""
    while raised is not None and raised.tb_frame.f_code.co_filename != filename:
        raised = raised.tb_next
    return raised


# The lines of each cell by its file name; code may clear ``linecache`` or change it.
LINES: dict[str, list[str]] = {}


def cell_name(turn: int, step: int, source: str) -> str:
    """Create a file name for agent code; register ``source`` for tracebacks and ``inspect``.

    If the name already belongs to other code, because its turn ran again, a number is added.
    """
    place = f"turn {turn} step {step}" if turn else f"step {step}"
    name, attempt = f"{NAME_PREFIX}{place}>", 1
    lines = [f"{line}\n" for line in source.splitlines()]
    while LINES.get(name, lines) != lines:
        attempt += 1
        name = f"{NAME_PREFIX}{place} run {attempt}>"
    # Without a modification time the entry stays when linecache checks for changed files.
    linecache.cache[name] = (len(source), None, lines, name)
    LINES[name] = lines
    return name


def compile_cell(
    code: str, filename: str, transform: Callable[[ast.Module], ast.Module] | None = None
) -> Cell:
    """Compile a cell; top-level ``await`` is allowed.

    Args:
        code: Python code, after IPython's transforms.
        filename: the file name for tracebacks.
        transform: an AST transform, such as the shell's.

    Raises:
        SyntaxError: with ``filename`` and the line. Also ValueError for null bytes and
            RecursionError for nesting that is too deep, as ``compile`` does.
    """
    tree = ast.parse(code, filename)
    last = tree.body[-1] if tree.body else None
    is_shown = isinstance(last, ast.Expr) and not _is_quiet(code, last)
    if transform is not None:
        tree = transform(tree)
    flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    # Compile the whole cell first, so that its errors are raised before any statement runs.
    whole = compile(tree, filename, "exec", flags, dont_inherit=True)
    flags |= whole.co_flags & _FUTURE
    parts = []
    for each in tree.body:
        node: ast.Module | ast.Expression = ast.Module([each], [])
        mode = "exec"
        if isinstance(each, ast.Expr):
            node, mode = ast.Expression(each.value), "eval"
        compiled = compile(node, filename, mode, flags, dont_inherit=True)
        is_last = each is tree.body[-1] and mode == "eval"
        parts.append(Part(compiled, _lines(each), is_shown and is_last))
    return Cell(code, filename, tuple(parts))


def _lines(statement: ast.stmt) -> tuple[int, int]:
    decorators = getattr(statement, "decorator_list", ())
    first = min((statement.lineno, *(each.lineno for each in decorators)))
    return first, statement.end_lineno or statement.lineno


def compile_expression(source: str, filename: str) -> Cell:
    """Compile one expression; a statement is a SyntaxError."""
    cell = compile_cell(source, filename)
    if len(cell.parts) != 1 or not cell.parts[0].is_shown:
        raise SyntaxError(
            "eval takes exactly one expression; give statements to execute",
            (filename, 1, 1, source.splitlines()[0] if source.strip() else ""),
        )
    return cell


Names = dict[str, Any]
Show = Callable[[Any], None]


def evaluate(parts: Iterable[Part], namespace: Names, local: Names, show: Show) -> None:
    """Run statements without ``await``; pass the trailing value to ``show``."""
    for part in parts:
        value = eval(part.code, namespace, local)
        if part.is_shown:
            show(value)


async def evaluate_awaiting(
    parts: Iterable[Part], namespace: Names, local: Names, show: Show
) -> None:
    """Run statements, some with ``await``; pass the trailing value to ``show``."""
    for part in parts:
        value = eval(part.code, namespace, local)
        if part.awaits:
            value = await value
        if part.is_shown:
            show(value)


def _is_quiet(code: str, last: ast.Expr) -> bool:
    """Whether a semicolon after the trailing expression suppresses its value."""
    line = code.splitlines()[(last.end_lineno or 1) - 1]
    rest = line.encode()[last.end_col_offset or 0 :].decode(errors="replace")
    return rest.lstrip(" \t)").startswith(";")


# Tasks

_inside: ContextVar[bool] = ContextVar("parsimony_inside_code", default=False)


class TaskExit(Exception):
    """A task called ``sys.exit``, which ended this task only."""


@contextmanager
def staying(loop: asyncio.AbstractEventLoop) -> Iterator[None]:
    """Contain ``SystemExit`` in tasks created in the body, and in the tasks that those create.

    Other tasks on the same loop are created as before.
    """
    before: Any = loop.get_task_factory() or _new_task
    if getattr(before, "func", None) is not _new_staying:
        loop.set_task_factory(partial(_new_staying, before))
    with setting(_inside, True):
        yield


def _new_task(loop: asyncio.AbstractEventLoop, coroutine: Any, **given: Any) -> "asyncio.Task[Any]":
    return asyncio.Task(coroutine, loop=loop, **given)


def _new_staying(before: Any, loop: asyncio.AbstractEventLoop, coroutine: Any, **given: Any) -> Any:
    """Create a task by the factory ``before``; of code, one that contains ``SystemExit``."""
    if not (_inside.get() and inspect.iscoroutine(coroutine)):
        return before(loop, coroutine, **given)
    task = before(loop, _staying(coroutine), **given)
    # A task cancelled before it begins would never run, and so never close, the coroutine.
    task.add_done_callback(lambda _: coroutine.close())
    return task


async def _staying(inner: Coroutine[Any, Any, Any]) -> Any:
    """Await ``inner``; raise ``TaskExit`` in place of ``SystemExit``."""
    _inside.set(True)  # the context may be one that code has made anew
    try:
        return await inner
    except SystemExit as exc:
        # Any other exit code may have a repr that raises, out of the task and into the loop.
        code = f" with {exc.code!r}"[:200] if type(exc.code) in (int, str) else ""
        raise TaskExit(f"sys.exit ended this task{code}; the kernel goes on") from exc
