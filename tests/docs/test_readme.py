"""The README tells the truth where a test can know it."""

import re
import shlex
from pathlib import Path

import pytest

from parsimony_kernel.cli import main as cli

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()


@pytest.mark.parametrize(
    "target", sorted(set(re.findall(r"(?:^|`)make ([a-z-]+)(?:`|  )", README, re.M)))
)
def test_every_make_target_exists(target: str) -> None:
    assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.M)


@pytest.mark.parametrize(
    "target", sorted(set(re.findall(r"\[[^\]]*\]\((?!https?:)([^)#]+)\)", README)))
)
def test_pictures_and_local_links_resolve(target: str) -> None:
    assert (ROOT / target).is_file()


@pytest.mark.parametrize(
    "typed", sorted(set(re.findall(r"jupyter parsimony ([a-z][^`#\n]*?) *(?=[`#\n])", README)))
)
def test_every_command_line_parses(typed: str) -> None:
    assert callable(cli.parser().parse_args(shlex.split(typed)).run)


def test_readme_is_short() -> None:
    assert len(README.encode()) <= 9_000
