"""What every executor shows of a cell: what it prints, displays, and ends with."""

import pytest

from parsimony_kernel.core.outputs import DataFrameObject, FigureObject, KernelOutput
from parsimony_kernel.execution.base import BaseCodeExecutor
from tests.contracts.told import text


async def test_frame_and_display_calls_are_outputs(executor: BaseCodeExecutor) -> None:
    output = await executor.execute(
        "import pandas as pd\ndf = pd.DataFrame({'a': [1, 2]})\ndisplay(df, 7)\ndf.head(1)"
    )
    first, second, third = output.outputs
    assert isinstance(first, DataFrameObject)
    assert isinstance(third, DataFrameObject)
    assert (first.rows, text(second), third.rows) == (2, "7", 1)


async def test_altair_chart_is_an_output(executor: BaseCodeExecutor) -> None:
    output = await executor.execute(
        "import altair as alt, pandas as pd\n"
        "alt.Chart(pd.DataFrame({'x': [1], 'y': [2]})).mark_line().encode(x='x', y='y')"
    )
    (figure,) = output.outputs
    assert isinstance(figure, FigureObject)
    assert figure.description == "line chart of y by x"
    assert figure.spec is not None


async def test_printed_text_is_typed_and_reported_once(executor: BaseCodeExecutor) -> None:
    output = await executor.execute("print('one')\ndisplay(2)\nprint('three')\n4")
    assert output.stdout == "one\nthree\n"
    assert [text(each) for each in output.outputs] == [output.stdout, "2", "4"]
    assert [text(each) for each in output.shown] == ["2", "4"]
    told = str(output.for_model())
    assert (told.count("one"), output.model_dump_json().count("one")) == (1, 1)
    assert KernelOutput.model_validate(output.model_dump(mode="json")) == output


@pytest.mark.parametrize(
    ("code", "head", "tail", "cut"),
    [
        ("for i in range(20_000):\n    print(i)", "0\n1\n", "19999\n", "88,890"),
        ("print('a' + 'x' * 5_000_000 + 'b')", "ax", "xb\n", "4,980,003"),
    ],
    ids=["many-prints", "endless-line"],
)
async def test_endless_output_keeps_head_and_tail(
    executor: BaseCodeExecutor, code: str, head: str, tail: str, cut: str
) -> None:
    output = await executor.execute(f"{code}\n'y' * 5_000_000")
    assert output.truncated
    assert output.stdout.startswith(head)
    assert output.stdout.endswith(tail)
    assert f"{cut} characters cut" in output.stdout
    assert len(output.stdout) < 20_100
    assert len(text(output.shown[0])) <= 4_000


async def test_many_displays_keep_first_and_last(executor: BaseCodeExecutor) -> None:
    output = await executor.execute("for i in range(50):\n    display(i)")
    shown = [text(each) for each in output.outputs]
    assert shown == [str(i) for i in (*range(10), *range(40, 50))]
    assert output.truncated


async def test_figure_is_shown_once_and_closed(executor: BaseCodeExecutor) -> None:
    output = await executor.execute(
        "import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.title('drawn');"
    )
    (figure,) = output.outputs
    assert isinstance(figure, FigureObject)
    assert figure.title == "drawn"
    assert text((await executor.execute("plt.get_fignums()")).outputs[0]) == "[]"


async def test_printed_frame_or_figure_is_displayed(executor: BaseCodeExecutor) -> None:
    output = await executor.execute(
        "import pandas as pd, altair as alt\ndf = pd.DataFrame({'a': [1, 2]})\n"
        "print(df)\nprint(alt.Chart(df).mark_bar().encode(x='a:Q'))\nprint('end')"
    )
    assert [each.type for each in output.shown] == ["dataframe", "figure"]
    assert output.stdout == "end\n"


@pytest.mark.parametrize(
    ("child", "code"),
    [
        ("print('on')", 0),
        ("raise SystemExit", 0),
        ("raise SystemExit(7)", 7),
        ("raise SystemExit('no')", 1),
        ("1 / 0", 1),
        ("import asyncio; await asyncio.sleep(0)", 0),
    ],
)
async def test_forked_child_ends_with_the_cell(
    executor: BaseCodeExecutor, child: str, code: int
) -> None:
    first = await executor.execute(
        f"import os\nmine, child = os.getpid(), os.fork()\nif not child:\n    {child}"
    )
    assert first.error is None
    ended = await executor.execute(
        "assert os.getpid() == mine\nos.waitstatus_to_exitcode(os.waitpid(child, 0)[1])"
    )
    assert ended.error is None
    assert text(ended.outputs[-1]) == str(code)
