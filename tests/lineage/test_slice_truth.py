"""Notebooks that are really run: what a slice says rebuilds a variable, rebuilds it."""

import asyncio
import copy
import itertools
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import BuiltinMethodType, FunctionType
from typing import Any

import pandas as pd
import pytest
from hypothesis import assume, event, given, settings
from hypothesis import strategies as st

from parsimony_kernel.execution.private import CodeExecutor
from parsimony_kernel.execution.run_scope import RunScope, run_scope
from parsimony_kernel.lineage.checkpoint import Change
from parsimony_kernel.lineage.script import SliceError, slice_of

USER = RunScope("", "n.ipynb", "mine", actor="user")

# Every notebook begins with these, so that most cells find what they name.
BEGINNING = (
    "class Box:\n    def __init__(self, v):\n        self.v = v",
    "import math\nl1 = [1, 2]\nl2 = [3]\nl3 = l2",
    "d1 = {'k': [5], 'n': 1}\nd2 = dict(d1)\nn1 = 2\nn2 = 7\no1 = Box(1)\no2 = o1",
    "w1 = [l1, [4]]\nw2 = [l2]\ndef same(xs):\n    return xs",
    "p1 = pd.DataFrame({'a': [1, 2, 3]})\np2 = p1.copy()\n"
    "def f1():\n    return n1 + 1\ndef g1(xs):\n    xs.append(n1)\n"
    "def h1():\n    global n2\n    n2 += 1\ndef q1(xs):\n    return len(xs)",
    "import random\nrandom.seed(3)\ni1 = iter([1, 2, 3])\ni2 = iter([4])\nr1 = random.Random(1)\n"
    "r2 = r1\nv1 = d1.keys()\nv2 = d1.values()",
)
MOVING = (
    "{i} = iter({l})", "{i} = iter([1, {n}, 5])", "{i} = {i2}", "{n} = next({i}, 0)",
    "{n} = sum({i})", "{l} = list({i})", "for each in {i}:\n    break", "{l} = [*{i}]",
    "{i} = (each + 1 for each in {i2})", "{i} = zip({l}, {l2})", "{n} = len([*{i}])",
    "{i} = map(str, {l})", "{w} = [{i}]", "{n} = next({w}[0], 0)", "{l} = list({w}[-1])",
    "{d}['i'] = {i}", "{n} = len(list({d}['i']))", "{i} = {d}['i']", "print(*{i})",
    "{n} = max({i}, default=0)", "{i} = enumerate({l})", "{o} = Box({i})", "{n} = next({o}.v, 0)",
    "{l} = list({o}.v)", "def up(k):\n    while k < 20:\n        yield k\n        k += 1",
    "{i} = up({n})", "def take(xs):\n    for each in xs:\n        return each",
    "{n} = take({i})", "def pull():\n    return next({i}, 0)", "{n} = pull()", "pull()",
    "{i} = math and same({i2})", "l1, *l2 = {i}", "{n} = 5 in {i}", "{r} = random.Random({n})",
    "{n} = {r}.random()", "{l} = {r}.sample(range(9), 2)", "random.seed({n})",
    "{n} = random.random()", "{l} = [random.random(), {n}]", "{v} = {d}.keys()", "{l} = list({v})",
    "def roll():\n    return random.random()", "{n} = roll()", "{v} = {d}.values()",
    "{i} = filter(None, {l})", "{i}, {i2} = {i2}, {i}", "del {i}",
)  # fmt: skip
CANCELLING = (
    "def put_in(x, log):\n    x['k'].append(6)\n    log.append(6)", "put_in({d}, {l})",
    "def take_out(x):\n    x['k'].pop()", "take_out({d})", "{n} = len({d}['k'])",
    "put_in({d}, {l})\n{n} = len({d}['k'])\ntake_out({d})", "{d}['k'] = {l}", "{l} = {d}['k']",
    "put_in({d}, {l})\ntake_out({d})", "push()\n{n} = len({l})\ndrop()", "push()", "drop()",
    "def push():\n    {l}.append(9)", "def drop():\n    {l}.pop()", "{w} = [{l}, {l2}]",
    "{w}[0].append(2)\n{l} = list({l2})\n{w}[0].pop()", "{n} = len({l})",
    "{n} = sum(map(len, {w}))",
    "[0 for {l}[0] in ({n}, {n2})]", "[0 for {w}[0][0] in (7, {n})]", "{l} = {w}[0]",
    "put = {l}.append", "put({n})", "put = {w}[0].append\nput({n})\ndel put",
    "put = {w}[0].append", "{l} = [1]", "{l} = [{n}, 2]",
)  # fmt: skip
STATEMENTS = (
    "{l} = [1, {n}]", "{l} = {l2}", "{l} = list({l2})", "{l} = {l2} + [{n}]", "{l}.append({n})",
    "{l} += [3]", "{l}[0] = {n}", "{l} = [each * 2 for each in {l2}]", "{l}, {l2} = {l2}, {l}",
    "{n} = len({l})", "{n} = sum({l})", "{n} += 1", "{n} = {n2} * 2", "{n} = 4",
    "{d} = {{'k': {l}, 'n': {n}}}", "{d}['k'].append(5)", "{d}['n'] = {n}", "{d} = dict({d2})",
    "{d} = {d2}", "{d}.update(z={n})", "{l} = {d}['k']", "for each in {l}:\n    {n} += each",
    "for each in ({l}, {l2}):\n    each.append(8)", "if {n} > 3:\n    {l} = [9]",
    "while len({l}) < 3:\n    {l}.append({n})",
    "def f1():\n    return {n} + 1", "def f1():\n    return len({l})", "{n} = f1()",
    "def g1(xs):\n    xs.append({n})", "def g1(xs):\n    {l}.append(7)", "g1({l})",
    "def h1():\n    global {n}\n    {n} += 1", "h1()", "{n} = q1({l})", "q1({l})",
    "g2 = g1\ng2({l})", "del {l}", "del {n}", "{o} = Box({n})",
    "{o} = Box({l})", "{o}.v = {n}", "{o}.v = {l}", "{o} = {o2}", "{n} = {o}.v",
    "{n} = math.floor({n2} / 2)", "import math as m2\n{n} = m2.ceil({n2} / 2)",
    "{p} = pd.DataFrame({{'a': [1, {n}]}})", "{p}['b'] = {n}", "{p} = {p2}", "{p} = {p2}.copy()",
    "{p}.loc[0, 'a'] = {n}", "{p}.drop(columns=['b'], inplace=True)",
    "{p}.rename(columns={{'a': 'a'}}, inplace=True)", "{p} = {p2}[{p2}['a'] > 1]",
    "{n} = int({p}['a'].sum())", "print({l})", "{l}", "{p}.describe()", "1 / 0",
    "try:\n    {n} = {d}['none']\nexcept KeyError:\n    {n} = 3",
    "{l}.sort()", "{l} = sorted({l2})", "{l}.extend({l2})", "{n} = {l}.pop()",
    "{d} = {{'o': {o}}}\n{d}['o'].v = {n}", "({n} := 6)", "class C:\n    def go(self): return {n}",
    "{n} = C().go()", "{l} = [{d}]\n{l}[0]['n'] = 3\n{l} = [1]",
    "{o}.w = {n}\nsetattr({o}, 'u', {n2})", "{l} = {l2}[:1]", "exec_me = 1", "{l}.clear()",
    "{w} = [{l}, {l2}]", "{w}.append({l})", "{l} = {w}[0]", "{l} = {w}.pop()", "{l} = {w}[-1]",
    "{w}[0].append({n})", "{w}.pop().append({n})", "for each in {w}:\n    each.append({n})",
    "{w} = list({w2})", "{w}.extend({w2})", "{w} += {w2}", "{w} = {w2} + [{l}]", "{w} = {w2}",
    "{l}, *{w} = {w2}", "{w} = [each for each in {w2}]", "{w} = [[*each] for each in {w2}]",
    "[each.append({n}) for each in {w}]", "put = {l}.append\nput({n})",
    "list(map({l}.append, [{n}]))", "list.append({l}, {n})", "same({l}).append({n})",
    "{l} = same({w})[0]", "{l} = same({l2})", "{d}['k'] = {l}", "{l} = {d}.get('k', {l})",
    "{d} = dict(k={w}[0], n=1)", "{o}.v = {w}[0]\n{o}.v.append({n})", "list({w})[0].append({n})",
    "({l} if {n} else {l2}).append(6)", "def g1(xs={l}):\n    xs.append({n})", "g1()",
    "{n} = len({l})\n{l}.append(1)\n{n2} = len({l})\n{l}.pop()", "{l}.pop()", "{l}.reverse()",
    "match {n}:\n    case 4:\n        {l} = [4]\n    case _:\n        {n2} = 5",
)  # fmt: skip
ALL = (*STATEMENTS, *MOVING, *CANCELLING)
POOL = {
    "l": ("l1", "l2", "l3"),
    "n": ("n1", "n2"),
    "d": ("d1", "d2"),
    "o": ("o1", "o2"),
    "p": ("p1", "p2"),
    "w": ("w1", "w2"),
    "i": ("i1", "i2"),
    "r": ("r1", "r2"),
    "v": ("v1", "v2"),
}


@st.composite
def statements(draw: st.DrawFn, templates: tuple[str, ...] = STATEMENTS) -> str:
    words = {kind: draw(st.sampled_from(names)) for kind, names in POOL.items()}
    others = {f"{kind}2": draw(st.sampled_from(names)) for kind, names in POOL.items()}
    return draw(st.sampled_from(templates)).format(**words, **others)


Steps = list[tuple[str, Any]]


@st.composite
def notebooks(
    draw: st.DrawFn, kinds: tuple[str, ...] = ("user", "agent", "again", "undo")
) -> Steps:
    """Cells of few kinds of statements each time, so that these meet in many ways."""
    every = draw(st.sampled_from((STATEMENTS, STATEMENTS, MOVING, CANCELLING, ALL)))
    few = draw(st.lists(st.sampled_from(every), min_size=3, max_size=9, unique=True))
    templates = draw(st.sampled_from((every, tuple(few), tuple(few))))
    cells = st.lists(statements(templates), min_size=1, max_size=5).map("\n".join)
    steps = {
        "user": st.tuples(st.just("user"), cells),
        "agent": st.tuples(st.just("agent"), cells),
        "again": st.tuples(st.just("again"), st.integers(0, 20)),
        "undo": st.tuples(st.sampled_from(("undo", "redo")), st.just(0)),
    }
    return draw(st.lists(st.one_of(*(steps[kind] for kind in kinds)), min_size=1, max_size=7))


@dataclass
class Notebook:
    """A private namespace in which cells run, an agent's in turns that can be taken back."""

    executor: CodeExecutor = field(default_factory=CodeExecutor)
    ran: list[str] = field(default_factory=list)
    turns: list[Change] = field(default_factory=list)
    taken_back: list[Change] = field(default_factory=list)
    lost: set[str] = field(default_factory=set)

    async def play(self, steps: Steps, beginning: tuple[str, ...] = BEGINNING) -> None:
        checkpoints = self.executor.checkpoints()
        for kind, what in [*(("user", each) for each in beginning), *steps]:
            match kind:
                case "undo":
                    if self.turns:
                        back, again, _ = checkpoints.undo(self.turns.pop())
                        self.taken_back += [again] if again is not None else []
                        self.lost |= set(back.lost)
                        self.ran.append("# undo")
                case "redo":
                    if self.taken_back:
                        back, again, _ = checkpoints.undo(self.taken_back.pop())
                        self.turns += [again] if again is not None else []
                        self.lost |= set(back.lost)
                        self.ran.append("# redo")
                case "again":
                    await self.run(self.ran[what % len(self.ran)], USER)
                case "agent":
                    checkpoints.take()
                    await self.run(what, RunScope(f"run {len(self.ran)}", "n.ipynb", "cell"))
                    if (change := checkpoints.close()) is not None:
                        self.turns.append(change)
                case _:
                    await self.run(what, USER)

    async def run(self, code: str, scope: RunScope) -> None:
        self.ran.append(code)
        with run_scope(scope):
            await self.executor.execute(code)


def is_same(one: Any, other: Any, depth: int = 0) -> bool:
    if depth > 6:
        return True
    if isinstance(one, pd.DataFrame):
        return isinstance(other, pd.DataFrame) and one.equals(other)
    if isinstance(one, BuiltinMethodType):
        return isinstance(other, BuiltinMethodType) and is_same(
            one.__self__, other.__self__, depth + 1
        )
    if isinstance(one, FunctionType | type):
        return type(one) is type(other) and one.__name__ == other.__name__
    if type(one).__name__ != type(other).__name__:
        return False
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(
            is_same(one[key], other[key], depth + 1) for key in one
        )
    if isinstance(one, list):
        return len(one) == len(other) and all(
            is_same(a, b, depth + 1) for a, b in zip(one, other, strict=True)
        )
    if isinstance(one, random.Random):
        return bool(one.getstate() == other.getstate())
    if isinstance(one, Iterator):
        return is_same(_rest(one), _rest(other), depth + 1)
    if isinstance(one, type({}.keys()) | type({}.values())):
        return is_same(list(one), list(other), depth + 1)
    if type(one).__module__ == "__main__":
        return is_same(vars(one), vars(other), depth + 1)
    return bool(one == other)


def _rest(moving: Iterator[Any]) -> Any:
    """What an iterator still has to give, or what it says of that."""
    try:
        return list(itertools.islice(copy.deepcopy(moving), 20))
    except TypeError:
        return type(moving).__name__


def rebuilt(code: str) -> dict[str, Any]:
    names: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(code, "<slice>", "exec"), names)
    return names


def check(steps: Steps) -> tuple[int, int]:
    """Slice every variable of the notebook; how many there were, and how many were refused."""
    notebook = Notebook()
    asyncio.run(notebook.play(steps))
    variables = notebook.executor.variables()
    if notebook.lost:
        return len(variables), 0  # the undo has said that it did not put everything back
    refused = 0
    for name, value in variables.items():
        try:
            script = slice_of(notebook.executor.origin_ledger, name)
        except SliceError:
            refused += 1
            continue
        whole = "\n# ---\n".join(notebook.ran)
        try:
            again = rebuilt(script.code)
        except Exception as exc:
            pytest.fail(f"{name}: {exc!r}\n{whole}\n=====\n{script.code}")
        assert name in again, f"{name}\n{whole}\n=====\n{script.code}"
        assert is_same(value, again[name]), (
            f"{name}: {value!r}, not {again[name]!r}\n{whole}\n=====\n{script.code}"
        )
    return len(variables), refused


@pytest.mark.filterwarnings("ignore:The inplace keyword")
@settings(max_examples=settings().max_examples // 4)
@given(notebooks())
def test_a_slice_rebuilds_its_variable(steps: Steps) -> None:
    there, refused = check(steps)
    event("some refused" if refused else "none refused")
    assert there


@pytest.mark.filterwarnings("ignore:The inplace keyword")
@settings(max_examples=settings().max_examples // 10)
@given(notebooks(kinds=("user",)))
def test_without_errors_and_undo_every_variable_can_be_sliced(
    steps: Steps,
) -> None:
    notebook = Notebook()
    asyncio.run(notebook.play(steps))
    ledger = notebook.executor.origin_ledger
    assume(not any(run.failed for run in ledger.cell_runs()))
    for name in notebook.executor.variables():
        slice_of(ledger, name)


@pytest.mark.parametrize(
    ("name", "steps"),
    [
        ("l1", [("agent", "w1[0].append(2)"), ("undo", 0)]),
        ("l1", [("agent", "put = w1[0].append\nput(2)\ndel put"), ("undo", 0)]),
        ("n1", [("agent", "r1.random()"), ("undo", 0), ("user", "n1 = r1.random()")]),
        ("n1", [("agent", "r1.random()"), ("undo", 0), ("user", "n1 = r2.random()")]),
        ("n1", [("agent", "n1 = r1.random()"), ("undo", 0), ("again", 6)]),
        ("r2", [("agent", "n1 = r1.random()"), ("undo", 0), ("again", 6)]),
        ("n1", [("agent", "n1 = r1.random()"), ("user", "n1 = 5"), ("undo", 0), ("again", 6)]),
        ("n1", [("agent", "n1 = r1.random()"), ("undo", 0), ("redo", 0), ("again", 6)]),
    ],
)
def test_a_change_that_nobody_recorded_goes_with_its_undo(name: str, steps: Steps) -> None:
    notebook = Notebook()
    asyncio.run(notebook.play(steps))
    script = slice_of(notebook.executor.origin_ledger, name)
    assert is_same(notebook.executor.variables()[name], rebuilt(script.code)[name])


# Two analyses in one notebook, each with names of its own.
APART = (
    "{n} = ({tag}, {n})", "{n} = ({tag}, *{l})", "{l} = [{tag}, {n}]", "{l}.append(({tag}, {n}))",
    "{l} = [*{l}, {tag}]", "{l} += [{tag}]", "{d}[{tag}] = {n}", "{d}.update(a{tag}={n})",
    "{n} = ({tag}, str({d}))", "print({l})", "{d}", "import math as m{tag}",
    "for each{tag} in {l}:\n    {n} = ({tag}, {n})", "{l}[0], {d}['k'] = {n}, {l}",
)  # fmt: skip


@st.composite
def cells_apart(draw: st.DrawFn) -> Steps:
    cells, tag = [], 0
    for size in draw(st.lists(st.integers(1, 4), min_size=1, max_size=5)):
        lines = []
        for _ in range(size):
            tag += 1
            family = draw(st.sampled_from("12"))
            words = {kind: f"{kind}{family}" for kind in "lnd"}
            lines.append(draw(st.sampled_from(APART)).format(tag=tag, **words))
        cells.append(("user", "\n".join(lines)))
    return cells


@settings(max_examples=settings().max_examples // 4)
@given(cells_apart())
def test_statements_that_touch_nothing_of_it_are_left_out(cells: Steps) -> None:
    notebook = Notebook()
    beginning = "l1 = ['a']\nl2 = ['b']\nd1 = {}\nd2 = {}\nn1 = (1,)\nn2 = (2,)"
    asyncio.run(notebook.play([("user", beginning), *cells], beginning=()))
    assert not any(run.failed for run in notebook.executor.origin_ledger.cell_runs())
    for name, value in notebook.executor.variables().items():
        script = slice_of(notebook.executor.origin_ledger, name)
        statements = [each.source for _, kept in script.parts for each in kept]
        assert is_same(value, rebuilt("\n".join(statements))[name])
        other = "1" if name.endswith("2") else "2"
        if name[0] in "lnd":
            assert not [each for each in statements if f"l{other}" in each or f"n{other}" in each]
