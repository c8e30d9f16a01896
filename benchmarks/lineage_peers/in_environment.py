"""Run cells in a kernel of this environment, with or without a tool, and ask the tool about them.

Needs jupyter_client and the tool, nothing of ours: it is run by the Python of each environment.

    python in_environment.py TOOL ROUNDS < cells.json > results.json
"""

import ast
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from queue import Empty
from typing import Any, ClassVar

from jupyter_client.manager import KernelManager

Case = dict[str, Any]
_SECONDS = 30.0
_QUIET = "--log-level=ERROR"
_NOTEBOOK = {"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
_SLICED = """
import contextlib, io, sys
names = {"__name__": "__main__"}
with contextlib.redirect_stdout(io.StringIO()):
    exec(compile(sys.argv[1], "slice", "exec"), names)
print(repr(eval(sys.argv[2], names)))
"""


class CellFailed(Exception):
    """A cell, or a question to a tool, raised."""


class Kernel:
    """A kernel of this environment in an empty folder."""

    def __init__(self, folder: Path, module: str, environ: dict[str, str]) -> None:
        (folder / "work.ipynb").write_text(json.dumps(_NOTEBOOK))
        connection = str(folder / f"kernel-{uuid.uuid4()}.json")
        self._manager = KernelManager(connection_file=connection)
        spec = self._manager.kernel_spec
        assert spec is not None
        spec.argv = [sys.executable, "-m", module, "-f", "{connection_file}", _QUIET]
        self._manager.start_kernel(cwd=str(folder), env={**os.environ, **environ})
        self._client = self._manager.client()
        self._client.start_channels()
        self._client.wait_for_ready(timeout=_SECONDS)
        self._cells = 0

    def close(self) -> None:
        self._client.stop_channels()
        self._manager.shutdown_kernel(now=True)

    def cell(self, code: str, *, may_fail: bool = False) -> float:
        """Run a cell as a front end does; the milliseconds until its reply."""
        self._cells += 1
        content = {"code": code, "silent": False, "store_history": True, "stop_on_error": False}
        message = self._client.session.msg("execute_request", content)
        message["metadata"] = {"cellId": f"cell-{self._cells}"}
        begun = time.perf_counter()
        self._client.shell_channel.send(message)
        reply = self._reply(message["header"]["msg_id"])
        took = (time.perf_counter() - begun) * 1_000
        if reply["status"] != "ok" and not may_fail:
            raise CellFailed(f"{reply.get('ename')}: {str(reply.get('evalue'))[:200]}")
        return took

    def value(self, expression: str) -> Any:
        """What an expression gives, which no tool is to take for a cell; JSON-able."""
        content = {
            "code": "",
            "silent": True,
            "store_history": False,
            "user_expressions": {"value": f"__import__('json').dumps({expression})"},
        }
        message = self._client.session.msg("execute_request", content)
        self._client.shell_channel.send(message)
        told = self._reply(message["header"]["msg_id"])["user_expressions"]["value"]
        if told["status"] != "ok":
            raise CellFailed(f"{told['ename']}: {told['evalue'][:200]}")
        return json.loads(ast.literal_eval(told["data"]["text/plain"]))

    def _reply(self, of: str) -> dict[str, Any]:
        limit = time.monotonic() + _SECONDS
        while time.monotonic() < limit:
            with contextlib.suppress(Empty):
                reply = self._client.get_shell_msg(timeout=1)
                if reply["parent_header"].get("msg_id") == of:
                    return dict(reply["content"])
        raise CellFailed(f"no reply in {_SECONDS:.0f} s")


class Plain:
    """A kernel and no tool."""

    module = "ipykernel_launcher"
    environ: ClassVar[Mapping[str, str]] = {}
    begin: tuple[str, ...] = ()
    settings = ""
    can: frozenset[str] = frozenset({"cost"})

    def step(self, kernel: Kernel, code: str) -> None:
        kernel.cell(code)


class Parsimony(Plain):
    """What a person's cells are in a notebook with the extension; a step is an agent's."""

    environ: ClassVar[Mapping[str, str]] = {"PARSIMONY_MODEL": "offline"}
    begin = (
        "%load_ext parsimony_agent",
        "import parsimony_kernel\nnotebook = parsimony_kernel.Notebook(agent='bench')",
    )
    settings = "%load_ext parsimony_agent; Notebook().why, .undo; %agent slice"
    can = frozenset({"cost", "staleness", "slice", "undo"})

    def is_stale(self, kernel: Kernel, name: str) -> bool:
        return bool(kernel.value(f"bool(notebook.why({name!r}).stale)"))

    def slice_of(self, kernel: Kernel, name: str) -> str:
        kernel.cell(f"%agent slice {name} sliced.py")
        return str(kernel.value("open('sliced.py').read()"))

    def step(self, kernel: Kernel, code: str) -> None:
        kernel.cell(f"result = notebook.run_code({code!r})\nassert result.ok, result.text")

    def undo(self, kernel: Kernel) -> str:
        try:
            kernel.cell("back = notebook.undo(result.turn)")
        except CellFailed:
            return ""  # that the step changed no variable is no word about what it did change
        told = "{n: 'kept' for n in back.kept} | {n: 'lost' for n in back.lost}"
        return ", ".join(f"{name} {what}" for name, what in kernel.value(told).items())


class IPyflow(Plain):
    """Its kernel; symbols are asked by `lift`, code is given by `code`."""

    module = "ipyflow.kernel"
    begin = ("%flow direction any_order", "from ipyflow import code, lift")
    settings = "its kernel; %flow direction any_order; lift(x).is_waiting; code(x)"
    can = frozenset({"cost", "staleness", "slice"})

    def is_stale(self, kernel: Kernel, name: str) -> bool:
        kernel.cell(f"_answer = bool(lift({name}).is_waiting)")
        return bool(kernel.value("_answer"))

    def slice_of(self, kernel: Kernel, name: str) -> str:
        kernel.cell(f"_answer = str(code({name}, format_type=str))")
        return str(kernel.value("_answer"))


class Kishu(Plain):
    """Every cell is a commit; the state before a step is checked out."""

    # Its own switch for runs without a browser: nobody is waited for who saves the notebook.
    environ: ClassVar[Mapping[str, str]] = {"ENV_KISHU_TEST_MODE": "1"}
    begin = ("from kishu import init_kishu\ninit_kishu('work.ipynb')",)
    settings = "init_kishu(); _kishu.checkout(commit, skip_notebook=True)"
    can = frozenset({"cost", "undo"})

    def __init__(self) -> None:
        self._commit = ""

    def step(self, kernel: Kernel, code: str) -> None:
        self._commit = str(kernel.value("_kishu._kishu_branch.get_head().commit_id"))
        kernel.cell(code)

    def undo(self, kernel: Kernel) -> str:
        # In a cell: after a checkout by `user_expressions`, as its command line does it, the kernel
        # answered no more where a function or a class was restored.
        try:
            kernel.cell(f"_kishu.checkout({self._commit!r}, skip_notebook=True)")
        except CellFailed as failed:
            return str(failed)
        return ""


TOOLS: dict[str, type[Plain]] = {
    "plain": Plain,
    "parsimony": Parsimony,
    "ipyflow": IPyflow,
    "kishu": Kishu,
}


@contextlib.contextmanager
def kernel_with(tool: Plain) -> Iterator[Kernel]:
    """A fresh kernel in which the tool is at work."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        home = {"HOME": folder, "PARSIMONY_WORKSPACE": folder, "IPYTHONDIR": f"{folder}/.ipython"}
        kernel = Kernel(Path(folder), tool.module, {**home, **tool.environ})
        try:
            for code in tool.begin:
                kernel.cell(code)
            yield kernel
        finally:
            kernel.close()


def staleness(tool: Any, case: Case) -> Case:
    """Which names the tool is wrong about, and which it is right about."""
    with kernel_with(tool) as kernel:
        for code in (*case["cells"], case["change"]):
            kernel.cell(code)
        told = {name: tool.is_stale(kernel, name) for name in case["stale"] + case["fresh"]}
    missed = [name for name in case["stale"] if not told[name]]
    alarms = [name for name in case["fresh"] if told[name]]
    right = len(told) - len(missed) - len(alarms)
    return {"missed": missed, "false_alarms": alarms, "right": right}


def slice_(tool: Any, case: Case) -> Case:
    """The slice, whether it makes the same value elsewhere, and its lines."""
    with kernel_with(tool) as kernel:
        for code in case["cells"]:
            kernel.cell(code, may_fail=True)
        value = kernel.value(f"repr({case['value']})")
        code = tool.slice_of(kernel, case["target"])
    command = [sys.executable, "-c", _SLICED, code, case["value"]]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=False)
    tree = ast.unparse(ast.parse(code))
    return {
        "sound": ran.returncode == 0 and ran.stdout.strip() == value,
        "lines": len([line for line in tree.splitlines() if line.strip()]),
        "code": code,
        "error": ran.stderr.strip().rpartition("\n")[2],
    }


def undo(tool: Any, case: Case) -> Case:
    """Whether the state is back, and what the tool says of what is not."""
    with kernel_with(tool) as kernel:
        for code in case["cells"]:
            kernel.cell(code)
        tool.step(kernel, case["step"])
        if "then" in case:
            kernel.cell(case["then"])
        said = tool.undo(kernel)
        wrong = [check for check in case["checks"] if not _holds(kernel, check)]
    outcome = "back" if not wrong else "said" if said else "lost"
    return {"outcome": outcome, "wrong": wrong, "said": said}


def _holds(kernel: Kernel, check: str) -> bool:
    try:
        return bool(kernel.value(f"bool({check})"))
    except CellFailed:
        return False


def cost(tool: Plain, spec: Case, rounds: int) -> dict[str, Case]:
    """Milliseconds of each cell with the tool and without, by turns."""
    found: dict[str, Case] = {}
    with kernel_with(Plain()) as plain, kernel_with(tool) as tracked:
        for kernel in (plain, tracked):
            kernel.cell(spec["setup"])
        for case in spec["cells"]:
            took: dict[Kernel, list[float]] = {plain: [], tracked: []}
            for number in range(rounds + 1):
                for kernel in (plain, tracked) if number % 2 else (tracked, plain):
                    took[kernel].append(kernel.cell(f"{case['cell']}  # {number}"))
            # The first of each imports what it needs.
            without, with_tool = took[plain][1:], took[tracked][1:]
            found[case["name"]] = {
                "plain_ms": round(statistics.median(without), 2),
                "tool_ms": round(statistics.median(with_tool), 2),
                "extra_ms": round(
                    statistics.median(t - p for t, p in zip(with_tool, without, strict=True)), 2
                ),
            }
    return found


def main() -> None:
    """Run every case that the tool has an answer to, and print what came of it."""
    name, rounds = sys.argv[1], int(sys.argv[2])
    spec: dict[str, Any] = json.load(sys.stdin)
    results: dict[str, Any] = {"settings": TOOLS[name].settings}
    for part, run in (("staleness", staleness), ("slice", slice_), ("undo", undo)):
        if part not in TOOLS[name].can:
            continue
        results[part] = {}
        for case in spec[part]:
            print(f"{name}: {part}: {case['name']}", file=sys.stderr)
            try:
                told = run(TOOLS[name](), case)
            except Exception as failed:  # boundary: tool - a peer's kernel; the others go on
                told = {"failed": f"{type(failed).__name__}: {str(failed)[:300]}"}
            results[part][case["name"]] = told
    print(f"{name}: cost", file=sys.stderr)
    results["cost"] = cost(TOOLS[name](), spec["cost"], rounds)
    json.dump(results, sys.stdout)


if __name__ == "__main__":
    main()
