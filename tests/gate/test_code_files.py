"""A file that would be run is known by its name."""

import pytest

from parsimony_kernel.core.reach import is_run_later


@pytest.mark.parametrize(
    "name",
    [
        "a.py",
        "a.PY",
        "conftest.py",
        "site/a.pth",
        "a.so",
        "a.pyd",
        "a.ipy",
        "a.sh",
        "a.bat",
        "a.ps1",
        "Makefile",
        "sub/GNUmakefile",
        "rules.mk",
        ".git/hooks/pre-commit",
        ".git/config",
        "sub/.envrc",
        ".vscode/tasks.json",
        ".github/workflows/ci.yml",
        "Dockerfile",
    ],
)
def test_executable_file_is_recognized(name: str) -> None:
    assert is_run_later(name)


@pytest.mark.parametrize(
    "name",
    ["a.pyi", "a.md", "makefile.md", "py", "start", "hooks/x", "config", "tasks.json", "x.envrc"],
)
def test_data_file_is_not_executable(name: str) -> None:
    assert not is_run_later(name)
