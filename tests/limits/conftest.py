"""A Redis server of the tests' own, on a socket of this machine."""

import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from redis import Redis

Running = AbstractContextManager[tuple[Path, "subprocess.Popen[str]"]]


@contextmanager
def running(folder: str) -> Iterator[tuple[Path, "subprocess.Popen[str]"]]:
    """A server whose socket and data lie in ``folder``; another one there goes on from its data."""
    program = shutil.which("redis-server")
    if program is None:
        pytest.skip("no redis-server on this machine: install Debian's package `redis-server`")
    socket = Path(folder) / "s"
    options = ["--port", "0", "--unixsocket", str(socket), "--dir", folder]
    options += ["--save", "", "--appendonly", "yes", "--appendfsync", "always"]
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
            yield socket, process
        finally:
            process.kill()


@pytest.fixture(scope="session")
def _redis_socket() -> Iterator[Path]:
    with TemporaryDirectory(prefix="redis") as folder, running(folder) as (socket, _):
        yield socket


@pytest.fixture
def own_redis() -> Iterator[Callable[[], Running]]:
    """Starts a server of the test alone; started again, it goes on from its data."""
    # The path of a socket may not be long, and that of a test's own folder is.
    with TemporaryDirectory(prefix="redis") as folder:
        yield partial(running, folder)


@pytest.fixture
def redis_socket(_redis_socket: Path, redis: "Redis") -> Path:
    """The socket of a server that holds nothing."""
    return _redis_socket


@pytest.fixture
def redis(_redis_socket: Path) -> Iterator["Redis"]:
    """A client of a server that holds nothing."""
    from redis import Redis

    with Redis(unix_socket_path=str(_redis_socket)) as client:
        client.flushall()
        yield client


@pytest.fixture
def hung_redis(own_redis: Callable[[], Running]) -> Iterator[Path]:
    """The socket of a server that takes connections and never answers."""
    with own_redis() as (socket, process):
        process.send_signal(signal.SIGSTOP)
        yield socket
        process.send_signal(signal.SIGCONT)
