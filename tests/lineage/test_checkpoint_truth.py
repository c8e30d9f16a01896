"""What is not named as perhaps changed is as it was, however code got at it."""

import pytest

from parsimony_kernel.execution.private import CodeExecutor
from parsimony_kernel.execution.run_scope import RunScope, run_scope
from parsimony_kernel.lineage.checkpoint import PutBack

AGENT = RunScope("run", "n.ipynb", "cell")
MINE = RunScope("", "n.ipynb", "mine", actor="user")


class Desk:
    def __init__(self) -> None:
        self.executor = CodeExecutor()
        self.checkpoints = self.executor.checkpoints()

    async def run(self, code: str, scope: RunScope = AGENT) -> None:
        with run_scope(scope):
            await self.executor.execute(code)

    async def ask(self, expression: str) -> str:
        output = await self.executor.eval(f"repr({expression})")
        assert output.error is None, output.error
        return str(output.outputs[0].for_model())


@pytest.fixture
def desk() -> Desk:
    return Desk()


# A person's cell, what the agent runs, and what tells whether it changed.
CASES = {
    "a subclass of list": ("class Bag(list): pass\nb = Bag([1, 2])", "print(len(b))", "b"),
    "it is changed": ("class Bag(dict): pass\nb = Bag(a=1)", "b['a'] = 2", "b"),
    "it is nested": ("class Bag(list): pass\nd = {'b': Bag([1])}", "d['b'].append(2)", "d['b']"),
    "an opaque part": (
        "from types import SimpleNamespace\nd = [SimpleNamespace(x=1)]",
        "d[0].x = 2",
        "d[0].x",
    ),
    "an array of objects in a dict": (
        "d = {'a': np.array([1, None], dtype=object)}",
        "d['a'][0] = 9",
        "d['a'].tolist()",
    ),
    "lists in a column": (
        "df = pd.DataFrame({'t': [[1], [2]]})",
        "df['t'][0].append(9)",
        "df['t'].tolist()",
    ),
    "the name of a series": ("s = pd.Series([1], name='a')", "s.name = 'b'", "s.name"),
    "attrs of a frame": ("df = pd.DataFrame({'a': [1]})", "df.attrs['z'] = 1", "df.attrs"),
    "metadata of a subclass": (
        "class G(pd.DataFrame):\n    _metadata = ['g']\ng = G({'a': [1]})\ng.g = 1",
        "g.g = 2",
        "g.g",
    ),
    "slots": (
        "class P:\n    __slots__ = ('x', '__dict__')\np = P()\np.x = 1",
        "p.x = 2",
        "p.x",
    ),
    "an array of another shape in a dict": (
        "d = {'a': np.arange(4)}",
        "d['a'][0] = 9\nd['a'].shape = (2, 2)",
        "d['a'].tolist()",
    ),
    "an array that is resized in a dict": (
        "d = {'a': np.arange(4)}",
        "d['a'].resize((6,), refcheck=False)",
        "d['a'].tolist()",
    ),
    "a method that uses a global": (
        "rows = [1]\nclass A:\n    def go(self): rows.append(2)\na = A()",
        "a.go()",
        "rows",
    ),
    "a constructor": (
        "rows = [1]\nclass A:\n    def __init__(self): rows.append(2)",
        "a = A()",
        "rows",
    ),
    "a decorated function": (
        "import functools\nrows = [1]\ndef deco(f):\n    @functools.wraps(f)\n"
        "    def g(): return f()\n    return g\n@deco\ndef put(): rows.append(2)",
        "put()",
        "rows",
    ),
    "a partial": (
        "import functools\nrows = [1]\ndef put(xs): xs.append(2)\np = functools.partial(put, rows)",
        "p()",
        "rows",
    ),
    "a bound method of a list": ("rows = [1]\npush = rows.append", "push(2)", "rows"),
    "exec": ("rows = [1]", "exec('rows.append(2)')", "rows"),
    "globals": ("rows = [1]", "globals()['rows'].append(2)", "rows"),
    "an attribute of a class": ("class C:\n    x = 1", "C.x = 2", "C.x"),
    "a list in a class": ("class C:\n    x = [1]", "C.x.append(2)", "C.x"),
    "an attribute of a function": ("def f(): pass\nf.n = 1", "f.n = 5", "f.n"),
    "a closure": (
        "def make():\n    n = 0\n    def inc():\n        nonlocal n\n        n += 1\n"
        "        return n\n    inc.n = lambda: n\n    return inc\ninc = make()",
        "inc()",
        "inc.n()",
    ),
    "a default": (
        "def f(x, *, cache={}):\n    cache[x] = 1\n    return cache",
        "f(1)",
        "f.__kwdefaults__",
    ),
    "out=": ("a = np.arange(100_000)", "np.add(a, 1, out=a)", "int(a[0])"),
    "shuffle": ("import random\nl = list(range(50_000))", "random.shuffle(l)", "l[:5]"),
    "a generator": ("g = iter([1, 2])", "next(g)", "g.__length_hint__()"),
    "a stream": ("import io\nb = io.StringIO()", "b.write('x')", "b.getvalue()"),
    "rows in a loop": (
        "rows = [{'v': 1} for _ in range(9)]",
        "for r in rows: r['v'] = 2",
        "rows[0]",
    ),
    "many rows in a loop": (
        "rows = [{'v': 1} for _ in range(20_000)]",
        "for r in rows: r['v'] = 2",
        "rows[0]",
    ),
    "a view": ("a = np.arange(100_000)", "v = a[:10]\nv[:] = 7", "int(a[0])"),
    "a function of the cell": (
        "rows = [[1]]",
        "def f(xs): xs[0].append(2)\nf(rows)",
        "rows",
    ),
    "a namedtuple": (
        "from collections import namedtuple\nt = namedtuple('T', 'x')([1])",
        "t.x.append(2)",
        "t.x",
    ),
    "two arrays that do not fit": (
        "d = {'a': np.zeros(9_000_000), 'b': [1]}",
        "d['a'][0] = 1\nd['b'].append(2)",
        "(float(d['a'][0]), d['b'])",
    ),
    "a private name": ("_cache = [1]", "_cache.append(2)", "_cache"),
    "an import": ("import json as helper", "import math as helper", "helper.__name__"),
    "the index's name": ("df = pd.DataFrame({'a': [1]})", "df.index.name = 'i'", "df.index.name"),
    "True for 1": (
        "df = pd.DataFrame({'a': [1, None]}, dtype=object)",
        "df.loc[0, 'a'] = True",
        "df['a'].tolist()",
    ),
    "a cycle": ("l = [1]\nl.append(l)", "l[0] = 2", "l[0]"),
    "a data class with slots": (
        "from dataclasses import dataclass\n@dataclass(slots=True)\nclass P:\n    x: list",
        "q = P([1])",
        "1",
    ),
    "a slot that is set": (
        "class P:\n    __slots__ = ('x', 'y')\np = P()\np.x = [1]",
        "p.y = 2; p.x.append(2)",
        "(p.x, hasattr(p, 'y'))",
    ),
    "a set of one's own": (
        "class Bag(set): pass\nb = Bag([1])\nb.n = 1",
        "b.add(2); b.n = 2",
        "(b, b.n)",
    ),
    "a container that lies": (
        "class Bag(list):\n    def __getitem__(self, at): raise RuntimeError\n"
        "    def __iter__(self): raise RuntimeError\n    def __len__(self): return 0\n"
        "b = Bag([1, 2])",
        "b.append(3)",
        "list.__repr__(b)",
    ),
    "a subclass of a deque": (
        "import collections\nclass Q(collections.deque): pass\nq = Q([1])",
        "q.append(2)",
        "list(q)",
    ),
    "a stream in an attribute": (
        "import io\nclass A: pass\na = A()\na.log = io.StringIO()",
        "a.log.write('x')",
        "a.log.getvalue()",
    ),
    "an array of arrays": (
        "a = np.empty(2, dtype=object)\na[0] = [1]\na[1] = np.zeros(2)",
        "a[0].append(2); a[1][0] = 5",
        "(a[0], a[1].tolist())",
    ),
    "a view of a view": (
        "a = np.arange(12).reshape(3, 4)\nv = a[1:, ::2]",
        "v[0, 0] = 99; v[...] += 1",
        "(a.tolist(), v.tolist())",
    ),
    "a transposed array": (
        "a = np.arange(6).reshape(2, 3)\nt = a.T",
        "t[0, 0] = 99",
        "(a.tolist(), t.tolist())",
    ),
    "a record array": (
        "a = np.zeros(2, dtype=[('x', 'f8'), ('n', 'i4')])",
        "a['x'][0] = 5",
        "a.tolist()",
    ),
    "a column that is a view": (
        "df = pd.DataFrame({'a': [1, 2]})\ns = df['a']",
        "s.iloc[0] = 9; df.loc[1, 'a'] = 7",
        "(df['a'].tolist(), s.tolist())",
    ),
    "rows of a frame by position": (
        "df = pd.DataFrame({'a': [1, 2], 'b': ['x', 'y']})\nhead = df.iloc[:1]",
        "head.iloc[0, 0] = 9; df.iat[1, 1] = 'z'",
        "(df.values.tolist(), head.values.tolist())",
    ),
    "a categorical": (
        "df = pd.DataFrame({'c': pd.Categorical(['a', 'b'])})",
        "df['c'] = df['c'].cat.rename_categories({'a': 'q'}); df.loc[0, 'c'] = 'b'",
        "df['c'].tolist()",
    ),
    "sorted in place": (
        "df = pd.DataFrame({'a': [3, 1, 2]})",
        "df.sort_values('a', inplace=True, ignore_index=True)",
        "(df['a'].tolist(), df.index.tolist())",
    ),
    "duplicate labels": (
        "df = pd.DataFrame([[1, 2], [3, 4]], columns=['a', 'a'], index=[0, 0])",
        "df.iloc[0, 1] = 9; df.insert(0, 'b', 1)",
        "(df.values.tolist(), list(df.columns))",
    ),
    "sets in lists in dicts": (
        "d = {'a': [{1}, {'k': {2}}]}",
        "d['a'][0].add(5); d['a'][1]['k'].clear(); d['b'] = d",
        "str(d)",
    ),
    "a frame in an object in a list": (
        "class Box: pass\nb = Box()\nb.df = pd.DataFrame({'a': [1]})\nxs = [b]",
        "xs[0].df['z'] = 1; xs[0].df.loc[0, 'a'] = 5",
        "b.df.to_dict()",
    ),
    "an index's level": (
        "df = pd.DataFrame({'a': [1, 2]}, index=pd.Index(['x', 'y'], name='k'))",
        "df.index = [5, 6]; df.columns.name = 'c'",
        "(df.index.tolist(), df.index.name, df.columns.name)",
    ),
}


# What is rightly told as perhaps changed; everything else has to come back.
CANNOT = {
    "an array that is resized in a dict", "a generator", "many rows in a loop",
    "two arrays that do not fit",
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
async def test_after_a_failure_and_an_undo_a_name_is_as_it_was_or_is_named(
    desk: Desk, case: str
) -> None:
    setting, code, probe = CASES[case]
    await desk.run(setting, MINE)
    before = await desk.ask(probe)
    number = desk.checkpoints.take()
    await desk.run(f"{code}\n1 / 0")
    back = desk.checkpoints.put_back(number, keep_new=True)
    assert bool(back.lost) == (case in CANNOT), back
    assert not set(back.lost) & set(back.restored)
    if back.lost:
        return
    assert await desk.ask(probe) == before
    await desk.run(code)
    changed = await desk.ask(probe) != before
    change = desk.checkpoints.close()
    if change is None:
        assert not changed
        return
    back = desk.checkpoints.undo(change)[0]
    assert back.lost or await desk.ask(probe) == before


# A person's cell, the agent's, the person's later one, and what must stand after the undo.
LATER = {
    "in a list of a dict": (
        "d = {'k': [1]}", "d['k'].append('agent')", "d['k'].append('mine')",
        "d", {"k": [1, "agent", "mine"]},
    ),
    "an attribute of an object in a list": (
        "class O: pass\no = O()\no.qty = 1\norders = [o]", "orders[0].qty = 2",
        "orders[0].qty = 900", "o.qty", 900,
    ),
    "through a function": (
        "rows = [1]\ndef add(x): rows.append(x)", "rows.append('agent')", "add('mine')",
        "rows", [1, "agent", "mine"],
    ),
    "through an alias": (
        "d = {'k': [1]}", "d['k'].append('agent')", "inner = d['k']\ninner.append('mine')",
        "d", {"k": [1, "agent", "mine"]},
    ),
    "a column through a function": (
        "df = pd.DataFrame({'a': [1]})\ndef label(f): f['b'] = 2", "df['a'] = 5", "label(df)",
        "list(df.columns)", ["a", "b"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", LATER)
async def test_what_the_person_did_since_is_never_undone(desk: Desk, case: str) -> None:
    setting, agents, mine, probe, wanted = LATER[case]
    await desk.run(setting, MINE)
    desk.checkpoints.take()
    await desk.run(agents)
    change = desk.checkpoints.close()
    assert change is not None
    await desk.run(mine, MINE)
    back = desk.checkpoints.undo(change)[0]
    assert back.kept
    assert await desk.ask(probe) == await desk.ask(repr(wanted))


async def test_an_object_that_cannot_be_compared_breaks_nothing(desk: Desk) -> None:
    await desk.run(
        "class Evil:\n    def __eq__(self, other): raise RuntimeError('no')\n"
        "    __hash__ = None\ndf = pd.DataFrame({'o': [1]}, dtype=object)",
        MINE,
    )
    number = desk.checkpoints.take()
    await desk.run("df['o'] = [Evil()]; xs = [Evil()]; xs.append(Evil())")
    assert "df" in desk.checkpoints.put_back(number, keep_new=True).restored
    await desk.run("df['o'] = [Evil()]")
    change = desk.checkpoints.close()
    assert change is not None
    assert "df" in desk.checkpoints.undo(change)[0].restored
    assert await desk.ask("df['o'].tolist()") == await desk.ask("[1]")


async def test_two_runs_on_one_executor_do_not_meet(desk: Desk) -> None:
    await desk.run("rows = [1]", MINE)
    other = desk.executor.checkpoints()
    number = desk.checkpoints.take()
    other.take()
    await desk.run("rows.append(2)")
    other.close()
    assert desk.checkpoints.put_back(number) == PutBack(restored=("rows",))


async def test_the_same_big_array_is_copied_for_the_first_and_the_newest_only(desk: Desk) -> None:
    await desk.run("a = np.zeros(5_000_000)", MINE)
    first = desk.checkpoints.take()
    for step in range(1, 8):
        number = desk.checkpoints.take()
        await desk.run(f"a[0] = {step}")
    assert desk.checkpoints.put_back(number).lost == ()
    assert await desk.ask("float(a[0])") == await desk.ask("6.0")
    assert desk.checkpoints.put_back(first).lost == ()
    assert await desk.ask("float(a[0])") == await desk.ask("0.0")


async def test_what_is_bound_no_more_is_not_kept_without_end(desk: Desk) -> None:
    first = desk.checkpoints.take()
    taken = []
    for _ in range(7):
        await desk.run("big = np.empty(30_000_000)")  # 240 MB that nobody touches
        taken.append(desk.checkpoints.take())
    assert [number in desk.checkpoints for number in taken] == [False] * 6 + [True]
    assert desk.checkpoints.put_back(first) == PutBack(removed=("big",))


async def test_what_was_too_big_to_be_kept_is_named_and_the_rest_comes_back(desk: Desk) -> None:
    await desk.run("huge = np.empty(170_000_000); small = 1", MINE)  # 1.4 GB that nobody touches
    desk.checkpoints.take()
    await desk.run("huge = None; small = 2")
    desk.checkpoints.take()
    await desk.run("small = 3")
    change = desk.checkpoints.close()
    assert change is not None
    assert desk.checkpoints.undo(change)[0] == PutBack(restored=("small",), lost=("huge",))
    assert await desk.ask("(huge, small)") == await desk.ask("(None, 1)")
