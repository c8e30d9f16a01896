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

CASES = {"publish": acts.PUBLISH, "sign": acts.SIGN}


@pytest.fixture
def examine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Builds each state once and checks it; prints how many there were. Of those with as many
    announcements, the first and every ``stride``-th show that the next process goes on."""

    def run(
        seams: list[tuple[Seam, int]], case: acts.Case, *, stride: int = 0, most: int = MOST
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
                case.check(place, announced)
                if stride and met[announced] % stride == 0:
                    case.goes_on(place, announced)
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
@pytest.mark.parametrize("name", CASES)
def test_power_cut_at_any_step_keeps_announced_data(
    name: str, tmp_path: Path, examine: Callable[..., None], stride: int
) -> None:
    seam = _seam(tmp_path / "recorded")
    with seam.recorded():
        CASES[name].act(seam.root, seam.announce)
    assert any(op.kind == "announce" for op in seam.ops)
    examine([(seam, 0)], CASES[name], stride=stride)


@every(7)
@pytest.mark.slow
@pytest.mark.parametrize("is_killed", [True, False], ids=["killed", "failed sync"])
@pytest.mark.parametrize("name", CASES)
def test_power_cut_after_fault_keeps_announced_data(
    name: str,
    is_killed: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    examine: Callable[..., None],
    stride: int,
) -> None:
    """A process dies at any call, and another begins again; or a call fails once in a process that
    goes on: a disk that fails a sync has given up the pages, and the next sync succeeds without."""
    act, seams = CASES[name].act, []
    for number in range(0, _calls(act, tmp_path / "counted"), stride):
        seam = _seam(tmp_path / str(number))
        died = pytest.raises(Killed) if is_killed else suppress(durable.StorageError)
        if is_killed:
            monkeypatch.setattr(durable, "_anchored", {})
        with died, seam.recorded(failing_at(number, Killed() if is_killed else errno.EIO)):
            act(seam.root, seam.announce)
        at = len(seam.ops)
        if is_killed:
            monkeypatch.setattr(durable, "_anchored", {})  # a process of its own
        with seam.recorded():
            act(seam.root, seam.announce)
        seams.append((seam, at))
    examine(seams, CASES[name])


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
    examine([(seam, 0)], acts.SUSPEND, stride=1, most=16)
