"""Tamper evidence for the journal: a hash chain of its entries, and a keyed seal over its rows.

Each entry is hash-chained to the one before it. Entries are never removed, moved or changed. A
purge may empty one; the seal then distinguishes purging from tampering. The seal is a keyed digest
of all rows, and its key isn't in the journal.

Whoever can write the file can change a row, but can't forge the seal. Every transaction updates it
by its own changes: per table the number of rows and the sum of their HMACs, which is independent
of order (Clarke et al., "Incremental Multiset Hash Functions", 2003), and one HMAC over all of
these. Rule: a seal that doesn't match is never repaired, unless a person accepts the journal as it
is.
"""

import errno
import hashlib
import hmac
import json
import sqlite3
from collections.abc import Iterable
from typing import Any, Final

from parsimony_kernel.storage.durable import StorageError
from parsimony_kernel.storage.keyring import Key, Keyring

# Tables that people and resumed turns rely on; the state of breakers isn't among them.
SEALED: Final = ("turns", "events", "suspensions", "effects", "sent", "log_lines")
_CREATE = "CREATE TABLE IF NOT EXISTS seal (key_id TEXT, sums TEXT, mac TEXT)"
SEAL_TABLE: Final = f"{_CREATE}; INSERT INTO seal VALUES ('', '', '');"
GENESIS: Final = "0" * 64
_FRESH, _NOBODY = "", "nobody"  # "nobody": a journal begun without a key is unsealed
_MODULUS = 1 << 256
_PASSING = {errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EMFILE, errno.ENFILE}
_ACCEPT = "look through it, and accept it as it is with 'jupyter parsimony trust'"

Row = tuple[bytes | None, ...]
# Per table, the number of rows and the sum of their HMACs.
Sums = dict[str, tuple[int, int]]


# -- the chain


def canonical(value: Any) -> str:
    """Return ``value`` as canonical JSON, the form that is hashed."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def link(db: sqlite3.Connection, run_id: str, at: str, body: str) -> None:
    """Append an entry to the chain, inside the caller's transaction."""
    last = db.execute("SELECT hash FROM events ORDER BY seq DESC LIMIT 1").fetchone()
    prev = last[0] if last else GENESIS
    db.execute(
        "INSERT INTO events (run_id, at, body, prev, hash) VALUES (?, ?, ?, ?, ?)",
        (run_id, at, body, prev, _link(prev, run_id, at, body)),
    )


def first_bad(db: sqlite3.Connection) -> tuple[int, str] | None:
    """Return the first entry that breaks the chain, and what is wrong with it.

    An emptied entry keeps its number, its time and its links, so it doesn't break the chain.
    """
    prev, seq = GENESIS, 0
    for row in db.execute(
        # As bytes: a damaged text need not be UTF-8.
        "SELECT seq, CAST(run_id AS BLOB), CAST(at AS BLOB), CAST(body AS BLOB), "
        "CAST(prev AS BLOB), CAST(hash AS BLOB) FROM events ORDER BY seq"
    ):
        expected, seq = seq + 1, row[0]
        run_id, at, body, before, own = (part.decode("utf-8", "replace") for part in row[1:])
        if seq != expected:
            return expected, "the entry is missing"
        if before != prev:
            return seq, "the entry does not follow the one before it"
        if (run_id or body) and _link(prev, run_id, at, body) != own:
            return seq, "the entry was changed after it was written"
        prev = own
    counted = db.execute("SELECT seq FROM sqlite_sequence WHERE name = 'events'").fetchone()
    if counted is not None and counted[0] != seq:
        return seq + 1, "the entry is missing"
    return None


def _link(prev: str, run_id: str, at: str, body: str) -> str:
    return hashlib.sha256(canonical([prev, run_id, at, body]).encode("ascii")).hexdigest()


# -- the seal


class Seal:
    """The seal of a journal, maintained through one open connection.

    Temporary triggers report the rows that this connection changes. Any other program that writes
    to the file breaks the seal.
    """

    def __init__(self, db: sqlite3.Connection, keyring: Keyring) -> None:
        self._db = db
        self._keyring = keyring
        self._keys: dict[str, Key] = {}  # keys read so far
        self.changes: list[tuple[str, int, Row]] = []  # (table, ±1, row) in this transaction
        self._columns = {
            table: [str(name) for _, name, *_ in db.execute(f"PRAGMA table_info({table})")]
            for table in SEALED
        }
        db.create_function("changed_row", -1, self._changed)
        for table in SEALED:
            for act, rows in (("INSERT", "NEW"), ("DELETE", "OLD"), ("UPDATE", "OLD NEW")):
                told = "".join(
                    f"SELECT changed_row('{table}', {1 if row == 'NEW' else -1}, "
                    f"{self._values(table, row + '.')}); "
                    for row in rows.split()
                )
                db.execute(
                    f"CREATE TEMP TRIGGER sealed_{table}_{act} AFTER {act} ON main.{table} "
                    f"BEGIN {told}END"
                )

    def _values(self, table: str, prefix: str = "") -> str:
        # As bytes: a damaged text need not be UTF-8.
        return ", ".join(f"CAST({prefix}{name} AS BLOB)" for name in self._columns[table])

    def _changed(self, table: str, sign: int, *row: bytes | None) -> None:
        self.changes.append((table, sign, row))

    def write(self) -> None:
        """Update the seal at the end of a transaction, by the rows that it changed."""
        if not self.changes:
            return
        key_id, text, mac = self._kept()
        key = self._key(key_id)
        if key_id == _FRESH:
            self._put(key, self.changes, {})
        elif key is not None and hmac.compare_digest(_mac(key, text), mac):
            self._put(key, self.changes, json.loads(text))

    def renew(self) -> None:
        """Reseal the current rows, whatever they are, with the current key.

        ``StorageError`` if there is no key.
        """
        self._db.execute(_CREATE)
        self._put(self._keyring.current(), self._rows(), {})
        self.changes.clear()

    def problem(self) -> tuple[int, str] | None:
        """Return the first bad entry and what is wrong with it, or ``None``.

        The text ends a sentence about the journal. The entry is 0 if the chain is sound but the
        seal doesn't match or its key is missing. Call it inside a transaction, so that concurrent
        writes aren't seen.
        """
        broken = first_bad(self._db) or (0, self._broken())
        return broken if broken[1] else None

    def _broken(self) -> str:
        key_id, text, mac = self._kept()
        if key_id == _FRESH and next(iter(self._rows()), None) is None:
            return ""
        if key_id in (_FRESH, _NOBODY):
            return f"nothing seals it, so that anybody could have changed it; {_ACCEPT}"
        key = self._key(key_id)
        if key is None:
            return f"the key that sealed it is not here; {_ACCEPT}"
        if not hmac.compare_digest(_mac(key, text), mac):
            return f"its seal was not made with its key; {_ACCEPT}"
        sealed, found = json.loads(text), _summed(key, self._rows(), {})
        for table in SEALED:
            written, there = sealed.get(table, [0, 0]), found.get(table, (0, 0))
            if tuple(written) != there:
                counts = f"{there[0]:,} are there and {written[0]:,} were sealed"
                return f"the rows of {table!r} are not those that were written: {counts}"
        return ""

    def _kept(self) -> tuple[str, str, str]:
        try:
            rows = self._db.execute("SELECT key_id, sums, mac FROM seal").fetchall()
        except sqlite3.OperationalError:  # the table was dropped
            rows = []
        texts = [str(part) for row in rows for part in row]
        # A removed or duplicated seal row is as good as none.
        return (texts[0], texts[1], texts[2]) if len(rows) == 1 else (_NOBODY, "", "")

    def _put(self, key: Key | None, changes: Iterable[tuple[str, int, Row]], before: Sums) -> None:
        sealed = _NOBODY, "", ""
        if key is not None:
            text = json.dumps(_summed(key, changes, before))
            sealed = key.key_id, text, _mac(key, text)
        self._db.execute("DELETE FROM seal")
        self._db.execute("INSERT INTO seal VALUES (?, ?, ?)", sealed)

    def _key(self, key_id: str) -> Key | None:
        if key_id not in self._keys:
            try:
                key = self._keyring.get(key_id) if key_id else self._keyring.current()
            except StorageError as exc:
                # The file is damaged, or a retry may work: going on would break the seal.
                if exc.errno is None or exc.errno in _PASSING:
                    raise
                return None
            if key is not None:
                self._keys[key_id] = key
        return self._keys.get(key_id)

    def _rows(self) -> Iterable[tuple[str, int, Row]]:
        for table in SEALED:
            for row in self._db.execute(f"SELECT {self._values(table)} FROM {table}"):
                yield table, 1, row


def _summed(key: Key, changes: Iterable[tuple[str, int, Row]], before: Sums) -> Sums:
    """Return ``before`` updated by the rows added (sign 1) and removed (sign -1)."""
    sums, secret = dict(before), key.secret.encode()
    for table, sign, row in changes:
        parts = (b"-" if part is None else b"%d:%b" % (len(part), part) for part in row)
        mac = hmac.digest(secret, b" ".join((table.encode(), *parts)), "sha256")
        count, total = sums.get(table, (0, 0))
        sums[table] = count + sign, (total + sign * int.from_bytes(mac)) % _MODULUS
    return sums


def _mac(key: Key, text: str) -> str:
    return hmac.new(key.secret.encode(), f"seal {text}".encode(), "sha256").hexdigest()
