"""What is special about breakers that hosts share through Redis: its keys, its clock, its outages.

What holds for every store, this one too, is in ``test_breaker_store``.
"""

import json
import logging
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from parsimony_kernel.limits.breaker import (
    Breakers,
    BreakerStore,
    CircuitBreaker,
    CircuitOpenError,
    StoreError,
)
from parsimony_kernel.limits.redis_store import (
    KEEP_S,
    PREFIX,
    REDIS_URL,
    RETRY_S,
    RedisBreakers,
    breakers_for,
    connect,
)
from parsimony_kernel.storage.database import MEMORY
from parsimony_kernel.storage.journal import JournalBreakers, SqliteJournal
from parsimony_kernel.testing.manual_clock import ManualClock

if TYPE_CHECKING:
    from redis import Redis


def breaker(store: BreakerStore) -> CircuitBreaker:
    return CircuitBreaker(store=store, name="m")


def fail(store: BreakerStore) -> None:
    for _ in range(5):
        breaker(store).admit().failed()


def test_key_has_prefix_and_expires(redis: "Redis") -> None:
    fail(RedisBreakers(redis))
    assert redis.keys() == [f"{PREFIX}m".encode()]
    assert 0 < redis.pttl(f"{PREFIX}m") <= KEEP_S * 1000


def test_healthy_breaker_stores_nothing(redis: "Redis") -> None:
    guard = breaker(RedisBreakers(redis))
    guard.admit().failed()
    guard.admit().succeeded()
    assert redis.keys() == []


def test_server_clock_set_back_extends_no_wait(redis: "Redis") -> None:
    seconds, _ = redis.time()
    ahead = datetime.fromtimestamp(seconds, UTC) + timedelta(days=1)
    fail(RedisBreakers(redis, clock=ManualClock(ahead)))
    with pytest.raises(CircuitOpenError) as caught:
        breaker(RedisBreakers(redis)).admit()
    assert 0 < caught.value.retry_in_s <= 60
    kept = json.loads(redis.get(f"{PREFIX}m") or "{}")
    assert kept["opened_at"] < ahead.timestamp()


def test_foreign_key_value_is_one_sentence(redis: "Redis") -> None:
    redis.lpush(f"{PREFIX}m", "x")
    with pytest.raises(StoreError, match="WRONGTYPE"):
        breaker(RedisBreakers(redis)).admit()


@pytest.mark.parametrize(
    "url",
    [
        "",
        "localhost:6379",
        "http://localhost",
        "redis://me:hunter2@localhost?foo=bar",
        "redis://localhost?protocol=x",
    ],
)
def test_invalid_address_is_one_sentence(url: str) -> None:
    with pytest.raises(StoreError, match="redis://host:6379/0"):
        connect(url)


# -- where the configuration says that the state is kept


class Workspace:
    """A journal, and breakers over it as they are opened for a session."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.store = JournalBreakers(SqliteJournal(MEMORY), self.clock)

    def opened(self, url: str | None) -> Breakers:
        environ = {} if url is None else {REDIS_URL: url}
        return breakers_for(environ, self.store, self.clock)

    def seen_in_journal(self) -> int:
        return Breakers(self.clock, self.store).of("m").failure_count


def fail_of(breakers: Breakers, times: int = 1) -> None:
    for _ in range(times):
        breakers.of("m").admit().failed()


@pytest.mark.parametrize("url", [None, "", "  "])
def test_journal_is_the_default_store(url: str | None, caplog: pytest.LogCaptureFixture) -> None:
    workspace = Workspace()
    fail_of(workspace.opened(url))
    assert workspace.seen_in_journal() == 1
    assert caplog.records == []


def test_workspaces_share_state_through_redis(
    redis: "Redis", redis_socket: Path, caplog: pytest.LogCaptureFixture
) -> None:
    here, there = Workspace(), Workspace()
    fail_of(here.opened(f"unix://{redis_socket}"), 5)
    assert there.opened(f"unix://{redis_socket}").of("m").state == "open"
    assert Breakers(store=RedisBreakers(redis)).of("m").failure_count == 5
    assert here.seen_in_journal() == there.seen_in_journal() == 0
    assert caplog.records == []


@pytest.mark.parametrize("address", ["unix://{}/none", "redis://127.0.0.1:1?retry_on_error=abc"])
def test_where_no_server_can_be_reached_it_is_said_once_and_a_process_counts_for_itself(
    address: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    workspace = Workspace()
    breakers = workspace.opened(address.format(tmp_path))
    fail_of(breakers, 5)
    assert (breakers.of("m").state, workspace.seen_in_journal()) == ("open", 0)
    (said,) = caplog.records
    assert said.levelno == logging.WARNING
    assert said.getMessage().endswith("Until then every process counts for itself.")


def test_address_password_is_in_no_warning(caplog: pytest.LogCaptureFixture) -> None:
    for url in ("redis://me:hunter2@127.0.0.1:1/0", "http://me:hunter2@host", "hunter2"):
        fail_of(Workspace().opened(url))
    assert len(caplog.records) == 3
    assert "hunter2" not in caplog.text


def test_hanging_server_costs_one_timeout_then_rests(
    redis: "Redis",
    redis_socket: Path,
    hung_redis: Path,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    workspace = Workspace()
    place = tmp_path / "s"
    place.symlink_to(hung_redis)
    breakers = workspace.opened(f"unix://{place}")
    fail_of(breakers)
    # From here on the address leads to a server that answers.
    place.unlink()
    place.symlink_to(redis_socket)
    fail_of(breakers)
    assert breakers.of("m").failure_count == 2
    workspace.clock.advance(RETRY_S)
    fail_of(breakers)
    assert Breakers(store=RedisBreakers(redis)).of("m").failure_count == 1
    assert len(caplog.records) == 1


@pytest.mark.parametrize("failures_meanwhile", [0, 1], ids=["at once", "after a while"])
def test_restarted_server_continues_from_its_state(
    failures_meanwhile: int, own_redis: Any, caplog: pytest.LogCaptureFixture
) -> None:
    here, there = Workspace(), Workspace()
    with own_redis() as (socket, _):
        breakers = here.opened(f"unix://{socket}")
        fail_of(breakers, 4)
    fail_of(breakers, failures_meanwhile)
    here.clock.advance(RETRY_S)
    with own_redis() as (socket, _):
        fail_of(breakers)
        assert there.opened(f"unix://{socket}").of("m").state == "open"
    assert len(caplog.records) == failures_meanwhile


@pytest.mark.parametrize(
    ("url", "remedy"),
    [
        ("localhost:6379", "redis://host:6379/0"),
        ("redis://localhost", "parsimony-kernel[remote]"),
        ("redis://u:p@localhost?foo=bar", "redis://host:6379/0"),
    ],
)
def test_unusable_server_names_remedy_once(
    url: str, remedy: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    if "[remote]" in remedy:
        monkeypatch.setitem(sys.modules, "redis", None)
    workspace = Workspace()
    fail_of(workspace.opened(url), 2)
    assert workspace.seen_in_journal() == 2
    (said,) = caplog.records
    assert said.getMessage().startswith(f"{REDIS_URL} cannot be used. ")
    assert remedy in said.getMessage()
