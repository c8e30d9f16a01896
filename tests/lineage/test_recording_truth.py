"""What a cell really changed is among what was recorded, however it did it."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from watched_notebook import Notebook

from parsimony_kernel.lineage.snapshot import visible


def contents(notebook: Notebook) -> dict[str, Any]:
    return {name: content(value) for name, value in visible(notebook.names, {}).items()}


def content(value: Any, depth: int = 0) -> Any:
    """All that ``value`` holds, as text and tuples."""
    if depth > 6:
        return "deep"
    match value:
        case pd.DataFrame():
            columns = [value.iloc[:, at].to_numpy() for at in range(value.shape[1])]
            return ("frame", *(repr(each) for each in (value.columns, value.index, value.attrs)),
                    repr(value.columns.names), content(columns, depth + 1))  # fmt: skip
        case pd.Series():
            return ("series", repr(value.name), repr(value.index), content(value.to_numpy()))
        case np.ndarray() if value.dtype != object:
            return ("array", value.shape, str(value.dtype), value.tobytes())
        case np.ndarray():
            return ("array", value.shape, str(value.dtype), content(value.tolist(), depth + 1))
        case dict():
            return ("dict", *((repr(key), content(each, depth + 1)) for key, each in value.items()))
        case list() | tuple():
            return (type(value).__name__, *(content(each, depth + 1) for each in value))
        case memoryview():
            return ("memory", *value.tolist())
        case type():
            return ("class", repr(sorted((k, repr(v)) for k, v in vars(value).items())))
    if type(value).__module__ == "__main__":
        slots = getattr(type(value), "__slots__", ())
        own = getattr(value, "__dict__", {})
        held = {**own, **{each: getattr(value, each, None) for each in slots}}
        return (type(value).__name__, content(held, depth + 1))
    return repr(value)


FRAME = "import pandas as pd, numpy as np\ndf = pd.DataFrame({'a': [1, 2, 3], 'b': list('xyz')})\n"
BIG = (
    "import pandas as pd, numpy as np\n"
    "df = pd.DataFrame({'a': np.arange(200_000), 'b': np.arange(200_000.0)})\n"
)
ARRAY = "import numpy as np\narr = np.arange(6.0)\n"
BIG_ARRAY = "import numpy as np\narr = np.arange(1_000_000.0)\n"
HELPER = "def helper(x):\n    x['new'] = 1\n    return None\n"
CLASS = "class Box:\n    def __init__(self, items): self.items = items\n"

# What stood before, and the cell.
CASES: dict[str, tuple[str, str]] = {
    "a binding": ("", "x = [1]"),
    "an augmented number": ("n = 1", "n += 1"),
    "an augmented list under two names": ("a = [1]\nb = a", "b += [2]"),
    "an item": ("d = {}", "d['x'] = 1"),
    "an item under two names": ("a = {}\nb = a", "b['x'] = 1"),
    "an alias of the cell": ("a = {}", "b = a\nb['x'] = 1"),
    "an alias of the cell that is gone": ("a = []", "b = a\nb.append(1)\ndel b"),
    "an alias that is bound anew": ("a = []", "b = a\nb.append(1)\nb = 3"),
    "changed, then bound anew, with an alias": ("a = []\nb = a", "a.append(1)\na = 2"),
    "an alias of an alias": ("a = {}", "b = a\nc = b\nc['x'] = 1"),
    "one of two": ("a = {}\nb = {}", "c = a if True else b\nc['x'] = 1"),
    "a swapped pair": ("a = []\nb = [2]", "a, b = b, a\na.append(1)"),
    "an attribute": (f"{CLASS}o = Box([1])", "o.x = 1"),
    "an attribute's item": (f"{CLASS}o = Box([1])", "o.items[0] = 5"),
    "a frame in a dict": (f"{FRAME}d = {{'df': df}}", "d['df']['x'] = 1"),
    "a frame that a dict holds": (f"{FRAME}d = {{'df': df}}", "df['x'] = 1"),
    "a frame that an object holds": (f"{FRAME}{CLASS}o = Box(df)", "df['x'] = 1"),
    "a list in a list in a dict": ("l = [1]\nd = {'k': [l]}", "d['k'][0].append(2)"),
    "an unknown key": ("l = [1]\nd = {'k': l}\nk = 'k'", "d[k].append(2)"),
    "a part under another name": ("d = {'k': [1]}", "inner = d['k']\ninner.append(2)"),
    "a part of a tuple": ("t = ([1], 2)", "t[0].append(2)"),
    "an unpacked part": ("l = [1]\nt = (l, 2)", "x, y = t\nx.append(2)"),
    "setdefault": ("d = {}", "d.setdefault('k', []).append(1)"),
    "a default dict that is read": (
        "from collections import defaultdict\nd = defaultdict(list)", "d['x']"
    ),
    "get": ("d = {'k': [1]}", "d.get('k').append(1)"),
    "rows of a loop": ("rows = [{'v': 1}]", "for r in rows:\n    r['v'] = 2"),
    "items of a loop": ("d = {'k': [1]}", "for k, v in d.items():\n    v.append(2)"),
    "enumerate": ("rows = [[1]]", "for i, r in enumerate(rows):\n    r.append(i)"),
    "zip": ("rows = [[1]]\nmore = [[2]]", "for r, m in zip(rows, more):\n    m.append(r[0])"),
    "a comprehension for its effect": ("rows = [[1]]", "[r.append(2) for r in rows]"),
    "a comprehension that fills a list": ("out = []", "[out.append(i) for i in range(3)]"),
    "a walrus": ("a = [1]", "(b := a).append(2)"),
    "a walrus in a condition": ("a = [1]", "if (n := len(a)) > 0:\n    a.pop()"),
    "with": (
        "from contextlib import nullcontext\na = [1]", "with nullcontext(a) as b:\n    b.append(2)"
    ),
    "try": ("a = [1]", "try:\n    a.append(2)\n    1 / 0\nexcept ZeroDivisionError:\n    b = 1"),
    "match": ("d = {'k': [1]}", "match d:\n    case {'k': v}:\n        v.append(2)"),
    "a cell that fails half way": ("a = [1]", "b = 1\na.append(2)\n1 / 0\nc = 1"),
    "a deleted item": ("d = {'a': 1}", "del d['a']"),
    "a deleted attribute": (f"{CLASS}o = Box([1])", "del o.items"),
    "setattr": (f"{CLASS}o = Box([1])", "setattr(o, 'x', 1)"),
    "object.__setattr__": (f"{CLASS}o = Box([1])", "object.__setattr__(o, 'x', 1)"),
    "vars": (f"{CLASS}o = Box([1])", "vars(o)['x'] = 1"),
    "__dict__": (f"{CLASS}o = Box([1])", "o.__dict__['x'] = 1"),
    "update of __dict__": (f"{CLASS}o = Box([1])", "o.__dict__.update(x=1)"),
    "globals": ("", "globals()['x'] = 1"),
    "an item through globals": ("a = {}", "globals()['a']['x'] = 1"),
    "update of globals": ("a = 1", "globals().update(a=2, b=3)"),
    "exec": ("a = [1]", "exec('a.append(2); b = 1')"),
    "exec of what is not plain": ("a = [1]", "exec('a.' + 'append(2)')"),
    "eval": ("a = [1]", "eval('a.append(2)')"),
    "exec in a namespace": ("ns = {}", "exec('x = 1', ns)"),
    "shuffle": ("import random\nl = list(range(50))", "random.shuffle(l)"),
    "heappush": ("import heapq\nh = [3, 4]", "heapq.heappush(h, 1)"),
    "insort": ("import bisect\nl = [1, 3]", "bisect.insort(l, 2)"),
    "a deque": ("from collections import deque\nq = deque([1])", "q.appendleft(2)"),
    "a set": ("s = {1}", "s |= {2}"),
    "a set's method": ("s = {1}", "s.symmetric_difference_update({1, 2})"),
    "a counter": ("from collections import Counter\nc = Counter('a')", "c.update('b')"),
    "a counter's item": ("from collections import Counter\nc = Counter('a')", "c['b'] += 1"),
    "an ordered dict": (
        "from collections import OrderedDict\nd = OrderedDict(a=1, b=2)", "d.move_to_end('a')"
    ),
    "a bytearray": ("b = bytearray(b'ab')", "b[0] = 65"),
    "a slice": ("l = [1, 2, 3]", "l[1:] = []"),
    "a sort": ("l = [2, 1]", "l.sort()"),
    "a method that is bound": ("l = [1]\npush = l.append", "push(2)"),
    "map for its effect": ("l = []", "list(map(l.append, [1, 2]))"),
    # Frames
    "a column": (FRAME, "df['x'] = 1"),
    "a cell of a frame": (FRAME, "df.loc[0, 'a'] = 9"),
    "iat": (FRAME, "df.iat[0, 0] = 9"),
    "columns": (FRAME, "df.columns = ['p', 'q']"),
    "the index's name": (FRAME, "df.index.name = 'i'"),
    "inplace": (FRAME, "df.rename(columns={'a': 'z'}, inplace=True)"),
    "inplace by a variable": (f"{FRAME}yes = True", "df.drop(columns='a', inplace=yes)"),
    "insert": (FRAME, "df.insert(0, 'n', 1)"),
    "pop": (FRAME, "a = df.pop('a')"),
    "update": (FRAME, "df.update(pd.DataFrame({'a': [7, 8, 9]}))"),
    "del of a column": (FRAME, "del df['a']"),
    "eval of a frame": (FRAME, "df.eval('c = a + 1', inplace=True)"),
    "an augmented frame": (f"{FRAME}df = df[['a']]\nother = df", "df += 1"),
    "an augmented column": (FRAME, "df['a'] += 1"),
    "attrs": (FRAME, "df.attrs['k'] = 1"),
    "a list in a column": (f"{FRAME}df['l'] = [[1], [2], [3]]", "df['l'][0].append(9)"),
    "a list in a column by another name": (
        f"{FRAME}df['l'] = [[1], [2], [3]]", "row = df['l'][0]\nrow.append(9)"
    ),
    "a series": ("import pandas as pd\ns = pd.Series([1, 2])", "s.iloc[0] = 5"),
    "a series' name": ("import pandas as pd\ns = pd.Series([1, 2])", "s.name = 'k'"),
    "a frame over an array": (
        f"{ARRAY}import pandas as pd\ndf = pd.DataFrame(arr, copy=False)", "arr[0] = 99"
    ),
    "a frame over an array that a dict holds": (
        f"{ARRAY}d = {{'k': arr}}\nv = d['k'][2:]", "v[0] = 99"
    ),
    # Arrays
    "an item of an array": (ARRAY, "arr[0] = 9"),
    "a view": (f"{ARRAY}v = arr[1:]", "v[0] = 9"),
    "a view of the cell": (ARRAY, "v = arr[1:]\nv[0] = 9"),
    "a view of a big array": (BIG_ARRAY, "v = arr[1:]\nv[77] = 9"),
    "a view of a view, reshaped": (f"{ARRAY}v = arr.reshape(2, 3)[1]", "v[:] = 0"),
    "the transposed": (f"{ARRAY}t = arr.reshape(2, 3).T", "arr[0] = 9"),
    "asarray": (f"{ARRAY}v = np.asarray(arr)", "v[0] = 9"),
    "copyto": (ARRAY, "np.copyto(arr, 1)"),
    "np.put": (ARRAY, "np.put(arr, [0], [9])"),
    "out": (ARRAY, "np.add(arr, 1, out=arr)"),
    "out of a big array": (BIG_ARRAY, "np.add(arr, 1, out=arr)"),
    "np.add.at": (ARRAY, "np.add.at(arr, [0], 1)"),
    "an array's sort": (ARRAY, "arr[::-1].sort()"),
    "a shuffle by a generator": (f"{ARRAY}rng = np.random.default_rng(1)", "rng.shuffle(arr)"),
    "an array's flat": (ARRAY, "arr.flat[2] = 9"),
    "an array's shape": (ARRAY, "arr.shape = (2, 3)"),
    "fill": (ARRAY, "arr[2:].fill(0)"),
    "a memoryview": (f"{ARRAY}m = memoryview(arr)", "m[0] = 7.0"),
    # Functions
    "a helper": (f"{FRAME}{HELPER}", "helper(df)"),
    "a helper with a big frame": (f"{BIG}def one(x): x.iloc[77, 0] = -5\n", "one(df)"),
    "a helper by keyword": (f"{FRAME}{HELPER}", "helper(x=df)"),
    "a helper of a helper": (f"{FRAME}{HELPER}def outer(y): helper(y)\n", "outer(df)"),
    "a helper of a helper with a big frame": (
        f"{BIG}def one(x): x.iloc[77, 0] = -5\ndef outer(y): one(y)\n", "outer(df)"
    ),
    "a helper of the cell": (BIG, "def one(x): x.iloc[77, 0] = -5\none(df)"),
    "a helper on a part": (
        f"{FRAME}d = {{'df': df}}\n{HELPER}", "helper(d['df'])"
    ),
    "a helper by map": ("rows = [{}, {}]\ndef put(r): r['x'] = 1\n", "list(map(put, rows))"),
    "a helper by apply": (
        f"{FRAME}seen = []\ndef put(v): seen.append(v)\n", "r = df['a'].apply(put)"
    ),
    "a lambda": ("rows = [1]\nput = lambda v: rows.append(v)", "put(2)"),
    "a function over globals": ("rows = [1]\ndef put(): rows.append(2)\n", "put()"),
    "a function over a big global": (
        f"{BIG_ARRAY}def put(): arr[77] = -1\n", "put()"
    ),
    "a function that binds a global": ("n = 1\ndef up():\n    global n\n    n += 1\n", "up()"),
    "a closure": (
        "rows = [1]\ndef make(r):\n    def put(v): r.append(v)\n    return put\nput = make(rows)",
        "put(2)",
    ),
    "a partial": (
        "import functools\nrows = [1]\ndef put(r, v): r.append(v)\n"
        "p = functools.partial(put, rows)", "p(2)",
    ),
    "a decorated function": (
        "import functools\nrows = [1]\ndef deco(f):\n    @functools.wraps(f)\n"
        "    def g(): return f()\n    return g\n@deco\ndef put(): rows.append(2)\n", "put()",
    ),
    "a method": (
        f"{CLASS}    def put(self, v): self.items.append(v)\no = Box([1])", "o.put(2)"
    ),
    "a method over a global": (
        "rows = [1]\nclass A:\n    def go(self): rows.append(2)\na = A()", "a.go()"
    ),
    "a constructor": (
        "rows = [1]\nclass A:\n    def __init__(self): rows.append(2)\n", "a = A()"
    ),
    "a constructor that counts": (
        "class A:\n    n = 0\n    def __init__(self): A.n += 1\n", "a = A()"
    ),
    "a constructor that keeps": (f"{CLASS}items = [1]", "o = Box(items)\no.items.append(2)"),
    "an operator": (
        "class A:\n    def __init__(self): self.n = 0\n"
        "    def __lshift__(self, v): self.n += v\n        \na = A()", "a << 3",
    ),
    "an item's read": (
        "class A:\n    def __init__(self): self.n = 0\n"
        "    def __getitem__(self, k): self.n += 1\na = A()", "a[0]",
    ),
    "slots": ("class P:\n    __slots__ = ('x',)\np = P()\np.x = 1", "p.x = 2"),
    "slots through a helper": (
        "class P:\n    __slots__ = ('x',)\np = P()\np.x = 1\ndef f(o): o.x = 2\n", "f(p)"
    ),
    "a dataclass through a helper": (
        "from dataclasses import dataclass\n@dataclass\nclass P:\n    x: int\np = P(1)\n"
        "def f(o): o.x = 2\n", "f(p)",
    ),
    "a class's attribute": ("class C:\n    x = 1", "C.x = 2"),
    "a class's attribute through a helper": ("class C:\n    x = 1\ndef f(c): c.x = 2\n", "f(C)"),
    "a generator that is run": (
        "rows = []\ndef g():\n    for i in range(2):\n        rows.append(i)\n        yield i\n"
        "it = g()", "list(it)",
    ),
    "a generator that is iterated": (
        "rows = []\ndef g():\n    for i in range(2):\n        rows.append(i)\n        yield i\n"
        "it = g()", "for i in it: pass",
    ),
    "a function in a dict": ("rows = []\nfs = {'f': lambda: rows.append(1)}", "fs['f']()"),
    "a property": (
        "rows = []\nclass A:\n    @property\n    def p(self): rows.append(1)\na = A()", "a.p"
    ),
    "a context of the notebook": (
        "rows = []\nclass A:\n    def __enter__(self): rows.append(1)\n"
        "    def __exit__(self, *e): pass\na = A()", "with a: pass",
    ),
    "a library that changes its argument": (
        "import operator\nd = {}", "operator.setitem(d, 'x', 1)"
    ),
    "a sorting key with an effect": (
        "rows = []\nl = [2, 1]",
        "l.sort(key=lambda v: rows.append(v) or v)",
    ),
    "a model that is fitted": (
        "class Model:\n    def fit(self, x): self.coef = x\n        \nm = Model()", "m.fit([1])"
    ),
    "an inner list of a big list": (
        "rows = [[i] for i in range(5_000)]", "rows[4321].append(1)"
    ),
    "rows of a big list": (
        "rows = [{'v': i} for i in range(5_000)]",
        "for r in rows:\n    if r['v'] == 4321: r['v'] = 0",
    ),
    # What else has the object that changes
    "a list that is an output": ("a = [1]\n_oh = {3: a}\n_ = _3 = a", "a.append(2)"),
    "a list that is an output and in a dict": (
        "a = [1]\nd = {'k': a}\n_oh = {3: a}\n_ = _3 = a", "a.append(2)"
    ),
    "a list three levels down": ("a = [1]\nd = {'k': [(a,)]}", "a.append(2)"),
    "a list among many": (
        "a = [1]\nrows = [[n] for n in range(50)]\nothers = [[n, []] for n in range(50)]\n"
        "d = {'k': {'l': a}}", "a.append(2)"
    ),
    "a list that an object holds": (f"{CLASS}a = [1]\nbox = Box([a])", "a.append(2)"),
    "a column of a new frame that shares the old one's memory": (
        "import pandas as pd\njobs = pd.DataFrame({'n': [1, 2]})",
        "b = jobs.assign(a=1)\nb['year'] = 1\nc = jobs.sort_values('n')\nc['x'] = 1",
    ),
    "a value of a frame that shares another one's memory": (
        "import pandas as pd\njobs = pd.DataFrame({'n': [1, 2]})\n"
        "b = jobs.rename(columns={'n': 'm'})",
        "b.iloc[0, 0] = 9",
    ),
    "two frames over an array": (
        f"{ARRAY}import pandas as pd\ndf = pd.DataFrame(arr, copy=False)\n"
        "other = pd.DataFrame(arr, copy=False)", "df.iloc[0, 0] = 99"
    ),
    "a frame over an array that has no name": (
        f"{ARRAY}import pandas as pd\ndf = pd.DataFrame(arr, copy=False)\nd = [arr]\ndel arr",
        "df.iloc[0, 0] = 99"
    ),
    "two frames over an array that is gone": (
        f"{ARRAY}import pandas as pd\ndf = pd.DataFrame(arr[:4], copy=False)\n"
        "s = pd.Series(arr, copy=False)\ndel arr", "df.iloc[0, 0] = 99"
    ),
    # What holds the object that changes
    "a bound method that outlives the name": (
        "l = [1]\nw = [l]\nput = l.append\nl = [2]", "put(5)"
    ),
    "a namespace that holds it": (
        "from types import SimpleNamespace\nl = [1]\no = SimpleNamespace(v=l)", "l.clear()"
    ),
    "a part of a namespace": (
        "from types import SimpleNamespace\nl = [1]\no = SimpleNamespace(v=l)", "o.v.clear()"
    ),
    "a deque that holds it": (
        "from collections import deque\nl = [1]\no = deque([l])", "l.clear()"
    ),
    "a partial that holds it": (
        "from functools import partial\nl = [1]\no = partial(max, l)", "l.clear()"
    ),
    "a mapping proxy of it": (
        "from types import MappingProxyType\nd = {'k': 1}\no = MappingProxyType(d)", "d['x'] = 1"
    ),
    "an item of a user's dict": (
        "from collections import UserDict\nl = [1]\no = UserDict(k=l)", "o['k'].clear()"
    ),
    "an array of objects that holds it": (
        "import numpy as np\nl = [1]\no = np.array([l, None], dtype=object)", "l.append(1)"
    ),
    "a frame that holds a list": (
        "import pandas as pd\nl = [1]\no = pd.DataFrame({'a': [l, None]})", "l.append(1)"
    ),
    "a memoryview of bytes": ("b = bytearray(b'abc')\nm = memoryview(b)", "b[0] = 1"),
    "the keys of a dict": ("d = {'a': 1}\nk = d.keys()", "d['b'] = 1"),
    "a global that the cell binds anew": (
        "d = {'k': [5]}\ne = dict(d)\nl = []\ndef put(): l.append(7)\n", "l = d['k']\nput()"
    ),
    "a part that two dicts hold, through a helper": (
        "d = {'k': [5]}\ne = dict(d)\ndef put(x): x['k'].append(1)\n", "put(d)"
    ),
    # What stays as it was
    "a column beside others": (
        f"{FRAME}s = df['a']\nv = df['a'].to_numpy()", "df['c'] = 1"
    ),
    "a column of a big frame beside others": (
        f"{BIG}s = df['a']\nv = df['b'].to_numpy()", "df['c'] = df['a'] * 2"
    ),
    "a column in place of another": (f"{BIG}v = df['b'].to_numpy()", "df['b'] = 1"),
    "the columns' names": (
        f"{FRAME}s = df['a']\nv = df['a'].to_numpy()", "df.columns = ['p', 'q']"
    ),
    "a cell of a big frame with an array of its memory": (
        f"{BIG}v = df['a'].to_numpy()", "df.iloc[77, 0] = -5"
    ),
    "a column and a cell through a dict": (
        f"{BIG}v = df['a'].to_numpy()\nd = {{'f': df}}", "df['c'] = 1\nd['f'].iloc[77, 0] = -5"
    ),
    "a change that does not come about": ("l = [[1]]\nn = [l]", "1 / 0\nl[-1].append(3)"),
    "a sort of what is sorted": ("l = [1]\nn = [l]", "l.sort()"),
    # The magics, as IPython leaves them
    "time": ("a = [1]", "get_ipython().run_cell_magic('time', '', 'a.append(2)\\nb = 1\\n')"),
    "a line of time": ("a = [1]", "get_ipython().run_line_magic('time', 'a.append(2)')"),
    "timeit": ("a = [1]", "get_ipython().run_line_magic('timeit', '-n 1 -r 1 a.append(2)')"),
    "capture": ("a = [1]", "get_ipython().run_cell_magic('capture', 'out', 'a.append(2)\\n')"),
    "a magic of somebody's": ("a = [1]", "get_ipython().run_cell_magic('mine', '', 'a.append(2)')"),
}  # fmt: skip

# What is named though it did not change, by case: what a text alone cannot know.
NAMED_TOO: dict[str, set[str]] = {
    "a generator that is run": {"it"},  # and it is changed, though nothing shows it
    "a generator that is iterated": {"it"},
}


class Shell:
    """Runs the text of a magic in the namespace."""

    def __init__(self, names: dict[str, Any]) -> None:
        self._names = names

    def run_line_magic(self, name: str, line: str) -> None:
        text = line.removeprefix("-n 1 -r 1 ")
        exec(text, self._names if name != "timeit" else dict(self._names))

    def run_cell_magic(self, name: str, line: str, body: str) -> None:
        exec(body, self._names)
        if name == "capture":
            self._names[line] = "captured"


@pytest.fixture
def notebook() -> Notebook:
    notebook = Notebook()
    shell = Shell(notebook.names)
    notebook.names["get_ipython"] = lambda: shell
    notebook.names["get_ipython"].__module__ = "IPython"
    return notebook


@pytest.mark.filterwarnings("ignore:The inplace keyword")
@pytest.mark.parametrize("case", CASES)
def test_all_that_changed_is_recorded_and_hardly_more(notebook: Notebook, case: str) -> None:
    setting, code = CASES[case]
    notebook.cell(setting)
    before = contents(notebook)
    effect = notebook.cell(code)
    after = contents(notebook)
    really = {name for name in after if after[name] != before.get(name)}
    recorded = set(effect.changed)
    assert really <= recorded
    assert recorded - really == NAMED_TOO.get(case, set())
    assert set(effect.deleted) == before.keys() - after.keys()
    made = {ref.name for ref in notebook.ledger.cell_runs()[-1].made}
    assert recorded <= made
