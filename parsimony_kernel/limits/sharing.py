"""Where a notebook's breakers keep their state, as it is configured.

``PARSIMONY_REDIS_URL`` names a Redis server that several hosts share. Without it, and for as long
as that server cannot be had, it is the workspace's journal.
"""

import logging
from collections.abc import Mapping

from parsimony_kernel.core.clock import SYSTEM_CLOCK, Clock
from parsimony_kernel.limits import redis_store
from parsimony_kernel.limits.breaker import Breakers
from parsimony_kernel.limits.breaker_store import BreakerStore, SharedOrOwn, StoreError

REDIS_URL = "PARSIMONY_REDIS_URL"
# Every try of a server that is out of reach may cost a time-out.
RETRY_S = 30.0
_MEANWHILE = "the workspace's journal serves"

_log = logging.getLogger(__name__)


def breakers_for(
    environ: Mapping[str, str], journal_store: BreakerStore, clock: Clock = SYSTEM_CLOCK
) -> Breakers:
    """The breakers of a workspace whose journal keeps ``journal_store``.

    Never fails: what cannot be used of the configuration is said once, as a warning.
    """
    store = SharedOrOwn(journal_store, clock)
    if url := environ.get(REDIS_URL, "").strip():
        try:
            shared = redis_store.connect(url)
        except StoreError as exc:
            _log.warning("%s cannot be used. %s Until then %s.", REDIS_URL, exc, _MEANWHILE)
        else:
            store = SharedOrOwn(shared, clock, instead=store, meanwhile=_MEANWHILE, retry_s=RETRY_S)
    return Breakers(clock, store)
