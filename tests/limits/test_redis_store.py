"""Breakers that hosts share through Redis, against a real server on a socket of this machine."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from redis import Redis

from parsimony_kernel.limits.breaker_store import (
    Admission,
    BreakerStore,
    OwnStore,
    Sight,
    StoreError,
    Terms,
    Word,
    admit,
    hear,
    look,
)
from parsimony_kernel.limits.redis_store import PREFIX, RedisBreakers, connect
from parsimony_kernel.testing.clock import ManualClock

TERMS = Terms(failure_threshold=5, reset_timeout_s=60, probe_lease_s=300)
LONG_AGO = datetime(1970, 1, 2, tzinfo=UTC)


@dataclass(frozen=True)
class Server:
    """A running server. ``socket`` is short: a socket's path may not be long."""

    socket: Path
    process: "subprocess.Popen[str]"

    @property
    def url(self) -> str:
        return f"unix://{self.socket}"

    def client(self) -> "Redis":
        return Redis(unix_socket_path=str(self.socket))


@contextmanager
def running() -> Iterator[Server]:
    program = shutil.which("redis-server")
    if program is None:
        pytest.skip("no redis-server on this machine: install Debian's package `redis-server`")
    with TemporaryDirectory(prefix="redis") as folder:
        socket = Path(folder) / "s"
        options = ["--port", "0", "--unixsocket", str(socket), "--save", "", "--dir", folder]
        with subprocess.Popen([program, *options], stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            said: list[str] = []
            for line in process.stdout:
                said.append(line)
                if "eady to accept connections" in line:
                    break
            else:
                pytest.fail(f"redis-server did not start: {''.join(said)}")
            try:
                yield Server(socket, process)
            finally:
                process.kill()


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with running() as started:
        yield started


@pytest.fixture
def client(server: Server) -> Iterator["Redis"]:
    """A client of a server that holds nothing."""
    with server.client() as made:
        made.flushall()
        yield made


def ask(store: BreakerStore, terms: Terms = TERMS) -> Admission:
    return store.change("m", partial(admit, terms))


def tell(store: BreakerStore, word: Word, epoch: int | None, terms: Terms = TERMS) -> None:
    assert epoch is not None
    store.change("m", partial(hear, terms, word, epoch))


def see(store: BreakerStore, terms: Terms = TERMS) -> Sight:
    return store.change("m", partial(look, terms))


def fail(store: BreakerStore) -> None:
    for _ in range(5):
        tell(store, "failed", ask(store).epoch)


history = st.lists(
    st.sampled_from(["ask", "see", "succeeded", "failed", "released", "wait"]), max_size=40
)


@settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(history)
def test_it_answers_as_the_state_of_one_process_does(client: "Redis", happens: list[str]) -> None:
    client.flushall()
    terms = Terms(failure_threshold=2, reset_timeout_s=10, probe_lease_s=30)
    clock = ManualClock()
    stores = (OwnStore(clock), RedisBreakers(client, clock=clock))
    out: list[int] = []
    for what in happens:
        if what == "ask":
            own, shared = (ask(store, terms) for store in stores)
            assert shared.epoch == own.epoch
            assert shared.retry_in_s == pytest.approx(own.retry_in_s)
            out += [own.epoch] if own.epoch is not None else []
        elif what == "see":
            own_sight, shared_sight = (see(store, terms) for store in stores)
            assert shared_sight == own_sight
        elif what == "wait":
            clock.advance(4)
        elif out:
            epoch = out.pop(0)
            for store in stores:
                tell(store, what, epoch, terms)  # type: ignore[arg-type]


_PROBER = """
from functools import partial
from redis import Redis
from parsimony_kernel.limits.breaker_store import Terms, admit
from parsimony_kernel.limits.redis_store import RedisBreakers
store = RedisBreakers(Redis(unix_socket_path=place))
wait()
admission = store.change("m", partial(admit, Terms(5, 60, 300)))
print("waits" if admission.epoch is None else "probes")
"""

_FAILER = """
from functools import partial
from redis import Redis
from parsimony_kernel.limits.breaker_store import Terms, admit, hear
from parsimony_kernel.limits.redis_store import RedisBreakers
store = RedisBreakers(Redis(unix_socket_path=place))
terms = Terms(1000, 60, 300)
wait()
for _ in range(20):
    epoch = store.change("m", partial(admit, terms)).epoch
    store.change("m", partial(hear, terms, "failed", epoch))
print("done")
"""

_DOOMED = """
import sys
from datetime import datetime
from functools import partial
from redis import Redis
from parsimony_kernel.limits.breaker_store import Terms, admit
from parsimony_kernel.limits.redis_store import RedisBreakers
from parsimony_kernel.testing.clock import ManualClock
clock = ManualClock(datetime.fromisoformat(sys.argv[2]))
store = RedisBreakers(Redis(unix_socket_path=sys.argv[1]), clock=clock)
print(store.change("m", partial(admit, Terms(5, 60, 300))).epoch, flush=True)
sys.stdin.readline()
"""


def test_of_eight_processes_one_probes_by_the_server_s_time(
    server: Server, client: "Redis", race: Callable[[str, Path], list[str]]
) -> None:
    fail(RedisBreakers(client, clock=ManualClock(LONG_AGO)))
    assert sorted(race(_PROBER, server.socket)) == ["probes"] + ["waits"] * 7


def test_no_failure_of_eight_processes_is_lost(
    server: Server, client: "Redis", race: Callable[[str, Path], list[str]]
) -> None:
    assert race(_FAILER, server.socket) == ["done"] * 8
    assert see(RedisBreakers(client)).failures == 160


def test_a_probe_that_is_killed_frees_its_place_after_its_lease(
    server: Server, client: "Redis"
) -> None:
    clock = ManualClock()
    store = RedisBreakers(client, clock=clock)
    fail(store)
    clock.advance(60)
    with subprocess.Popen(
        [sys.executable, "-c", _DOOMED, str(server.socket), clock.now().isoformat()],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as doomed:
        assert doomed.stdout is not None
        assert doomed.stdout.readline() == "2\n"
        os.kill(doomed.pid, signal.SIGKILL)
    clock.advance(299)
    assert ask(store).epoch is None
    clock.advance(1)
    assert ask(store).epoch == 3


def test_what_is_written_has_the_prefix_and_goes_by_itself(client: "Redis") -> None:
    fail(RedisBreakers(client, keep_s=1000))
    assert client.keys() == [f"{PREFIX}m".encode()]
    assert 0 < client.pttl(f"{PREFIX}m") <= 1_000_000


def test_a_breaker_that_was_never_in_trouble_leaves_nothing(client: "Redis") -> None:
    store = RedisBreakers(client)
    tell(store, "failed", ask(store).epoch)
    tell(store, "succeeded", ask(store).epoch)
    assert client.keys() == []


def test_two_prefixes_do_not_share(client: "Redis") -> None:
    fail(RedisBreakers(client, prefix="a:"))
    assert see(RedisBreakers(client, prefix="b:")).state == "closed"


def test_a_server_whose_clock_was_set_back_makes_nobody_wait_longer(client: "Redis") -> None:
    seconds, _ = client.time()
    ahead = datetime.fromtimestamp(seconds, UTC) + timedelta(days=1)
    fail(RedisBreakers(client, clock=ManualClock(ahead)))
    assert 0 < ask(RedisBreakers(client)).retry_in_s <= 60
    kept = json.loads(client.get(f"{PREFIX}m") or "{}")
    assert kept["opened_at"] < ahead.timestamp()


def test_an_address_leads_to_the_state_on_its_server(server: Server, client: "Redis") -> None:
    tell(RedisBreakers(client), "failed", ask(RedisBreakers(client)).epoch)
    assert see(connect(server.url)).failures == 1


def test_a_server_that_is_not_there_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"check that the server runs"):
        ask(connect(f"unix://{tmp_path}/none"))


def test_a_server_that_hangs_is_given_up() -> None:
    with running() as server:
        server.process.send_signal(signal.SIGSTOP)
        try:
            with pytest.raises(StoreError, match="cannot be reached"):
                ask(connect(server.url))
        finally:
            server.process.send_signal(signal.SIGCONT)


def test_a_key_that_is_something_else_is_a_sentence(client: "Redis") -> None:
    client.lpush(f"{PREFIX}m", "x")
    with pytest.raises(StoreError, match="WRONGTYPE"):
        ask(RedisBreakers(client))


@pytest.mark.parametrize("url", ["", "localhost:6379", "http://localhost"])
def test_an_address_that_is_none_is_a_sentence(url: str) -> None:
    with pytest.raises(StoreError, match="redis://host:6379/0"):
        connect(url)


def test_without_the_package_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "redis", None)
    with pytest.raises(StoreError, match=r"parsimony-kernel\[remote\]"):
        connect("redis://localhost:6379/0")
