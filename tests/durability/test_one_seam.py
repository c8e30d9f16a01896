"""Whatever the package writes goes through ``durable``: nothing else opens, moves or removes files.

Code of the user's and of the model's is theirs: what cells write is not written by the package.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[2]
_SEAM = "parsimony_kernel/storage/durable.py"

# Where a file is written otherwise, and why that is right.
EXCEPTIONS: dict[tuple[str, str], str] = {
    ("parsimony_kernel/storage/database.py", "sqlite3.connect"): "SQLite writes its own file",
    ("parsimony_kernel/kernel/install.py", "tempfile.TemporaryDirectory"): "Jupyter copies it",
    ("parsimony_kernel/kernel/install.py", "write_text"): "a draft that Jupyter copies",
    ("parsimony_kernel/kernel/install.py", "shutil.copyfile"): "a draft that Jupyter copies",
    ("parsimony_kernel/cli/demo.py", "mkdir"): "the folder of what a demonstration shows",
    ("parsimony_kernel/cli/main.py", "os.open"): "nowhere: standard output that nobody reads",
    (
        "parsimony_kernel/testing/pytest_plugin.py",
        "tempfile.TemporaryDirectory",
    ): "the workspaces of one run of pytest",
    ("parsimony_kernel/testing/pytest_plugin.py", "mkdir"): "in that folder",
    ("parsimony_kernel/testing/pytest_plugin.py", "write_text"): "in that folder",
    ("parsimony_kernel/session/maintenance.py", "TemporaryDirectory"): "where that copy lies",
    ("parsimony_kernel/artifacts/codecs.py", "write_table"): "into memory",
    ("parsimony_kernel/artifacts/codecs.py", "TemporaryDirectory"): "where a library writes",
    ("parsimony_kernel/artifacts/codecs.py", "to_parquet"): "in that folder",
    ("parsimony_kernel/artifacts/codecs.py", "write_bytes"): "in that folder",
    ("parsimony_kernel/toolbox/mcp_client.py", "tempfile.TemporaryFile"): "a server's last words",
    ("parsimony_kernel/execution/factory.py", "savefig"): "into memory",
    ("parsimony_kernel/execution/frames.py", "rename"): "the index of a frame",
    ("parsimony_kernel/execution/side_effects.py", "tempfile.mkstemp"): "what workers were refused",
    ("parsimony_kernel/execution/side_effects.py", "os.open"): "in that file",
    ("parsimony_kernel/execution/side_effects.py", "unlink"): "that file",
}

# What opens for writing, moves or removes; a column that is renamed is no file.
_WRITES = re.compile(
    r"""(?<!\w)(?<!durable\.)(?:
    (?P<call>
        os\.(?:open|fdopen|renames?|replace|unlink|remove|removedirs|rmdir|(?:sym)?link|mkdir
            |makedirs|truncate|mkfifo|mknod|ch(?:mod|own))
        |shutil\.(?:copy\w*|move|rmtree|chown|make_archive|unpack_archive)
        |(?:tempfile\.)?(?:(?:Spooled|Named)?Temporary(?:File|Directory)|mkstemp|mkdtemp)
        |sqlite3\.connect|nbformat\.write|(?:json|pickle)\.dump|io\.(?:open|FileIO)|codecs\.open
        |(?:write_(?:text|bytes|table)|unlink|rmdir|touch|mkdir|(?:sym|hard)link_to|chmod|savefig
            |extractall|to_(?:parquet|pickle|feather|hdf|excel)|tofile|savez|rename(?=\((?!columns)))
    )\(
    |(?<=\.)(?P<replace>replace)\([^,()=]+\)  # of a path: a text's takes two
    |(?P<open>open)\((?:[^()]|\([^()]*\))*?["'][rbt]*[wax+][rwaxbt+]*["']
    |(?<!\.)(?P<unseen>open)\(\w[\w.]*,[ ](?:mode=)?\w+[,)]  # of a mode that isn't seen here
    )""",
    re.VERBOSE,
)


def _writes(source: str) -> Iterator[str]:
    """The calls of a module that write, move or remove files."""
    for found in _WRITES.finditer(source):
        yield next(filter(None, found.groups()))


@pytest.mark.parametrize(
    ("calls", "write"),
    [
        ("open(path, 'w') open(path, mode) path.open('ab') path.write_text(text)", True),
        ("open(at(x), mode='r+b') tempfile.mkstemp() sqlite3.connect(path)", True),
        ("temporary.replace(path) (folder / name).replace(path) os.replace(a, b)", True),
        ("shutil.rmtree(folder) frame.to_parquet(path) path.rename(other)", True),
        ("open(path) path.open('rb') open(path, encoding='ascii') log.read(mode='w')", False),
        ("text.replace('a', 'b') now.replace(tzinfo=UTC)", False),
        ("frame.rename(columns=names) durable.replace(path, data) Keyring.open(None)", False),
    ],
)
def test_writers_are_detected_and_others_are_not(calls: str, write: bool) -> None:
    for call in calls.replace(") ", ")\n").splitlines():
        assert bool(list(_writes(call))) is write, call


def _found() -> set[tuple[str, str]]:
    modules = [
        path
        for folder in ("parsimony_kernel", "extension/parsimony_agent")
        for path in sorted((_ROOT / folder).rglob("*.py"))
    ]
    assert len(modules) > 100
    return {
        (name, call)
        for path in modules
        if (name := path.relative_to(_ROOT).as_posix()) != _SEAM
        for call in _writes(path.read_text(encoding="utf-8"))
    }


def test_only_the_seam_writes_files() -> None:
    strays = _found() - set(EXCEPTIONS)
    assert not strays, (
        f"{sorted(strays)} write past durable.py: use durable.create, replace or append_line "
        "there, or add the call to EXCEPTIONS with its reason"
    )


def test_exceptions_are_current() -> None:
    assert not set(EXCEPTIONS) - _found()
