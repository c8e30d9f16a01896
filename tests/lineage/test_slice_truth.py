"""Notebooks that are really run: what a slice says rebuilds a variable, rebuilds it."""

import asyncio
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, event, given, settings
from hypothesis import strategies as st
from looks import look

from parsimony_kernel.analysis.read import read
from parsimony_kernel.execution.executor import CodeExecutor
from parsimony_kernel.execution.run_scope import RunScope, run_scope
from parsimony_kernel.lineage.checkpoint import Change
from parsimony_kernel.lineage.script import SliceError, slice_of

USER = RunScope("", "n.ipynb", "mine", actor="user")

# The exhaustive profile runs two thousand programs.
EXAMPLES = count if (count := settings().max_examples) >= 1000 else count // 4

CORPUS = Path(__file__).parents[1] / "corpora" / "slices.toml"
TEMPLATES: dict[str, tuple[str, ...]] = {
    key: tuple(texts)
    for key, texts in tomllib.loads(CORPUS.read_text(encoding="utf-8"))["templates"].items()
}
BEGINNING, STATEMENTS, MOVING, CANCELLING, APART = (
    TEMPLATES[key] for key in ("beginning", "statements", "moving", "cancelling", "apart")
)
ALL = (*STATEMENTS, *MOVING, *CANCELLING)
POOL = {kind: (f"{kind}1", f"{kind}2") for kind in "lndopwirv"} | {"l": ("l1", "l2", "l3")}


@st.composite
def statements(draw: st.DrawFn, templates: tuple[str, ...] = STATEMENTS) -> str:
    words = {kind: draw(st.sampled_from(names)) for kind, names in POOL.items()}
    others = {f"{kind}2": draw(st.sampled_from(names)) for kind, names in POOL.items()}
    return draw(st.sampled_from(templates)).format(**words, **others)


Steps = list[tuple[str, Any]]


@st.composite
def notebooks(
    draw: st.DrawFn, kinds: tuple[str, ...] = ("user", "agent", "again", "undo")
) -> Steps:
    """Cells of few kinds of statements each time, so that these meet in many ways."""
    every = draw(st.sampled_from((STATEMENTS, STATEMENTS, MOVING, CANCELLING, ALL)))
    few = draw(st.lists(st.sampled_from(every), min_size=3, max_size=9, unique=True))
    templates = draw(st.sampled_from((every, tuple(few), tuple(few))))
    cells = st.lists(statements(templates), min_size=1, max_size=5).map("\n".join)
    steps = {
        "user": st.tuples(st.just("user"), cells),
        "agent": st.tuples(st.just("agent"), cells),
        "again": st.tuples(st.just("again"), st.integers(0, 20)),
        "undo": st.tuples(st.sampled_from(("undo", "redo")), st.just(0)),
    }
    return draw(st.lists(st.one_of(*(steps[kind] for kind in kinds)), min_size=1, max_size=7))


@dataclass
class Notebook:
    """A private namespace in which cells run, an agent's in turns that can be taken back."""

    executor: CodeExecutor = field(default_factory=CodeExecutor)
    ran: list[str] = field(default_factory=list)
    turns: list[Change] = field(default_factory=list)
    taken_back: list[Change] = field(default_factory=list)
    lost: set[str] = field(default_factory=set)

    async def play(self, steps: Steps, beginning: tuple[str, ...] = BEGINNING) -> None:
        checkpoints = self.executor.checkpoints()
        for kind, what in [*(("user", each) for each in beginning), *steps]:
            match kind:
                case "undo" | "redo":
                    turns, others = self.turns, self.taken_back
                    if kind == "redo":
                        turns, others = others, turns
                    if turns:
                        back, again = checkpoints.undo(turns.pop())
                        others += [again] if again is not None else []
                        self.lost |= set(back.lost)
                        self.ran.append(f"# {kind}")
                case "again":
                    await self.run(self.ran[what % len(self.ran)], USER)
                case "agent":
                    checkpoints.take()
                    await self.run(what, RunScope(f"run {len(self.ran)}", "n.ipynb", "cell"))
                    if (change := checkpoints.close()) is not None:
                        self.turns.append(change)
                case _:
                    await self.run(what, USER)

    async def run(self, code: str, scope: RunScope) -> None:
        self.ran.append(code)
        with run_scope(scope):
            await self.executor.execute(code)


def rebuilt(code: str) -> dict[str, Any]:
    names: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(code, "<slice>", "exec"), names)
    return names


def check(steps: Steps) -> tuple[int, int]:
    """Slice every variable of the notebook; how many there were, and how many were refused."""
    notebook = Notebook()
    asyncio.run(notebook.play(steps))
    variables = notebook.executor.variables()
    if notebook.lost:
        return len(variables), 0  # the undo has said that it did not put everything back
    refused = 0
    for name, value in variables.items():
        try:
            script = slice_of(notebook.executor.origin_ledger, name)
        except SliceError:
            refused += 1
            continue
        whole = "\n# ---\n".join(notebook.ran)
        try:
            again = rebuilt(script)
        except Exception as exc:
            pytest.fail(f"{name}: {exc!r}\n{whole}\n=====\n{script}")
        assert name in again, f"{name}\n{whole}\n=====\n{script}"
        assert look(value) == look(again[name]), (
            f"{name}: {look(value)}, not {look(again[name])}\n{whole}\n=====\n{script}"
        )
    return len(variables), refused


@pytest.mark.filterwarnings("ignore:The inplace keyword")
@settings(max_examples=EXAMPLES)
@given(notebooks())
def test_slice_rebuilds_its_variable(steps: Steps) -> None:
    there, refused = check(steps)
    event("some refused" if refused else "none refused")
    assert there


@pytest.mark.filterwarnings("ignore:The inplace keyword")
@settings(max_examples=settings().max_examples // 10)
@given(notebooks(kinds=("user",)))
def test_every_variable_is_sliceable_without_errors_or_undo(steps: Steps) -> None:
    notebook = Notebook()
    asyncio.run(notebook.play(steps))
    ledger = notebook.executor.origin_ledger
    assume(not any(run.failed for run in ledger.cell_runs()))
    for name in notebook.executor.variables():
        slice_of(ledger, name)


@pytest.mark.parametrize(
    ("name", "steps"),
    [
        ("l1", [("agent", "w1[0].append(2)"), ("undo", 0)]),
        ("l1", [("agent", "put = w1[0].append\nput(2)\ndel put"), ("undo", 0)]),
        ("n1", [("agent", "r1.random()"), ("undo", 0), ("user", "n1 = r1.random()")]),
        ("n1", [("agent", "r1.random()"), ("undo", 0), ("user", "n1 = r2.random()")]),
        ("n1", [("agent", "n1 = r1.random()"), ("undo", 0), ("again", 6)]),
        ("r2", [("agent", "n1 = r1.random()"), ("undo", 0), ("again", 6)]),
        ("n1", [("agent", "n1 = r1.random()"), ("user", "n1 = 5"), ("undo", 0), ("again", 6)]),
        ("n1", [("agent", "n1 = r1.random()"), ("undo", 0), ("redo", 0), ("again", 6)]),
    ],
)
def test_unrecorded_change_leaves_with_its_undo(name: str, steps: Steps) -> None:
    notebook = Notebook()
    asyncio.run(notebook.play(steps))
    script = slice_of(notebook.executor.origin_ledger, name)
    assert look(notebook.executor.variables()[name]) == look(rebuilt(script)[name])


@st.composite
def cells_apart(draw: st.DrawFn) -> Steps:
    cells, tag = [], 0
    for size in draw(st.lists(st.integers(1, 4), min_size=1, max_size=5)):
        lines = []
        for _ in range(size):
            tag += 1
            family = draw(st.sampled_from("12"))
            words = {kind: f"{kind}{family}" for kind in "lnd"}
            lines.append(draw(st.sampled_from(APART)).format(tag=tag, **words))
        cells.append(("user", "\n".join(lines)))
    return cells


@settings(max_examples=EXAMPLES)
@given(cells_apart())
def test_irrelevant_statements_are_dropped(cells: Steps) -> None:
    notebook = Notebook()
    beginning = "l1 = ['a']\nl2 = ['b']\nd1 = {}\nd2 = {}\nn1 = (1,)\nn2 = (2,)"
    asyncio.run(notebook.play([("user", beginning), *cells], beginning=()))
    assert not any(run.failed for run in notebook.executor.origin_ledger.cell_runs())
    for name, value in notebook.executor.variables().items():
        script = slice_of(notebook.executor.origin_ledger, name)
        statements = [each.source for each in read(script).statements]
        assert look(value) == look(rebuilt(script)[name])
        other = "1" if name.endswith("2") else "2"
        if name[0] in "lnd":
            assert not [each for each in statements if f"l{other}" in each or f"n{other}" in each]
