"""System calls, seen and changed by strace."""

import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from tests.durability.disk import Op

# What changes a disk, by every name that it has on one machine or another.
_WRITING = (
    "open openat creat write pwrite64 writev pwritev truncate ftruncate fallocate fsync fdatasync "
    "link linkat symlink symlinkat rename renameat renameat2 unlink unlinkat mkdir mkdirat rmdir "
    "chmod fchmod fchmodat"
)
WRITING = _WRITING.split()

_CALL = re.compile(r"^(?:\d+ +)?(\w+)\((.*)\) += (-?\d+)")
_BEGUN = re.compile(r"^(\d+) +(.*) <unfinished \.\.\.>$")
_ENDED = re.compile(r"^(\d+) +<\.\.\. (\w+) resumed>(.*)$")
_NAME = re.compile(r"^(?:\d+ +)?(\w+)\(")
_TEXT = re.compile(r'"((?:\\x[0-9a-f]{2})*)"')


def why_not() -> str:
    """Why nothing can be traced here; empty when it can."""
    if sys.platform != "linux" or shutil.which("strace") is None:
        return "strace is missing (Debian's package is strace)"
    tried = subprocess.run(
        ["strace", "-o", "/dev/null", "true"], capture_output=True, text=True, check=False
    )
    return "" if tried.returncode == 0 else f"ptrace is not permitted: {tried.stderr.strip()}"


def known(names: Iterable[str]) -> str:
    """``names`` as strace takes them: one that this machine does not have is passed over."""
    return ",".join(f"?{name}" for name in names)


def names_in(log: Path, pid: int) -> list[str]:
    """The calls of the process ``pid``, in order."""
    return [
        found[1]
        for line in log.read_text(errors="replace").splitlines()
        if line.startswith(f"{pid} ") and (found := _NAME.match(line))
    ]


def operations_in(log: Path, root: Path) -> list[Op]:
    """What a log with ``-xx`` tells of the files below ``root``.

    A line to the standard error is an announcement. Shared memory is no part of a disk.
    """
    return list(_Reader(root).operations(log.read_text().splitlines()))


def _whole(lines: list[str]) -> Iterator[str]:
    """Join the halves of each call that another thread's line stands between.

    It has come to pass where it ends, save that a closed handle may be given out at once.
    """
    begun = dict[str, str]()
    for line in lines:
        if half := _BEGUN.match(line):
            thread, text = half.groups()
            begun[thread] = text
            if text.startswith("close("):
                yield f"{thread} {text}) = 0"
        elif half := _ENDED.match(line):
            thread, name, text = half.groups()
            if name != "close":
                yield f"{thread} {begun.pop(thread)}{text}"
        else:
            yield line


class _Reader:
    def __init__(self, root: Path) -> None:
        self._root = root
        self._files: dict[str, int] = {}
        self._handles: dict[int, str] = {}
        self._sizes: dict[int, int] = {}
        self._count = 0

    def operations(self, lines: list[str]) -> Iterator[Op]:
        for line in _whole(lines):
            call = _CALL.match(line)
            if call is not None and int(call[3]) >= 0:
                texts = [bytes.fromhex(text.replace("\\x", "")) for text in _TEXT.findall(call[2])]
                yield from self._operation(call[1].removesuffix("at"), call[2], texts, int(call[3]))

    def _operation(
        self, call: str, arguments: str, texts: list[bytes], answer: int
    ) -> Iterator[Op]:
        paths = [self._place(text) for text in texts]
        handle = int(arguments.split(",")[0]) if arguments[:1].isdigit() else -1
        place = self._handles.get(handle, "")
        match call:
            case "open":
                self._handles.pop(answer, None)
                if paths[0]:
                    self._handles[answer] = paths[0]
                    if "O_CREAT" in arguments and paths[0] not in self._files:
                        yield Op("create", paths[0], file=self._new(paths[0]))
            case "close":
                self._handles.pop(handle, None)
            case "write" if handle == 2 and texts[0].startswith(b"announced "):
                yield Op("announce", texts[0].decode().split()[1])
            case "write" if place:
                yield self._written(place, texts[0][:answer], self._size(place))
            case "pwrite64" if place:
                yield self._written(place, texts[0][:answer], int(arguments.rsplit(",")[-1]))
            case "ftruncate" if place:
                size = int(arguments.rsplit(",")[-1])
                self._sizes[self._files[place]] = size
                yield Op("truncate", file=self._files[place], offset=size)
            case "fsync" | "fdatasync" if place:
                if place in self._files:
                    yield Op("sync", file=self._files[place])
                else:
                    yield Op("sync folder", place)
            case "link" if all(paths):
                self._files[paths[1]] = self._files[paths[0]]
                yield Op("link", paths[1], file=self._files[paths[0]])
            case "rename" if all(paths):
                self._files[paths[1]] = self._files.pop(paths[0])
                yield Op("rename", paths[0], paths[1])
            case "unlink" if paths[0]:
                self._files.pop(paths[0], None)
                yield Op("unlink", paths[0])
            case "mkdir" if paths[0]:
                yield Op("mkdir", paths[0])

    def _new(self, place: str) -> int:
        self._count += 1
        self._files[place] = self._count
        return self._count

    def _size(self, place: str) -> int:
        return self._sizes.get(self._files[place], 0)

    def _written(self, place: str, data: bytes, offset: int) -> Op:
        file = self._files[place]
        self._sizes[file] = max(self._sizes.get(file, 0), offset + len(data))
        return Op("write", file=file, offset=offset, data=data)

    def _place(self, text: bytes) -> str:
        """The path below the root, ``.`` for the root, empty for what is neither."""
        path = Path(text.decode("utf-8", "surrogateescape"))
        if path == self._root:
            return "."
        if "\0" in str(path) or not path.is_relative_to(self._root) or path.name.endswith("-shm"):
            return ""
        return path.relative_to(self._root).as_posix()
