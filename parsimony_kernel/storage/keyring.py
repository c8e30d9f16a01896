"""The keys that sign suspended runs.

One file of mode 0600 below Jupyter's data directory. A key's id is a digest of its secret, so an id
never means two keys. The last key signs. The file is replaced atomically and under a lock, so that
concurrent changes aren't lost and an interrupted change has no effect. Rules: a secret is never
shown, and never empty; a damaged entry is named where its key may be needed, and the other keys
work on.
"""

import errno
import hashlib
import os
import secrets
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from pydantic import AwareDatetime, ConfigDict, Field, TypeAdapter, ValidationError

from parsimony_kernel.core.clock import SYSTEM_CLOCK, Clock
from parsimony_kernel.core.errors import SessionError
from parsimony_kernel.storage import durable

ENVIRONMENT_VARIABLE = "PARSIMONY_SUSPENSION_SECRET"
ENVIRONMENT_KEY_ID = "env"
# How long a question can be answered, in seconds, and so how long its key is of use.
GRACE_S = 7 * 86_400.0
FILE = "keys.json"

_SECRET_BYTES = 32


class KeyringError(SessionError):
    """The signing key cannot be made, read or changed. ``str()`` is one sentence with the
    remedy."""


@dataclass(frozen=True)
class Key:
    """A signing key, as stored in the file. ``repr`` doesn't show its secret.

    The last one signs, unless it is ``retired``. A key from the environment signs instead and has
    no dates.
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    key_id: Annotated[str, Field(pattern=r"^[0-9a-f]{16}$")]
    secret: Annotated[str, Field(min_length=1)] = field(repr=False)
    since: AwareDatetime | None = field(default=None, compare=False)
    retired: AwareDatetime | None = field(default=None, compare=False)

    @property
    def state(self) -> Literal["current", "old", "environment"]:
        """What the key is good for: an old one only verifies."""
        if self.key_id == ENVIRONMENT_KEY_ID:
            return "environment"
        return "current" if self.retired is None else "old"


_ENTRIES: TypeAdapter[list[object]] = TypeAdapter(list[object])
_KEY = TypeAdapter(Key)
_KEYS = TypeAdapter(list[Key])


class Keyring:
    """The keys of one user. Nothing is read or created until a key is needed."""

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
        """Open the keyring in ``folder``, by default ``parsimony/keys`` in Jupyter's data folder.

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
        """Return the key to sign with, created on first use and after a revocation.

        Processes that create one concurrently all get the same key. ``KeyringError`` if it can be
        neither read nor created.
        """
        if self._from_environment is not None:
            return self._from_environment
        remedy = f", or set {ENVIRONMENT_VARIABLE} to a secret of your own."
        with _explained("There is no key to sign questions with: ", remedy):
            entries = self._read(_sign)
            if _sign(entries):
                # Its creator may have been killed before syncing its name.
                durable.settle(self._path)
            else:
                entries = self._add(only_if_needed=True)
        return entries[-1]

    def get(self, key_id: str) -> Key | None:
        """Return the key of this id; ``None`` if there is none, or it was revoked."""
        return self._from_environment if key_id == ENVIRONMENT_KEY_ID else self._entry(key_id)

    def why_not(self, key_id: str) -> str:
        """Return why a question signed by a key that ``get`` doesn't find can't be answered."""
        if key_id == ENVIRONMENT_KEY_ID:
            return _NO_ENVIRONMENT
        return (
            f"The key {_shown(key_id)} that signed this question is not on this machine, or was "
            "revoked: answer where it was asked, or run the cell again."
        )

    def sealing(self, key_id: str = "") -> Key:
        """Return the key of this id, however old; without an id, the current one.

        Here the id of an environment secret is its digest, so that a changed secret is another
        key. ``KeyringError`` if there is no such key, or it was revoked.
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
        return entry

    def rotate(self) -> Key:
        """Create a new current key; the old one still verifies until it is revoked.

        ``KeyringError`` if the key comes from the environment or the new one can't be written.
        """
        if self._from_environment is not None:
            raise _changed_elsewhere("rotated")
        with _explained():
            durable.sweep_temporary(self._folder, clock=self._clock)
            return self._add()[-1]

    def revoke(self, key_id: str) -> None:
        """Delete a key now; its questions can no longer be answered.

        ``KeyringError`` if there is no such key, it comes from the environment, or the file can't
        be written.
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

    def keys(self) -> tuple[Key, ...]:
        """Return all keys, newest first; a key from the environment comes before them."""
        with _explained():
            stored = self._read()
        given = () if self._from_environment is None else (self._from_environment,)
        return (*given, *reversed(stored))

    def _entry(self, key_id: str) -> Key | None:
        with _explained():
            stored = self._read(lambda keys: any(each.key_id == key_id for each in keys))
            return next((each for each in stored if each.key_id == key_id), None)

    def _add(self, *, only_if_needed: bool = False) -> list[Key]:
        """Add a new key, unless another process was first and it isn't needed; return all keys."""
        secret, now = secrets.token_hex(_SECRET_BYTES), self._clock.now()
        new = Key(_id_of(secret), secret, now)

        def added(entries: list[Key]) -> list[Key]:
            if only_if_needed and _sign(entries):
                return entries
            return [*(replace(each, retired=each.retired or now) for each in entries), new]

        return self._change(added)

    def _change(self, change: Callable[[list[Key]], list[Key]]) -> list[Key]:
        """Apply ``change`` to the stored keys under a lock; return the new keys."""
        durable.make_folder(self._folder, mode=0o700)
        durable.create(self._path, b"[]", mode=0o600)
        written = durable.rewrite(
            self._path, lambda data: _KEYS.dump_json(change(self._parsed(data)))
        )
        return self._parsed(written)

    def _read(self, suffice: Callable[[list[Key]], bool] = lambda keys: False) -> list[Key]:
        """Return the stored keys, oldest first; none without a file.

        ``KeyringError`` names a damaged entry, unless the intact ones ``suffice``.
        """
        with suppress(OSError):  # reading says why
            if not stat.S_ISREG(self._path.stat().st_mode):  # a pipe or a device may hang
                raise self._damaged()
        try:
            return self._parsed(durable.read(self._path), suffice)
        except durable.StorageError as exc:
            if exc.errno in (errno.ENOENT, errno.ENOTDIR):
                return []
            raise

    def _parsed(
        self, data: bytes, suffice: Callable[[list[Key]], bool] = lambda keys: False
    ) -> list[Key]:
        try:
            entries = _ENTRIES.validate_json(data)
        except ValidationError:  # it may quote a secret
            raise self._damaged() from None
        parsed = [_key_in(entry) for entry in entries]
        keys = [key for key in parsed if key is not None]
        if len(keys) < len(entries) and not suffice(keys):
            raise self._damaged(parsed.index(None) + 1)
        return keys

    def _damaged(self, number: int = 0) -> KeyringError:
        entry, what = (f"Entry {number} of the", "entry") if number else ("The", "file")
        return KeyringError(
            f"{entry} file of signing keys {str(self._path)!r} is damaged: bring it back from a "
            f"copy, or remove that {what} to go on without; questions signed with what was in it "
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


def _sign(entries: Sequence[Key]) -> bool:
    """Return whether there is a current key: the last one, not retired."""
    return bool(entries) and entries[-1].retired is None


def _key_in(entry: object) -> Key | None:
    """Return the key of an entry of the file; ``None`` if it is damaged."""
    with suppress(ValidationError):  # it may quote a secret
        key = _KEY.validate_python(entry)
        return key if key.key_id == _id_of(key.secret) else None
    return None


def _id_of(secret: str) -> str:
    return hashlib.sha256(f"key id of {secret}".encode()).hexdigest()[:16]


def _shown(key_id: str) -> str:
    return repr(key_id if len(key_id) <= 40 else f"{key_id[:40]}…")
