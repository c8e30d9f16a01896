"""A file that would be run is known by its name or its first line."""

from pathlib import Path

import pytest

from parsimony_kernel.core.reach import runner_of
from parsimony_kernel.gate.preview import code_written


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
        return code_written({"path": path, "content": content}, folder=folder)

    def test_who_would_run_the_file_is_said(self, tmp_path: Path) -> None:
        assert self.said(tmp_path, "a.py", "") == ("'a.py' would be code that Python runs.",)
        assert self.said(tmp_path, "run", "#!/bin/sh\n") != ()
        assert self.said(tmp_path, "run", "x") == ()

    def test_a_link_to_code_is_code(self, tmp_path: Path) -> None:
        (tmp_path / "notes.txt").symlink_to("a.py")
        assert self.said(tmp_path, "notes.txt", "") != ()

    @pytest.mark.parametrize("path", ["", "a\0.py", "x" * 5000, "notes.txt"])
    def test_any_path_has_an_answer(self, tmp_path: Path, path: str) -> None:
        assert self.said(tmp_path, path, "import os") == ()

    def test_an_edit_is_of_the_whole_file(self, tmp_path: Path) -> None:
        (tmp_path / "start").write_text("#!/bin/sh\nmake\n")
        told = code_written({"path": "start", "old": "make", "new": "true"}, folder=tmp_path)
        assert told == ("'start' would be code that the system runs.",)
