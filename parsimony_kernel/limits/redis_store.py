"""Breaker state in Redis, for processes on several hosts, and the choice of a notebook's store.

Time is the server's, so that hosts agree on it. A change is an optimistic transaction under
``WATCH``: of two that collide one is committed and the other retried. Keys expire.
"""

import logging
import math
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any

from parsimony_kernel.core.clock import SYSTEM_CLOCK, Clock
from parsimony_kernel.limits.breaker import (
    Breakers,
    BreakerStore,
    Rule,
    Shared,
    SharedOrOwn,
    StoreError,
    T,
    parse,
)

if TYPE_CHECKING:
    from redis import Redis
    from redis.client import Pipeline

REDIS_URL = "PARSIMONY_REDIS_URL"
PREFIX = "parsimony:breaker:"
# Expiry of an unchanged state, in seconds. Longer than any wait or lease.
KEEP_S = 86_400.0
# Seconds to wait for a hanging server before falling back to this process's own state.
TIMEOUT_S = 0.25
# Back-off for an unreachable server in seconds: each attempt may cost a time-out.
RETRY_S = 30.0

_log = logging.getLogger(__name__)


@dataclass(eq=False)
class RedisBreakers:
    """A ``BreakerStore`` on a Redis server.

    Args:
        client: a ``redis`` client with short time-outs; see ``connect``.
        clock: a clock whose wall time replaces the server's.
    """

    client: "Redis"
    _: KW_ONLY
    clock: Clock | None = None

    def change(self, name: str, rule: Rule[T]) -> T:
        key = (PREFIX + name).encode("utf-8", "replace")

        def step(pipe: "Pipeline") -> T:
            before = parse(name, pipe.get(key))
            after, answer = rule(before, self._now(pipe))
            if after == before:
                pipe.unwatch()
                return answer
            pipe.multi()
            if after == Shared():
                pipe.delete(key)
            else:
                pipe.set(key, after.model_dump_json(), px=math.ceil(KEEP_S * 1000))
            return answer

        try:
            transaction: Any = self.client.transaction  # redis declares no return value
            answer: T = transaction(step, key, value_from_callable=True)
        except Exception as exc:  # settings of an address may break the client anywhere
            raise StoreError(
                f"The breakers' state in Redis cannot be reached ({exc}): check that the server "
                "runs and may be written to."
            ) from exc
        return answer

    def _now(self, pipe: "Pipeline") -> float:
        if self.clock is not None:
            return self.clock.now().timestamp()
        seconds, microseconds = pipe.time()
        return float(seconds) + float(microseconds) / 1e6


def connect(url: str) -> RedisBreakers:
    """Create a store on a Redis server without contacting the server yet.

    Args:
        url: an address such as ``redis://host:6379/0``.

    Raises:
        StoreError: ``url`` isn't a server address or sets unknown connection options, or the
            package ``redis`` is missing.
    """
    try:
        from redis import Redis
        from redis.backoff import NoBackoff
        from redis.retry import Retry
    except ImportError as exc:
        raise StoreError(
            "Sharing breakers through Redis needs the package redis: install "
            "'parsimony-kernel[remote]'."
        ) from exc
    once = Retry(NoBackoff(), 0)
    try:
        client = Redis.from_url(
            url, socket_timeout=TIMEOUT_S, socket_connect_timeout=TIMEOUT_S, retry=once
        )
        pool = client.connection_pool
        pool.connection_class(**pool.connection_kwargs)
    except Exception as exc:  # an address may set any argument of the client to anything
        raise StoreError(
            "The address of the Redis server is not understood: write it like "
            "redis://host:6379/0, rediss://host:6379/0 or unix:///path/to/socket, and behind a "
            "'?' nothing but what redis-py takes."
        ) from exc
    return RedisBreakers(client)


def breakers_for(
    environ: Mapping[str, str], journal_store: BreakerStore, clock: Clock = SYSTEM_CLOCK
) -> Breakers:
    """Create the breakers of a workspace; an unusable Redis address is only logged.

    Args:
        environ: may name a shared Redis server in ``PARSIMONY_REDIS_URL``.
        journal_store: the store without a Redis server.
        clock: the time of this process's own state, the fallback for an unreachable store.
    """
    store = SharedOrOwn(journal_store, clock)
    if url := environ.get(REDIS_URL, "").strip():
        try:
            store = SharedOrOwn(connect(url), clock, retry_s=RETRY_S)
        except StoreError as exc:
            _log.warning("%s cannot be used. %s The workspace's journal serves.", REDIS_URL, exc)
    return Breakers(clock, store)
