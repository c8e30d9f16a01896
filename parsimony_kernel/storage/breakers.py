"""The state of breakers in the journal's file, shared by every process of a workspace.

A table beside the others. Nothing is synced: what a power cut takes back is one word about a
service, and the next failure tells it again.
"""

from dataclasses import dataclass

from parsimony_kernel.core.clock import SYSTEM_CLOCK, Clock
from parsimony_kernel.limits.breaker import Rule, StoreError, T, parse
from parsimony_kernel.storage.database import JournalError
from parsimony_kernel.storage.store import SqliteJournal

_TABLE = "CREATE TABLE IF NOT EXISTS breakers (name TEXT PRIMARY KEY, state TEXT NOT NULL)"


@dataclass(eq=False)
class JournalBreakers:
    """A ``BreakerStore`` over an open journal. ``clock`` gives the wall time."""

    journal: SqliteJournal
    clock: Clock = SYSTEM_CLOCK

    def change(self, name: str, rule: Rule[T]) -> T:
        key = name.encode("utf-8", "replace").decode("utf-8")
        try:
            with self.journal.database.transaction() as db:
                # Each time: the journal makes a new file where its own was taken away.
                db.execute(_TABLE)
                row = db.execute("SELECT state FROM breakers WHERE name = ?", (key,)).fetchone()
                before = parse(name, row[0] if row else None)
                # Read under the lock: a clock that was read before may lie behind what is kept.
                after, answer = rule(before, self.clock.now().timestamp())
                if after != before:
                    db.execute(
                        "INSERT INTO breakers (name, state) VALUES (?, ?) "
                        "ON CONFLICT (name) DO UPDATE SET state = excluded.state",
                        (key, after.model_dump_json()),
                    )
        except JournalError as exc:
            raise StoreError(str(exc)) from exc
        return answer
