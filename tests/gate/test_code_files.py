"""A file that would be run is known by its name or its first line."""

import pytest

from parsimony_kernel.core.reach import runner_of

STARTS = "import os\nos.system('make all')"


@pytest.mark.parametrize(
    ("name", "text", "who"),
    [
        ("a.py", "", "Python"),
        ("a.PY", "", "Python"),
        ("conftest.py", "", "Python"),
        ("site/a.pth", "import a", "Python"),
        ("a.so", "", "Python"),
        ("a.pyd", "", "Python"),
        ("a.ipy", "", "Python"),
        ("a.sh", "", "a shell"),
        ("a.bat", "", "a shell"),
        ("a.ps1", "", "a shell"),
        ("Makefile", "", "make"),
        ("sub/GNUmakefile", "", "make"),
        ("rules.mk", "", "make"),
        ("start", "#!/bin/sh\n", "the system"),
        ("start", "\ufeff#!/bin/sh\n", "the system"),
        ("a.pyi", "", ""),
        ("a.md", "## Title\n#!/bin/sh", ""),
        ("makefile.md", "", ""),
        ("py", "x", ""),
    ],
)
def test_who_would_run_a_file(name: str, text: str, who: str) -> None:
    assert runner_of(name, text) == who
