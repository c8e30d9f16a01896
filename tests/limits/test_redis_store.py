"""What is special about breakers that hosts share through Redis: its keys, its clock, its outages.

What holds for every store, this one too, is in ``test_breaker_store``.
"""

import logging
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from parsimony_kernel.core.errors import SessionError
from parsimony_kernel.limits.breaker import (
    KEEP_S,
    PREFIX,
    REDIS_URL,
    RETRY_S,
    Breakers,
    CircuitBreaker,
    CircuitOpenError,
    JournalBreakers,
    RedisBreakers,
    breakers_for,
)
from parsimony_kernel.storage.database import MEMORY
from parsimony_kernel.storage.journal import SqliteJournal
from parsimony_kernel.testing.manual_clock import ManualClock

if TYPE_CHECKING:
    from redis import Redis


def fail(breakers: Breakers, times: int = 5) -> None:
    for _ in range(times):
        breakers.of("m").admit().report("failed")


@pytest.fixture
def shared(redis_socket: Path) -> Breakers:
    return Breakers(shared=RedisBreakers(f"unix://{redis_socket}"))


def test_key_has_prefix_and_expires(shared: Breakers, redis: "Redis") -> None:
    fail(shared)
    assert redis.keys() == [f"{PREFIX}m".encode()]
    assert 0 < redis.pttl(f"{PREFIX}m") <= KEEP_S * 1000


def test_time_is_the_servers(shared: Breakers, redis: "Redis") -> None:
    seconds, _ = redis.time()
    fail(shared)
    with pytest.raises(CircuitOpenError) as caught:
        shared.of("m").admit()
    assert 0 < caught.value.retry_in_s <= 60
    kept = shared.change("m", lambda state, _: (state, state))
    assert 0 <= kept.opened_at - seconds < 60


def test_foreign_key_value_is_one_sentence(redis_socket: Path, redis: "Redis") -> None:
    redis.lpush(f"{PREFIX}m", "x")
    with pytest.raises(SessionError, match="WRONGTYPE"):
        RedisBreakers(f"unix://{redis_socket}").change("m", CircuitBreaker().look)


# -- where the configuration says that the state is kept


class Workspace:
    """A journal, and breakers over it as they are opened for a session."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.journal = SqliteJournal(MEMORY)

    def opened(self, url: str | None) -> Breakers:
        environ = {} if url is None else {REDIS_URL: url}
        return breakers_for(environ, self.journal, self.clock)

    def seen_in_journal(self) -> int:
        store = JournalBreakers(self.journal, self.clock)
        return Breakers(self.clock, store).of("m").failure_count


@pytest.mark.parametrize("url", [None, "", "  "])
def test_journal_is_the_default_store(url: str | None, caplog: pytest.LogCaptureFixture) -> None:
    workspace = Workspace()
    fail(workspace.opened(url), 1)
    assert workspace.seen_in_journal() == 1
    assert caplog.records == []


def test_workspaces_share_state_through_redis(
    shared: Breakers, redis_socket: Path, caplog: pytest.LogCaptureFixture
) -> None:
    here, there = Workspace(), Workspace()
    fail(here.opened(f"unix://{redis_socket}"))
    assert there.opened(f"unix://{redis_socket}").of("m").state == "open"
    assert shared.of("m").failure_count == 5
    assert here.seen_in_journal() == there.seen_in_journal() == 0
    assert caplog.records == []


@pytest.mark.parametrize(
    "address",
    [
        "unix://{}/none",
        "redis://me:hunter2@127.0.0.1:1?retry_on_error=abc",
        "http://me:hunter2@host",
        "redis://me:hunter2@localhost?foo=bar",
        "hunter2",
        "redis://:hunter2/x@host",
        "redis://:[hunter2]@host",
        "no package",
    ],
)
def test_where_no_server_can_be_reached_it_is_said_once_and_a_process_counts_for_itself(
    address: str, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    if address == "no package":
        monkeypatch.setitem(sys.modules, "redis", None)
    workspace = Workspace()
    breakers = workspace.opened(address.format(tmp_path))
    fail(breakers)
    assert (breakers.of("m").state, workspace.seen_in_journal()) == ("open", 0)
    (said,) = caplog.records
    assert said.levelno == logging.WARNING
    assert f"set {REDIS_URL} to an address like redis://host:6379/0" in said.getMessage()
    assert said.getMessage().endswith("Until then every process counts for itself.")
    assert "hunter2" not in caplog.text


def test_hanging_server_costs_one_timeout_then_rests(
    shared: Breakers,
    redis_socket: Path,
    hung_redis: Path,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    workspace = Workspace()
    place = tmp_path / "s"
    place.symlink_to(hung_redis)
    breakers = workspace.opened(f"unix://{place}")
    fail(breakers, 1)
    # From here on the address leads to a server that answers.
    place.unlink()
    place.symlink_to(redis_socket)
    fail(breakers, 1)
    assert breakers.of("m").failure_count == 2
    workspace.clock.advance(RETRY_S)
    fail(breakers, 1)
    assert shared.of("m").failure_count == 1
    assert len(caplog.records) == 1


@pytest.mark.parametrize("failures_meanwhile", [0, 1], ids=["at once", "after a while"])
def test_restarted_server_continues_from_its_state(
    failures_meanwhile: int, own_redis: Any, caplog: pytest.LogCaptureFixture
) -> None:
    here, there = Workspace(), Workspace()
    with own_redis() as (socket, _):
        breakers = here.opened(f"unix://{socket}")
        fail(breakers, 4)
    fail(breakers, failures_meanwhile)
    here.clock.advance(RETRY_S)
    with own_redis() as (socket, _):
        fail(breakers, 1)
        assert there.opened(f"unix://{socket}").of("m").state == "open"
    assert len(caplog.records) == failures_meanwhile
