"""What a power cut may leave at every step of what is written, and what is made of it.

The files are what ``durable`` writes, recorded at the seam. Every state that the model allows is
built and opened with the real store.
"""

import errno
import itertools
import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from parsimony_kernel.storage import durable
from tests.durability import acts, tracing
from tests.durability.disk import Killed, Seam, State, build, failing_at, states_at_every_step
from tests.tiers import every

# What is drawn of the states of one step where there are more.
MOST = 64

ACTS = [
    pytest.param(acts.publish, acts.check_published, acts.check_publishing_goes_on, id="publish"),
    pytest.param(acts.sign, acts.check_signed, acts.check_signing_goes_on, id="sign"),
]


@pytest.fixture
def examine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Builds each state once and checks it; prints how many there were. Of those with as many
    announcements, the first and every ``stride``-th show that the next process goes on."""

    def run(
        seams: list[tuple[Seam, int]],
        check: acts.Check,
        goes_on: acts.Check | None = None,
        *,
        stride: int = 1,
        most: int = MOST,
    ) -> None:
        # Only the memory is looked at: nothing waits for a disk, and no thread does so.
        monkeypatch.setattr(durable, "_flush_all", lambda _handles: None)
        monkeypatch.setattr(os, "fsync", lambda _handle: None)
        seen, met = set[object](), Counter[object]()
        enumerated = 0
        for seam, before in seams:
            for announced, state in states_at_every_step(seam.ops, most=most, before=before):
                enumerated += 1
                key = (announced, frozenset(_without_chance(state).items()))
                if key in seen:
                    continue
                place = tmp_path / "state"
                build(state, place)
                check(place, announced)
                if goes_on and met[announced] % stride == 0:
                    goes_on(place, announced)
                met[announced] += 1
                seen.add(key)
                shutil.rmtree(place)
        print(f"{enumerated} states enumerated, {len(seen)} of them distinct")
        assert len(seen) > 10

    return run


def _without_chance(state: State) -> State:
    """``state`` with its temporary files numbered, not named."""
    number = itertools.count()
    return {
        f"{Path(path).parent}/{next(number)}" if ".parsimony-" in path else path: content
        for path, content in state.items()
    }


@every(5)
@pytest.mark.parametrize(("act", "check", "goes_on"), ACTS)
def test_power_cut_at_any_step_keeps_announced_data(
    act: acts.Act,
    check: acts.Check,
    goes_on: acts.Check,
    tmp_path: Path,
    examine: Callable[..., None],
    stride: int,
) -> None:
    seam = _seam(tmp_path / "recorded")
    with seam.recorded():
        act(seam.root, seam.announce)
    assert any(op.kind == "announce" for op in seam.ops)
    examine([(seam, 0)], check, goes_on, stride=stride)


@every(7)
@pytest.mark.slow
@pytest.mark.parametrize(("act", "check", "goes_on"), ACTS)
def test_power_cut_after_kill_keeps_announced_data(
    act: acts.Act,
    check: acts.Check,
    goes_on: acts.Check,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    examine: Callable[..., None],
    stride: int,
) -> None:
    seams = []
    for number in range(0, _calls(act, tmp_path / "counted"), stride):
        monkeypatch.setattr(durable, "_anchored", {})
        seam = _seam(tmp_path / f"killed{number}")
        with pytest.raises(Killed), seam.recorded(failing_at(number, Killed())):
            act(seam.root, seam.announce)
        at = len(seam.ops)
        monkeypatch.setattr(durable, "_anchored", {})  # a process of its own
        with seam.recorded():
            act(seam.root, seam.announce)
        seams.append((seam, at))
    examine(seams, check)


@every(7)
@pytest.mark.slow
@pytest.mark.parametrize(("act", "check", "goes_on"), ACTS)
def test_nothing_announced_relies_on_failed_sync(
    act: acts.Act,
    check: acts.Check,
    goes_on: acts.Check,
    tmp_path: Path,
    examine: Callable[..., None],
    stride: int,
) -> None:
    """A disk that fails a sync has given up the pages: the next sync succeeds without them."""
    seams = []
    for number in range(0, _calls(act, tmp_path / "counted"), stride):
        seam = _seam(tmp_path / f"failed{number}")
        with suppress(durable.StorageError), seam.recorded(failing_at(number, errno.EIO)):
            act(seam.root, seam.announce)
        at = len(seam.ops)
        with seam.recorded():
            act(seam.root, seam.announce)
        seams.append((seam, at))
    examine(seams, check)


def _seam(root: Path) -> Seam:
    root.mkdir()
    return Seam(root)


def _calls(act: acts.Act, root: Path) -> int:
    # The first of all makes the folders of the user's data, outside of its workspace.
    act(_seam(root.with_name("first")).root, lambda _word: None)
    seam = _seam(root)
    with seam.recorded():
        act(root, seam.announce)
    return len(seam.calls)


_SUSPEND = """
import os, sys
from pathlib import Path
from tests.durability import acts, tracing
acts.suspend(Path(sys.argv[1]), lambda word: os.write(2, f"announced {word}\\n".encode()))
"""


@pytest.mark.slow
@pytest.mark.skipif(bool(tracing.why_not()), reason=tracing.why_not() or "it can be traced")
def test_power_cut_keeps_announced_question(tmp_path: Path, examine: Callable[..., None]) -> None:
    """With every page of the journal and of its log lost, torn or out of order by itself."""
    root, log = tmp_path / "recorded", tmp_path / "calls"
    root.mkdir()
    calls = tracing.known([*tracing.WRITING, "close"])
    strace = ["strace", "-f", "-xx", "-s", "1000000", "-e", "signal=none", "-o"]
    subprocess.run(
        [*strace, str(log), "-e", f"trace={calls}", sys.executable, "-c", _SUSPEND, str(root)],
        check=True,
        capture_output=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    seam = Seam(root)
    seam.ops = tracing.operations_in(log, root)
    assert [op.path for op in seam.ops if op.kind == "announce"] == ["n1", "n2", "ended"]
    examine([(seam, 0)], acts.check_suspended, acts.check_suspending_goes_on, most=16)
