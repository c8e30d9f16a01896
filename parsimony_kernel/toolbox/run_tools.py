"""The built-in tools of a run: code, a variable, the plan, and the text files of a host.

In a notebook, code reads and writes files; ``read_file`` and ``write_file`` are for runs without a
folder. The old content of a file that is replaced is kept.
"""

import keyword
from collections.abc import Callable, Iterable
from contextlib import nullcontext, suppress
from typing import Any

from pydantic import BaseModel, ConfigDict

from parsimony_kernel.core.causes import LATE, RAISED, STATE_LOST
from parsimony_kernel.core.config import FileStore
from parsimony_kernel.core.fuzzy import nearest
from parsimony_kernel.core.kinds import Failure
from parsimony_kernel.core.outputs import DataFrameObject, ExceptionObject, KernelOutput
from parsimony_kernel.execution.base import BaseCodeExecutor
from parsimony_kernel.execution.run_scope import RunScope, run_scope
from parsimony_kernel.identity import ARTIFACT_FOLDER, checked_name, content_sha
from parsimony_kernel.lineage.ledger import OriginLedger
from parsimony_kernel.tools import ToolResult, Tools, tool

# The gate's deadline is later than the executor's, which can stop code and report it.
_MARGIN_S = 10.0


def code_tools(
    executor: BaseCodeExecutor,
    *,
    timeout_s: float,
    scope: Callable[[], RunScope | None] = lambda: None,
    seen: set[tuple[str, str]] | None = None,
) -> Tools:
    """Build ``run_code``.

    Args:
        executor: runs the code.
        timeout_s: seconds that the code may take.
        scope: returns the scope that ``run_code`` stamps on its bindings.
        seen: kinds and live names that the run has read; the code's reads are added.
    """

    @tool(
        description=(
            "Run Python in the notebook's namespace. You and the person see what it prints and the "
            "value of its last expression; you are told which variables it bound. `purpose` is a "
            "short phrase that heads the step in the record. "
            "`parsimony_kernel.execution.csv_dialect.sniff(path)` gives the keyword arguments of "
            "read_csv for a text file (lines above the header, separator, decimal mark, dates, "
            f"encoding), as text to paste. A step may take {timeout_s:,.0f} s."
        ),
        tool_type="code",
        timeout_s=timeout_s + _MARGIN_S,
    )
    async def run_code(code: str, purpose: str | None = None) -> ToolResult:
        if not code.strip():
            raise ValueError("code is empty: give the statements to run")
        of = scope()
        with nullcontext() if of is None else run_scope(of):
            output = await executor.execute(
                code,
                timeout_seconds=timeout_s,
                producer_notebook_path=None if of is None else of.notebook_path,
                seen_live_names=seen,
            )
        error = output.error
        if error is None:
            return ToolResult.from_data(output)
        return ToolResult.from_failure(_failure(error, output, timeout_s))

    return Tools([run_code])


def _failure(error: ExceptionObject, output: KernelOutput, timeout_s: float) -> Failure:
    where = f" at line {error.line}: {error.source_line}" if error.line is not None else ""
    fields: dict[str, Any] = {"error_type": error.name, "error_message": error.message}
    cause = RAISED
    if error.state_lost:
        cause = STATE_LOST
    elif error.past_deadline:
        cause, fields["timeout_seconds"] = LATE, timeout_s
    return cause.failure(
        f"{error.name}: {error.message}{where}" if error.message else f"{error.name}{where}",
        partial_data=output,
        envelope=fields,
    )


_LOOK_S = 10.0
_SHOWN = 10


def inspection_tools(executor: BaseCodeExecutor) -> Tools:
    """Build ``inspect_variable`` on ``executor``."""

    @tool(effect="none")
    async def inspect_variable(name: str) -> dict[str, Any]:
        """One variable more closely: rows of a table, another value in full up to a cap, and which
        code made it from what.
        """
        if not name.isidentifier() or keyword.iskeyword(name):
            raise ValueError(f"{name!r} is no name of a variable: give one name and nothing more")
        variables = executor.variables()
        if name not in variables:
            raise NameError(no_such_variable(name, variables))
        output = await executor.eval(name, timeout_seconds=_LOOK_S)
        answer: dict[str, Any] = {"type": "primitive", "text": "None"}
        for shown in output.shown[:1]:
            answer = shown.with_rows() if isinstance(shown, DataFrameObject) else shown.for_model()
        answer["name"] = name
        return {**answer, **_origin(executor.origin_ledger, name)}

    return Tools([inspect_variable])


def _origin(ledger: OriginLedger, name: str) -> dict[str, Any]:
    origin = ledger.get(name)
    if origin is None:
        return {"origin": "unknown"}
    return {
        "origin": "the person's cell" if origin.actor == "user" else "an agent's cell",
        "code": origin.code[:2_000],
        "made_from": [ref.name for ref in origin.inputs],
        "sources": list(origin.sources),
    }


def no_such_variable(name: str, variables: Iterable[str]) -> str:
    """Render the error for an unknown variable, with the nearest name or some existing ones."""
    known = sorted(variables)
    if likely := nearest(name, known):
        return f"There is no variable {name!r}: did you mean {likely!r}?"
    if not known:
        return f"There is no variable {name!r}: the notebook has none yet, run code first."
    return (
        f"There is no variable {name!r}: the notebook has {', '.join(map(repr, known[:_SHOWN]))}."
    )


MAX_PARTS = 20


class Plan(BaseModel):
    """Parts of a request in order, and the parts that are done."""

    model_config = ConfigDict(frozen=True)

    parts: tuple[str, ...]
    done: tuple[str, ...] = ()


@tool(tool_type="plan", effect="none")
async def plan(parts: list[str], done: list[str] | None = None) -> Plan:
    """Only for a request of more than two parts: say them before working on it.

    Call it again with `done`, or with other parts. The run cannot end with return_done while one is
    open.
    """
    named = [part.strip() for part in parts if part.strip()]
    if not named or len(named) > MAX_PARTS:
        raise ValueError(f"a plan has 1 to {MAX_PARTS} parts, each a few words")
    finished = [part.strip() for part in done or ()]
    for part in finished:
        if part not in named:
            raise ValueError(f"{part!r} is no part of this plan: {'; '.join(named)}")
    return Plan(parts=tuple(dict.fromkeys(named)), done=tuple(dict.fromkeys(finished)))


MAX_SHOWN = 16 * 1024
MAX_WRITTEN = 2**20


class FileRefused(ValueError):
    """A refused file access. ``str()`` is one sentence with the remedy."""


def stored_file_tools(store: FileStore | None) -> Tools:
    """Build ``read_file`` and ``write_file`` on ``store``; no tools without a store."""
    if not isinstance(store, FileStore):
        return Tools()

    @tool(description="Lines of a text file, at most 16 KiB.", effect="none", parallelizable=True)
    async def read_file(path: str, start_line: int = 1, lines: int = 200) -> dict[str, Any]:
        _check_path(path)
        if start_line < 1 or lines < 1:
            raise FileRefused("start_line and lines count from 1.")
        try:
            data = await store.read(path)
        except FileNotFoundError:
            raise FileRefused(f"{path!r} does not exist: write_file makes it.") from None
        if b"\0" in data:
            raise FileRefused(f"{path!r} holds no text.")
        every = data.decode(errors="replace").splitlines(keepends=True)
        text = "".join(every[start_line - 1 : start_line - 1 + lines])[:MAX_SHOWN]
        last = start_line - 1 + len(text.splitlines())
        is_whole = len(text) == len("".join(every))
        return {"path": path, "text": text, "last_line": last, "complete": is_whole}

    @tool(description="Write a text file; an older one is kept aside.", effect="idempotent")
    async def write_file(path: str, content: str) -> dict[str, Any]:
        _check_path(path)
        data, before = content.encode("utf-8", "surrogatepass"), None
        if len(data) > MAX_WRITTEN:
            raise FileRefused("More than 1 MiB of text: write it in parts, to several files.")
        with suppress(FileNotFoundError):
            before = await store.read(path)
        answer: dict[str, Any] = {"path": path, "bytes": len(data)}
        if before is not None and before != data:
            answer["before"] = f"{ARTIFACT_FOLDER}/replaced/{content_sha(before)}"
            await store.write(answer["before"], before)
        await store.write(path, data)
        return answer

    return Tools([read_file, write_file])


def _check_path(path: str) -> None:
    for part in path.split("/"):
        try:
            checked_name(part, "file name")
        except ValueError as exc:
            raise FileRefused(f"{exc} Files are named as in data/notes.txt.") from exc
        if part.startswith("."):
            raise FileRefused(f"{path!r} is hidden, and hidden files are left alone.")
