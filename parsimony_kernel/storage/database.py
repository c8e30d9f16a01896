"""The journal's SQLite file: opening, reading, writing, and error translation.

Many processes and threads use it at once. Transactions are atomic, ``synced`` ones are on disk
when they return, and an error is one sentence with its remedy.
"""

import os
import sqlite3
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from itertools import count
from pathlib import Path
from typing import Any

from parsimony_kernel.core.errors import SessionError
from parsimony_kernel.identity import ARTIFACT_FOLDER
from parsimony_kernel.storage import durable
from parsimony_kernel.storage.keyring import Keyring
from parsimony_kernel.storage.seal import SEAL_TABLE, Seal
from parsimony_kernel.storage.workspace import ENVIRONMENT_VARIABLE, prepare

MEMORY = ":memory:"
# Writes are short: a longer wait means a stuck process, and it would delay Stop.
BUSY_TIMEOUT_S = 2.0
_ASK_AGAIN_S = 0.001

_APPLICATION_ID = 0x5041524A  # "PARJ": distinguishes journals from other databases
_SCHEMA_VERSION = 7
_SCHEMA = (
    f"PRAGMA application_id = {_APPLICATION_ID};\nPRAGMA user_version = {_SCHEMA_VERSION};\n"
    f"{Path(__file__).with_name('schema.sql').read_text(encoding='utf-8')}{SEAL_TABLE}"
)
# SQLite's log files beside a journal; SQLite replays them into any file at the journal's path.
_LOGS = ("-wal", "-shm")


class JournalError(SessionError):
    """The journal cannot be opened, read or written. ``str()`` is one sentence with the remedy."""


class Database:
    """One open journal file.

    Args:
        path: the file, created with its folder if missing, or ``":memory:"``.
        keyring: the keys that seal it.

    Raises:
        JournalError: the folder isn't writable, or the file isn't a journal of this program.
    """

    def __init__(self, path: Path | str, keyring: Keyring) -> None:
        self.path = str(path)
        self._keyring = keyring
        self._lock = threading.RLock()
        self._closed = False
        self._process = os.getpid()
        self._is_open = False  # also after a failed attempt to replace a removed file
        self.notice = ""  # a sentence for the user about the opening
        self._connect()

    def _connect(self) -> None:
        if self.path != MEMORY:
            if Path(self.path).is_symlink():
                raise JournalError(
                    f"The journal {self.path!r} is a link, which may lead out of the workspace: "
                    "replace it by the file itself."
                )
            with self.explained("create"):
                _create_file(Path(self.path))
        self._inode = self._inode_on_disk()
        with self.explained("open"), ExitStack() as failed:
            self._db = sqlite3.connect(
                self.path, timeout=BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False
            )
            failed.callback(self._db.close)
            if self.path == MEMORY:
                self._db.executescript(_SCHEMA)
            self._check_format()
            # Fail now, at opening, if the file or its folder isn't writable.
            _begin(self._db)
            self._db.execute("ROLLBACK")
            self.seal = Seal(self._db, self._keyring)
            failed.pop_all()
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
            self.seal.changes.clear()
            try:
                _begin(db)
                yield db
                self.seal.write()
                db.execute("COMMIT")
            except BaseException:
                if db.in_transaction:
                    db.execute("ROLLBACK")
                raise

    def write(self, statement: str, *arguments: Any, synced: bool = False) -> None:
        """Run one statement in a transaction of its own."""
        with self.transaction(synced=synced) as db:
            db.execute(statement, arguments)

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
        """Raise what fails in the body as a ``JournalError`` about ``doing``."""
        try:
            yield
        except (sqlite3.Error, durable.StorageError, RecursionError) as exc:
            raise JournalError(_sentence(exc, self.path, doing)) from exc

    @contextmanager
    def intact(self, what: str, remedy: str) -> Iterator[None]:
        """Raise a ``JournalError`` that ``what`` is damaged if the body can't parse it."""
        try:
            yield
        except (LookupError, TypeError, ValueError) as exc:
            where = f"in the journal {self.path!r}"
            raise JournalError(f"{what} {where} is damaged{remedy}") from exc


def _begin(db: sqlite3.Connection) -> None:
    """Begin a write once no other process writes; raise after ``BUSY_TIMEOUT_S``.

    SQLite itself asks every 100 ms only, and so a few busy writers can starve another for seconds.
    """
    give_up_at = time.monotonic() + BUSY_TIMEOUT_S
    db.execute("PRAGMA busy_timeout = 0")
    try:
        while True:
            try:
                db.execute("BEGIN IMMEDIATE")
                return
            except sqlite3.OperationalError as exc:
                is_busy = getattr(exc, "sqlite_errorname", "").startswith("SQLITE_BUSY")
                if not is_busy or time.monotonic() > give_up_at:
                    raise
                time.sleep(_ASK_AGAIN_S)
    finally:
        db.execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_S * 1000:.0f}")


def _empty() -> bytes:
    """Return the bytes of an empty journal, in write-ahead mode.

    Two processes can't switch an open journal to that mode at once.
    """
    with closing(sqlite3.connect(MEMORY)) as db:
        db.executescript(_SCHEMA)
        data = db.serialize()
    return data[:18] + b"\2\2" + data[20:]  # its readers and writers use a write-ahead log


def _create_file(path: Path) -> None:
    """Create the journal in one step, so that no process opens a half-made one."""
    try:
        if path.parent.name == ARTIFACT_FOLDER and not path.exists():
            # First, so that git never sees the journal and a workspace begun here is trusted.
            prepare(path.parent.parent)
        durable.make_folder(path.parent)
        if path.exists():
            return
        with durable.alone_in(path.parent) as is_alone:
            if path.exists():
                return
            # The log of a moved or deleted journal would be replayed into this one.
            _move_together(path, _LOGS, f"{path.stem}.without-its-log")
            place = durable.replace if is_alone else durable.create
            place(path, _empty())
    except OSError as exc:
        reason = str(durable.storage_error(exc, path)).rstrip(".")
        other = f"or set {ENVIRONMENT_VARIABLE} to a folder that can be written"
        raise JournalError(f"{reason}, {other}.") from exc


def set_aside(path: Path) -> Path | None:
    """Rename a journal and its logs together; return the new path, ``None`` without a journal.

    ``StorageError`` if they can't be renamed.
    """
    with durable.alone_in(path.parent):
        moved = _move_together(path, ("", *_LOGS), f"{path.stem}.set-aside")
    return moved[0] if moved else None


def _move_together(path: Path, endings: Sequence[str], stem: str) -> list[Path]:
    """Rename the existing files of a journal to one new, free name; return the new paths."""
    there = durable.listed(path.parent)
    found = [each for each in endings if path.name + each in there]
    names = (f"{stem}{number or ''}{path.suffix}" for number in count())
    free = next(each for each in names if not any(name.startswith(each) for name in there))
    return [durable.rename(path.with_name(path.name + each), free + each) for each in found]


def _sentence(exc: Exception, path: str, doing: str) -> str:
    """Say what failed and what to do; an error of the keys says that itself."""
    said = str(exc)
    if not isinstance(exc, durable.StorageError):
        kind = getattr(exc, "sqlite_errorname", type(exc).__name__)
        named = (each for each in kind.split("_") if each in durable.TROUBLE["journal"])
        said = f"{exc}; {durable.TROUBLE['journal'][next(named, 'other')]}."
    return f"Cannot {doing} the journal {path!r}: {said}"
