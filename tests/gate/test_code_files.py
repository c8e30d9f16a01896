"""A file that would be run is known by its name or its first line, and by when it was changed."""

import os
import time
from pathlib import Path

import pytest

from parsimony_kernel.core.reach import runner_of
from parsimony_kernel.gate.code_files import CodeFiles, module_text

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
        return CodeFiles(folder, folder).written({"path": path, "content": content})

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
        of = CodeFiles(tmp_path, tmp_path)
        told = of.edited({"path": "a.py", "old": "run", "new": "os.system"})
        assert told[1:] == ("Line 2 starts another program: make all.",)
        assert of.edited({"path": "none.txt", "old": "a", "new": "b"}) == ()


class TestModules:
    def test_a_module_is_found_by_its_name_in_each_folder(self, tmp_path: Path) -> None:
        (tmp_path / "p" / "q").mkdir(parents=True)
        for name in ("a.py", "p/__init__.py", "p/b.py", "p/q/__init__.py"):
            (tmp_path / name).write_text(name)
        folders = (tmp_path / "none", tmp_path)
        found = {name: module_text(name, folders, 0) for name in ("a", "p", "p.b", "p.q", "p.c")}
        assert found == {
            "a": "a.py",
            "p": "p/__init__.py",
            "p.b": "p/b.py",
            "p.q": "p/q/__init__.py",
            "p.c": None,
        }

    def test_one_that_is_older_is_not_read(self, tmp_path: Path) -> None:
        (tmp_path / "a.py").write_text("x")
        now = time.time()
        assert module_text("a", (tmp_path,), now) == "x"
        assert module_text("a", (tmp_path,), now + 60) is None

    def test_one_that_was_dated_back_is_read(self, tmp_path: Path) -> None:
        (tmp_path / "a.py").write_text("x")
        os.utime(tmp_path / "a.py", (0, 0))
        assert module_text("a", (tmp_path,), time.time()) == "x"

    @pytest.mark.parametrize("name", ["", ".", "..", "a\0", "a/b", "x" * 5000])
    def test_any_name_has_an_answer(self, tmp_path: Path, name: str) -> None:
        assert module_text(name, (tmp_path,), 0) is None
