"""What a turn is told to share: ``--share``, and the settings."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fake_session import FakeSession
from hypothesis import given
from hypothesis import strategies as st

from parsimony_agent.extension import install, uninstall
from parsimony_agent.overview import literal
from parsimony_kernel.artifacts.store import LogEntry
from parsimony_kernel.core.events import RunCompleted
from parsimony_kernel.session.share import Share
from parsimony_kernel.session.turn_values import TurnOptions
from parsimony_kernel.view.escape import plain

DONE = RunCompleted(summary="Done.")
_ESCAPED = re.compile(r"\\(?:x[0-9a-f]{2}|u[0-9a-f]{4}|U[0-9a-f]{8}|[tr])")


@pytest.fixture
def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeSession:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("JPY_SESSION_NAME", raising=False)
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "rain.csv").write_text("mm\n1\n")
    session = FakeSession(*[[DONE]] * 4)
    session.variables = {"prices": [1], "rates": [2]}
    session.published = tuple(
        LogEntry(kind="chart", logical_id=title, content_sha="ab", title=title)
        for title in ("Monthly mean", "Overview")
    )
    return session


@pytest.fixture
def shell(shell: Any, session: FakeSession, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    for name in ("PARSIMONY_SHARE", "PARSIMONY_NOTEBOOK_BUDGET"):
        monkeypatch.delenv(name, raising=False)
    install(shell, session_factory=lambda _: session)
    yield shell
    uninstall(shell)
    # What %config sets is set in the shell as well, and outlives the extension there.
    shell.config.pop("ParsimonyAgent", None)


def asked(shell: Any, session: FakeSession, line: str) -> TurnOptions:
    """The options of the turn of a cell."""
    assert shell.run_cell(f"{line}\nlook").success
    return session.requests[-1][2]


def previewed(shell: Any, session: FakeSession, line: str) -> TurnOptions:
    """The options of what is shown and not sent."""
    assert shell.run_cell(line).success
    assert session.requests == []
    return session.previews[-1][1]


def test_cell_shares_samples_by_default(shell: Any, session: FakeSession) -> None:
    assert asked(shell, session, "%%agent").share is Share.samples
    assert asked(shell, session, "%%agent --share schema").share is Share.schema


def test_preview_honours_flags_and_settings(shell: Any, session: FakeSession) -> None:
    assert shell.run_cell("%config ParsimonyAgent.share = 'schema'").success
    for line in ("%agent context look", "%%agent --dry-run\nlook"):
        assert previewed(shell, session, line).share is Share.schema
    for line in (
        "%agent context --share full look",
        "%%agent --dry-run --share full\nlook",
    ):
        assert previewed(shell, session, line).share is Share.full


@given(st.text(st.characters(exclude_categories=())))
def test_verbatim_text_hides_and_reorders_nothing(text: str) -> None:
    shown = literal(text)
    assert plain(shown) == shown
    assert shown.replace("\n", "").isprintable()
    if "\\" not in text:
        assert _ESCAPED.sub(lambda m: m[0].encode().decode("unicode_escape"), shown) == text
