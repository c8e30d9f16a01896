"""The README tells the truth where a test can know it."""

import re
from pathlib import Path

import pytest

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


def test_readme_is_short() -> None:
    assert len(README.encode()) <= 9_000
