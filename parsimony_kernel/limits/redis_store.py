"""Breaker state in Redis, for processes on several hosts, and the choice of a notebook's store.

Time is the server's, so that hosts agree on it. A change is an optimistic transaction under
``WATCH``: of two that collide one is committed and the other retried. Keys expire.
"""

import math
import weakref
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

from parsimony_kernel.core.clock import SYSTEM_CLOCK, Clock
from parsimony_kernel.core.errors import SessionError
from parsimony_kernel.limits.breaker import Breakers, BreakerStore, Rule, T, parse

if TYPE_CHECKING:
    from redis import Redis
    from redis.client import Pipeline

REDIS_URL = "PARSIMONY_REDIS_URL"
PREFIX = "parsimony:breaker:"
# Expiry of an unchanged state, in seconds. Longer than any wait or lease.
KEEP_S = 86_400.0
# Seconds to wait for a hanging server before falling back to this process's own state.
TIMEOUT_S = 0.25


@dataclass(eq=False)
class RedisBreakers:
    """A ``BreakerStore`` on a Redis server, which is contacted on first use.

    ``url`` is an address such as ``redis://host:6379/0``.
    """

    url: str

    def change(self, name: str, rule: Rule[T]) -> T:
        key = (PREFIX + name).encode("utf-8", "replace")

        def step(pipe: "Pipeline") -> T:
            before, (seconds, microseconds) = parse(pipe.get(key)), pipe.time()
            after, answer = rule(before, float(seconds) + float(microseconds) / 1e6)
            pipe.multi()
            if after != before:
                pipe.set(key, after.model_dump_json(), px=math.ceil(KEEP_S * 1000))
            return answer

        try:
            answer: T = cast(Any, self._client).transaction(step, key, value_from_callable=True)
        except Exception as exc:  # settings of an address may break the client anywhere
            # What is said of a wrong address may quote its password.
            why = type(exc).__name__ if isinstance(exc, ValueError) else exc
            raise SessionError(
                f"The breakers' state in Redis cannot be reached ({why}): set {REDIS_URL} to an "
                "address like redis://host:6379/0, install 'parsimony-kernel[remote]', and check "
                "that the server runs and may be written to."
            ) from exc
        return answer

    @cached_property
    def _client(self) -> "Redis":
        from redis import Redis
        from redis.backoff import NoBackoff
        from redis.retry import Retry

        once = Retry(NoBackoff(), 0)
        client = Redis.from_url(
            self.url, socket_timeout=TIMEOUT_S, socket_connect_timeout=TIMEOUT_S, retry=once
        )
        # Otherwise its sockets are left to the garbage collector, which warns of them.
        weakref.finalize(self, client.close)
        return client


def breakers_for(
    environ: Mapping[str, str], journal_store: BreakerStore, clock: Clock = SYSTEM_CLOCK
) -> Breakers:
    """Create the breakers of a workspace.

    Args:
        environ: may name a shared Redis server in ``PARSIMONY_REDIS_URL``.
        journal_store: the store without a Redis server.
        clock: the time of this process's own state, the fallback for an unreachable store.
    """
    url = environ.get(REDIS_URL, "").strip()
    return Breakers(clock, RedisBreakers(url) if url else journal_store)
