"""What a turn is told to share: ``--share``, ``--context``, ``--no-context``, and the settings."""

import re
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fake_session import FakeSession
from hypothesis import given
from hypothesis import strategies as st

from parsimony_agent.arguments import CellRequest
from parsimony_agent.extension import install, uninstall
from parsimony_agent.options import check_context, options_of
from parsimony_agent.overview import literal
from parsimony_agent.pending import Misuse
from parsimony_agent.settings import ParsimonyAgent
from parsimony_kernel.artifacts.store import LogEntry
from parsimony_kernel.core.events import RunCompleted
from parsimony_kernel.session.share import Share
from parsimony_kernel.session.turns import TurnOptions
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


def test_a_cell_shares_samples_of_everything_until_it_says_otherwise(
    shell: Any, session: FakeSession
) -> None:
    usual = asked(shell, session, "%%agent")
    assert (usual.share, usual.context) == (Share.samples, None)
    said = asked(shell, session, "%%agent --share schema --context rates,data/rain.csv")
    assert (said.share, said.context) == (Share.schema, ("rates", "data/rain.csv"))
    assert asked(shell, session, "%%agent --no-context").context == ()


def test_a_preview_honours_flags_and_settings_as_the_turn_does(
    shell: Any, session: FakeSession
) -> None:
    assert shell.run_cell("%config ParsimonyAgent.share = 'schema'").success
    for line in ("%agent context look", "%%agent --dry-run\nlook"):
        assert previewed(shell, session, line).share is Share.schema
    for line in (
        "%agent context --share full --context prices look",
        "%%agent --dry-run --share full --context prices\nlook",
    ):
        said = previewed(shell, session, line)
        assert (said.share, said.context) == (Share.full, ("prices",))
    assert previewed(shell, session, "%agent context --no-context").context == ()


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("%agent context --context", "look"),
        ("%%agent --dry-run --context", "\nlook"),
        ("%%agent --context", "\nlook"),
    ],
)
def test_a_name_that_is_not_there_gets_the_nearest_and_a_list_and_nothing_runs(
    shell: Any, session: FakeSession, capsys: pytest.CaptureFixture[str], line: str, words: str
) -> None:
    assert not shell.run_cell(f"{line} prices,ratse {words}").success
    said = " ".join(capsys.readouterr().out.split())
    magic = line.partition(" --")[0]
    assert (
        f"UsageError: {magic} --context got 'ratse', which is no variable, data file or title "
        "here. Did you mean 'rates'? There are: prices, rates, data/rain.csv, Monthly mean, "
        "Overview."
    ) in said
    assert (session.requests, session.previews) == ([], [])


def checked(session: FakeSession, *names: str) -> None:
    options = options_of(
        CellRequest("look", {"context": names or None}), ParsimonyAgent(environ={})
    )
    check_context(options, session, SimpleNamespace(user_ns={}), "%%agent")


def test_where_nothing_is_named_nothing_is_looked_up() -> None:
    session = FakeSession()
    session.trouble = AssertionError("asked for what is published")
    checked(session)


def test_a_long_list_of_names_is_cut_and_an_empty_one_said(session: FakeSession) -> None:
    session.variables = {f"name{number}": number for number in range(40)}
    with pytest.raises(Misuse, match=r"name19 and 23 more\.$"):
        checked(session, "other")
    session.variables, session.published = {}, ()
    Path("data", "rain.csv").unlink()
    with pytest.raises(Misuse, match=r"There is none yet\.$"):
        checked(session, "other")


def test_naming_what_is_told_to_a_model_that_is_told_nothing_is_refused() -> None:
    settings = ParsimonyAgent(environ={"PARSIMONY_SHARE": "none"})
    with pytest.raises(Misuse, match="--share none tells it nothing: use --share schema"):
        options_of(CellRequest("look", {"context": ("prices",)}), settings)
    said = CellRequest("look", {"share": "schema", "context": ("prices",)})
    assert options_of(said, settings).context == ("prices",)


@given(st.text(st.characters(exclude_categories=())))
def test_what_is_shown_to_the_letter_hides_and_reorders_nothing(text: str) -> None:
    shown = literal(text)
    assert plain(shown) == shown
    assert shown.replace("\n", "").isprintable()
    if "\\" not in text:
        assert _ESCAPED.sub(lambda m: m[0].encode().decode("unicode_escape"), shown) == text
