"""What a cell plainly does outside is told before it runs; an ordinary analysis reaches nothing."""

import functools
import os
import shutil
import sys
import textwrap
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parsimony_kernel.analysis.parse import parse
from parsimony_kernel.core.reach import Reach, ReachKind, is_run_later
from parsimony_kernel.gate.preview import preview
from tests.corpora.entries import FOLDER, Entry, load

WORKSPACE = Path("/home/ada/work")
SCREENED = tomllib.loads((FOLDER / "screened.toml").read_text(encoding="utf-8"))
HARMLESS: dict[str, str] = SCREENED["harmless"]
REACHING = [
    (ReachKind(kind), code) for kind, codes in SCREENED["reaching"].items() for code in codes
]


def reaches(code: str, **given: object) -> tuple[Reach, ...]:
    return preview(code, workspace=WORKSPACE, **given)  # type: ignore[arg-type]


def kinds(code: str, **given: object) -> set[ReachKind]:
    return {reach.kind for reach in reaches(code, **given)}


def test_corpus_is_large_enough() -> None:
    assert len(HARMLESS) >= 60
    assert len({code for _, code in REACHING}) == len(REACHING) >= 80
    # What the file is that code writes, only the audit hook can see.
    seen_at_the_event = {ReachKind.runnable, ReachKind.replacing}
    assert {kind for kind, _ in REACHING} == set(ReachKind) - seen_at_the_event


@pytest.mark.parametrize("name", HARMLESS)
def test_ordinary_analysis_has_no_reach(name: str) -> None:
    assert reaches(HARMLESS[name]) == ()


@pytest.mark.parametrize(("kind", "code"), REACHING, ids=[f"{k}-{c}" for k, c in REACHING])
def test_reach_is_found_with_its_kind(kind: ReachKind, code: str) -> None:
    if "it''s" in code and sys.version_info >= (3, 12):
        pytest.skip("IPython leaves the line behind an odd quote as it is, a syntax error")
    found = reaches(code)
    assert kind in {reach.kind for reach in found}
    for reach in found:
        assert 1 <= reach.line <= len(code.splitlines())
        assert reach.what


PLAIN = [
    (kind, code)
    for kind, code in REACHING
    if '"""' not in code
    and parse(code)[1] is None
    and not code.startswith("reset")  # a magic where it stands alone, and a subtraction elsewhere
]


@pytest.mark.parametrize("head", ["async def step():\n", "if ready:\n", "class Step:\n"])
def test_reach_is_found_anywhere_in_code(head: str) -> None:
    missed = [code for k, code in PLAIN if k not in kinds(head + textwrap.indent(code, "    "))]
    assert missed == []


def joined(entry: Entry) -> str:
    return "\n".join([*entry.before, entry.cell])


def test_everyday_cells_raise_no_alarm() -> None:
    cells = {each.id: each for each in load("harmless", outside="/srv/share")}
    texts = [(name, text) for name, each in cells.items() for text in (each.cell, joined(each))]
    # Of these, only the disk tells that nothing is there yet.
    absent = {"where-nothing-is", "folders-of-this-cell-in-a-loop", "database-of-this-cell"}
    alarms = {name for name, text in texts if reaches(text)}
    assert alarms <= {f"delete-{each}" for each in absent}
    assert [name for name, text in texts if reaches(text, is_watched=True)] == []


def test_most_everyday_reaches_are_previewed() -> None:
    """The others are the audit hook's to see."""
    cells = load("reaching", outside="/srv/share", home="/home/ada")
    assert sum(bool(reaches(each.cell)) for each in cells) >= 200


def test_ipython_syntax_is_read_like_python() -> None:
    from IPython.core.inputtransformer2 import TransformerManager

    for cell in (
        "!rm -rf out",
        "%%bash\npip install x\n",
        "%pip install x",
        "x = !ls",
        "%time f()",
    ):
        assert kinds(TransformerManager().transform_cell(cell)) == kinds(cell)


def test_reach_has_line_and_sentence() -> None:
    code = "import os, shutil\n\nos.remove('a')\ndf.to_csv('/tmp/x.csv')  # aside\n!pip install y"
    found = reaches(code)
    assert [(each.kind, each.line) for each in found] == [
        (ReachKind.deletion, 3),
        (ReachKind.outside_write, 4),
        (ReachKind.installation, 5),
    ]
    assert found[1].what == "/tmp/x.csv"
    assert found[1].source_line == "df.to_csv('/tmp/x.csv') # aside"
    assert found[1].sentence == "Line 4 writes outside the workspace: /tmp/x.csv."
    assert found[2].sentence == "Line 5 changes the installed packages: !pip install y."


@pytest.mark.parametrize(
    ("code", "what"),
    [
        ("import os\nos.remove('old/a.csv')", "os.remove old/a.csv"),
        ("import os\nos.remove(path='a.csv')", "os.remove a.csv"),
        ("import os\nos.remove('/home/ada/work/old/a.csv')", "os.remove old/a.csv"),
        ("import os\nos.unlink('/srv/a.csv')", "os.unlink /srv/a.csv"),
        ("import os\nos.remove('../a.csv')", "os.remove /home/ada/a.csv"),
        ("import os\nos.remove('~/a.csv')", "os.remove ~/a.csv"),
        ("import os\nos.chdir('old')\nos.remove('a.csv')", "os.remove old/a.csv"),
        ("from os import remove as rm\nname = 'a' + '.csv'\nrm(name)", "os.remove a.csv"),
        ("import os\nfor p in ['a.csv', 'b.csv']:\n    os.remove(p)", "os.remove a.csv or b.csv"),
        ("import os\nos.remove(f'out/{name}.csv')", "os.remove out/…"),
        ("import shutil\nshutil.rmtree('out')", "shutil.rmtree out"),
        ("import shutil\nshutil.rmtree(Path('out') / 'old')", "shutil.rmtree out/old"),
        ("import shutil\nshutil.move('a.csv', '/srv/b.csv')", "shutil.move a.csv to /srv/b.csv"),
        ("import os\nos.replace(src='a.csv', dst=target)", "os.replace a.csv"),
        ("from send2trash import send2trash\nsend2trash(['a.csv'])", "send2trash.send2trash a.csv"),
        ("from pathlib import Path\nPath('old/a.csv').unlink()", "old/a.csv.unlink()"),
        ("from pathlib import Path\n(Path.cwd() / 'a.csv').resolve().unlink()", "a.csv.unlink()"),
        ("from pathlib import Path\nPath('/srv/x').rmdir()", "/srv/x.rmdir()"),
        ("for p in Path('out').glob('*.tmp'):\n    p.unlink()", "out/*.tmp.unlink()"),
    ],
)
def test_deletion_target_is_named_relative_to_workspace(code: str, what: str) -> None:
    assert [each.what for each in reaches(code) if each.kind is ReachKind.deletion] == [what]


def test_watched_deletion_where_nothing_is_is_left_to_the_hook(tmp_path: Path) -> None:
    code = "import shutil\nshutil.rmtree('old', ignore_errors=True)\nshutil.move('new', '../b')"
    told = preview(code, workspace=tmp_path, is_watched=True)
    assert [each.kind for each in told] == [ReachKind.outside_write]
    for name in ("old", "new"):
        (tmp_path / name).mkdir()
    told = preview(code, workspace=tmp_path, is_watched=True)
    assert [each.kind for each in told] == [ReachKind.deletion] * 2


def test_deletion_target_resolves_earlier_bindings() -> None:
    bound = {"target": Path("/home/ada/work/old/a.csv"), "wipe": shutil.rmtree}
    assert reaches("import os\nos.remove(target)", namespace=bound)[0].what == "os.remove old/a.csv"
    assert reaches("wipe(target)", namespace=bound)[0].what == "shutil.rmtree old/a.csv"


@pytest.mark.parametrize(
    ("what", "source_line", "does"),
    [
        ("os.remove a.csv", "os.remove('a.csv')", "deletes files: os.remove a.csv"),
        ("a.csv.unlink()", "p.unlink()", "deletes files: a.csv.unlink()"),
        ("a.csv", "shutil.rmtree(d)", "deletes files: a.csv"),
        ("os.replace a.csv to b.csv", "os.replace(a, b)", "moves files: os.replace a.csv to b.csv"),
        ("a.csv.rename() to b", "p.rename('b')", "moves files: a.csv.rename() to b"),
        # A function of the person's does it.
        ("a.csv", "tidy(name.replace('b', 'a'))", "deletes or moves files: a.csv"),
        ("a.csv", "os.rename(a, b); os.remove(b)", "deletes or moves files: a.csv"),
    ],
)
def test_deletion_says_which_of_both_it_is(what: str, source_line: str, does: str) -> None:
    assert Reach(ReachKind.deletion, what, 2, source_line).sentence == f"Line 2 {does}."


def test_multiline_magic_keeps_line_numbers() -> None:
    code = "x = 1\n!echo a \\\n  b \\\n  c\nimport os\nos.remove('a')"
    assert [(each.kind, each.line) for each in reaches(code)] == [
        (ReachKind.shell, 2),
        (ReachKind.deletion, 6),
    ]


def test_paths_resolve_from_working_folder() -> None:
    inside = "df.to_csv('../x.csv')"
    assert kinds(inside) == {ReachKind.outside_write}
    assert kinds(inside, folder=WORKSPACE / "sub") == set()
    assert kinds("df.to_csv('../../x.csv')", folder=WORKSPACE / "sub") == {ReachKind.outside_write}
    assert kinds("import os\nos.chdir('sub')\ndf.to_csv('../x.csv')") == set()


def test_earlier_names_resolve_to_their_bindings() -> None:
    bound = {
        "o": os,
        "rm": os.remove,
        "wipe": functools.partial(shutil.rmtree, ignore_errors=True),
        "target": "/etc/x",
        "away": Path("/srv"),
        "env": os.environ,
        "w": open,
    }
    assert kinds("o.unlink('a')", namespace=bound) == {ReachKind.deletion}
    assert kinds("rm('a')", namespace=bound) == {ReachKind.deletion}
    assert kinds("wipe('a')", namespace=bound) == {ReachKind.deletion}
    assert kinds("df.to_csv(target)", namespace=bound) == {ReachKind.outside_write}
    assert kinds("df.to_csv(away / 'x.csv')", namespace=bound) == {ReachKind.outside_write}
    assert kinds("env['API_KEY']", namespace=bound) == {ReachKind.secret}
    assert kinds("w('/etc/x', 'a')", namespace=bound) == {ReachKind.outside_write}


def test_rebound_name_is_not_the_library() -> None:
    assert kinds("requests.get('a')") == {ReachKind.network}
    assert kinds("requests.get('a')", namespace={"requests": {"a": 1}}) == set()
    assert kinds("requests = {}\nrequests.get('a')") == set()


def test_namespace_objects_are_not_called() -> None:
    class Loud:
        def __getattribute__(self, name: str) -> object:
            raise AssertionError(f"asked for {name}")

    assert kinds("loud.remove('x')", namespace={"loud": Loud()}) == set()


def test_each_call_is_reported_once() -> None:
    assert len(reaches("import os\nos.remove('a')")) == 1
    assert len(reaches("import subprocess\nsubprocess.run(['ls'])")) == 1
    assert len(reaches("import os\nos.environ['API_KEY']")) == 1
    assert len(reaches("import requests\nrequests.get(url).json()['a']")) == 1


def test_unparsable_cell_reports_only_ipython_lines() -> None:
    assert reaches("os.remove('a'\nx = = 1") == ()
    found = reaches("x = = 1\ntext = '''\n!ls\n'''\n!date\n%pip install z")
    assert [(each.kind, each.line) for each in found] == [
        (ReachKind.shell, 5),
        (ReachKind.installation, 6),
    ]


def test_deeply_nested_code_is_reported() -> None:
    deep = "x = " + "+".join(["a"] * 20_000)
    assert kinds(deep) <= {ReachKind.dynamic_code}


def test_preview_time_is_bounded() -> None:
    assert kinds("!" + "pip " * 50_000) == {ReachKind.shell}
    assert reaches("%time " + "-n 10 " * 20_000 + "x !") == ()
    assert reaches("x" + " " * 100_000 + "!") == ()
    lists = "a = [open]\n" + "a = [*a, a[0], {1: a}]\n" * 300
    assert reaches(lists) == ()
    chain = "q = frame" + "".join(f".with_columns(pl.col('a{n}'))" for n in range(60))
    assert reaches(chain) == ()
    doubling = "a = 'xxxxxxxxxx'\n" + "a = a + a\n" * 200 + "open(a, 'w')"
    assert reaches(doubling) == ()
    nested = (
        "f = abspath if c else realpath\nfrom os.path import *\n" + "str(" * 60 + "'a'" + ")" * 60
    )
    assert reaches(nested) == ()


CELL = st.lists(
    st.sampled_from(
        [
            "!", "%", "%%", "!!", "?", "\\", "'", '"', "'''", '"""', "(", ")", "[", "]", "{", "}",
            "\n", "\r", "\x0b", "\0", "  ", "import os", "os", ".remove", "exec(", "'x'", "=", ",",
            "f'{", "bash", "pip install", "def f():", "lambda", ":", "class A:", "match x:", "é",
            "\ud800", "time", ">>> ", "get_ipython()", ".run_cell_magic", "*", "await", "del ", "a",
        ]
    ),
    max_size=25,
).map("".join)  # fmt: skip


@given(code=st.one_of(st.text(max_size=200), CELL))
def test_any_text_is_previewed(code: str) -> None:
    for reach in reaches(code):
        assert isinstance(reach.kind, ReachKind)
        assert reach.line >= 1
        assert "\n" not in reach.sentence


@given(noise=st.text(max_size=80))
def test_code_inside_strings_is_ignored(noise: str) -> None:
    assert reaches(f"note = {noise!r}\nprint(note)") == ()


# A file that would be run is known by its name.


RUN_LATER = """a.py a.PY conftest.py site/a.pth a.so a.pyd a.ipy a.sh a.bat a.ps1 Makefile
sub/GNUmakefile rules.mk .git/hooks/pre-commit .git/config sub/.envrc .vscode/tasks.json
.github/workflows/ci.yml Dockerfile"""
DATA = "a.pyi a.md makefile.md py start hooks/x config tasks.json x.envrc"


@pytest.mark.parametrize("name", RUN_LATER.split())
def test_executable_file_is_recognized(name: str) -> None:
    assert is_run_later(name)


@pytest.mark.parametrize("name", DATA.split())
def test_data_file_is_not_executable(name: str) -> None:
    assert not is_run_later(name)
