"""Whatever the package writes goes through ``durable``: nothing else opens, moves or removes files.

Code of the user's and of the model's is theirs: what cells write is not written by the package.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[2]
_SEAM = "parsimony_kernel/storage/durable.py"

# Where a file is written otherwise, and why that is right.
EXCEPTIONS: dict[tuple[str, str], str] = {
    ("parsimony_kernel/storage/database.py", "sqlite3.connect"): "SQLite writes its own file",
    ("parsimony_kernel/storage/database.py", "TemporaryDirectory"): "a draft that durable places",
    ("parsimony_kernel/kernel/install.py", "tempfile.TemporaryDirectory"): "Jupyter copies it",
    ("parsimony_kernel/kernel/install.py", "write_text"): "a draft that Jupyter copies",
    ("parsimony_kernel/kernel/install.py", "shutil.copyfile"): "a draft that Jupyter copies",
    ("parsimony_kernel/cli/demo.py", "mkdir"): "the folder of what a demonstration shows",
    (
        "parsimony_kernel/cli/main.py",
        "os.open",
    ): "nowhere: standard output that nobody reads",
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
    ("parsimony_kernel/toolbox/mcp_client.py", "tempfile.TemporaryFile"): "a server's last words",
    ("parsimony_kernel/execution/factory.py", "savefig"): "into memory",
    ("parsimony_kernel/execution/frames.py", "rename"): "the index of a frame",
    ("parsimony_kernel/execution/remote_values.py", "write_table"): "into memory",
    ("parsimony_kernel/execution/workers.py", "tempfile.mkstemp"): "what workers were refused",
    ("parsimony_kernel/execution/workers.py", "os.open"): "in that file",
    ("parsimony_kernel/execution/workers.py", "unlink"): "that file",
}

_OF_MODULES = {
    "os": {
        *("open", "rename", "renames", "replace", "unlink", "remove", "link", "symlink", "mkdir"),
        *("makedirs", "rmdir", "removedirs", "truncate", "mkfifo", "mknod", "chmod", "chown"),
    },
    "shutil": {
        *("copy", "copy2", "copyfile", "copytree", "copymode", "move", "rmtree", "chown"),
        *("make_archive", "unpack_archive"),
    },
    "tempfile": {
        *("TemporaryDirectory", "NamedTemporaryFile", "mkstemp", "mkdtemp", "SpooledTemporaryFile"),
        "TemporaryFile",
    },
    "sqlite3": {"connect"},
    "nbformat": {"write"},
    "json": {"dump"},
    "pickle": {"dump"},
    "io": {"open", "FileIO"},
    "codecs": {"open"},
}
_OF_ANYTHING = {
    *("write_text", "write_bytes", "unlink", "rmdir", "touch", "mkdir", "symlink_to", "chmod"),
    *("hardlink_to", "rename", "savefig", "write_table", "extractall", "to_parquet", "to_pickle"),
    *("to_feather", "to_hdf", "to_excel", "tofile", "savez", "TemporaryDirectory"),
    *("NamedTemporaryFile", "mkstemp", "mkdtemp"),
}
# What of the same name is no file: a column that is renamed, a folder that ``durable`` makes.
_OTHERS = {"rename": "columns"}


def _writes(source: str) -> Iterator[str]:
    """The calls of a module that write, move or remove files."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call):
            continue
        owner, name = "", ""
        if isinstance(node.func, ast.Attribute):
            owner = node.func.value.id if isinstance(node.func.value, ast.Name) else "…"
            name = node.func.attr
        elif isinstance(node.func, ast.Name):
            name = node.func.id
        if owner == "durable":
            continue
        if name in _OF_MODULES.get(owner, ()):
            yield f"{owner}.{name}"
        elif name in _OF_ANYTHING:
            if not any(keyword.arg == _OTHERS.get(name) for keyword in node.keywords):
                yield name
        elif name == "replace" and owner and len(node.args) == 1 and not node.keywords:
            yield "replace"  # of a path: a text's takes two
        elif name == "open" and _may_write(node, is_method=bool(owner)):
            yield "open"


def _may_write(call: ast.Call, *, is_method: bool) -> bool:
    """Whether the mode is one of writing, or not to be seen here."""
    given = [keyword.value for keyword in call.keywords if keyword.arg == "mode"]
    mode = [*call.args[0 if is_method else 1 :][:1], *given]
    if not mode:
        return False
    first = mode[-1]
    if isinstance(first, ast.Constant) and isinstance(first.value, str):
        return bool(set(first.value) & set("wax+")) and set(first.value) <= set("rwaxbt+U")
    return not is_method  # an ``open`` of another kind takes what it likes


@pytest.mark.parametrize(
    ("calls", "write"),
    [
        ("open(path, 'w') open(path, mode) path.open('ab') path.write_text(text)", True),
        ("temporary.replace(path) (folder / name).replace(path) os.replace(a, b)", True),
        ("shutil.rmtree(folder) frame.to_parquet(path) path.rename(other)", True),
        ("open(path) path.open('rb') text.replace('a', 'b') now.replace(tzinfo=UTC)", False),
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
