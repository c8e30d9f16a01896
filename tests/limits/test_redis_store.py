"""What is special about breakers that hosts share through Redis: its keys, its clock, its outages.

What holds for every store, this one too, is in ``test_breaker_store``.
"""

import json
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from parsimony_kernel.limits.breaker import CircuitBreaker, CircuitOpenError
from parsimony_kernel.limits.breaker_store import BreakerStore, Shared, StoreError
from parsimony_kernel.limits.redis_store import PREFIX, RedisBreakers, connect
from parsimony_kernel.testing.clock import ManualClock

if TYPE_CHECKING:
    from redis import Redis


def breaker(store: BreakerStore) -> CircuitBreaker:
    return CircuitBreaker(store=store, name="m")


def fail(store: BreakerStore) -> None:
    for _ in range(5):
        breaker(store).admit().failed()


def test_what_is_written_has_the_prefix_and_goes_by_itself(redis: "Redis") -> None:
    fail(RedisBreakers(redis, keep_s=1000))
    assert redis.keys() == [f"{PREFIX}m".encode()]
    assert 0 < redis.pttl(f"{PREFIX}m") <= 1_000_000


def test_a_breaker_that_was_never_in_trouble_leaves_nothing(redis: "Redis") -> None:
    guard = breaker(RedisBreakers(redis))
    guard.admit().failed()
    guard.admit().succeeded()
    assert redis.keys() == []


def test_two_prefixes_do_not_share(redis: "Redis") -> None:
    fail(RedisBreakers(redis, prefix="a:"))
    assert breaker(RedisBreakers(redis, prefix="b:")).state == "closed"


def test_a_server_whose_clock_was_set_back_makes_nobody_wait_longer(redis: "Redis") -> None:
    seconds, _ = redis.time()
    ahead = datetime.fromtimestamp(seconds, UTC) + timedelta(days=1)
    fail(RedisBreakers(redis, clock=ManualClock(ahead)))
    with pytest.raises(CircuitOpenError) as caught:
        breaker(RedisBreakers(redis)).admit()
    assert 0 < caught.value.retry_in_s <= 60
    kept = json.loads(redis.get(f"{PREFIX}m") or "{}")
    assert kept["opened_at"] < ahead.timestamp()


def test_an_address_leads_to_the_state_on_its_server(redis: "Redis", redis_socket: Path) -> None:
    breaker(RedisBreakers(redis)).admit().failed()
    assert breaker(connect(f"unix://{redis_socket}")).failure_count == 1


def test_a_server_that_is_not_there_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"check that the server runs"):
        breaker(connect(f"unix://{tmp_path}/none")).admit()


def test_a_server_that_hangs_is_given_up(hung_redis: Path) -> None:
    with pytest.raises(StoreError, match="cannot be reached"):
        breaker(connect(f"unix://{hung_redis}")).admit()


def test_a_key_that_is_something_else_is_a_sentence(redis: "Redis") -> None:
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
def test_an_address_that_is_none_is_a_sentence(url: str) -> None:
    with pytest.raises(StoreError, match="redis://host:6379/0"):
        connect(url)


def test_a_setting_that_breaks_the_client_in_use_is_a_sentence() -> None:
    with pytest.raises(StoreError, match="cannot be reached"):
        breaker(connect("redis://127.0.0.1:1?retry_on_error=abc")).admit()


def test_what_a_rule_raises_is_not_the_server_s_fault(redis: "Redis") -> None:
    def broken(shared: Shared, now: float) -> tuple[Shared, None]:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        RedisBreakers(redis).change("m", broken)


def test_without_the_package_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "redis", None)
    with pytest.raises(StoreError, match=r"parsimony-kernel\[remote\]"):
        connect("redis://localhost:6379/0")
