"""The state of breakers in Redis, for processes on several hosts.

Time is the server's, so that no two hosts disagree about it. A change is made under ``WATCH``:
of two that collide one is made and the other looks again. Keys go by themselves.
"""

import math
from typing import TYPE_CHECKING, Any

from parsimony_kernel.core.clock import Clock
from parsimony_kernel.limits.breaker_store import Rule, Shared, StoreError, T, parse

if TYPE_CHECKING:
    from redis import Redis
    from redis.client import Pipeline

PREFIX = "parsimony:breaker:"
# A state that nobody has touched for so long is forgotten. Longer than any wait or lease.
KEEP_S = 86_400.0
# What a run may lose to a server that hangs, before its own state serves.
TIMEOUT_S = 0.25


class RedisBreakers:
    """A ``BreakerStore`` over a Redis server.

    Args:
        client: of ``redis``, with short time-outs; see ``connect``.
        prefix: what the keys begin with.
        keep_s: seconds after which an untouched state is forgotten.
        clock: its wall time is taken instead of the server's.
    """

    def __init__(
        self,
        client: "Redis",
        *,
        prefix: str = PREFIX,
        keep_s: float = KEEP_S,
        clock: Clock | None = None,
    ) -> None:
        self._client = client
        self._prefix = prefix
        self._keep_ms = math.ceil(keep_s * 1000)
        self._clock = clock

    def change(self, name: str, rule: Rule[T]) -> T:
        key = (self._prefix + name).encode("utf-8", "replace")
        raised: list[Exception] = []

        def step(pipe: "Pipeline") -> T:
            before, now = parse(name, pipe.get(key)), self._now(pipe)
            try:
                after, answer = rule(before, now)
            except Exception as exc:
                raised.append(exc)
                raise
            if after == before:
                pipe.unwatch()
                return answer
            pipe.multi()
            if after == Shared():
                pipe.delete(key)
            else:
                pipe.set(key, after.model_dump_json(), px=self._keep_ms)
            return answer

        try:
            transaction: Any = self._client.transaction  # typed as if nothing came back
            answer: T = transaction(step, key, value_from_callable=True)
        except Exception as exc:  # settings of an address may break the client anywhere
            if exc in raised:
                raise
            raise StoreError(
                f"The breakers' state in Redis cannot be reached ({exc}): check that the server "
                "runs and may be written to."
            ) from exc
        return answer

    def _now(self, pipe: "Pipeline") -> float:
        if self._clock is not None:
            return self._clock.now().timestamp()
        seconds, microseconds = pipe.time()
        return float(seconds) + float(microseconds) / 1e6


def connect(url: str, *, prefix: str = PREFIX) -> RedisBreakers:
    """The breakers' state on the server at ``url``, such as ``redis://host:6379/0``.

    Nothing is asked of the server yet. ``StoreError`` when ``url`` is none, or sets
    what a connection does not take, or when the package ``redis`` is missing.
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
    try:
        client = Redis.from_url(
            url,
            socket_timeout=TIMEOUT_S,
            socket_connect_timeout=TIMEOUT_S,
            retry=Retry(NoBackoff(), 0),
        )
        pool = client.connection_pool
        pool.connection_class(**pool.connection_kwargs)
    except Exception as exc:  # an address may set any argument of the client to anything
        raise StoreError(
            "The address of the Redis server is not understood: write it like "
            "redis://host:6379/0, rediss://host:6379/0 or unix:///path/to/socket, and behind a "
            "'?' nothing but what redis-py takes."
        ) from exc
    return RedisBreakers(client, prefix=prefix)
