"""What the pages tell to type can be typed."""

import ast
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from parsimony_agent.arguments import parse_cell, parse_command
from parsimony_kernel.cli import main as cli

DOCS = Path(__file__).parents[2] / "docs"
FENCE = re.compile(
    r"^(?P<indent> *)```(?P<language>\w*)[^\n]*\n(?P<text>.*?)^(?P=indent)```", re.M | re.S
)
# The command line's reference is its own help, whose examples stand beside what they do.
PAGES = sorted(set(DOCS.rglob("*.md")) - {DOCS / "reference" / "command-line.md"})


def fences(language: str | None = None) -> Iterator[tuple[str, str]]:
    """The page and the text of each code fence."""
    for page in PAGES:
        for found in FENCE.finditer(page.read_text(encoding="utf-8")):
            if language in (None, found["language"]):
                yield str(page.relative_to(DOCS)), found["text"]


def lines(beginning: str) -> list[tuple[str, str]]:
    """The page and the rest of each line of a fence that begins so."""
    return sorted(
        {
            (page, line.strip().removeprefix(beginning).strip())
            for page, text in fences()
            for line in text.splitlines()
            if re.match(rf"{re.escape(beginning)}(?:\s|$)", line.strip())
        }
    )


@pytest.mark.parametrize(("page", "typed"), lines("%agent"))
def test_every_line_magic_is_a_command(page: str, typed: str) -> None:
    assert parse_command(typed), page


@pytest.mark.parametrize(("page", "typed"), lines("%%agent"))
def test_every_agent_flag_is_known(page: str, typed: str) -> None:
    assert parse_cell(typed, "a request").text == "a request", page


# In the README they stand within sentences, too.
IN_WORDS = re.compile(r"jupyter parsimony ([a-z][^`#\n]*?) *(?=[`#\n])")
README = (DOCS.parent / "README.md").read_text()
OF_README = sorted({("README.md", typed) for typed in IN_WORDS.findall(README)})


@pytest.mark.parametrize(("page", "typed"), lines("jupyter parsimony") + OF_README)
def test_every_command_line_parses(page: str, typed: str) -> None:
    words = shlex.split(typed, comments=True)
    assert callable(cli.parser().parse_args(words).run), page


@pytest.mark.parametrize(("page", "code"), list(fences("python")))
def test_every_python_example_compiles(page: str, code: str) -> None:
    compile(code, page, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)


def test_examples_of_each_kind_exist() -> None:
    sorts = ("%agent", "%%agent", "jupyter parsimony")
    assert all(lines(sort) for sort in sorts)
    assert list(fences("python"))
