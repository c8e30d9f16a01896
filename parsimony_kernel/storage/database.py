"""The journal's SQLite file: opening, reading, writing, and error translation.

Many processes and threads use it at once. Transactions are atomic, ``synced`` ones are on disk
when they return, and an error is one sentence with its remedy.
"""

import errno
import os
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from parsimony_kernel.core.errors import SessionError
from parsimony_kernel.identity import ARTIFACT_FOLDER
from parsimony_kernel.storage import durable
from parsimony_kernel.storage.keyring import Keyring, KeyringError
from parsimony_kernel.storage.seal import SEAL_TABLE, Seal
from parsimony_kernel.storage.workspace import ENVIRONMENT_VARIABLE, prepare

MEMORY = ":memory:"
# Writes are short: a longer wait means a stuck process, and it would delay Stop.
BUSY_TIMEOUT_S = 2.0

_APPLICATION_ID = 0x5041524A  # "PARJ": distinguishes journals from other databases
_SCHEMA_VERSION = 4
# SQLite's log files beside a journal; SQLite replays them into any file at the journal's path.
_LOGS = ("-wal", "-shm")


class JournalError(SessionError):
    """The journal cannot be opened, read or written. ``str()`` is one sentence with the remedy."""


class Database:
    """One open journal file.

    Args:
        path: the file, created with its folder if missing, or ``":memory:"``.
        schema: the SQL that creates its tables.
        keyring: the keys that seal it.
        busy_timeout_s: seconds to wait for another writer.

    Raises:
        JournalError: the folder isn't writable, or the file isn't a journal of this program.
    """

    def __init__(
        self,
        path: Path | str,
        schema: str,
        keyring: Keyring,
        busy_timeout_s: float = BUSY_TIMEOUT_S,
    ) -> None:
        self.path = str(path)
        self._keyring = keyring
        self._schema = (
            f"PRAGMA application_id = {_APPLICATION_ID};\n"
            f"PRAGMA user_version = {_SCHEMA_VERSION};\n{schema}{SEAL_TABLE}"
        )
        self._lock = threading.RLock()
        self._closed = False
        self._process = os.getpid()
        self._is_open = False  # also after a failed attempt to replace a removed file
        self._busy_timeout_s = busy_timeout_s
        self.notice = ""  # a sentence for the user about the opening
        self._connect()

    def _connect(self) -> None:
        if self.path != MEMORY:
            if Path(self.path).is_symlink():
                raise JournalError(
                    f"The journal {self.path!r} is a link, which may lead out of the workspace: "
                    "replace it by the file itself."
                )
            _create_file(Path(self.path), self._schema)
        self._inode = self._inode_on_disk()
        with self.explained("open"):
            self._db = sqlite3.connect(
                self.path,
                timeout=self._busy_timeout_s,
                isolation_level=None,
                check_same_thread=False,
            )
        try:
            with self.explained("open"):
                if self.path == MEMORY:
                    self._db.executescript(self._schema)
                self._check_format()
                # Fail now, at opening, if the file or its folder isn't writable.
                self._db.execute("BEGIN IMMEDIATE")
                self._db.execute("ROLLBACK")
                self.seal = Seal(self._db, self._keyring)
        except BaseException:
            self._db.close()
            raise
        self._is_open = True

    def _inode_on_disk(self) -> int:
        """Return the inode of the file at the path; 0 without one or for a journal in memory."""
        try:
            # Runs before each statement: ``Path.stat`` takes ten times as long.
            return os.stat(self.path).st_ino if self.path != MEMORY else 0  # noqa: PTH116
        except OSError:
            return 0

    def _check_format(self) -> None:
        application = self._db.execute("PRAGMA application_id").fetchone()[0]
        version = self._db.execute("PRAGMA user_version").fetchone()[0]
        if (application, version) != (_APPLICATION_ID, _SCHEMA_VERSION):
            which = version if application == _APPLICATION_ID else "of another program"
            raise JournalError(
                f"The journal {self.path!r} has format {which} and this program reads format "
                f"{_SCHEMA_VERSION}: use the program that wrote it, or set it aside with 'jupyter "
                "parsimony journal --set-aside', and a new one is made in its place."
            )

    def close(self) -> None:
        """Close it; closing twice is fine."""
        with self._lock:
            if not self._closed:
                self._closed = True
                self._db.close()

    def connection(self) -> sqlite3.Connection:
        """Return the open connection, reopened if the file at the path was removed or replaced."""
        if self._closed:
            raise JournalError(f"The journal {self.path!r} is closed: open it again.")
        if os.getpid() != self._process:
            raise JournalError(
                f"The journal {self.path!r} was opened before this process was forked, and only "
                "the process that opened it writes to it: open it again here."
            )
        if not self._is_open or (
            self._inode_on_disk() != self._inode and not self._db.in_transaction
        ):
            # Deleted or replaced meanwhile: writes to the old file would be lost. Closing is safe:
            # SQLite doesn't touch the logs of a file that is no longer at its path.
            self._is_open = False
            self._db.close()
            self._connect()
            self.notice = self.notice or (
                "The journal was moved or deleted while this notebook was open: a new one begins "
                "here, without the turns before."
            )
        return self._db

    @contextmanager
    def transaction(self, *, synced: bool = False) -> Iterator[sqlite3.Connection]:
        """Run the body in one transaction; a ``synced`` one survives a power cut."""
        with self._lock, self.explained("write"):
            db = self.connection()
            # FULL syncs the log at this commit, and with it every earlier one.
            db.execute(f"PRAGMA synchronous = {'FULL' if synced else 'NORMAL'}")
            db.execute("BEGIN IMMEDIATE")
            self.seal.changes.clear()
            try:
                yield db
                self.seal.write()
                db.execute("COMMIT")
            except BaseException:
                if db.in_transaction:
                    db.execute("ROLLBACK")
                raise

    @contextmanager
    def reading(self, doing: str) -> Iterator[sqlite3.Connection]:
        """Yield the connection for longer reads; errors are reported as "Cannot ``doing`` …"."""
        with self._lock, self.explained(doing):
            yield self.connection()

    def select(self, statement: str, *arguments: Any) -> list[Any]:
        """Return all rows of one statement."""
        with self.reading("read") as db:
            return db.execute(statement, arguments).fetchall()

    @contextmanager
    def explained(self, doing: str) -> Iterator[None]:
        """Raise SQLite and keyring errors of the body as a ``JournalError`` about ``doing``."""
        try:
            yield
        except sqlite3.Error as exc:
            raise JournalError(_sentence(exc, self.path, doing)) from exc
        except KeyringError as exc:
            raise JournalError(f"Cannot {doing} the journal {self.path!r}: {exc}") from exc


def _create_file(path: Path, schema: str) -> None:
    """Create the journal in a temporary folder and publish it under its name in one step.

    So no process opens a half-made journal or has to switch it to write-ahead logging, which two
    processes can't do at once.
    """
    try:
        is_there = path.exists()
        if path.parent.name == ARTIFACT_FOLDER:
            # First, so that git never sees the journal and a workspace begun here is trusted.
            with suppress(OSError) if is_there else nullcontext():
                prepare(path.parent.parent)
        durable.make_folder(path.parent)
        if is_there:
            return
        with TemporaryDirectory() as folder:
            draft = Path(folder) / "draft.sqlite"
            db = sqlite3.connect(draft, isolation_level=None)
            try:
                db.execute("PRAGMA synchronous = OFF")  # ``durable.create`` syncs the copy below
                db.executescript(schema)
                # Last, so that all data is in the file and none in a log: closing a connection
                # checkpoints the log, but fails silently when it can't.
                mode = db.execute("PRAGMA journal_mode = WAL").fetchone()[0]
            finally:
                db.close()
            if mode != "wal":
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            with durable.alone_in(path.parent) as is_alone:
                if path.exists():
                    return
                # The log of a moved or deleted journal would be replayed into this one.
                _move_together(path, _LOGS, f"{path.stem}.without-its-log")
                place = durable.replace if is_alone else durable.create
                place(path, durable.read(draft))
    except OSError as exc:
        reason = str(durable.storage_error(exc, path)).rstrip(".")
        raise JournalError(
            f"The journal cannot be kept in {str(path.parent)!r}. {reason}, or set "
            f"{ENVIRONMENT_VARIABLE} to a folder that can be written."
        ) from exc
    except sqlite3.Error as exc:
        raise JournalError(_sentence(exc, str(path), "create")) from exc


def set_aside(path: Path) -> Path | None:
    """Rename a journal and its logs together; return the new path, ``None`` without a journal.

    ``JournalError`` if they can't be renamed.
    """
    try:
        with durable.alone_in(path.parent):
            moved = _move_together(path, ("", *_LOGS), f"{path.stem}.set-aside")
    except OSError as exc:
        raise JournalError(str(durable.storage_error(exc, path, "move"))) from exc
    return moved[0] if moved else None


def _move_together(path: Path, endings: Sequence[str], stem: str) -> list[Path]:
    """Rename the existing files of a journal to one new, free name; return the new paths."""
    found = [each for each in endings if path.with_name(path.name + each).exists()]
    names = (f"{stem}{number or ''}{path.suffix}" for number in count())
    free = next(
        name
        for name in names
        if not any(path.with_name(name + each).exists() for each in ("", *_LOGS))
    )
    return [durable.rename(path.with_name(path.name + each), free + each) for each in found]


def _sentence(exc: sqlite3.Error, path: str, doing: str) -> str:
    _, _, kind = getattr(exc, "sqlite_errorname", "").partition("_")
    usual = "check the disk and try again"
    remedy = durable.TROUBLE["sqlite"].get(kind.partition("_")[0], usual)
    return f"Cannot {doing} the journal {path!r} ({exc}): {remedy}."


def storable(value: str) -> str:
    """Return ``value`` without lone surrogates, which UTF-8, and so SQLite, can't store."""
    return value.encode("utf-8", "replace").decode("utf-8")
