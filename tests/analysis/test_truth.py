"""Programs that are really run: what the analysis says covers what they read, bind and change."""

import contextlib
import inspect
import io
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parsimony_kernel.analysis.cell_names import Cell, Names, Statement
from parsimony_kernel.analysis.parse import transformed
from parsimony_kernel.analysis.read import read

NOTEBOOKS = sorted((Path(__file__).parents[2] / "notebooks").glob("*.ipynb"))
_AWAIT = 0x2000  # ast.PyCF_ALLOW_TOP_LEVEL_AWAIT


class Recording(dict[str, Any]):
    """A namespace that notes which names are looked up before the statement binds them."""

    def __init__(self) -> None:
        super().__init__(__name__="__main__")
        self.reads, self.bound = set[str](), set[str]()

    def __getitem__(self, name: str) -> Any:
        if name not in self.bound:
            self.reads.add(name)
        return super().__getitem__(name)

    def __setitem__(self, name: str, value: Any) -> None:
        self.bound.add(name)
        super().__setitem__(name, value)


def run(cell: Cell, names: Recording, earlier: list[Statement]) -> None:
    """Run the statements of a cell, and compare each with what is said of it."""
    for statement in cell.statements:
        code = compile(statement.source, "<cell>", "exec", _AWAIT)
        if code.co_flags & inspect.CO_COROUTINE:
            continue
        before = dict(names)
        held = {name: content(value) for name, value in before.items()}
        parts = {name: reachable(value) for name, value in before.items()}
        names.reads.clear()
        names.bound.clear()
        with contextlib.suppress(Exception), contextlib.redirect_stdout(io.StringIO()):
            exec(code, names)
        said = with_functions(statement, earlier)
        reads = {name for name in names.reads if name in names or name in before}
        reads -= {"get_ipython", "__annotations__"}
        assert said.opaque or reads <= said.reads | said.writes, statement.source
        kept = {name for name in before if names.get(name, names) is before[name]}
        bound = {name for name in {*before, *names} - kept if not name.startswith("__")}
        assert said.opaque or bound <= said.writes | said.deletes, statement.source
        may = said.may_mutate | said.touched | said.called | said.receivers
        reach = set[int]().union(*(parts.get(name, ()) for name in may))
        for name in kept - {"__annotations__", "__builtins__"}:
            changed = content(before[name]) != held[name]
            assert not changed or said.changes_any or parts[name] & reach, (name, statement.source)
        earlier.append(statement)


def with_functions(statement: Statement, earlier: list[Statement]) -> Names:
    """What a statement does together with the functions and classes that it may call."""
    found = [statement]
    pending = {*statement.reads, *statement.writes}
    for each in reversed(earlier):
        if "def " in each.source or "lambda" in each.source or "class " in each.source:
            found.append(each)
            pending |= each.reads
    own = ("deletes", "calls", "opaque", "changes_any")
    facts: dict[str, Any] = {name: getattr(statement, name) for name in own}
    for name in ("reads", "writes", "touched", "may_mutate"):
        facts[name] = set().union(*(getattr(each, name) for each in found))
    return Names(**facts)


def content(value: Any, depth: int = 0) -> Any:
    """What a value holds, comparable."""
    match value:
        case _ if depth > 4:
            return None
        case list() | tuple() | set():
            return [type(value), *(content(each, depth + 1) for each in value)]
        case dict():
            return [(key, content(each, depth + 1)) for key, each in value.items()]
    if type(value).__module__ == "__main__":
        return content(vars(value), depth + 1)
    return repr(value) if type(value).__module__ in ("builtins", "pandas.core.frame") else None


def reachable(value: Any) -> set[int]:
    """The identities of what a value holds."""
    found, pending = set[int](), [value]
    while pending:
        each = pending.pop()
        if id(each) in found or isinstance(each, str | int | float | bool | None):
            continue
        found.add(id(each))
        if isinstance(each, dict):
            pending += each.values()
        elif isinstance(each, list | tuple | set):
            pending += each
        elif type(each).__module__ == "__main__":
            pending += vars(each).values()
    return found


BEGINNING = (
    "class Box:\n    def __init__(self, v):\n        self.v = v",
    "l1 = [3, 1]; l2 = [[1], [2]]; d1 = {'k': [5], 'n': 1}; d2 = {'k': l1}; n1 = 2; n2 = 7",
    "o1 = Box(l1); o2 = Box(n1)\ndef f(a, b=n1):\n    return a + b + n2",
    "def put(xs):\n    xs.append(n1)\ndef count():\n    global n2\n    n2 += 1",
)
FORMS = (
    "{n} = {m}", "{n} += {m}", "{l} += [{n}]", "{n}, {m} = {m}, {n} + 1", "[{n}, *{l}] = [1, 2, 3]",
    "({n} := {m} + 1)", "{l} = [({m} := each) for each in {l}]", "{n} = [{m} for {m} in {l}]",
    "for {n} in {l}:\n    {m} = {n}", "while {n} < 3:\n    {n} += 1\nelse:\n    {m} = 0",
    "if {n} > 3:\n    {l} = []\nelif {m}:\n    {n} = 1", "del {n}", "del {l}[0]", "del {d}['n']",
    "try:\n    {n} = {d}['none']\nexcept KeyError as {m}:\n    print({m})\nfinally:\n    {l} = [1]",
    "match {d}:\n    case {{'n': {n}, **rest}}:\n        {m} = rest\n    case _:\n        {m} = 1",
    "match {l}:\n    case [{n}, *{w}]:\n        pass",
    "import contextlib\nwith contextlib.suppress(Exception) as {n}:\n    {m} = {l}[9]",
    "g = lambda x={n}: x + {m}\n{n} = g()", "{n} = f({m})", "put({l})", "count()", "{o} = Box({l})",
    "def g(x={n}):\n    y = x\n    return y + {m}\n{n} = g()", "{n} = {o}.v", "{o}.v = {l}",
    "class C:\n    size = {n}\n    def grow(self):\n        {l}.append(self.size)\nC().grow()",
    "{w} = {l}\n{w}.append({n})", "{w} = {d}['k']\n{w}.append({n})", "{o}.v.append({n})",
    "for each in {w}:\n    each.append({n})", "[each.clear() for each in {w}]", "{l}.sort()",
    "map_ = map({l}.append, [{n}])\nlist(map_)",
    "list.append({l}, {n})", "setattr({o}, 'v', {n})",
    "vars({o})['w'] = {n}", "globals()['{n}'] = {m}", "globals().update({n}=1)",
    "exec('{n} = {m}')",
    "{n} = eval('{m} + 1')", "{d}.setdefault('k', []).append({n})", "{d} |= {{'z': {n}}}",
    "{d} = dict({d2}, k={l})", "{w} = [*{w}, {l}]\n{w}[-1].append({n})", "{n}: int = {m}",
    "from random import shuffle as mix\nmix({l})", "import heapq\nheapq.heappush({l}, {n})",
    "{l}[0], {d}['n'] = {n}, {m}", "({l} if {n} else {w}).append(1)", "{l}[:] = sorted({l})",
    "{n} = f'{{{m}}} {{{l}!r}}'", "assert {n}, {m}", "{n} = {m} if {l} else {d}",
    "next(iter({w})).pop()",
    "{w} = {{each: {n} for each in {l}}}", "{n} = sum(x * {m} for x in {l})", "{d}['k'][0] = {n}",
)  # fmt: skip
POOL = {
    "l": ("l1", "l2"),
    "d": ("d1", "d2"),
    "n": ("n1", "n2"),
    "o": ("o1", "o2"),
    "w": ("l2", "w"),
}


@st.composite
def statements(draw: st.DrawFn) -> str:
    names = {kind: draw(st.sampled_from(pool)) for kind, pool in POOL.items()}
    names |= {"m": draw(st.sampled_from(POOL["n"])), "d2": draw(st.sampled_from(POOL["d"]))}
    return draw(st.sampled_from(FORMS)).format(**names)


@settings(max_examples=settings().max_examples * 2)
@given(st.lists(st.lists(statements(), min_size=1, max_size=4).map("\n".join), max_size=5))
def test_generated_programs_do_no_more_than_stated(cells: list[str]) -> None:
    names, earlier = Recording(), list[Statement]()
    for code in (*BEGINNING, *cells):
        cell = read(code)
        assert cell.error is None, code
        run(cell, names, earlier)


@pytest.fixture
def notebooks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the notebooks' folder to run in."""
    folder = tmp_path / "notebooks"
    shutil.copytree(NOTEBOOKS[0].parent, folder)
    monkeypatch.chdir(folder)
    return folder


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
@pytest.mark.usefixtures("notebooks")
def test_notebook_cells_do_no_more_than_stated(path: Path) -> None:
    names, earlier = Recording(), list[Statement]()
    names["get_ipython"] = None  # requests to the agent are left out
    for each in json.loads(path.read_text())["cells"]:
        if each["cell_type"] == "code":
            cell = read(transformed("".join(each["source"])))
            assert cell.error is None
            run(cell, names, earlier)
