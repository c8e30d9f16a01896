"""The keys that sign suspended runs.

One file of mode 0600 a key, below Jupyter's data directory, named by a digest of the key so that
an id never means two keys. ``current`` names the first key and ``ID.next`` the one that followed
the key ``ID``; each is created once and never changed, so that of many who rotate at once one
wins and a rotation that dies half way changes nothing. The rule of the place: a secret is never
shown, and never empty.
"""

import errno
import hashlib
import os
import re
import secrets
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from itertools import zip_longest
from pathlib import Path
from typing import Literal

from parsimony_kernel.core.clock import SYSTEM_CLOCK, Clock
from parsimony_kernel.storage import durable

ENVIRONMENT_VARIABLE = "PARSIMONY_SUSPENSION_SECRET"
ENVIRONMENT_KEY_ID = "env"
GRACE_S = 7 * 86_400.0

KeyState = Literal["current", "grace", "expired", "revoked", "damaged", "environment"]

_KEY_ID = re.compile(r"[0-9a-f]{16}")
_POINTER = "current"
_TOMBSTONE = "revoked "
_SECRET_BYTES = 32
_MOST_BYTES = 4_096


class KeyringError(Exception):
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
    the current one and has no dates. ``retired_at`` is when a key signed no more. The id is empty
    when the file that names the key is damaged."""

    key_id: str
    state: KeyState
    created_at: datetime | None = None
    retired_at: datetime | None = None


@dataclass(frozen=True)
class _Link:
    """A file that names a key, and since when. The id is empty when the file is damaged."""

    path: Path
    key_id: str
    since: datetime


@dataclass(frozen=True)
class _Held:
    """What a key's file held in one look: a second look may find that it was revoked between.

    Neither a secret nor a date when the file is damaged or missing.
    """

    secret: str | None = field(default=None, repr=False)
    revoked_at: datetime | None = None

    @property
    def is_revoked(self) -> bool:
        return self.revoked_at is not None


class Keyring:
    """The keys of one user. Nothing is read or created before a key is asked for."""

    def __init__(
        self, folder: Path, from_environment: Key | None = None, clock: Clock = SYSTEM_CLOCK
    ) -> None:
        self._folder = folder
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
        try:
            while (head := self._head()) is None or (held := self._held(head.key_id)).is_revoked:
                self._create(self._after(head), self._clock.now())
            if held.secret is not None:
                # Whoever made it may have been killed before its name was synced.
                durable.settle(head.path)
        except durable.StorageError as exc:
            raise KeyringError(
                f"There is no key to sign questions with: {str(exc).rstrip('.')}, or set "
                f"{ENVIRONMENT_VARIABLE} to a secret of your own."
            ) from exc
        if held.secret is None:
            raise _damaged(head)
        return Key(head.key_id, held.secret)

    def get(self, key_id: str, now: datetime | None = None) -> Key | None:
        """The key of this id while questions that it signed are answered.

        ``None`` when there is none, or it is damaged, revoked, or was replaced more than
        ``GRACE_S`` seconds before ``now``.
        """
        if self._from_environment is not None and key_id == ENVIRONMENT_KEY_ID:
            return self._from_environment
        info = self._info(key_id, now)
        if info is None or info.state not in {"current", "grace"}:
            return None
        with _explained():
            secret = self._held(key_id).secret
        return None if secret is None else Key(key_id, secret)

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
        with _explained():
            secret = self._held(key_id).secret or "" if _KEY_ID.fullmatch(key_id) else ""
        if not secret:
            raise KeyringError(f"The key {_shown(key_id)} is not on this machine.")
        return Key(key_id, secret)

    def rotate(self, now: datetime | None = None) -> Key:
        """Make a new current key. The old one signs no more; ``get`` gives it for ``GRACE_S``.

        Of several that rotate at the same moment all may get the same new key. ``KeyringError``
        when the key comes from the environment or the new one cannot be written.
        """
        if self._from_environment is not None:
            raise KeyringError(
                f"The signing key is the secret in {ENVIRONMENT_VARIABLE} and is not rotated "
                "here: set that variable to a new secret where it is set; questions that were "
                "signed with the old one cannot be answered then."
            )
        with _explained():
            head = self._sound_head()
            durable.sweep_temporary(self._folder, clock=self._clock)
            link = self._create(self._after(head), now or self._clock.now())
            held = self._held(link.key_id)
        if held.is_revoked:  # by somebody else, since
            return self.current()
        if held.secret is None:
            raise _damaged(link)
        return Key(link.key_id, held.secret)

    def revoke(self, key_id: str) -> None:
        """Destroy a key's secret now; its questions cannot be answered any more.

        In the place of the secret stays a tombstone. To revoke a key again is nothing.
        ``KeyringError`` when there is no such key, it comes from the environment, or the
        tombstone cannot be written.
        """
        if key_id == ENVIRONMENT_KEY_ID:
            raise KeyringError(
                f"The key {ENVIRONMENT_KEY_ID!r} is the secret in {ENVIRONMENT_VARIABLE} and is "
                "not revoked here: unset that variable, or set it to a new secret, where it is "
                "set."
            )
        if not key_id or self._info(key_id, None) is None:
            raise KeyringError(
                f"There is no key {_shown(key_id)} here: 'jupyter parsimony keys list' shows those "
                "that are."
            )
        with _explained():
            if not self._held(key_id).is_revoked:
                tombstone = f"{_TOMBSTONE}{self._clock.now().isoformat()}"
                durable.replace(self._file(key_id), tombstone.encode(), mode=0o600)
            durable.sweep_temporary(self._folder, clock=self._clock)

    def check(self) -> None:
        """``KeyringError`` when a file that names a key is damaged: nothing can be signed then."""
        with _explained():
            self._sound_head()

    def keys(self, now: datetime | None = None) -> tuple[KeyInfo, ...]:
        """Every key, the newest first; the environment's before all."""
        moment = now or self._clock.now()
        with _explained():
            links = [_dated(link, moment) for link in self._chain()]
            told = [
                self._tell(link, after.since if after else None, moment)
                for link, after in zip_longest(links, links[1:])
            ]
        if self._from_environment is not None:
            told.append(KeyInfo(ENVIRONMENT_KEY_ID, "environment"))
        return tuple(reversed(told))

    def why_not(self, key_id: str, now: datetime | None = None) -> str:
        """Why a question that ``key_id`` signed cannot be answered; empty when it can.

        One sentence with the remedy.
        """
        if key_id == ENVIRONMENT_KEY_ID:
            if self._from_environment is not None:
                return ""
            return (
                f"This question was signed with the secret in {ENVIRONMENT_VARIABLE}, which is "
                "not set here: set it as it was then, or run the cell again."
            )
        info = self._info(key_id, now)
        signer = f"The key {_shown(key_id)} that signed this question"
        state = None if info is None else info.state
        day = "" if info is None or info.retired_at is None else f" on {info.retired_at:%Y-%m-%d}"
        if state is None:
            return f"{signer} is not on this machine: answer where it was asked, or run the cell."
        if state == "revoked":
            return f"{signer} was revoked: run the cell again."
        if state == "expired":
            return (
                f"{signer} was replaced{day} and was good for {GRACE_S / 86_400:g} days more: "
                "run the cell again."
            )
        if state == "damaged":
            return (
                f"{signer} is damaged or its file is gone: bring {str(self._file(key_id))!r} back "
                "from a copy, or run the cell again."
            )
        return ""

    def _info(self, key_id: str, now: datetime | None) -> KeyInfo | None:
        return next((info for info in self.keys(now) if info.key_id == key_id), None)

    def _tell(self, link: _Link, replaced_at: datetime | None, now: datetime) -> KeyInfo:
        held = self._held(link.key_id)
        state: KeyState
        if held.is_revoked:
            state = "revoked"
        elif held.secret is None:
            state = "damaged"
        elif replaced_at is None:
            state = "current"
        else:
            state = "grace" if now - replaced_at <= timedelta(seconds=GRACE_S) else "expired"
        return KeyInfo(link.key_id, state, link.since, replaced_at or held.revoked_at)

    def _chain(self) -> Iterator[_Link]:
        """The links from the first key to the one that signs."""
        path, seen = self._folder / _POINTER, {""}
        while (text := _text(path)) is not None:
            key_id, _, since = text.partition("\n")
            is_sound = _KEY_ID.fullmatch(key_id) is not None and key_id not in seen
            yield _Link(path, key_id if is_sound else "", _date(since, path))
            if not is_sound:
                return
            seen.add(key_id)
            path = self._folder / f"{key_id}.next"

    def _head(self) -> _Link | None:
        head = None
        for link in self._chain():
            head = link
        return head

    def _sound_head(self) -> _Link | None:
        head = self._head()
        if head is not None and not head.key_id:
            raise _damaged(head)
        return head

    def _after(self, head: _Link | None) -> Path:
        return self._folder / (_POINTER if head is None else f"{head.key_id}.next")

    def _create(self, path: Path, now: datetime) -> _Link:
        """A new key that the link ``path`` names, or the one that somebody else was first with."""
        secret = secrets.token_hex(_SECRET_BYTES)
        key_id = _id_of(secret)
        durable.make_folder(self._folder, mode=0o700)
        durable.create(self._file(key_id), secret.encode(), mode=0o600)
        # Version 0.1 reads the pointer too, perhaps in another environment: an id and no more.
        names = key_id if path.name == _POINTER else f"{key_id}\n{now.isoformat()}"
        if durable.create(path, names.encode(), mode=0o600):
            return _Link(path, key_id, now)
        # Somebody else was first: theirs is the key, and ours was never used.
        self._file(key_id).unlink(missing_ok=True)
        return _Link(path, (_text(path) or "").partition("\n")[0], now)

    def _held(self, key_id: str) -> _Held:
        path = self._file(key_id)
        text = _text(path) or ""
        if text.startswith(_TOMBSTONE):
            return _Held(revoked_at=_date(text.removeprefix(_TOMBSTONE), path))
        return _Held(text if text and _id_of(text) == key_id else None)

    def _file(self, key_id: str) -> Path:
        return self._folder / f"{key_id}.key"


@contextmanager
def _explained() -> Iterator[None]:
    try:
        yield
    except durable.StorageError as exc:
        raise KeyringError(str(exc)) from exc


def _damaged(link: _Link) -> KeyringError:
    return KeyringError(
        f"The signing key that {str(link.path)!r} names is missing or damaged: remove that file "
        "to start with a new key; questions signed with the old one cannot be resumed then."
    )


def _id_of(secret: str) -> str:
    return hashlib.sha256(f"key id of {secret}".encode()).hexdigest()[:16]


def _text(path: Path) -> str | None:
    """What the file holds; ``None`` when there is none, and nothing when it is none of ours.

    Ours are small regular files. Anything else may never end, or never begin, when it is read.
    """
    try:
        found = path.stat()
        is_ours = stat.S_ISREG(found.st_mode) and found.st_size <= _MOST_BYTES
        return durable.read(path).decode("ascii", "replace").strip() if is_ours else ""
    except OSError as exc:
        if exc.errno in {errno.ENOENT, errno.ELOOP} and path.is_symlink():
            return ""
        if exc.errno in {errno.ENOENT, errno.ENOTDIR}:
            return None
        raise durable.storage_error(exc, path, "read") from exc


def _date(text: str, path: Path) -> datetime:
    """The moment that ``text`` names; when it names none in UTC, that of the file's last change."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        return datetime.fromtimestamp(path.lstat().st_mtime, UTC)
    return moment


def _dated(link: _Link, now: datetime) -> _Link:
    """``link``, or if it is dated ahead of ``now``, no younger than the file system knows it.

    A date that is a lie would keep the key before it in grace for as long.
    """
    if link.since <= now:
        return link
    known = datetime.fromtimestamp(link.path.lstat().st_ctime, UTC)
    return replace(link, since=min(link.since, known))


def _shown(key_id: str) -> str:
    return repr(key_id if len(key_id) <= 40 else f"{key_id[:40]}…")
