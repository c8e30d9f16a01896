"""What every test is run under: no request leaves this machine, nobody's settings are touched."""

import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from parsimony_kernel.llm import chokepoint

_OURS = ("PARSIMONY_", "JUPYTER_", "IPYTHON", "JPY_")
_KEEP = {"PARSIMONY_CHROMIUM"}


@pytest.fixture(autouse=True)
def loopback_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection to anywhere but this machine fails, and so does a live model call."""
    connect = socket.socket.connect

    def guarded(self: socket.socket, address: Any) -> None:
        is_local = self.family == socket.AF_UNIX or str(address[0]) in {"127.0.0.1", "::1"}
        if not is_local:
            raise OSError(f"a test tried to reach {address!r}")
        connect(self, address)

    monkeypatch.setattr(socket.socket, "connect", guarded)
    monkeypatch.setattr(chokepoint, "LIVE_CALLS_ALLOWED", False)


@pytest.fixture(scope="session", autouse=True)
def clean_environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """No setting of whoever runs the suite reaches it, and no file of theirs is written."""
    home: Path = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as environment:
        for name in tuple(os.environ):
            if (name.startswith(_OURS) and name not in _KEEP) or name.endswith("_API_KEY"):
                environment.delenv(name)
        for name in ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR"):
            environment.setenv(name, str(home / name.lower()))
        environment.setenv("PARSIMONY_LIVE_CALLS", "off")
        yield
