"""A Redis server of the tests' own, on a socket of this machine."""

import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from redis import Redis


@contextmanager
def _running() -> Iterator[tuple[Path, "subprocess.Popen[str]"]]:
    program = shutil.which("redis-server")
    if program is None:
        pytest.skip("no redis-server on this machine: install Debian's package `redis-server`")
    # The path of a socket may not be long, and that of a test's own folder is.
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
                yield socket, process
            finally:
                process.kill()


@pytest.fixture(scope="session")
def _redis_socket() -> Iterator[Path]:
    with _running() as (socket, _):
        yield socket


@pytest.fixture
def redis_socket(_redis_socket: Path, redis: "Redis") -> Path:
    """The socket of a server that holds nothing."""
    return _redis_socket


@pytest.fixture
def redis(_redis_socket: Path) -> Iterator["Redis"]:
    """A client of a server that holds nothing."""
    with Redis(unix_socket_path=str(_redis_socket)) as client:
        client.flushall()
        yield client


@pytest.fixture
def hung_redis() -> Iterator[Path]:
    """The socket of a server that takes connections and never answers."""
    with _running() as (socket, process):
        process.send_signal(signal.SIGSTOP)
        yield socket
        process.send_signal(signal.SIGCONT)
