"""Storage backends for published artifacts: the workspace's folder, or a shared bucket.

A backend stores files by path below its root, with forward slashes. Both guarantee: ``create`` is
atomic, exactly one of concurrent callers creates a file, and an appended line is never changed.
Every error is raised as a ``StorageError``.
"""

import importlib
import itertools
import os
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from parsimony_kernel.core.redaction import scrub
from parsimony_kernel.identity import ARTIFACT_FOLDER
from parsimony_kernel.storage import durable, workspace

ENVIRONMENT_VARIABLE = "PARSIMONY_ARTIFACTS"
_NO_FSSPEC = (
    "Give an address that fsspec knows, and install it with the package of the file system: "
    "pip install 'parsimony-kernel[remote]' s3fs"
)


class Folder:
    """A backend in a local folder. ``address`` is the key under which trust is recorded."""

    def __init__(self, root: Path) -> None:
        self._root = root

    @property
    def address(self) -> str:
        return str(self._root.resolve())

    def look(self) -> None:
        """Refresh the listing; nothing to do for a folder, which is always read directly."""

    def read(self, path: str) -> bytes | None:
        """Return the bytes of a file, or ``None`` if it doesn't exist."""
        # Reading a pipe at this path would wait for a writer.
        whole = self._root / path
        return durable.read(whole) if whole.is_file() else None

    def log(self, path: str) -> bytes | None:
        """Return the bytes of a log, or ``None`` if it doesn't exist."""
        return self.read(path)

    def create(self, path: str, data: bytes) -> bool:
        """Create a file unless it exists; return whether this call created it."""
        workspace.prepare(self._root)
        return durable.create(self._root / path, data)

    def create_all(self, files: Mapping[str, bytes], log: str, claim: str) -> Collection[str]:
        """Create several files and an empty log; return the files that this call created.

        With a ``claim``, the first of them, nothing is created where that one exists.
        """
        workspace.prepare(self._root)
        wanted = {self._root / path: data for path, data in {**files, log: b""}.items()}
        made = durable.create_all(wanted, claim=self._root / claim if claim else None)
        return [path for path in files if self._root / path in made]

    def replace(self, path: str, data: bytes) -> None:
        """Replace the contents of a file, creating it if missing."""
        durable.replace(self._root / path, data)

    def append(self, path: str, line: str) -> None:
        """Append a line to a log."""
        durable.append_line(self._root / path, line)

    def settle(self, path: str) -> None:
        """Sync a file so that it survives a power cut; wait for a writer that has it locked."""
        durable.settle(self._root / path)

    def names(self, folder: str) -> list[str]:
        """Return the names in a folder, sorted; empty if it doesn't exist."""
        return durable.listed(self._root / folder)

    def is_there(self, path: str) -> bool:
        """Return whether anything exists at this path, even a broken link."""
        return os.path.lexists(self._root / path)

    def is_plain(self, path: str) -> bool:
        """Return whether the path is a regular file and not a link."""
        whole = self._root / path
        return whole.is_file() and not whole.is_symlink()


class Bucket:
    """A backend at an fsspec address, such as ``s3://bucket/folder``.

    A file is created by a conditional put. Objects can't be appended to, so a log is a folder with
    one object per line, numbered with the first free number by the same condition. The listing is
    cached: ``look`` refreshes it, and without one it is fetched on first use.

    Raises:
        StorageError: fsspec, or the package of its file system, isn't installed, or the address
            can't be opened.
    """

    def __init__(self, address: str) -> None:
        # The address is shown and recorded, and may contain a password.
        self.address = scrub(address.rstrip("/"))
        if "::" in address:
            raise durable.StorageError(
                f"{ENVIRONMENT_VARIABLE}: {self.address!r} is a chain of addresses; name the last."
            )
        try:
            fsspec: Any = importlib.import_module("fsspec.core")  # deferred: an extra
            # Only local folders have to exist before a write.
            more = {"auto_mkdir": True} if address.startswith(("file:", "local:")) else {}
            self._files, root = fsspec.url_to_fs(address, use_listings_cache=False, **more)
        except (ImportError, ValueError) as exc:
            said = f"{ENVIRONMENT_VARIABLE}: {exc}. {_NO_FSSPEC}"
            raise durable.StorageError(scrub(said)) from None
        except Exception as exc:  # boundary: tool - some connect at once
            raise _trouble(f"open {self.address!r}", exc) from None
        self._root = root.rstrip("/")
        self._found: dict[str, set[str]] | None = None
        # A cache without expiry: lines never change.
        self._lines: dict[str, bytes] = {}

    def look(self) -> None:
        found: dict[str, set[str]] = {}
        with self._told(ARTIFACT_FOLDER, "list"):
            for whole in self._files.find(self._at(ARTIFACT_FOLDER)):
                _note(found, whole.removeprefix(f"{self._root}/"))
        self._found = found

    def rest(self) -> None:
        """Use the cached listing, or an empty one, until the next ``look``; fetch nothing."""
        self._found = {} if self._found is None else self._found

    def read(self, path: str) -> bytes | None:
        with self._told(path, "read"):
            try:
                return bytes(self._files.cat_file(self._at(path)))
            except (FileNotFoundError, IsADirectoryError):
                return None

    def log(self, path: str) -> bytes | None:
        lines = [self._at(f"{path}/{name}") for name in self.names(path)]
        if not lines:
            return None
        if new := [line for line in lines if line not in self._lines]:
            with self._told(path, "read"):
                read = self._files.cat_ranges(new, None, None, on_error="raise")
                self._lines |= zip(new, read, strict=True)
        return b"".join(self._lines[line] for line in lines)

    def create(self, path: str, data: bytes) -> bool:
        with self._told(path):
            try:
                self._files.pipe_file(self._at(path), data, mode="create")
            except Exception:  # boundary: tool - a file that exists is told in many types
                there = self.read(path)
                if there is None:
                    raise
                if there != data:
                    return False
                # Same bytes: our put succeeded and only its response was lost.
        _note(self._listed(), path)
        return True

    def create_all(self, files: Mapping[str, bytes], log: str, claim: str) -> Collection[str]:
        made = list[str]()
        for path, data in files.items():
            if self.create(path, data):
                made.append(path)
            elif path == claim:
                break
        return made

    def replace(self, path: str, data: bytes) -> None:
        with self._told(path):
            self._files.pipe_file(self._at(path), data)
        _note(self._listed(), path)

    def append(self, path: str, line: str) -> None:
        data = line.encode("utf-8", "surrogatepass") + b"\n"
        numbers = itertools.count(len(self.names(path)) + 1)
        next(number for number in numbers if self.create(f"{path}/{number:09}", data))

    def settle(self, path: str) -> None:
        pass  # a completed put is durable

    def names(self, folder: str) -> list[str]:
        return sorted(self._listed().get(folder, ()))

    def _listed(self) -> dict[str, set[str]]:
        if self._found is None:
            self.look()
        assert self._found is not None
        return self._found

    def is_there(self, path: str) -> bool:
        with self._told(path, "look for"):
            return bool(self._files.exists(self._at(path)))

    def is_plain(self, path: str) -> bool:
        with self._told(path, "look for"):
            return bool(self._files.isfile(self._at(path)))

    def _at(self, path: str) -> str:
        return f"{self._root}/{path}"

    @contextmanager
    def _told(self, path: str, doing: str = "write") -> Iterator[None]:
        try:
            yield
        except durable.StorageError:
            raise
        except Exception as exc:  # boundary: tool - each file system raises types of its own
            raise _trouble(f"{doing} '{self.address}/{path}'", exc) from None


def _note(found: dict[str, set[str]], path: str) -> None:
    """Add ``path`` and its parents to the listing ``found``."""
    while path:
        path, _, name = path.rpartition("/")
        found.setdefault(path, set()).add(name)


def _trouble(doing: str, exc: Exception) -> durable.StorageError:
    return durable.StorageError(
        f"Cannot {doing}: {scrub(str(exc)) or type(exc).__name__}. Check {ENVIRONMENT_VARIABLE} "
        "and the keys that its file system reads."
    )


Place = Folder | Bucket


def place_of(root: Path, environ: Mapping[str, str] = os.environ) -> Place:
    """Return the backend of the workspace ``root``: ``PARSIMONY_ARTIFACTS`` if set, else its own
    folder."""
    address = environ.get(ENVIRONMENT_VARIABLE, "").strip()
    if "://" in address and not address.startswith("file://"):
        return Bucket(address)
    # Relative to the workspace, not to the current working folder.
    return Folder(root.absolute() / Path(address.removeprefix("file://")).expanduser())
