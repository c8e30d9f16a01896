"""The tool ``refresh`` stops the code on record before it reaches outside."""

import hashlib
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from parsimony_kernel.artifacts.publish import Published, Publisher
from parsimony_kernel.artifacts.refresh import CleanExecutor
from parsimony_kernel.artifacts.store import ArtifactStore
from parsimony_kernel.core.events import AgentEvent
from parsimony_kernel.core.kinds import HELD, Failure
from parsimony_kernel.execution.private import CodeExecutor
from parsimony_kernel.execution.run_scope import RunScope, run_scope
from parsimony_kernel.gate.approval import Approval, Approving
from parsimony_kernel.gate.gate import Gate, StepOutcome
from parsimony_kernel.toolbox.refresh_tool import refresh_tools

SCOPE = RunScope("r1", "analysis.ipynb", "c1", 1)
STARTS = "import subprocess\nsubprocess.run(['touch', 'made'])\n"


class Desk:
    """A workspace in which variables are published together with a script that makes them."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.publisher = Publisher(ArtifactStore(root), notebook_path="analysis.ipynb")
        self.executor = CodeExecutor(cwd=str(root))
        self.emitted: list[AgentEvent] = []
        self.began = 0

    async def publish(self, script: str, variable: str = "df", title: str = "T") -> Published:
        with run_scope(SCOPE):
            output = await self.executor.execute(f"{variable} = pd.DataFrame({{'v': [1]}})")
        assert output.error is None
        return self.publisher.publish(
            "dataset",
            self.executor.variables()[variable],
            variable=variable,
            title=title,
            lineage=tuple(self.executor.origin_ledger.ancestry(variable)),
            run_id="r1",
            script=script,
        )

    @asynccontextmanager
    async def clean(self) -> AsyncIterator[CleanExecutor]:
        self.began += 1

        class Place(CodeExecutor):
            async def value(self, name: str) -> object:
                return self.variables()[name]

        yield Place(cwd=str(self.root))

    async def refresh(
        self, words: str, mode: Approval = Approval.guarded, leave: str | None = None
    ) -> StepOutcome:
        tools = refresh_tools(self.publisher, self.emitted.append, self.clean)
        approving = Approving(mode, lambda code: (), self.root)
        gate = Gate(tools, stages=(approving.stage,), approvals=approving, timeout_s=60)
        return await gate.step("refresh", {"artifact": words}, approved=leave)


def asked(outcome: StepOutcome) -> Failure:
    assert outcome.failure is not None
    assert HELD in outcome.failure.metadata, outcome.failure.explanation
    return outcome.failure


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    (tmp_path / "analysis.ipynb").write_text("{}")
    return Desk(tmp_path)


PLAIN = "import pandas as pd\ndf = pd.DataFrame({'v': [1]})"


async def test_harmless_code_refreshes_unasked(desk: Desk) -> None:
    await desk.publish(PLAIN)
    assert (await desk.refresh("T")).ok
    assert desk.began == 1


async def test_code_reaching_outside_waits_for_approval(desk: Desk) -> None:
    await desk.publish(STARTS + PLAIN)
    failure = asked(await desk.refresh("T"))
    assert "The code on record (" in failure.explanation
    assert "Line 2 starts another program: touch made" in failure.explanation
    assert not (desk.root / "made").exists()
    assert (await desk.refresh("T", leave=failure.metadata[HELD])).ok
    assert (desk.root / "made").exists()


async def test_auto_mode_asks_nobody(desk: Desk) -> None:
    await desk.publish(STARTS + PLAIN)
    assert (await desk.refresh("T", Approval.auto)).ok


async def test_completed_effect_is_not_repeated(desk: Desk) -> None:
    """A clean kernel runs the code from its start, so nobody is asked to go on."""
    count = "with open('count', 'a') as f:\n    f.write('x')\n"
    twice = (
        f"import subprocess\nsubprocess.run(['true'])\n{count}subprocess.run(['touch', 'made'])\n"
    )
    await desk.publish(twice + PLAIN)
    leave = asked(await desk.refresh("T")).metadata[HELD]
    failure = (await desk.refresh("T", leave=leave)).failure
    assert failure is not None
    assert HELD not in failure.metadata
    assert "Line 5 starts another program: touch made" in failure.explanation
    assert ((desk.root / "count").read_text(), (desk.root / "made").exists()) == ("x", False)


async def test_artifacts_of_a_report_are_watched(desk: Desk) -> None:
    await desk.publish(STARTS + PLAIN)
    desk.publisher.publish("report", "![T](artifact:df)", title="R", run_id="r1")
    assert "starts another program" in asked(await desk.refresh("R")).explanation


async def test_approval_covers_code_that_ran(desk: Desk) -> None:
    published = await desk.publish(STARTS + PLAIN)
    leave = asked(await desk.refresh("T")).metadata[HELD]
    another = STARTS + PLAIN.replace("1", "2")
    forged(desk, published, another)
    assert asked(await desk.refresh("T", leave=leave)).metadata[HELD] != leave
    assert not (desk.root / "made").exists()


async def test_manually_recorded_code_is_watched(desk: Desk) -> None:
    published = await desk.publish(PLAIN)
    forged(desk, published, STARTS + PLAIN)
    assert "starts another program" in asked(await desk.refresh("T")).explanation
    assert not (desk.root / "made").exists()


async def test_unknown_name_is_reported_without_asking(desk: Desk) -> None:
    failure = (await desk.refresh("nothing")).failure
    assert failure is not None
    assert HELD not in failure.metadata
    assert "nothing" in failure.explanation


def forged(desk: Desk, published: Published, code: str) -> None:
    """Append a line to the artifact's log that names ``code`` as what makes it."""
    log = desk.root / ".ockham" / "datasets" / published.ref.logical_id / "log.jsonl"
    line = json.loads(log.read_text().splitlines()[-1])
    path = Path(line["code_path"]).with_name(f"{hashlib.sha256(code.encode()).hexdigest()}.py")
    (desk.root / path).write_text(code)
    with log.open("a") as stream:
        stream.write(json.dumps({**line, "code_path": path.as_posix()}) + "\n")
