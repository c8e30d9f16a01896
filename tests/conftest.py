"""What every test is run under, and what tests of several areas run in.

No request leaves this machine and nobody's settings are touched. A bare shell and a race of real
processes are there for who asks for them.
"""

import atexit
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

from parsimony_kernel.llm import chokepoint

_OURS = ("PARSIMONY_", "JUPYTER_", "IPYTHON", "JPY_")
_KEEP = {"PARSIMONY_CHROMIUM"}


# A test that times its examples fails where the machine is busy.
hypothesis.settings.register_profile("untimed", deadline=None)
hypothesis.settings.load_profile("untimed")


def _guard(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    connect = getattr(socket.socket, name)

    def guarded(self: socket.socket, address: Any) -> Any:
        is_local = self.family == socket.AF_UNIX or str(address[0]) in {"127.0.0.1", "::1"}
        if not is_local:
            raise OSError(f"a test tried to reach {address!r}")
        return connect(self, address)

    monkeypatch.setattr(socket.socket, name, guarded)


@pytest.fixture(autouse=True)
def loopback_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection to anywhere but this machine fails, and so does a live model call."""
    for name in ("connect", "connect_ex"):
        _guard(monkeypatch, name)
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


@pytest.fixture(scope="module")
def one_shell() -> Iterator[Any]:
    """A bare IPython shell, whose history is in memory. Ending one takes its time."""
    settings = Config()
    settings.HistoryManager.hist_file = ":memory:"
    InteractiveShell.clear_instance()
    shell = InteractiveShell.instance(config=settings)
    yield shell
    history = shell.history_manager.db
    atexit.unregister(shell.atexit_operations)
    shell.atexit_operations()
    history.close()
    shell.restore_sys_module_state()
    InteractiveShell.clear_instance()


@pytest.fixture
def shell(one_shell: Any) -> Iterator[Any]:
    """The shell without the variables of other tests."""
    before = set(one_shell.user_ns)
    yield one_shell
    for name in set(one_shell.user_ns) - before:
        del one_shell.user_ns[name]


_RUNNERS = 8
_RUNNER = """
import sys
place, me = sys.argv[1:]
def wait():
    print("ready", flush=True)
    sys.stdin.readline()
"""


@pytest.fixture
def race() -> Callable[[str, Path], list[str]]:
    """What eight real processes print that go through one program from the same moment on.

    The program finds the path as the text ``place``, its own name, ``n0`` to ``n7``, as ``me``,
    and calls ``wait()`` where the race begins.
    """

    def run(program: str, place: Path) -> list[str]:
        with ExitStack() as stack:
            runners = [
                stack.enter_context(
                    subprocess.Popen(
                        [sys.executable, "-c", _RUNNER + program, str(place), f"n{number}"],
                        stdin=subprocess.PIPE,
                        stdout=subprocess.PIPE,
                        text=True,
                    )
                )
                for number in range(_RUNNERS)
            ]
            for runner in runners:
                assert runner.stdout is not None
                assert runner.stdout.readline() == "ready\n"
            for runner in runners:
                assert runner.stdin is not None
                runner.stdin.write("go\n")
                runner.stdin.flush()
            said = [runner.communicate()[0].strip() for runner in runners]
        assert [runner.returncode for runner in runners] == [0] * _RUNNERS
        return said

    return run


@pytest.fixture
def scripted(tmp_path: Path) -> Iterator[Callable[..., Any]]:
    """Opens sessions on a notebook in ``tmp_path`` whose model plays the steps that are given."""
    from parsimony_kernel.execution.executor import CodeExecutor
    from parsimony_kernel.session import NotebookSession, open_session
    from parsimony_kernel.testing.scripted import ScriptedModel

    opened: list[NotebookSession] = []

    def start(*steps: Any, **given: Any) -> NotebookSession:
        session = open_session(
            executor=given.pop("executor", None) or CodeExecutor(cwd=str(tmp_path)),
            notebook="analysis.ipynb",
            folder=tmp_path,
            model=ScriptedModel(steps),
            environ={"PARSIMONY_SUSPENSION_SECRET": "a secret for tests"},
            **given,
        )
        opened.append(session)
        return session

    yield start
    for session in opened:
        session.close()
