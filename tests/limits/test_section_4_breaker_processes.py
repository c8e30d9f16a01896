"""One breaker that many processes share, in the journal and in Redis: real processes, real calls.

Each process obeys lines of a command and a moment: ``call`` calls the service through the breaker,
``state`` looks. A service that is called waits for the line that says what becomes of it.
"""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from redis import Redis

from parsimony_kernel.limits.breaker_store import BreakerStore, StoreError, Terms, admit
from parsimony_kernel.limits.redis_store import RedisBreakers
from parsimony_kernel.storage.breakers import JournalBreakers
from parsimony_kernel.storage.store import SqliteJournal

TERMS = Terms(failure_threshold=5, reset_timeout_s=60, probe_lease_s=300)

_CALLER = """
import asyncio
import sys
from datetime import timedelta

from parsimony_kernel.limits.breaker import CircuitBreaker, CircuitOpenError
from parsimony_kernel.testing.clock import START

class Told:
    seconds = 0.0
    def now(self):
        return START + timedelta(seconds=self.seconds)

class ServiceError(Exception):
    def __init__(self, status):
        self.status_code = status

clock = Told()
kind, place = sys.argv[1:]
if kind == "journal":
    from parsimony_kernel.storage.breakers import JournalBreakers
    from parsimony_kernel.storage.store import SqliteJournal
    store = JournalBreakers(SqliteJournal(place), clock)
else:
    from redis import Redis
    from parsimony_kernel.limits.redis_store import RedisBreakers
    store = RedisBreakers(Redis(unix_socket_path=place), clock=clock)

def say(word):
    print(word, flush=True)

def hear():
    command, _, seconds = sys.stdin.readline().rpartition(" ")
    clock.seconds = float(seconds)
    return command

async def service():
    say("called")
    fate = hear()
    if fate == "cancelled":
        asyncio.current_task().cancel()
        await asyncio.sleep(0)
    if fate != "answers":
        raise ServiceError(int(fate))

say("ready")
while command := hear():
    what, name = command.split()
    breaker = CircuitBreaker(store=store, name=name)
    if what == "state":
        say(breaker.state)
        continue
    try:
        asyncio.run(breaker.call(service))
    except CircuitOpenError:
        say("refused")
    except (ServiceError, asyncio.CancelledError) as exc:
        say(type(exc).__name__)
    else:
        say("answered")
"""


# A probe is due again as soon as one has failed. Whoever is let through holds the only file.
_HAMMER = """
import os
from functools import partial
from parsimony_kernel.limits.breaker_store import Terms, admit, hear

kind, _, path = place.partition(":")
if kind == "journal":
    from parsimony_kernel.storage.breakers import JournalBreakers
    from parsimony_kernel.storage.store import SqliteJournal
    store = JournalBreakers(SqliteJournal(path))
else:
    from redis import Redis
    from parsimony_kernel.limits.redis_store import RedisBreakers
    store = RedisBreakers(Redis(unix_socket_path=path))

terms = Terms(failure_threshold=1, reset_timeout_s=1e-6, probe_lease_s=300)
probes = 0
wait()
for _ in range(150):
    epoch = store.change("hammered", partial(admit, terms)).epoch
    if epoch is None:
        continue
    os.close(os.open(f"{path}.probe", os.O_CREAT | os.O_EXCL))
    probes += 1
    os.unlink(f"{path}.probe")
    store.change("hammered", partial(hear, terms, "failed", epoch))
print(probes)
"""


# It stops between looking at the state and changing it, until it is told to go on.
_PAUSED = """
import sys
from functools import partial
from parsimony_kernel.limits.breaker_store import Terms, admit

kind, path = sys.argv[1:]
if kind == "journal":
    from parsimony_kernel.storage.breakers import JournalBreakers
    from parsimony_kernel.storage.store import SqliteJournal
    store = JournalBreakers(SqliteJournal(path))
else:
    from redis import Redis
    from parsimony_kernel.limits.redis_store import RedisBreakers
    store = RedisBreakers(Redis(unix_socket_path=path))

looks = 0

def rule(shared, now):
    global looks
    looks += 1
    if looks == 1:
        print(shared.state, flush=True)
        sys.stdin.readline()
    return admit(Terms(5, 60, 300), shared, now)

print("waits" if store.change("paused", rule).epoch is None else "probes")
"""


class Caller:
    """One process that calls the service, by name of the breaker."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self.process = process

    def say(self, words: str, at: float) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{words} {at}\n")
        self.process.stdin.flush()

    def hear(self) -> str:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, "the process has ended"
        return line.strip()

    def asked(self, words: str, at: float) -> str:
        self.say(words, at)
        return self.hear()

    def fails(self, name: str, at: float, status: int = 503) -> str:
        assert self.asked(f"call {name}", at) == "called"
        return self.asked(str(status), at)

    def answers(self, name: str, at: float) -> str:
        assert self.asked(f"call {name}", at) == "called"
        return self.asked("answers", at)


@contextmanager
def redis_socket() -> Iterator[Path]:
    program = shutil.which("redis-server")
    if program is None:
        pytest.skip("no redis-server on this machine: install Debian's package `redis-server`")
    with TemporaryDirectory(prefix="redis") as folder:
        socket = Path(folder) / "s"
        options = ["--port", "0", "--unixsocket", str(socket), "--save", "", "--dir", folder]
        with subprocess.Popen([program, *options], stdout=subprocess.PIPE, text=True) as server:
            assert server.stdout is not None
            if not any("eady to accept connections" in line for line in server.stdout):
                pytest.fail("redis-server did not start")
            try:
                yield socket
            finally:
                server.kill()


@pytest.fixture(scope="module", params=["journal", pytest.param("redis", marks=pytest.mark.slow)])
def place(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, Path]]:
    if request.param == "journal":
        yield "journal", tmp_path_factory.mktemp("journal") / "journal.sqlite"
    else:
        with redis_socket() as socket:
            yield "redis", socket


@contextmanager
def calling(place: tuple[str, Path], number: int) -> Iterator[list[Caller]]:
    with ExitStack() as stack:
        callers = []
        for _ in range(number):
            process = subprocess.Popen(
                [sys.executable, "-c", _CALLER, place[0], str(place[1])],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            stack.enter_context(process)
            stack.callback(process.kill)
            callers.append(Caller(process))
        for caller in callers:
            assert caller.hear() == "ready"
        yield callers


@pytest.fixture(scope="module")
def callers(place: tuple[str, Path]) -> Iterator[list[Caller]]:
    with calling(place, 6) as made:
        yield made


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A breaker of its own for each test."""
    return str(request.node.originalname)


def opened(callers: list[Caller], name: str, at: float = 0) -> None:
    for _ in range(5):
        assert callers[0].fails(name, at) == "ServiceError"


def all_at_once(callers: list[Caller], words: str, at: float) -> list[str]:
    for caller in callers:
        caller.say(words, at)
    return [caller.hear() for caller in callers]


def test_of_many_processes_exactly_one_calls_each_time_a_probe_is_due(
    callers: list[Caller], name: str
) -> None:
    opened(callers, name)
    for number in range(1, 26):
        now = 60.0 * number
        said = all_at_once(callers, f"call {name}", now)
        assert sorted(said) == ["called"] + ["refused"] * (len(callers) - 1)
        assert callers[said.index("called")].asked("503", now) == "ServiceError"
        assert {caller.asked(f"state {name}", now) for caller in callers} == {"open"}


@pytest.mark.slow
def test_however_hard_eight_processes_try_no_two_probes_are_out_at_once(
    place: tuple[str, Path],
    callers: list[Caller],
    race: Callable[[str, Path], list[str]],
) -> None:
    opened(callers, "hammered", -1e9)
    probes = race(_HAMMER, Path(f"{place[0]}:{place[1]}"))
    assert sum(map(int, probes)) > 1
    assert callers[0].asked("state hammered", -1e9) == "open"


@contextmanager
def impatient(place: tuple[str, Path]) -> Iterator[BreakerStore]:
    """The shared state, for who does not wait for another that changes it."""
    with ExitStack() as stack:
        if place[0] == "journal":
            journal = SqliteJournal(place[1], busy_timeout_s=0)
            stack.callback(journal.close)
            yield JournalBreakers(journal)
        else:
            client = stack.enter_context(Redis(unix_socket_path=str(place[1])))
            yield RedisBreakers(client)


def test_of_two_that_look_at_the_same_moment_one_probes(
    place: tuple[str, Path], callers: list[Caller]
) -> None:
    opened(callers, "paused", -1e9)
    with (
        impatient(place) as store,
        subprocess.Popen(
            [sys.executable, "-c", _PAUSED, place[0], str(place[1])],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as paused,
    ):
        assert paused.stdout is not None
        assert paused.stdout.readline() == "open\n"
        try:
            mine = store.change("paused", partial(admit, TERMS)).epoch
        except StoreError:  # the other one holds it
            mine = None
        theirs = paused.communicate("go on\n")[0].strip()
        assert paused.returncode == 0
        assert (mine is not None, theirs) in {(True, "waits"), (False, "probes")}
        assert store.change("paused", partial(admit, TERMS)).epoch is None


def test_a_probe_that_is_answered_lets_every_process_call_again(
    callers: list[Caller], name: str
) -> None:
    opened(callers, name)
    assert [caller.asked(f"call {name}", 59) for caller in callers] == ["refused"] * len(callers)
    assert callers[1].answers(name, 60) == "answered"
    assert [caller.answers(name, 60) for caller in callers] == ["answered"] * len(callers)


def test_failures_of_all_processes_count_together_and_must_follow_one_another(
    callers: list[Caller], name: str
) -> None:
    for caller in callers[:4]:
        caller.fails(name, 0)
    callers[5].answers(name, 0)
    for caller in callers[:4]:
        caller.fails(name, 0)
        assert callers[5].asked(f"state {name}", 0) == "closed"
    callers[4].fails(name, 0)
    assert [caller.asked(f"call {name}", 0) for caller in callers] == ["refused"] * len(callers)


@pytest.mark.parametrize("status", [400, 401])
def test_a_request_that_was_wrong_counts_in_no_process(
    callers: list[Caller], name: str, status: int
) -> None:
    for caller in callers:
        assert caller.fails(f"{name}{status}", 0, status) == "ServiceError"
    assert callers[0].asked(f"state {name}{status}", 0) == "closed"


def test_a_probe_that_is_cancelled_leaves_its_place_to_another_process(
    callers: list[Caller], name: str
) -> None:
    opened(callers, name)
    assert callers[1].asked(f"call {name}", 60) == "called"
    assert callers[2].asked(f"call {name}", 61) == "refused"
    assert callers[1].asked("cancelled", 61) == "CancelledError"
    assert callers[2].answers(name, 61) == "answered"


def test_a_probe_whose_process_is_killed_leaves_its_place_after_its_lease(
    place: tuple[str, Path], callers: list[Caller], name: str
) -> None:
    opened(callers, name)
    with calling(place, 1) as (doomed,):
        assert doomed.asked(f"call {name}", 60) == "called"
        os.kill(doomed.process.pid, signal.SIGKILL)
        assert doomed.process.wait() == -signal.SIGKILL
    assert all_at_once(callers, f"call {name}", 359) == ["refused"] * len(callers)
    said = all_at_once(callers, f"call {name}", 360)
    assert sorted(said) == ["called"] + ["refused"] * (len(callers) - 1)
    assert callers[said.index("called")].asked("answers", 360) == "answered"
    assert callers[0].asked(f"state {name}", 360) == "closed"


def test_a_late_success_of_a_call_from_before_it_opened_closes_nothing(
    callers: list[Caller], name: str
) -> None:
    early, other = callers[1], callers[2]
    assert early.asked(f"call {name}", 0) == "called"
    opened(callers, name, 1)
    assert early.asked("answers", 2) == "answered"
    assert other.asked(f"state {name}", 2) == "open"
    assert other.asked(f"call {name}", 60.5) == "refused"
    assert other.answers(name, 61) == "answered"


@pytest.mark.parametrize("fate", ["answers", "503", "cancelled"])
def test_a_late_end_of_a_probe_that_lost_its_place_says_nothing(
    callers: list[Caller], name: str, fate: str
) -> None:
    name = f"{name}{fate}"
    late, probe, other = callers[1:4]
    opened(callers, name)
    assert late.asked(f"call {name}", 60) == "called"
    assert probe.asked(f"call {name}", 360) == "called"
    late.asked(fate, 361)
    assert other.asked(f"state {name}", 361) == "half_open"
    assert other.asked(f"call {name}", 361) == "refused"
    assert probe.asked("503", 362) == "ServiceError"
    assert other.asked(f"call {name}", 421) == "refused"
    assert other.answers(name, 422) == "answered"
