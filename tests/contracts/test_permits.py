"""Code under a permit, on every executor: it stops before it reaches outside, and goes on there."""

from pathlib import Path

import pytest

from parsimony_kernel.core.reach import Reach, ReachKind
from parsimony_kernel.execution.base import BaseCodeExecutor
from parsimony_kernel.execution.run_scope import Permit, permitting

WAITS = (
    "with open('log', 'a') as f: f.write('before ')\n"
    "print('before')\n"
    "import subprocess\n"
    "code = subprocess.run(['touch', 'made']).returncode\n"
    "after = code + 1\n"
    "print('after')"
)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def sha(reach: Reach) -> str:
    return f"leave for {reach.sentence}"


async def test_code_waits_at_statement_and_continues_there(executor: BaseCodeExecutor) -> None:
    begun: list[str] = []

    def leaving(reach: Reach, statement: str, reads: bool) -> str:
        begun.append(f"{reach.what}, {reads}")
        return ""

    first = Permit(Path.cwd(), lambda reach, lines: False, sha)
    with permitting(first):
        output = await executor.execute(WAITS)
    assert first.held == Reach(
        ReachKind.shell, "touch made", 4, "code = subprocess.run(['touch', 'made']).returncode"
    )
    assert (output.stdout, Path("log").read_text(), Path("made").exists()) == (
        "before\n",
        "before ",
        False,
    )
    assert executor.paused is not None
    second = Permit(
        Path.cwd(),
        lambda reach, lines: False,
        sha,
        executor.paused.sha,
        leaving,
        lambda: begun.append("ended"),
    )
    with permitting(second):
        output = await executor.execute(WAITS)
    assert output.error is None
    assert (output.stdout, Path("log").read_text()) == ("before\nafter\n", "before ")
    assert Path("made").exists()
    assert begun == ["touch made, False", "ended"]
    assert [each.what for each in second.left] == ["touch made"]
    assert executor.variables()["after"] == 1
    assert executor.paused is None


async def test_unrecordable_effect_does_not_happen(executor: BaseCodeExecutor) -> None:
    def leaving(reach: Reach, statement: str, reads: bool) -> str:
        raise OSError("the disk is full")

    with permitting(Permit(Path.cwd(), lambda reach, lines: True, sha, leaving=leaving)):
        output = await executor.execute(WAITS)
    assert output.error is not None
    assert "the disk is full" in output.error.message
    assert not Path("made").exists()


@pytest.mark.parametrize("keeps", [True, False])
async def test_file_is_backed_up_or_asked_about(executor: BaseCodeExecutor, keeps: bool) -> None:
    """Behind a gateway nothing can be kept, since its files may be another machine's."""
    Path("mine.txt").write_text("old")
    is_far = getattr(executor, "url", None) is not None
    permit = Permit(Path.cwd(), lambda reach, lines: False, sha, keep=lambda path: keeps)
    with permitting(permit):
        await executor.execute("with open('mine.txt', 'w') as f: f.write('new')")
    is_kept = keeps and not is_far
    assert (permit.held is None) == is_kept
    assert Path("mine.txt").read_text() == ("new" if is_kept else "old")
