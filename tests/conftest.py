"""What every test is run under, and what tests of several areas run in.

No request leaves this machine and nobody's settings are touched. A bare shell and a race of real
processes are there for who asks for them.
"""

import ast
import atexit
import builtins
import gc
import os
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

from parsimony_kernel.core.deferred import defer_grammar_of_addresses
from parsimony_kernel.llm import chokepoint
from tests.races import Race

# Compiling it takes each worker two seconds, and no test needs it.
defer_grammar_of_addresses()

_OURS = ("PARSIMONY_", "JUPYTER_", "IPYTHON", "JPY_")
_KEEP = {"PARSIMONY_CHROMIUM"}


# What proves a sentence of the documents or keeps a promise to those who use a release. The list
# beside this file has the number of its cases, so that none leaves unseen.
_CONTRACT = (
    "spec/",
    "contracts/",
    "corpora/",
    "scenarios/",
    "notebooks/",
    "triage/",
    "agent/failure/test_suspension.py",
    "docs/test_pages_run.py",
    "gate/test_screening.py",
)
# These take longest and begin first: a file runs in one worker, which would be left alone with it.
_LONGEST = (
    "durability/test_crash_states.py",
    "lineage/test_undo_corpus.py",
    "corpora/test_summaries.py",
    "lineage/test_undo_truth.py",
    "analysis/test_truth.py",
    "notebook/test_share_canary.py",
)
# Fixtures that start a server which not every machine has, or build all pages.
_SLOW_FIXTURES = {"_redis_socket", "own_redis", "site"}
CONTRACT_CASES = pytest.StashKey[Counter[str]]()
_BEGAN = pytest.StashKey[tuple[float, float]]()

# A test that times its examples fails where the machine is busy, and one that draws others each
# time fails by luck. `make test-all` loads the profile that looks further.
hypothesis.settings.register_profile(
    "sampled",
    deadline=None,
    derandomize=True,
    max_examples=50,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.register_profile(
    "exhaustive", hypothesis.settings.get_profile("sampled"), derandomize=False, max_examples=1000
)
hypothesis.settings.load_profile("sampled")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> Iterator[None]:
    """Mark what is slow by its fixtures, mark the contract and count it; a tier chooses then.

    Of what is chosen, files that take long begin first, and those of few tests come last.
    """
    here = Path(__file__).parent
    cases: Counter[str] = Counter()
    for item in items:
        if not item.path.is_relative_to(here):
            continue
        if not _SLOW_FIXTURES.isdisjoint(getattr(item, "fixturenames", ())):
            item.add_marker("slow")
        if item.path.relative_to(here).as_posix().startswith(_CONTRACT):
            item.add_marker("contract")
            cases[item.nodeid.partition("[")[0]] += 1
    config.stash[CONTRACT_CASES] = cases
    yield
    if hasattr(config, "workerinput"):
        longest = {here / name for name in _LONGEST}
        tests = Counter(item.path for item in items)
        items.sort(key=lambda item: (item.path not in longest, -tests[item.path]))


def _fixed_work() -> float:
    """How long this machine takes, just now, for the same work as ever, in seconds."""
    began = time.perf_counter()
    sum(range(10_000_000))
    return time.perf_counter() - began


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection() -> Generator[None, object, object]:
    """Look for garbage only behind the collection: a million objects, and all of them stay."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_sessionstart(session: pytest.Session) -> None:
    """Note when the run begins, and how fast the machine is then."""
    if not hasattr(session.config, "workerinput"):
        session.config.stash[_BEGAN] = (time.perf_counter(), _fixed_work())


def pytest_sessionfinish() -> None:
    """Let what ``own_garbage`` kept be taken apart in order."""
    gc.unfreeze()


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Say how long the run took, also as a number that a slower or busier machine changes less."""
    began, first = config.stash[_BEGAN]
    took, work = time.perf_counter() - began, (first + _fixed_work()) / 2
    terminalreporter.write_line(
        f"{took:.0f} s: {took / work:.0f} times a sum of ten million, which takes {work:.2f} s here"
    )
    if (seed := config.getoption("randomly_seed", None)) is not None:
        terminalreporter.write_line(f"In the same order again: --randomly-seed={seed}")


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


@pytest.fixture(scope="module", autouse=True)
def own_garbage() -> Iterator[None]:
    """What is left of a file is collected, and told, in that file and in no later one.

    What outlives it is a million objects of modules and tests: looking through them takes a second
    for each collection of garbage, so from then on they are left out.
    """
    gc.freeze()
    yield
    gc.collect()


@pytest.fixture
def contract_cases(request: pytest.FixtureRequest) -> Counter[str]:
    """How many cases each test function of the contract has, in the files that are run."""
    return request.config.stash[CONTRACT_CASES]


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
    """The shell without the variables of other tests, and without what their cells left running:
    until such a thread ends, the shell's outputs are routed."""
    for thread in threading.enumerate():
        if thread.name == "parsimony-cell":
            thread.join(60)
    vars(builtins).pop("_", None)  # Python's own display sets it, and IPython then keeps no `_`
    before = set(one_shell.user_ns)
    yield one_shell
    for name in set(one_shell.user_ns) - before:
        del one_shell.user_ns[name]


@pytest.fixture
def bare_shell() -> Iterator[Any]:
    """A shell without the extension; whatever a test installs is taken away."""
    from parsimony_agent import extension

    shell = InteractiveShell()
    yield shell
    extension.uninstall(shell)
    shell.history_manager.end_session()


@pytest.fixture
def installed_shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The process's one shell, in a folder of its own, with the extension and no model set."""
    from parsimony_agent import extension

    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PARSIMONY_MODEL", raising=False)
    InteractiveShell.clear_instance()
    shell = InteractiveShell.instance()
    extension.install(shell)
    yield shell
    extension.uninstall(shell)
    InteractiveShell.clear_instance()


_RUNNERS = 8
# One process imports what the program does, and each runner is a fork of it.
_RACE = """
import ast, os, sys
program, place = sys.argv[1:]
nodes = ast.walk(ast.parse(program))
imports = [node for node in nodes if isinstance(node, (ast.Import, ast.ImportFrom))]
exec(compile(ast.Module(imports, []), "race", "exec"), {})
ready, go = os.pipe(), os.pipe()
outputs = []

def wait():
    os.write(ready[1], b".")
    os.read(go[0], 1)

for number in range(RUNNERS):
    output = os.pipe()
    outputs.append(output[0])
    if not os.fork():
        os.close(go[1])
        os.dup2(output[1], 1)
        names = {"__name__": "__main__", "place": place, "me": f"n{number}", "wait": wait}
        try:
            exec(program, names)
        finally:
            os.write(ready[1], b".")  # who came to no wait() is waited for by nobody
        sys.exit()
    os.close(output[1])
for _ in range(RUNNERS):
    os.read(ready[0], 1)
os.close(go[1])
print(*(repr(os.fdopen(output).read()) for output in outputs), sep="\\n")
sys.exit(any([os.wait()[1] for _ in outputs]))
"""


@pytest.fixture
def race() -> Race:
    """What eight real processes print that go through one program from the same moment on.

    The program finds the path as the text ``place``, its own name, ``n0`` to ``n7``, as ``me``,
    and calls ``wait()`` where the race begins.
    """

    def run(program: str, place: Path) -> list[str]:
        raced = subprocess.run(
            [sys.executable, "-c", f"RUNNERS = {_RUNNERS}\n{_RACE}", program, str(place)],
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        said = [ast.literal_eval(line).strip() for line in raced.stdout.splitlines()]
        assert len(said) == _RUNNERS
        return said

    return run


@pytest.fixture
def scripted(tmp_path: Path) -> Iterator[Callable[..., Any]]:
    """Opens sessions on a notebook in ``tmp_path`` whose model plays the steps that are given, and
    which take what else is given; closes them behind the test."""
    from parsimony_kernel.execution.executor import CodeExecutor
    from parsimony_kernel.session.session import NotebookSession
    from parsimony_kernel.testing.scripted import ScriptedModel

    opened: list[NotebookSession] = []

    def start(*steps: Any, **given: Any) -> NotebookSession:
        folder = given.get("folder", tmp_path)
        usual: dict[str, Any] = {
            "executor": CodeExecutor(cwd=str(folder)),
            "notebook": "analysis.ipynb",
            "folder": folder,
            "model": ScriptedModel(steps),
            "environ": {},
        }
        told = {name: value for name, value in given.items() if value is not None}
        session = NotebookSession(**{**usual, **told})
        opened.append(session)
        return session

    yield start
    for session in opened:
        session.close()
