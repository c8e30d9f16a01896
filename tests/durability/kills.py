"""A process is killed, or refused, at every system call of a publish and of a suspend.

``python -m tests.durability.kills`` tries every call and prints the counts as JSON; with
``--stride N`` those that change no disk only at every N-th, and one error for each refusal
instead of two. A child is forked from this process, which has imported everything, and strace
holds it before it begins.
"""

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest import mock

from parsimony_kernel.artifacts.store import LOG_NAME, lines_in
from parsimony_kernel.identity import ARTIFACT_FOLDER
from parsimony_kernel.storage import durable
from parsimony_kernel.storage.database import JournalError
from parsimony_kernel.storage.durable import StorageError
from tests.durability import acts, tracing

_ENDED_WELL, _RAISED = 0, 3


def _no_torn_line(root: Path, announced: Collection[str]) -> None:
    acts.check_published(root, announced)
    logs = (root / ARTIFACT_FOLDER).glob(f"*/*/{LOG_NAME}")
    held = sum(len(lines_in(log.read_bytes())) for log in logs)
    assert len(acts.lines_of(root)) == held  # the memory of the machine is whole


CASES = {"publish": replace(acts.PUBLISH, check=_no_torn_line), "suspend": acts.SUSPEND}


def _child(act: acts.Act, root: Path, out: int) -> None:
    """Stop until strace is there, act, and end without ado."""
    status = _RAISED
    try:
        os.kill(os.getpid(), signal.SIGSTOP)

        def announce(word: str) -> None:
            os.write(out, f"{word}\n".encode())

        act(root, announce)
        status = _ENDED_WELL
    except (StorageError, JournalError) as exc:
        os.write(out, f"! {exc}\n".encode())
    finally:
        os._exit(status)


def traced(act: acts.Act, root: Path, log: Path, *options: str) -> tuple[int, int, list[str]]:
    """Run ``act`` in a child under strace: its id, how it ended, and what it announced."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reader)
        _child(act, root, writer)
    os.close(writer)
    os.waitpid(pid, os.WUNTRACED)
    strace = subprocess.Popen(
        ["strace", "-f", "-p", str(pid), "-o", str(log), "-e", "signal=none", *options],
        stderr=subprocess.PIPE,
    )
    assert strace.stderr is not None
    said = strace.stderr.readline()
    assert b"attached" in said, said
    os.kill(pid, signal.SIGCONT)
    with os.fdopen(reader) as told:
        words = told.read().splitlines()
    _, status = os.waitpid(pid, 0)
    strace.communicate()
    return pid, os.waitstatus_to_exitcode(status), words


@contextmanager
def _fresh(folder: Path) -> Iterator[Path]:
    root = folder / "root"
    root.mkdir()
    durable._anchored.clear()
    yield root
    shutil.rmtree(root)


def calls_of(act: acts.Act, folder: Path) -> list[tuple[str, int]]:
    """Every system call of ``act``: its name, and the how-manieth of that name it is, from 1."""
    with _fresh(folder) as root:
        pid, status, _ = traced(act, root, folder / "calls")
    assert status == _ENDED_WELL, status
    counted: Counter[str] = Counter()
    calls = []
    for name in tracing.names_in(folder / "calls", pid):
        counted[name] += 1
        calls.append((name, counted[name]))
    return calls


# How many threads are started, how often they wait for one another, and memory is asked for, is
# another number in each run.
_BY_CHANCE = {
    *("futex", "brk", "mmap", "munmap", "madvise", "mprotect", "sched_yield"),
    *("clone", "clone3", "gettid", "rt_sigprocmask"),
}


def struck(case: acts.Case, folder: Path, name: str, when: int, fault: str) -> int:
    """How the act ended of which one call met ``fault``. ``AssertionError`` on a loss."""
    with _fresh(folder) as root:
        options = ("-e", f"trace={name}", "-e", f"inject={name}:{fault}:when={when}")
        _, status, words = traced(case.act, root, folder / "log", *options)
        said = [word for word in words if word.startswith("! ")]
        announced = [word for word in words if word not in said]
        try:
            assert status in (_ENDED_WELL, _RAISED, -signal.SIGKILL), status
            assert all(re.search(r"[;:] .*\.$", each) for each in said), said
            with mock.patch.object(os, "fsync"):  # only the memory of the machine is looked at
                case.check(root, announced)
                case.goes_on(root, announced)
        except Exception as exc:
            where = f"{fault} at {name} number {when}"
            raise AssertionError(f"{where}: {exc!r}; it said {said}") from exc
    return status


def kill_everywhere(case: acts.Case, folder: Path, stride: int) -> Counter[str]:
    """Kill the act before each of its calls; the counts."""
    counts: Counter[str] = Counter()
    for number, (name, when) in enumerate(calls_of(case.act, folder)):
        if name in _BY_CHANCE or (name not in tracing.WRITING and number % stride):
            continue
        counts["points"] += 1
        counts["at calls that write"] += name in tracing.WRITING
        counts["killed"] += struck(case, folder, name, when, "signal=SIGKILL") == -signal.SIGKILL
    return counts


def refuse_everywhere(case: acts.Case, folder: Path, stride: int) -> Counter[str]:
    """Refuse each call that writes, once, for want of space and for an error of the disk.

    With a ``stride`` for one of the two, in turn.
    """
    counts: Counter[str] = Counter()
    for number, (name, when) in enumerate(calls_of(case.act, folder)):
        if name not in tracing.WRITING:
            continue
        faults = ("error=ENOSPC", "error=EIO")
        for fault in faults if stride == 1 else faults[number % 2 :][:1]:
            status = struck(case, folder, name, when, fault)
            assert status != -signal.SIGKILL
            counts["points"] += 1
            counts["told"] += status == _RAISED
    return counts


def main(arguments: list[str]) -> int:
    """Try all; 1 on a loss."""
    parser = argparse.ArgumentParser(prog="python -m tests.durability.kills")
    parser.add_argument("--stride", type=int, default=1)
    parser.add_argument("--only", choices=["kills", "refusals"])
    parser.add_argument("cases", nargs="*", default=[])
    given = parser.parse_args(arguments)
    reason = tracing.why_not()
    if reason:
        print(f"Nothing was tried: {reason}.", file=sys.stderr)
        return 2
    counts: dict[str, dict[str, int]] = {}
    with TemporaryDirectory() as made:
        folder = Path(made)
        for name in given.cases or CASES:
            case = CASES[name]
            with _fresh(folder) as root:
                case.act(root, lambda _word: None)  # whatever is imported late
            if given.only != "refusals":
                counts[f"{name} killed"] = dict(kill_everywhere(case, folder, given.stride))
            if given.only != "kills":
                counts[f"{name} refused"] = dict(refuse_everywhere(case, folder, given.stride))
    print(json.dumps(counts))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
