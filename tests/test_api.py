"""The notebook around somebody else's loop: run, restore, refuse, undo, explain, record."""

import _thread
import asyncio
import doctest
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from parsimony_agent.extension import install, uninstall
from parsimony_kernel import Notebook, api
from parsimony_kernel.core.events import ToolEvent
from parsimony_kernel.core.outputs import DataFrameObject, PrimitiveObject
from parsimony_kernel.testing.kernel_process import live_kernel

FRAME = "import pandas as pd\nprices = pd.DataFrame({'item': ['a', 'b'], 'price': [3, 4]})\nprices"
Open = Callable[..., Notebook]


@pytest.fixture
def opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Open]:
    """Opens notebooks on a folder of their own."""
    (tmp_path / "work").mkdir()
    notebooks: list[Notebook] = []

    def start(**given: Any) -> Notebook:
        folder = tmp_path / "work"
        notebooks.append(Notebook(**{"folder": folder, "isolated": True, **given}))
        return notebooks[-1]

    yield start
    for each in notebooks:
        each.close()


@pytest.fixture
def in_shell(
    shell: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[Any, Notebook]]:
    """A notebook in the namespace of a shell."""
    monkeypatch.chdir(tmp_path)
    with Notebook(agent="theirs") as notebook:
        yield shell, notebook
    uninstall(shell)


def test_code_yields_outputs_model_text_and_origins(opened: Open) -> None:
    notebook = opened(variables={"tax": 2})
    made = notebook.run_code(FRAME)
    assert (made.ok, made.refused, made.turn) == (True, "", 1)
    (table,) = made.output.outputs
    assert isinstance(table, DataFrameObject)
    assert (table.rows, [each.name for each in table.columns]) == (2, ["item", "price"])
    assert "item  price\n   a      3\n   b      4" in str(made)
    total = notebook.run_code("total = int(prices.price.sum()) + tax\ntotal", "add it up")
    assert isinstance(total.output.outputs[0], PrimitiveObject)
    assert {each.name for each in total.origins["total"].inputs} == {"prices", "tax"}
    assert notebook.variables()["total"] == 9
    assert [step.name for step in notebook.why("total").steps] == ["total", "prices"]


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("seen.append(4)\n1 / 0", "ZeroDivisionError: division by zero at line 2"),
        ("seen.append(4)\nimport time\nwhile True: time.sleep(0.01)", "timeout"),
        ("seen.append(", "SyntaxError"),
        ("", "code is empty"),
    ],
)
def test_failure_is_a_value_and_variables_are_unchanged(opened: Open, code: str, said: str) -> None:
    notebook = opened(variables={"seen": [1]}, timeout_s=1)
    result = notebook.run_code(code)
    assert not result.ok
    assert said in result.text
    assert (result.refused, result.origins) == ("", {})
    assert notebook.variables()["seen"] == [1]


@pytest.mark.parametrize("code", ["pass", "print()", "print('\\n\\nlate')", "print(' ')", "None"])
def test_silent_code_is_one_step(opened: Open, code: str) -> None:
    notebook = opened()
    assert notebook.run_code(code).ok
    (turn,) = notebook._session.turns()
    assert (turn.status, bool(turn.summary)) == ("done", True)
    events = notebook._session.events(turn.run_id)
    steps = [each for each in events if isinstance(each, ToolEvent)]
    assert len(steps) == 4


def test_ask_mode_asks_about_every_code(opened: Open) -> None:
    asked: list[str] = []

    def confirm(code: str, why: str) -> bool:
        asked.append(why)
        return len(asked) > 1

    notebook = opened(approve="ask", confirm=confirm)
    first, second = notebook.run_code("1 + 1"), notebook.run_code("1 + 1")
    assert (first.ok, second.ok) == (False, True)
    assert first.refused == asked[0] == "Every step needs your approval"


OUTSIDE = "from pathlib import Path\nsize = Path({!r}).write_text('x')"


async def _yes(code: str, why: str) -> bool:
    return True


@pytest.mark.parametrize(
    ("given", "is_allowed"),
    [
        ({}, False),
        ({"confirm": lambda code, why: False}, False),
        ({"confirm": lambda code, why: "writes" in why and "Path" in code}, True),
        ({"confirm": _yes}, True),
        ({"approve": "auto"}, True),
    ],
)
def test_reach_is_refused_unless_approved(
    opened: Open, tmp_path: Path, given: dict[str, Any], is_allowed: bool
) -> None:
    outside = tmp_path / "outside.txt"
    notebook = opened(**given)
    # The model may not allow itself anything by what it says that the code is for.
    result = notebook.run_code(OUTSIDE.format(str(outside)), f"write {outside}")
    assert (result.ok, outside.exists(), "size" in notebook.variables()) == (is_allowed,) * 3
    assert ("outside.txt" in result.refused) is not is_allowed
    assert result.text.startswith(result.refused)
    assert ("May this code run?" in notebook.record()) is (given != {"approve": "auto"})


def test_address_in_purpose_or_code_approves_no_host(opened: Open) -> None:
    code = "import urllib.request\nurllib.request.urlopen('http://example.com/data')"
    assert "example.com" in opened().run_code(code, "read http://example.com/data").refused


def test_raising_approval_counts_as_no(opened: Open, tmp_path: Path) -> None:
    def broken(code: str, why: str) -> bool:
        raise KeyboardInterrupt

    notebook = opened(confirm=broken)
    with pytest.raises(KeyboardInterrupt):
        notebook.run_code(OUTSIDE.format(str(tmp_path / "outside.txt")))
    assert not (tmp_path / "outside.txt").exists()
    assert "Don't" in notebook.record()
    assert notebook.run_code("1 + 1").ok


def test_undo_restores_variables_and_files(opened: Open, tmp_path: Path) -> None:
    notebook = opened(variables={"seen": [1]})
    (tmp_path / "work" / "notes.txt").write_text("before")
    first = notebook.run_code(
        "seen.append(2)\nfrom pathlib import Path\nPath('notes.txt').write_text('after')\nnew = 1"
    )
    notebook.run_code("other = 2")
    back = notebook.undo(first.turn)
    assert (back.restored, back.removed) == (("notes.txt", "seen"), ("new",))
    assert notebook.variables() == {"seen": [1], "other": 2}
    assert (tmp_path / "work" / "notes.txt").read_text() == "before"
    assert f"Step {first.turn} was undone." in notebook.record()


def test_overlapping_calls_run_in_sequence(opened: Open) -> None:
    notebook = opened(variables={"log": []})
    code = "log.append('in')\nimport time; time.sleep(0.02)\nlog.append('out')"

    async def together() -> None:
        await asyncio.gather(*(notebook.run_python_async(code) for _ in range(3)))

    asyncio.run(together())
    threads = [threading.Thread(target=notebook.run_python, args=(code,)) for _ in range(3)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert notebook.variables()["log"] == ["in", "out"] * 6


async def test_sync_form_works_in_running_loop(opened: Open) -> None:
    loop = asyncio.get_running_loop()
    assert opened().run_python("20 + 1") == "21 (int)"
    assert asyncio.get_running_loop() is loop
    await asyncio.sleep(0)


def test_stop_ends_code_and_reaches_outer_loop(opened: Open) -> None:
    notebook = opened(variables={"seen": [1]})
    timer = threading.Timer(0.5, _thread.interrupt_main)
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        notebook.run_code("seen.append(2)\nimport time\nwhile True: time.sleep(0.01)")
    assert notebook.undo().restored == ("seen",)
    assert notebook.run_code("1 + 1").ok


def test_model_text_is_short_and_respects_sharing(opened: Open) -> None:
    assert len(opened().run_python("print('x' * 1_000_000)")) < 5_000
    told = opened(share="schema").run_python(FRAME)
    assert "price" in told
    assert "3" not in told.replace("rows", "")


def test_the_record_is_text_markdown_and_html(opened: Open) -> None:
    notebook = opened(agent="theirs")
    notebook.run_code("weight = 41", "set the weight")
    for mime in ("text/markdown", "text/html"):
        assert "set the weight" in notebook.record(mime)
    assert notebook.record() == "Step 1 · set the weight\n    weight = 41"


@pytest.mark.parametrize("given", [{"approve": "perhaps"}, {"share": "all"}])
def test_unknown_option_is_refused(opened: Open, given: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"perhaps|all"):
        opened(**given)


def test_shell_code_shares_namespace_and_magics(in_shell: tuple[Any, Notebook]) -> None:
    shell, notebook = in_shell
    shell.user_ns["notebook"] = notebook
    shell.run_cell("base = [1]").raise_error()
    cell = "scale = 2\ntold = notebook.run_code('grown = base * scale')\nafter = len(grown)"
    shell.run_cell(cell).raise_error()
    assert shell.user_ns["grown"] == [1, 1]
    told = notebook.why("grown").text().splitlines()
    assert [" ".join(line.split(" · ")[0].split()) for line in told if " · " in line] == [
        "grown v1 turn 1, step 1",
        "scale v1 your cell",
        "base v1 your cell",
    ]
    assert {each.name for each in notebook.why("after").steps[0].inputs} >= {"grown"}
    session = install(shell).session
    assert session.model_name == "offline"
    assert session.sent(session.turns()[0].run_id) == ()
    assert [turn.model for turn in session.turns()] == ["theirs"]
    shell.run_line_magic("agent", "undo")
    assert "grown" not in shell.user_ns


def test_closing_in_shell_keeps_notebook_working(in_shell: tuple[Any, Notebook]) -> None:
    shell, notebook = in_shell
    with notebook:
        notebook.run_code("1 + 1")
    assert install(shell).session.turns()
    assert notebook.run_code("2 + 2").ok


@pytest.mark.usefixtures("in_shell")
def test_docstring_example_runs() -> None:
    (example,) = [each for each in doctest.DocTestFinder().find(api) if each.examples]
    assert doctest.DocTestRunner().run(example).failed == 0


@pytest.mark.kernel
def test_stop_in_kernel_ends_code_only(tmp_path: Path) -> None:
    busy = "seen.append(2)\nimport time\nprint('begun', file=open('begun', 'w'))\ntime.sleep(60)"
    environ = {"PARSIMONY_WORKSPACE": str(tmp_path)}
    with live_kernel(tmp_path, environ=environ) as kernel:
        kernel.run("from parsimony_kernel import Notebook\nnotebook = Notebook()\nseen = [1]")
        for call in ("notebook.run_code", "await notebook.run_code_async"):
            running = kernel.begin(f"{call}({busy!r})")
            for _ in range(600):
                if (tmp_path / "begun").exists():
                    break
                time.sleep(0.05)
            (tmp_path / "begun").unlink()
            begun = time.monotonic()
            kernel.interrupt()
            ended = kernel.end(running)
            assert ended.status == "error"
            assert ended.reply["ename"] in ("KeyboardInterrupt", "CancelledError")
            assert time.monotonic() - begun < 2
            told = kernel.run("seen, notebook.run_python('len(seen)')")
            assert told.text.strip() == "([1], '1 (int)')"
