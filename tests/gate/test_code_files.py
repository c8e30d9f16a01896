"""A file that would be run is known by its name or its first line."""

from pathlib import Path

import pytest

from parsimony_kernel.core.reach import runner_of
from parsimony_kernel.gate.preview import code_written

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


class TestWriting:
    def said(self, folder: Path, path: str, content: str) -> tuple[str, ...]:
        return code_written({"path": path, "content": content}, workspace=folder, folder=folder)

    def test_what_the_text_reaches_is_said_where_it_can_be_read(self, tmp_path: Path) -> None:
        what, place = self.said(tmp_path, "a.py", STARTS)
        assert what == "'a.py' would be code that Python runs."
        assert place == "Line 2 starts another program: make all."
        assert len(self.said(tmp_path, "run", f"#!/usr/bin/env python3\n{STARTS}")) == 2
        assert len(self.said(tmp_path, "run", "#!/bin/sh\nos.system('x')")) == 1

    def test_a_link_to_code_is_code(self, tmp_path: Path) -> None:
        (tmp_path / "notes.txt").symlink_to("a.py")
        assert len(self.said(tmp_path, "notes.txt", STARTS)) == 2

    @pytest.mark.parametrize("path", ["", "a\0.py", "x" * 5000, "notes.txt"])
    def test_any_path_has_an_answer(self, tmp_path: Path, path: str) -> None:
        assert self.said(tmp_path, path, STARTS) == ()

    def test_an_edit_is_of_the_whole_file(self, tmp_path: Path) -> None:
        (tmp_path / "a.py").write_text("import os\nrun('make all')\n")
        told = code_written(
            {"path": "a.py", "old": "run", "new": "os.system"}, workspace=tmp_path, folder=tmp_path
        )
        assert told[1:] == ("Line 2 starts another program: make all.",)
        assert self.said(tmp_path, "none.txt", "b") == ()
