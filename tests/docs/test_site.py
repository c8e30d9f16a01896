"""The documentation builds without a warning, loads nothing from elsewhere, and is the code's."""

import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", folder],
        cwd=ROOT,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert (built.returncode, built.stderr) == (0, "")
    return folder


def pages(site: Path) -> list[Path]:
    return [page for page in site.rglob("*.html") if page.name != "404.html"]


def test_every_source_page_is_built(site: Path) -> None:
    sources = list((ROOT / "docs").rglob("*.md"))
    assert len(pages(site)) == len(sources) > 5


def test_no_page_loads_remote_resources(site: Path) -> None:
    loading = re.compile(
        r"<(?:script|img|iframe|source)[^>]*\ssrc=[\"']?(https?:)?//"
        r"|<link[^>]*\shref=[\"']?(https?:)?//(?![^>]*rel=[\"']?canonical)"
        r"|@import\s|url\([\"']?https?:",
        re.IGNORECASE,
    )
    for page in [*pages(site), *site.rglob("*.css")]:
        assert not loading.search(page.read_text(encoding="utf-8")), page.name


def test_generated_tables_are_current(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    generate = runpy.run_path(str(ROOT / "docs" / "generate.py"))
    assert (generate["main"](["--check"]), capsys.readouterr().out) == (0, "")


def test_no_page_names_a_machine_path() -> None:
    for page in (ROOT / "docs").rglob("*.md"):
        assert not re.search(r"/(?:home|root|work|Users)/", page.read_text()), page.name
