"""What code says about names."""

from collections.abc import Iterable
from itertools import filterfalse

import pytest

from parsimony_kernel.analysis.calls import MUTATES_RECEIVER, PURE_METHODS
from parsimony_kernel.analysis.cell_names import Cell
from parsimony_kernel.analysis.parse import TABLE, is_table
from parsimony_kernel.analysis.read import read
from parsimony_kernel.analysis.values import Ref, Text


@pytest.mark.parametrize(
    ("code", "reads"),
    [
        ("y = x + 1", {"x"}),
        ("x = 1; y = x", set()),
        ("x += 1", {"x"}),
        ("if a:\n    x = 1\ny = x", {"a", "x"}),
        ("if a:\n    x = 1\nelse:\n    x = 2\ny = x", {"a"}),
        ("for i in rows:\n    total = i\nprint(total)", {"rows", "print", "total"}),
        ("def f(a):\n    b = a\n    return b + c", {"c"}),
        ("def f():\n    global n\n    n = 1", set()),
        ("g = lambda a: a + b", {"b"}),
        ("out = [v * k for v in data if v]", {"data", "k"}),
        ("class C(Base):\n    x = y\n    z = x", {"Base", "y"}),
        ("try:\n    a = 1\nexcept Err as e:\n    print(e)", {"Err", "print"}),
        ("import pandas as pd\npd.read_csv(p)", {"p"}),
        ("match v:\n    case [a, *rest]:\n        print(a, rest)", {"v", "print"}),
        ("async def f():\n    await g()\nawait f()", {"g"}),
        ("@deco\ndef f(): pass", {"deco"}),
        ("df.loc[df.x > 1, 'y'] = z", {"df", "z"}),
        ("big = df.query('v > @low')", {"df", "low"}),
    ],
)
def test_reads(code: str, reads: set[str]) -> None:
    assert read(code).reads - {"e"} == reads


@pytest.mark.parametrize(
    ("code", "writes"),
    [
        ("a = b = 1", {"a", "b"}),
        ("(a, [b, *c]) = x", {"a", "b", "c"}),
        ("import os.path, json as j\nfrom a import b as c", {"os", "j", "c"}),
        ("for i in x: pass", {"i"}),
        ("with open(p) as f: pass", {"f"}),
        ("def f():\n    local = 1", {"f"}),
        ("def f():\n    global n\n    n = 1", {"f", "n"}),
        ("[(last := v) for v in x]", {"last"}),
        ("x: int = 3\ny: int", {"x"}),
    ],
)
def test_writes(code: str, writes: set[str]) -> None:
    assert read(code).writes == writes


@pytest.mark.parametrize(
    ("code", "mutated"),
    [
        ("df['x'] = 1", {"df"}),
        ("df.loc[0, 'x'] = 1", {"df"}),
        ("df.x.y = 1", {"df"}),
        ("df['x'] += 1", {"df"}),
        ("del d['k']", {"d"}),
        ("items.append(1)", {"items"}),
        ("df.dropna(inplace=True)", {"df"}),
        ("df.dropna(inplace=False)", set()),
        ("n += 1", {"n"}),
        ("df.copy()['x'] = 1", set()),
        ("def f(d):\n    d['x'] = 1", set()),
        ("y = df.sort_values('x')", set()),
        # Through another name, or a function.
        ("b = a\nb['x'] = 1", {"a", "b"}),
        ("b = a\nc = b\nc.append(1)", {"a", "b", "c"}),
        ("setattr(o, 'x', 1)", {"o"}),
        ("vars(o)['x'] = 1", {"o"}),
        ("np.copyto(a, b)", {"a"}),
        ("np.add(a, b, out=c)", {"c"}),
        ("random.shuffle(x)", {"x"}),
        ("globals()['d']['x'] = 1", {"d"}),
        ("get_ipython().run_cell_magic('time', '', 'd.clear()\\n')", {"d"}),
        ("get_ipython().run_line_magic('timeit', '-n 10 d.clear()')", {"d"}),
        ("exec('d.clear()')", {"d"}),
        ("def f(a):\n    b = a\n    b.append(1)", set()),
    ],
)
def test_changes_in_place(code: str, mutated: set[str]) -> None:
    assert read(code).mutated - {"np", "random"} == mutated


def test_deletes() -> None:
    assert read("del a, b[0]").deletes == {"a"}


def test_literals_exclude_written_files() -> None:
    code = "df = pd.read_csv('in.csv')\ndf.to_csv('out.csv')\nopen('log', 'w')\nopen('notes')"
    assert [*read(code).literals] == ["in.csv", "notes"]


@pytest.mark.parametrize("code", ["def (", "\0", "(" * 10_000])
def test_nonsense_has_no_names(code: str) -> None:
    assert read(code) == Cell(error=read(code).error, changes_any=True)
    assert read(code).error


@pytest.mark.parametrize(
    ("code", "reached"),
    [
        ("for r in rows: r['v'] = 1", {"rows"}),
        ("inner = d['k']\ninner.append(1)", {"d"}),
        ("for i, r in enumerate(rows): r.clear()", {"rows"}),
        ("[r.clear() for r in rows]", {"rows"}),
        ("new = df.copy()\nnew['x'] = 1", set()),
    ],
)
def test_parts_mutated_through_alias(code: str, reached: set[str]) -> None:
    assert read(code).reached == reached


@pytest.mark.parametrize(
    ("code", "writes", "opaque"),
    [
        ("globals()['x'] = 1", {"x"}, False),
        ("globals().update(x=1)", set(), True),
        ("exec('x = 1')", {"x"}, False),
        ("globals().get('x')", set(), True),
        ("exec(text)", set(), True),
        ("e = eval\ne(text)", {"e"}, True),
        ("from m import *", set(), True),
        ("get_ipython().run_line_magic('run', 'script.py')", set(), True),
        ("get_ipython().run_line_magic('time', 'x = 1')", {"x"}, False),
        ("get_ipython().run_line_magic('timeit', 'x = 1')", set(), False),
        ("get_ipython().run_cell_magic('capture', 'out', 'x = 1')", {"out", "x"}, False),
        ("get_ipython().run_line_magic('load_ext', 'autoreload')", set(), False),
        ("files = get_ipython().getoutput('ls')", {"files"}, False),
        ("def f():\n    return locals()", {"f"}, False),
    ],
)
def test_exec_and_eval_are_flagged(code: str, writes: set[str], opaque: bool) -> None:
    assert read(code).writes == writes
    assert read(code).opaque is opaque


def test_imports_list_their_bindings() -> None:
    names = read("import a.b\nimport c.d as e\nfrom f import g as h\nx = 1")
    assert names.modules.keys() & names.writes == {"a", "e", "h"}
    assert names.modules == {"a": "a.b", "e": "c.d", "h": "f:g"}


def test_statements_are_reported_separately() -> None:
    code = "import m\n@deco\ndef f():\n    return k\nx = f(); y = x\nx['a'] = y"
    told = read(code).statements
    assert [each.source for each in told] == [
        "import m", "@deco\ndef f():\n    return k", "x = f()", "y = x", "x['a'] = y"
    ]  # fmt: skip
    assert [each.lines for each in told] == [
        (1, 1), (2, 4), (5, 5), (5, 5), (6, 6)
    ]  # fmt: skip
    assert [each.defines for each in told] == [False, True, False, False, False]
    assert told[1].reads == {"deco", "k"}
    assert [(name, root.name) for name, root in told[3].links] == [("y", "x")]
    assert told[4].reads == {"x", "y"}
    assert told[4].mutated == {"x"}


def test_no_method_both_mutates_and_does_not() -> None:
    assert MUTATES_RECEIVER.isdisjoint(PURE_METHODS)


def test_element_of_concatenated_lists_reaches_both() -> None:
    for code in (
        "w = a + b\nw[0].append(1)",
        "w += b\nw[0].append(1)",
        "o.v = b\no.v[0].append(1)",
    ):
        assert "b" in read(code).reached, code


def test_self_assignment_keeps_object() -> None:
    assert "x" in read("x = x\nx.append(1)\nx = []").stale


@pytest.mark.parametrize(
    ("code", "reads", "writes"),
    [
        ("duckdb.sql('select a from df join other o on a = o.a')", {"duckdb", "df", "other"}, ()),
        ("q = con.execute('with t as (select 1) select * from t, df').df()", {"con", "df"}, {"q"}),
        ("duckdb.sql(\"select * from 'x.csv' -- from nothing\")", {"duckdb"}, ()),
        ("get_ipython().run_line_magic('sql', 'out << select * from df')", {"df"}, {"out"}),
        ("get_ipython().run_cell_magic('sql', '', 'select * from df')", {"df"}, ()),
        ("files = get_ipython().getoutput('ls {folder} $name')",
         {"folder", "name", "get_ipython"}, {"files"}),
    ],
)  # fmt: skip
def test_names_in_queries_and_commands(code: str, reads: set[str], writes: set[str]) -> None:
    cell = read(code)
    assert set(filterfalse(is_table, cell.reads)) == reads
    assert cell.writes == set(writes)
    assert not cell.opaque


@pytest.mark.parametrize(
    ("code", "reads", "made", "changed"),
    [
        ("con.sql('select * from a join b using (k)')", "a b", "", ""),
        ("con.sql('create or replace table t as select * from a')", "a", "t", ""),
        ("con.sql('create temp view if not exists t as select 1')", "t", "", "t"),
        ("con.execute('insert into t(n) select n from a')", "a t", "", "t"),
        ("con.execute('update t set n = 1; delete from u')", "t u", "", "t u"),
        ("con.execute('select updated from main.t -- delete from u')", "", "", ""),
        ("get_ipython().run_cell_magic('sql', 'con', 'create table t as select 1')", "", "t", ""),
        ("df.to_sql('t', con); pd.read_sql_table('u', con)", "t u", "", "t"),
        ("con.create_table('t', df); con.table('u')", "t u", "", "t"),
        ("alt.table(df); df.register(1)", "", "", ""),
    ],
)
def test_database_tables_coexist_with_variables(
    code: str, reads: str, made: str, changed: str
) -> None:
    def tables(names: Iterable[str]) -> str:
        return " ".join(sorted(each.removeprefix(TABLE) for each in filter(is_table, names)))

    cell = read(code)
    assert (tables(cell.reads), tables(cell.writes)) == (reads, made)
    assert tables(cell.mutated) == changed
    assert cell.error is None


def test_files_in_queries_are_literals() -> None:
    cell = read("con.sql(\"COPY (SELECT * FROM 'in.parquet' WHERE k = 'x') TO 'out.csv'\")")
    assert {"in.parquet", "x"} <= set(cell.literals)
    assert "out.csv" not in cell.literals


def test_targets_inside_a_block_have_all_its_inputs() -> None:
    (other,) = read("with lock:\n    a, b = x, y").statements
    assert other.inputs_of("a") == {"lock", "x", "y"}


@pytest.mark.parametrize(
    ("code", "name", "origin", "names"),
    [
        ("import pandas as pd\npd.read_csv(p)", "pd.read_csv", Ref("pandas.read_csv"), ("p",)),
        ("from os import path as p\np.join(a.b)", "p.join", Ref("os.path.join"), ("b",)),
        ("df.head(3)", "df.head", Ref("df.head", outer=True), ("",)),
        ("f()[0].go()", "go", None, ()),
        ("rm = os.remove\nrm(p)", "rm", Ref("os.remove", outer=True), ("p",)),
        ("def rm(p): ...\nrm(p)", "rm", None, ("p",)),
        ("def f(os):\n    os.remove(p)", "os.remove", None, ("p",)),
        ("def f():\n    import os\n    os.remove(p)", "os.remove", Ref("os.remove"), ("p",)),
        ("g = globals()\ng.clear()", "g.clear", Ref("globals().clear", outer=True), ()),
    ],
)
def test_calls_have_resolved_origins(
    code: str, name: str, origin: Ref | None, names: tuple[str, ...]
) -> None:
    calls = [each for each in read(code).calls if each.name == name]
    assert [(each.origin, each.names) for each in calls] == [(origin, names)]


@pytest.mark.parametrize(
    ("code", "value"),
    [
        ("show('a')", Text(("a",))),
        ("a = 'x'\na += '/y'\nshow(a)", Text(("x", "/y"))),
        ("show(f'{base}/{x[0]}.csv')", Text((Ref("base", outer=True), "/", None, ".csv"))),
        ("show('a/%s' % b)", Text(("a/", None))),
        ("show(Path('a') / x[0])", Text(("a", "/", None), path=True)),
        ("show(open('a.txt').name)", None),
        ("with open('a.txt') as f:\n    show(f)", Text(("a.txt",), path=True)),
        ("for u in ['a', 'b']:\n    show(u)", (Text(("a",)), Text(("b",)))),
        ("[show(p) for p in Path('a').iterdir()]", Text(("a", "/", "*"), path=True)),
        ("show(['a', 1, b])", (Text(("a",)), None, Ref("b", outer=True))),
        ("b = 1\nshow(b)", None),
    ],
)
def test_arguments_are_resolved_from_text(code: str, value: object) -> None:
    (call,) = (each for each in read(code).calls if each.name == "show")
    assert call.args == (value,)
