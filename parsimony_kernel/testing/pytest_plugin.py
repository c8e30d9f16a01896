"""Notebooks with agent cells under pytest: ``pytest --nbval --parsimony-replay notebooks/``.

Answers come from the recording beside each notebook, so no key is needed and nobody is asked.
``--parsimony-record`` asks the models and writes the recordings. Each notebook runs in an empty
workspace of its own: what was run before, here or elsewhere, is not seen.

Every run of pytest loads this, so it imports nothing but what pytest has imported.
"""

import os
import tempfile
from pathlib import Path

import pytest

_REPLAY = "--parsimony-replay"
_RECORD = "--parsimony-record"
# What of the environment is another one while notebooks run.
_VARIABLES = ("PARSIMONY_CASSETTE", "PARSIMONY_WORKSPACE", "JPY_SESSION_NAME")


def pytest_addoption(parser: pytest.Parser) -> None:
    """The two options."""
    group = parser.getgroup("parsimony", "notebooks with agent cells")
    group.addoption(
        _REPLAY,
        action="store_true",
        help="with --nbval: agent cells get the answers recorded in cassettes/, without a key",
    )
    group.addoption(
        _RECORD,
        action="store_true",
        help="with --nbval or --nbval-lax: record the answers of models into cassettes/",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Prepare what the kernels will find. ``UsageError`` when the options do not fit."""
    replays, records = config.getoption(_REPLAY), config.getoption(_RECORD)
    if not replays and not records:
        return
    if replays and records:
        raise pytest.UsageError(f"{_REPLAY} and {_RECORD} exclude one another")
    if not any(getattr(config.option, name, False) for name in ("nbval", "nbval_lax")):
        option = _REPLAY if replays else _RECORD
        raise pytest.UsageError(
            f"{option} needs nbval, which runs the notebooks: pip install nbval, and add --nbval"
        )
    folder = tempfile.TemporaryDirectory(prefix="parsimony-", ignore_cleanup_errors=True)
    config.add_cleanup(folder.cleanup)
    _keep_environment(config)
    os.environ["PARSIMONY_CASSETTE"] = "replay" if replays else "record"
    config.option.nbval_sanitize_with = _sanitize(
        Path(folder.name), config.option.nbval_sanitize_with
    )
    config.pluginmanager.register(_Notebooks(Path(folder.name)), "parsimony-notebooks")


def _keep_environment(config: pytest.Config) -> None:
    before = {name: os.environ.get(name) for name in _VARIABLES}

    def put_back() -> None:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value

    config.add_cleanup(put_back)


def _sanitize(folder: Path, given: str | None) -> str:
    """The file that nbval gets: ours, and behind it the one that was given."""
    ours = Path(__file__).with_name("sanitize.cfg").read_text(encoding="utf-8")
    theirs = Path(given).read_text(encoding="utf-8") if given else ""
    both = folder / "sanitize.cfg"
    both.write_text(f"{ours}\n{theirs}", encoding="utf-8")
    return str(both)


class _Notebooks:
    """Tells the kernel of each notebook which one it is, and gives it its workspace."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._workspaces: dict[Path, Path] = {}

    # Before pytest's own hook, with which nbval starts the kernel of a notebook's first cell.
    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        if item.path.suffix != ".ipynb":
            return
        if item.path not in self._workspaces:
            workspace = self._folder / str(len(self._workspaces))
            workspace.mkdir()
            self._workspaces[item.path] = workspace
        os.environ["JPY_SESSION_NAME"] = str(item.path)
        os.environ["PARSIMONY_WORKSPACE"] = str(self._workspaces[item.path])
