"""Files of the workspace that hold code, and what writing one comes to.

A file is code by its name or by its first line. Whoever writes it has not run it; but nothing
says later, where it is imported or started, what stands in it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from parsimony_kernel.core.reach import Reach, runner_of
from parsimony_kernel.gate.screening import screened

_MAX_READ = 2**20

_READ = frozenset({".py", ".pyw", ".ipy"})


@dataclass(frozen=True)
class CodeFiles:
    """What the calls of ``write_file`` and ``edit_file`` would leave behind to be run.

    Both folders are absolute: relative names count from ``folder``.
    """

    workspace: Path
    folder: Path

    def written(self, inputs: Mapping[str, Any]) -> tuple[str, ...]:
        """A sentence for a file that is code, and one for each place that its text reaches."""
        return self._reaches(str(inputs.get("path", "")), str(inputs.get("content", "")))

    def edited(self, inputs: Mapping[str, Any]) -> tuple[str, ...]:
        """The same of a file as it is after the edit."""
        path, old, new = (str(inputs.get(name, "")) for name in ("path", "old", "new"))
        before = _text_of(self.folder / path) if path and "\0" not in path else None
        return self._reaches(path, new if before is None else before.replace(old, new))

    def _reaches(self, path: str, text: str) -> tuple[str, ...]:
        if not path or "\0" in path:
            return ()
        named = (path, _resolved(self.folder / path))
        who = next(filter(None, (runner_of(name, text) for name in named)), "")
        if not who:
            return ()
        said = [f"{path!r} would be code that {who} runs."]
        if any(Path(name).suffix.casefold() in _READ for name in named) or "python" in _head(text):
            said += [each.sentence for each in self._screened(text)]
        return tuple(said)

    def _screened(self, text: str) -> tuple[Reach, ...]:
        return screened(text, workspace=self.workspace, folder=self.folder)


def _text_of(path: Path) -> str | None:
    try:
        if not path.is_file():
            return None
        with path.open("rb") as stream:
            return stream.read(_MAX_READ).decode("utf-8", "replace")
    except OSError:
        return None


def _resolved(path: Path) -> str:
    try:
        return str(path.resolve())
    except (OSError, RuntimeError):  # a loop of links, which cannot be written through either
        return str(path)


def _head(text: str) -> str:
    return text.partition("\n")[0] if text.startswith("#!") else ""
