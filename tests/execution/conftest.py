"""A shell to run in."""

import atexit
from collections.abc import Iterator
from typing import Any

import pytest
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config


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
