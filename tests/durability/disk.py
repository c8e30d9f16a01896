"""A disk that forgets what was not synced.

``Seam`` records what a program asks of the operating system below one folder, and can make any
call fail. ``Disk`` replays such a record and tells what a power cut may leave: a name that its
folder was not synced for may be there or not, each by itself, and bytes that were not synced may
be lost, torn or zeros. That is the model of "All File Systems Are Not Created Equal" (OSDI 2014),
without any order between unsynced operations.
"""

import itertools
import os
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pytest

SECTOR = 512

Kind = Literal[
    "mkdir", "create", "write", "truncate", "sync", "failed sync", "link", "rename", "unlink",
    "sync folder", "announce",
]  # fmt: skip


@dataclass(frozen=True)
class Op:
    """One operation. Paths are relative to the folder; ``file`` counts the files ever made."""

    kind: Kind
    path: str = ""
    other: str = ""
    file: int = 0
    offset: int = 0
    data: bytes = b""


# What a folder holds: path to bytes, or to None for a folder.
State = dict[str, bytes | None]


@dataclass
class Disk:
    """What is on the platters, and what waits for a sync."""

    names: dict[str, int | None] = field(default_factory=dict)
    contents: dict[int, bytes] = field(default_factory=dict)
    _live: dict[str, int | None] = field(default_factory=dict)
    _named: list[tuple[str, dict[str, int | Literal["gone"] | None]]] = field(default_factory=list)
    _written: dict[int, list[Op]] = field(default_factory=dict)

    def apply(self, op: Op) -> None:
        """Do ``op`` as a machine does whose power stays."""
        match op.kind:
            case "mkdir":
                self._name({op.path: None})
            case "create" | "link":
                self._name({op.path: op.file})
            case "unlink":
                self._name({op.path: "gone"})
            case "rename":
                self._name({op.path: "gone", op.other: self._live[op.path]})
            case "write" | "truncate":
                self._written.setdefault(op.file, []).append(op)
            case "sync":
                whole = self.contents.get(op.file, b"")
                for write in self._written.pop(op.file, []):
                    whole = _done(whole, write)
                self.contents[op.file] = whole
            case "failed sync":
                # The pages count as clean from now on: no later sync writes them.
                self._written.pop(op.file, None)
            case "sync folder":
                for folder, names in self._named:
                    if folder == op.path:
                        _rename(self.names, names)
                self._named = [each for each in self._named if each[0] != op.path]
            case "announce":
                pass

    def _name(self, names: dict[str, int | Literal["gone"] | None]) -> None:
        _rename(self._live, names)
        self._named.append((str(Path(next(iter(names))).parent), names))

    def after_power_cut(self, most: int, chance: random.Random) -> Iterator[State]:
        """The states that a power cut now may leave: all, or ``most`` drawn where more are."""
        count = len(self._named)
        subsets: list[tuple[bool, ...]]
        if 2**count <= most:
            subsets = list(itertools.product((False, True), repeat=count))
        else:
            subsets = [(False,) * count, (True,) * count]
            subsets += [tuple(chance.random() < 0.5 for _ in range(count)) for _ in range(most)]
        for subset in subsets:
            names = dict(self.names)
            for (_, change), is_kept in zip(self._named, subset, strict=True):
                if is_kept:
                    _rename(names, change)
            names = _reachable(names)
            files = sorted({file for file in names.values() if file is not None})
            choices = list(itertools.product(*map(self._leftovers, files)))
            if len(choices) > most:
                choices = [choices[0], choices[-1], *chance.sample(choices, most)]
            for choice in choices:
                content = dict(zip(files, choice, strict=True))
                yield {
                    path: None if file is None else content[file] for path, file in names.items()
                }

    def _leftovers(self, file: int) -> list[bytes]:
        base = self.contents.get(file, b"")
        writes = self._written.get(file, [])
        left = [base]
        whole = base
        for number, write in enumerate(writes):
            if write.kind == "write":
                for torn in _torn(write.data):
                    left.append(_done(whole, Op("write", offset=write.offset, data=torn)))
            whole = _done(whole, write)
            left.append(whole)
            # Out of order: this one alone, and all but this one.
            left.append(_done(base, write))
            without = base
            for other in writes[:number] + writes[number + 1 :]:
                without = _done(without, other)
            left.append(without)
        return list(dict.fromkeys(left))


def _done(content: bytes, op: Op) -> bytes:
    if op.kind == "truncate":
        return content[: op.offset].ljust(op.offset, b"\0")
    head = content[: op.offset].ljust(op.offset, b"\0")
    return head + op.data + content[op.offset + len(op.data) :]


def _torn(data: bytes) -> Iterator[bytes]:
    yield data[: len(data) // 2]
    yield data[: (len(data) - 1) // SECTOR * SECTOR]
    yield bytes(len(data))  # the length reached the disk before the bytes
    yield data[:-1]


def _rename(names: dict[str, int | None], change: dict[str, int | Literal["gone"] | None]) -> None:
    for path, value in change.items():
        if value == "gone":
            names.pop(path, None)
        else:
            names[path] = value


def _reachable(names: dict[str, int | None]) -> dict[str, int | None]:
    kept: dict[str, int | None] = {}
    for path in sorted(names, key=lambda each: each.count("/")):
        parent = str(Path(path).parent)
        if parent == "." or kept.get(parent, 0) is None:
            kept[path] = names[path]
    return kept


def states_at_every_step(
    ops: list[Op], *, most: int, before: int = 0, seed: int = 5
) -> Iterator[tuple[tuple[str, ...], State]]:
    """What was announced, and a state, for each step from ``before`` on."""
    disk, announced, chance = Disk(), [], random.Random(seed)
    for number, op in enumerate((None, *ops)):
        if op is not None:
            disk.apply(op)
            if op.kind == "announce":
                announced.append(op.path)
        if number >= before:
            for state in disk.after_power_cut(most, chance):
                yield tuple(announced), state


def build(state: State, folder: Path) -> None:
    """Make ``folder`` hold ``state``."""
    folder.mkdir()
    for path in sorted(state, key=lambda each: each.count("/")):
        content = state[path]
        if content is None:
            (folder / path).mkdir()
        else:
            (folder / path).write_bytes(content)


class Killed(BaseException):
    """The process is no more. Nothing that it still tries reaches the disk."""


# Called with the name and the path of each call before it is made; may raise what it fails with.
Hook = Callable[[str, str], None]


def _nothing(_call: str, _path: str) -> None:
    return


class Seam:
    """What the program asks of ``os`` below ``root`` while it is recorded."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.ops: list[Op] = []
        self.calls: list[tuple[str, str]] = []
        self._files: dict[str, int] = {}
        self._count = 0
        self._handles: dict[int, str] = {}
        self._ends: dict[int, int] = {}

    def announce(self, word: str) -> None:
        """The program told somebody ``word``."""
        self.ops.append(Op("announce", word))

    @contextmanager
    def recorded(self, before: Hook = _nothing, *, is_short: bool = False) -> Iterator[None]:
        """Record, asking ``before`` before every call. Of one ``OSError`` that it raises for a
        write, half of the bytes are written first when ``is_short``."""
        is_dead = False

        def ask(call: str, path: Any) -> str:
            nonlocal is_dead
            if is_dead:
                raise Killed
            text: str = os.fspath(path)
            self.calls.append((call, text))
            try:
                before(call, text)
            except Killed:
                is_dead = True
                raise
            return text

        def opened(path: Any, flags: int, mode: int = 0o777, **given: Any) -> int:
            ask("open", path)
            is_new = bool(flags & os.O_CREAT) and not os.path.lexists(path)
            handle: int = real["open"](path, flags, mode, **given)
            place = self._place(path)
            if place is not None:
                self._handles[handle] = place
                if is_new or (place not in self._files and Path(path).is_file()):
                    self._count += 1
                    self._files[place] = self._count
                if is_new:
                    self._note(Op("create", place, file=self._count))
            return handle

        def wrote(handle: int, data: Any) -> int:
            ask_for = self._handles.get(handle, "")
            try:
                ask("write", ask_for)
            except OSError:
                if is_short:
                    data = bytes(data)[: len(data) // 2]
                else:
                    raise
            end = os.fstat(handle).st_size
            written: int = real["write"](handle, data)
            if ask_for:
                self._note(
                    Op("write", file=self._files[ask_for], offset=end, data=bytes(data)[:written])
                )
            return written

        def truncated(handle: int, size: int) -> None:
            place = self._handles.get(handle, "")
            ask("ftruncate", place)
            real["ftruncate"](handle, size)
            if place:
                self._note(Op("truncate", file=self._files[place], offset=size))

        def synced(handle: int) -> None:
            place = self._handles.get(handle)
            file = self._files.get(place or "")
            try:
                ask("fsync", place or "above")
            except OSError:
                if file is not None:
                    self._note(Op("failed sync", file=file))
                raise
            # The power stays on: what is in memory is on the disk as far as this machine sees.
            if file is not None:
                self._note(Op("sync", file=file))
            elif place is not None:
                self._note(Op("sync folder", place))

        def closed(handle: int) -> None:
            self._handles.pop(handle, None)
            real["close"](handle)

        def linked(old: Any, new: Any, **given: Any) -> None:
            ask("link", new)
            real["link"](old, new, **given)
            source, place = self._place(old), self._place(new)
            if source is not None and place is not None:
                self._files[place] = self._files[source]
                self._note(Op("link", place, file=self._files[place]))

        def renamed(call: str) -> Callable[..., None]:
            def rename(old: Any, new: Any, **given: Any) -> None:
                ask(call, new)
                real[call](old, new, **given)
                source, place = self._place(old), self._place(new)
                if source is not None and place is not None:
                    self._files[place] = self._files.pop(source)
                    self._note(Op("rename", source, place))

            return rename

        def unlinked(path: Any, **given: Any) -> None:
            ask("unlink", path)
            real["unlink"](path, **given)
            place = self._place(path)
            if place is not None:
                self._files.pop(place, None)
                self._note(Op("unlink", place))

        def made(path: Any, mode: int = 0o777, **given: Any) -> None:
            ask("mkdir", path)
            real["mkdir"](path, mode, **given)
            place = self._place(path)
            if place is not None:
                self._note(Op("mkdir", place))

        stands_in = {
            "open": opened, "write": wrote, "ftruncate": truncated, "fsync": synced,
            "close": closed, "link": linked, "rename": renamed("rename"),
            "replace": renamed("replace"), "unlink": unlinked, "mkdir": made,
        }  # fmt: skip
        real = {name: getattr(os, name) for name in stands_in}
        with pytest.MonkeyPatch.context() as patches:
            for name, stand_in in stands_in.items():
                patches.setattr(os, name, stand_in)
            yield

    def _note(self, op: Op) -> None:
        self.ops.append(op)

    def _place(self, path: Any) -> str | None:
        """``path`` below the root; ``.`` for the root itself."""
        whole = Path(os.path.realpath(Path(path).parent)) / Path(path).name
        root = Path(os.path.realpath(self.root))
        if whole == root or Path(os.path.realpath(path)) == root:
            return "."
        return whole.relative_to(root).as_posix() if whole.is_relative_to(root) else None


def failing_at(number: int, error: BaseException | int) -> Hook:
    """A hook that lets call ``number``, from 0, and no other fail."""
    seen = itertools.count()

    def hook(call: str, path: str) -> None:
        if next(seen) == number:
            if isinstance(error, int):
                raise OSError(error, os.strerror(error), path)
            raise error

    return hook
