"""The keys that sign suspended runs.

One file of mode 0600 below Jupyter's data directory. A key's id is a digest of its secret, so an id
never means two keys. The last key signs. The file is replaced atomically and under a lock, so that
concurrent changes aren't lost and an interrupted change has no effect. Rule: a secret is never
shown, and never empty.
"""

import errno
import hashlib
import secrets
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, ClassVar

from pydantic import AwareDatetime, ConfigDict, Field, TypeAdapter, ValidationError

from parsimony_kernel.core.clock import SYSTEM_CLOCK, Clock
from parsimony_kernel.storage import durable

# How long a question can be answered, in seconds, and so how long its key is of use.
GRACE_S = 7 * 86_400.0
FILE = "keys.json"

_SECRET_BYTES = 32


@dataclass(frozen=True)
class Key:
    """A signing key, as stored in the file. ``repr`` doesn't show its secret.

    The last one signs; an older one, ``retired`` when it was replaced, only verifies.
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    key_id: str
    secret: Annotated[str, Field(min_length=1)] = field(repr=False)
    since: AwareDatetime = field(compare=False)
    retired: AwareDatetime | None = field(default=None, compare=False)


Keys = list[Key]
_KEYS = TypeAdapter(Keys)


class Keyring:
    """The keys of one user. Nothing is read or created until a key is needed.

    ``folder`` is by default ``parsimony/keys`` in Jupyter's data folder.
    """

    def __init__(self, folder: Path | None = None, clock: Clock = SYSTEM_CLOCK) -> None:
        if folder is None:
            from jupyter_core.paths import jupyter_data_dir  # deferred: only a default needs it

            folder = Path(jupyter_data_dir()) / "parsimony" / "keys"
        self._path = folder / FILE
        self._clock = clock

    def current(self) -> Key:
        """Return the key to sign with, created on first use.

        Processes that create one concurrently all get the same key. ``StorageError`` if it can be
        neither read nor created.
        """
        try:
            keys = self._read()
            if not _signs(keys):
                keys = self._change(lambda keys: keys if _signs(keys) else self._renewed(keys))
            # Its creator may have been killed before syncing its name.
            durable.settle(self._path)
        except durable.StorageError as exc:
            if exc.errno is None:  # a damaged file says itself what to do
                raise
            remedy = "or set JUPYTER_DATA_DIR to a folder that can be written."
            raise durable.StorageError(
                f"There is no key to sign questions with: {str(exc).rstrip('.')}, {remedy}",
                code=exc.errno,
            ) from exc
        return keys[-1]

    def get(self, key_id: str) -> Key | None:
        """Return the key of this id; ``None`` if there is none."""
        return next((each for each in self.keys() if each.key_id == key_id), None)

    def rotate(self) -> Key:
        """Create a new current key; the old one still verifies.

        ``StorageError`` if the new one can't be written.
        """
        return self._change(self._renewed)[-1]

    def keys(self) -> tuple[Key, ...]:
        """Return all keys, newest first."""
        return tuple(reversed(self._read()))

    def _renewed(self, keys: Keys) -> Keys:
        """Return the keys with a new one that signs from now on."""
        secret, now = secrets.token_hex(_SECRET_BYTES), self._clock.now()
        retired = [replace(each, retired=each.retired or now) for each in keys]
        return [*retired, Key(_id_of(secret), secret, now)]

    def _change(self, change: Callable[[Keys], Keys]) -> Keys:
        """Apply ``change`` to the stored keys under a lock; return the new keys."""
        durable.make_folder(self._path.parent, mode=0o700)
        # An interrupted change may have left a secret behind.
        durable.sweep_temporary(self._path.parent, clock=self._clock)
        durable.create(self._path, b"[]", mode=0o600)
        written = durable.rewrite(
            self._path, lambda data: _KEYS.dump_json(change(self._parsed(data)))
        )
        return self._parsed(written)

    def _read(self) -> Keys:
        """Return the stored keys, oldest first; none without a file."""
        try:
            return self._parsed(durable.read(self._path))
        except durable.StorageError as exc:
            if exc.errno in (errno.ENOENT, errno.ENOTDIR):
                return []
            raise

    def _parsed(self, data: bytes) -> Keys:
        keys: Keys | None = None
        with suppress(ValidationError):  # it may quote a secret
            keys = _KEYS.validate_json(data)
        if keys is None or any(each.key_id != _id_of(each.secret) for each in keys):
            raise durable.StorageError(
                f"The file of signing keys {str(self._path)!r} is damaged: restore it from a "
                "backup, or delete it and run the cell again. A new key can't answer waiting "
                "questions, and each journal must be accepted once: 'jupyter parsimony trust'."
            )
        return keys


def _signs(keys: Keys) -> bool:
    """Return whether the last key signs: one retired by an earlier version's revocation doesn't."""
    return bool(keys) and keys[-1].retired is None


def _id_of(secret: str) -> str:
    return hashlib.sha256(f"key id of {secret}".encode()).hexdigest()[:16]
