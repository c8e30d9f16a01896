"""The keys that sign suspended runs.

One file of mode 0600 a key, below Jupyter's data directory, named by a digest of the key so that
an id never means two keys. The rule of the place: a secret is never shown, and never empty.
"""

import hashlib
import os
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from parsimony_kernel import durable

ENVIRONMENT_VARIABLE = "PARSIMONY_SUSPENSION_SECRET"
ENVIRONMENT_KEY_ID = "env"

_KEY_ID = re.compile(r"[0-9a-f]{16}")
_POINTER = "current"
_SECRET_BYTES = 32


class KeyringError(Exception):
    """The signing key cannot be made or read. ``str()`` is one sentence with the remedy."""


@dataclass(frozen=True)
class Key:
    """A signing key. ``repr`` shows its id alone."""

    key_id: str
    secret: str = field(repr=False)


class Keyring:
    """The keys of one user. Nothing is read or created before a key is asked for."""

    def __init__(self, folder: Path, from_environment: Key | None = None) -> None:
        self._folder = folder
        self._from_environment = from_environment

    @classmethod
    def open(cls, folder: Path | None = None, environ: Mapping[str, str] = os.environ) -> "Keyring":
        """The keyring in ``folder``, by default ``parsimony/keys`` of Jupyter's data directory.

        A secret in ``PARSIMONY_SUSPENSION_SECRET`` is the current key, with the id ``env``.
        """
        if folder is None:
            from jupyter_core.paths import jupyter_data_dir  # deferred: only a default needs it

            folder = Path(jupyter_data_dir()) / "parsimony" / "keys"
        secret = environ.get(ENVIRONMENT_VARIABLE, "").strip()
        return cls(folder, Key(ENVIRONMENT_KEY_ID, secret) if secret else None)

    def __repr__(self) -> str:
        return f"Keyring({str(self._folder)!r})"

    def current(self) -> Key:
        """The key to sign with, created on first need.

        Of several processes that create one at once all get the same. ``KeyringError`` when it
        can be neither read nor created.
        """
        if self._from_environment is not None:
            return self._from_environment
        pointer = self._folder / _POINTER
        try:
            key_id = _named(pointer) or self._create(pointer)
        except durable.StorageError as exc:
            raise KeyringError(
                f"There is no key to sign questions with: {str(exc).rstrip('.')}, or set "
                f"{ENVIRONMENT_VARIABLE} to a secret of your own."
            ) from exc
        key = self.get(key_id)
        if key is None:
            raise KeyringError(
                f"The signing key that {str(pointer)!r} names is missing or damaged: remove that "
                "file to start with a new key; questions signed with the old one cannot be "
                "resumed then."
            )
        return key

    def get(self, key_id: str) -> Key | None:
        """The key of this id, or ``None`` when there is none or it is damaged."""
        if self._from_environment is not None and key_id == ENVIRONMENT_KEY_ID:
            return self._from_environment
        if not _KEY_ID.fullmatch(key_id):
            return None
        path = self._file(key_id)
        if not path.is_file():
            return None
        try:
            secret = durable.read(path).decode("ascii", "replace").strip()
        except durable.StorageError as exc:
            raise KeyringError(str(exc)) from exc
        return Key(key_id, secret) if _id_of(secret) == key_id else None

    def _create(self, pointer: Path) -> str:
        secret = secrets.token_hex(_SECRET_BYTES)
        key_id = _id_of(secret)
        durable.make_folder(self._folder, mode=0o700)
        durable.create(self._file(key_id), secret.encode(), mode=0o600)
        if durable.create(pointer, key_id.encode(), mode=0o600):
            return key_id
        # Somebody else was first: theirs is the key, and ours was never used.
        self._file(key_id).unlink(missing_ok=True)
        return _named(pointer)

    def _file(self, key_id: str) -> Path:
        return self._folder / f"{key_id}.key"


def _id_of(secret: str) -> str:
    return hashlib.sha256(f"key id of {secret}".encode()).hexdigest()[:16]


def _named(pointer: Path) -> str:
    return durable.read(pointer).decode("ascii", "replace").strip() if pointer.is_file() else ""
