"""The keys that sign suspended runs.

One file of mode 0600 below Jupyter's data directory, in which each key stands by a digest of
itself, so that an id never means two keys. The last one signs. It is rewritten whole, in one step
and under a lock, so that of many who change it at once none is lost, and a change that dies half
way changes nothing. The rule of the place: a secret is never shown, and never empty.
"""

import hashlib
import os
import secrets
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Literal, Self

from pydantic import (
    AwareDatetime,
    BaseModel,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
    model_validator,
)

from parsimony_kernel.core.clock import SYSTEM_CLOCK, Clock
from parsimony_kernel.core.errors import SessionError
from parsimony_kernel.storage import durable

ENVIRONMENT_VARIABLE = "PARSIMONY_SUSPENSION_SECRET"
ENVIRONMENT_KEY_ID = "env"
GRACE_S = 7 * 86_400.0
FILE = "keys.json"

KeyState = Literal["current", "grace", "expired", "environment"]

_SECRET_BYTES = 32


class KeyringError(SessionError):
    """The signing key cannot be made, read or changed. ``str()`` is one sentence with the
    remedy."""


@dataclass(frozen=True)
class Key:
    """A signing key. ``repr`` shows its id alone."""

    key_id: str
    secret: str = field(repr=False)


@dataclass(frozen=True)
class KeyInfo:
    """What may be shown of a key. The environment's key, when there is one, signs in the place of
    the current one and has no dates. ``retired_at`` is when a key signed no more."""

    key_id: str
    state: KeyState
    created_at: datetime | None = None
    retired_at: datetime | None = None


class _Entry(BaseModel):
    """A key as the file has it. The last one signs, unless it is ``retired``."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    key_id: str = Field(pattern=r"^[0-9a-f]{16}$")
    secret: str = Field(repr=False)
    since: AwareDatetime
    retired: AwareDatetime | None = None

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        if not self.secret or _id_of(self.secret) != self.key_id:
            raise ValueError("the key is not the one of its id")
        return self

    def state(self, now: datetime) -> KeyState:
        if self.retired is None:
            return "current"
        return "grace" if now - self.retired <= timedelta(seconds=GRACE_S) else "expired"


_ENTRIES = TypeAdapter(list[_Entry])


class Keyring:
    """The keys of one user. Nothing is read or created before a key is asked for."""

    def __init__(
        self, folder: Path, from_environment: Key | None = None, clock: Clock = SYSTEM_CLOCK
    ) -> None:
        self._folder = folder
        self._path = folder / FILE
        self._from_environment = from_environment
        self._clock = clock

    @classmethod
    def open(
        cls,
        folder: Path | None = None,
        environ: Mapping[str, str] = os.environ,
        clock: Clock = SYSTEM_CLOCK,
    ) -> "Keyring":
        """The keyring in ``folder``, by default ``parsimony/keys`` of Jupyter's data directory.

        A secret in ``PARSIMONY_SUSPENSION_SECRET`` is the current key, with the id ``env``.
        """
        if folder is None:
            from jupyter_core.paths import jupyter_data_dir  # deferred: only a default needs it

            folder = Path(jupyter_data_dir()) / "parsimony" / "keys"
        secret = environ.get(ENVIRONMENT_VARIABLE, "").strip()
        return cls(folder, Key(ENVIRONMENT_KEY_ID, secret) if secret else None, clock)

    def __repr__(self) -> str:
        return f"Keyring({str(self._folder)!r})"

    def current(self) -> Key:
        """The key to sign with, created on first need and after a revocation.

        Of several processes that create one at once all get the same. ``KeyringError`` when it
        can be neither read nor created.
        """
        if self._from_environment is not None:
            return self._from_environment
        remedy = f", or set {ENVIRONMENT_VARIABLE} to a secret of your own."
        with _explained("There is no key to sign questions with: ", remedy):
            entries = self._read()
            if _sign(entries):
                # Whoever made it may have been killed before its name was synced.
                durable.settle(self._path)
            else:
                entries = self._add(self._clock.now(), only_if_needed=True)
        return Key(entries[-1].key_id, entries[-1].secret)

    def get(self, key_id: str, now: datetime | None = None) -> Key | None:
        """The key of this id while questions that it signed are answered.

        ``None`` when there is none, it was revoked, or it was replaced more than ``GRACE_S``
        seconds before ``now``.
        """
        found = self._judged(key_id, now)
        return None if isinstance(found, str) else found

    def why_not(self, key_id: str, now: datetime | None = None) -> str:
        """Why a question that ``key_id`` signed cannot be answered; empty when it can.

        One sentence with the remedy.
        """
        found = self._judged(key_id, now)
        return found if isinstance(found, str) else ""

    def _judged(self, key_id: str, now: datetime | None) -> Key | str:
        """The key of a question, or why it answers no question."""
        if key_id == ENVIRONMENT_KEY_ID:
            return self._from_environment or _NO_ENVIRONMENT
        entry = self._entry(key_id)
        why = "is not on this machine, or was revoked: answer where it was asked, or"
        if entry is not None:
            if entry.state(now or self._clock.now()) != "expired":
                return Key(key_id, entry.secret)
            days = f"{GRACE_S / 86_400:g} days"
            why = f"was replaced on {entry.retired:%Y-%m-%d} and was good for {days} more:"
        return f"The key {_shown(key_id)} that signed this question {why} run the cell again."

    def sealing(self, key_id: str = "") -> Key:
        """The key of this id, however old, or with no id the one that signs now.

        A secret of the environment is named by its digest here, so that another secret there is
        another key. ``KeyringError`` when there is no such key, or it was revoked.
        """
        if self._from_environment is not None:
            secret = self._from_environment.secret
            if key_id in ("", _id_of(secret)):
                return Key(_id_of(secret), secret)
        elif not key_id:
            return self.current()
        entry = self._entry(key_id)
        if entry is None:
            raise KeyringError(f"The key {_shown(key_id)} is not on this machine.")
        return Key(key_id, entry.secret)

    def rotate(self, now: datetime | None = None) -> Key:
        """Make a new current key. The old one signs no more; ``get`` gives it for ``GRACE_S``.

        ``KeyringError`` when the key comes from the environment or the new one cannot be written.
        """
        if self._from_environment is not None:
            raise _changed_elsewhere("rotated")
        with _explained():
            durable.sweep_temporary(self._folder, clock=self._clock)
            new = self._add(now or self._clock.now())[-1]
        return Key(new.key_id, new.secret)

    def revoke(self, key_id: str) -> None:
        """Destroy a key now; its questions cannot be answered any more.

        ``KeyringError`` when there is no such key, it comes from the environment, or the file
        cannot be written.
        """
        if key_id == ENVIRONMENT_KEY_ID:
            raise _changed_elsewhere("revoked")
        if self._entry(key_id) is None:
            raise KeyringError(
                f"There is no key {_shown(key_id)} here: 'jupyter parsimony keys list' shows "
                "those that are."
            )
        with _explained():
            self._change(lambda entries: [each for each in entries if each.key_id != key_id])
            durable.sweep_temporary(self._folder, clock=self._clock)

    def keys(self, now: datetime | None = None) -> tuple[KeyInfo, ...]:
        """Every key, the newest first; the environment's before all."""
        with _explained():
            told = [
                KeyInfo(each.key_id, each.state(now or self._clock.now()), each.since, each.retired)
                for each in self._read()
            ]
        if self._from_environment is not None:
            told.append(KeyInfo(ENVIRONMENT_KEY_ID, "environment"))
        return tuple(reversed(told))

    def _entry(self, key_id: str) -> _Entry | None:
        with _explained():
            return next((each for each in self._read() if each.key_id == key_id), None)

    def _add(self, now: datetime, *, only_if_needed: bool = False) -> list[_Entry]:
        """The keys with a new one, unless it is not needed: somebody else was first."""
        secret = secrets.token_hex(_SECRET_BYTES)
        new = _Entry(key_id=_id_of(secret), secret=secret, since=now)

        def added(entries: list[_Entry]) -> list[_Entry]:
            if only_if_needed and _sign(entries):
                return entries
            retired = (
                each if each.retired else each.model_copy(update={"retired": now})
                for each in entries
            )
            return [*retired, new]

        return self._change(added)

    def _change(self, change: Callable[[list[_Entry]], list[_Entry]]) -> list[_Entry]:
        """Write what ``change`` makes of the keys, one process at a time; the keys then."""
        self._read()  # what is no file of ours is not waited for, and not written over
        durable.make_folder(self._folder, mode=0o700)
        durable.create(self._path, b"[]", mode=0o600)
        written = durable.rewrite(
            self._path, lambda data: _ENTRIES.dump_json(change(self._parsed(data)))
        )
        return self._parsed(written)

    def _read(self) -> list[_Entry]:
        """The keys, the oldest first; none where there is no file."""
        try:
            found = self._path.lstat()
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as exc:
            raise durable.storage_error(exc, self._path, "read") from exc
        if not stat.S_ISREG(found.st_mode):  # else reading may never end, or never begin
            raise self._damaged()
        return self._parsed(durable.read(self._path))

    def _parsed(self, data: bytes) -> list[_Entry]:
        try:
            return _ENTRIES.validate_json(data)
        except ValidationError:
            raise self._damaged() from None  # the error quotes what it met, perhaps a secret

    def _damaged(self) -> KeyringError:
        return KeyringError(
            f"The file of signing keys {str(self._path)!r} is damaged: bring it back from a copy, "
            "or remove that file to start with a new key; questions signed with the old ones "
            "cannot be resumed then."
        )


_NO_ENVIRONMENT = (
    f"This question was signed with the secret in {ENVIRONMENT_VARIABLE}, which is not set here: "
    "set it as it was then, or run the cell again."
)


def _changed_elsewhere(what: str) -> KeyringError:
    return KeyringError(
        f"The signing key is the secret in {ENVIRONMENT_VARIABLE} and is not {what} here: unset "
        "that variable, or set it to a new secret, where it is set; questions that were signed "
        "with the old one cannot be answered then."
    )


@contextmanager
def _explained(before: str = "", after: str = ".") -> Iterator[None]:
    try:
        yield
    except durable.StorageError as exc:
        raise KeyringError(f"{before}{str(exc).rstrip('.')}{after}") from exc


def _sign(entries: Sequence[_Entry]) -> bool:
    """Whether one of these keys signs."""
    return bool(entries) and entries[-1].retired is None


def _id_of(secret: str) -> str:
    return hashlib.sha256(f"key id of {secret}".encode()).hexdigest()[:16]


def _shown(key_id: str) -> str:
    return repr(key_id if len(key_id) <= 40 else f"{key_id[:40]}…")
