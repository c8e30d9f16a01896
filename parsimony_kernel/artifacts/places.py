"""Where published work lies: the workspace's folder, or a bucket that several machines share.

A place keeps files by their path below it, with forward slashes. What both keep: a file that is
``create``d is there whole or not at all, exactly one of many callers makes it, and a line that was
appended is never changed. Every error leaves here as a ``StorageError``.
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
    """A place in a folder of this machine. ``address`` is what trust is given to."""

    def __init__(self, root: Path) -> None:
        self._root = root

    @property
    def address(self) -> str:
        return str(self._root.resolve())

    def look(self) -> None:
        """See what others have written since."""

    def read(self, path: str) -> bytes | None:
        """The bytes of a file, or ``None`` where there is none."""
        # A pipe in its place would wait for a writer.
        whole = self._root / path
        return durable.read(whole) if whole.is_file() else None

    def log(self, path: str) -> bytes | None:
        """The lines of a log, or ``None`` where there is none."""
        return self.read(path)

    def create(self, path: str, data: bytes) -> bool:
        """Make a file unless it is there, and say whether this call did."""
        workspace.prepare(self._root)
        return durable.create(self._root / path, data)

    def create_all(
        self, files: Mapping[str, bytes], log: str, gate: Mapping[str, bytes] = {}
    ) -> Collection[str]:
        """``create`` these files and what a log needs; gives those that this call made.

        With a ``gate``, a file too, all or nothing: nothing where that one is there already.
        """
        workspace.prepare(self._root)
        wanted = {self._root / path: data for path, data in {**gate, **files, log: b""}.items()}
        made = durable.create_all(wanted, gate=next((self._root / path for path in gate), None))
        return [path for path in (*gate, *files) if self._root / path in made]

    def replace(self, path: str, data: bytes) -> None:
        """Write ``data`` in the place of whatever is there."""
        durable.replace(self._root / path, data)

    def append(self, path: str, line: str) -> None:
        """Add a line to a log."""
        durable.append_line(self._root / path, line)

    def settle(self, path: str) -> None:
        """Make sure that what is there outlives a power cut, and wait for who is at it."""
        durable.settle(self._root / path)

    def names(self, folder: str) -> list[str]:
        """What lies in a folder, sorted; nothing where there is no folder."""
        return durable.listed(self._root / folder)

    def is_there(self, path: str) -> bool:
        """Whether anything at all has this path."""
        return os.path.lexists(self._root / path)

    def is_plain(self, path: str) -> bool:
        """Whether it is a file of its own, and no link."""
        whole = self._root / path
        return whole.is_file() and not whole.is_symlink()


class Bucket:
    """The same at an address that fsspec knows, such as ``s3://bucket/folder``.

    A file is made by a conditional put. There is no appending to an object, so a log is a folder
    with an object for each line: its number is the first free one, by the same condition. It is
    listed when somebody looks, and else only if nobody has.

    Raises ``StorageError`` when fsspec, or the package of its file system, is not installed, and
    for an address that cannot be opened.
    """

    def __init__(self, address: str) -> None:
        # It is shown and written down, and may hold a password.
        self.address = scrub(address.rstrip("/"))
        if "::" in address:
            raise durable.StorageError(
                f"{ENVIRONMENT_VARIABLE}: {self.address!r} is a chain of addresses; name the last."
            )
        try:
            fsspec: Any = importlib.import_module("fsspec.core")  # deferred: an extra
            # Only a folder of this machine has to be made before it is written to.
            more = {"auto_mkdir": True} if address.startswith(("file:", "local:")) else {}
            self._files, root = fsspec.url_to_fs(address, use_listings_cache=False, **more)
        except (ImportError, ValueError) as exc:
            said = f"{ENVIRONMENT_VARIABLE}: {exc}. {_NO_FSSPEC}"
            raise durable.StorageError(scrub(said)) from None
        except Exception as exc:  # boundary: tool - some connect at once
            raise _trouble(f"open {self.address!r}", exc) from None
        self._root = root.rstrip("/")
        self._found: dict[str, set[str]] | None = None
        # Lines are never changed, so each is fetched once.
        self._lines: dict[str, bytes] = {}

    def look(self) -> None:
        found: dict[str, set[str]] = {}
        with self._told(ARTIFACT_FOLDER, "list"):
            for whole in self._files.find(self._at(ARTIFACT_FOLDER)):
                _note(found, whole.removeprefix(f"{self._root}/"))
        self._found = found

    def rest(self) -> None:
        """Do without a listing until somebody looks."""
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
                # It was put, and the answer got lost.
        _note(self._listed(), path)
        return True

    def create_all(
        self, files: Mapping[str, bytes], log: str, gate: Mapping[str, bytes] = {}
    ) -> Collection[str]:
        if not all(self.create(path, data) for path, data in gate.items()):
            return []
        return [*gate, *(path for path, data in files.items() if self.create(path, data))]

    def replace(self, path: str, data: bytes) -> None:
        with self._told(path):
            self._files.pipe_file(self._at(path), data)
        _note(self._listed(), path)

    def append(self, path: str, line: str) -> None:
        data = line.encode("utf-8", "surrogatepass") + b"\n"
        numbers = itertools.count(len(self.names(path)) + 1)
        next(number for number in numbers if self.create(f"{path}/{number:09}", data))

    def settle(self, path: str) -> None:
        pass  # what was put is kept

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
    """That ``path`` is there."""
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
    """Where what is published in the workspace ``root`` lies: at ``PARSIMONY_ARTIFACTS``, where
    that is set, else in its own folder."""
    address = environ.get(ENVIRONMENT_VARIABLE, "").strip()
    if "://" in address and not address.startswith("file://"):
        return Bucket(address)
    # Below the workspace, wherever the notebook's working folder is by then.
    return Folder(root.absolute() / Path(address.removeprefix("file://")).expanduser())
