"""What every executor shows of a cell: what it prints, displays, and ends with."""

from pathlib import Path

import pytest

from parsimony_kernel.core.outputs import (
    DataFrameObject,
    FigureObject,
    KernelOutput,
)
from parsimony_kernel.execution.base import BaseCodeExecutor
from tests.contracts.told import text


async def test_a_trailing_expression_is_shown_unless_it_is_quiet(
    executor: BaseCodeExecutor,
) -> None:
    for code in ("x = 1", "5;", "(5) ; # quiet", "None", "", "# only words"):
        assert (await executor.execute(code)).outputs == ()
    for code in ("x = 20\nx * 2 + 2", "42 # a;"):
        assert [text(each) for each in (await executor.execute(code)).outputs] == ["42"]


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


PRINTED = {
    "unicode and bytes": (
        "import sys\nprint('out ä∑😀')\nsys.stdout.buffer.write(b'bytes');",
        "out ä∑😀\nbytes",
    ),
    "a thread": (
        "import threading\nt = threading.Thread(target=print, args=('there',))\n"
        "t.start()\nt.join()",
        "there\n",
    ),
    "a progress bar": (
        "print('1%\\r50%\\r\\x1b[32m100%\\x1b[0m\\r\\ndone')",
        "100%\r\ndone\n",
    ),
    "a process that is awaited": (
        "import asyncio\nprocess = await asyncio.create_subprocess_exec('echo', 'awaited')\n"
        "await process.wait();",
        "awaited\n",
    ),
    "a process of a thread": (
        "import asyncio, subprocess\nawait asyncio.to_thread(subprocess.run, ['echo', 'aside']);",
        "aside\n",
    ),
    "a fork": (
        "import os\nchild = os.fork()\nif not child:\n    print('forked ä')\n    os._exit(0)\n"
        "os.waitpid(child, 0);",
        "forked ä\n",
    ),
}


@pytest.mark.parametrize("what", PRINTED)
async def test_what_is_printed(executor: BaseCodeExecutor, what: str) -> None:
    code, printed = PRINTED[what]
    output = await executor.execute(code)
    assert (output.stdout, output.shown, output.error) == (printed, (), None)


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


async def test_printed_frame_or_figure_is_displayed(
    executor: BaseCodeExecutor,
) -> None:
    output = await executor.execute(
        "import pandas as pd, altair as alt\ndf = pd.DataFrame({'a': [1, 2]})\n"
        "print(df)\nprint(alt.Chart(df).mark_bar().encode(x='a:Q'))\nprint('end')"
    )
    assert [each.type for each in output.shown] == ["dataframe", "figure"]
    assert output.stdout == "end\n"


async def test_other_prints_are_text(executor: BaseCodeExecutor) -> None:
    output = await executor.execute(
        "import contextlib, io, sys\nimport pandas as pd\ndf = pd.DataFrame({'column': [1, 2]})\n"
        "print('a frame:', df)\nprint(df, file=sys.stderr)\nprint(df['column'])\nprint()\n"
        "print(df.columns, end='!')\n"
        "with contextlib.redirect_stdout(io.StringIO()) as kept:\n    print(df)\n"
        "with io.StringIO() as file:\n    print(df, file=file)\n    same = file.getvalue()\n"
        "kept.getvalue() == same == str(df) + '\\n'"
    )
    assert [text(each) for each in output.shown] == ["True"]
    assert output.stdout.startswith("a frame:    column\n0       1\n")
    assert "Name: column, dtype: int64\n\nIndex(['column']" in output.stdout
    assert output.stdout.endswith("!")
    assert output.stderr == "   column\n0       1\n1       2\n"


async def test_print_follows_its_file_argument(executor: BaseCodeExecutor, tmp_path: Path) -> None:
    await executor.set_cwd(str(tmp_path))
    output = await executor.execute(
        "with open('a.txt', 'w') as file:\n    print('kept', 7, sep='-', file=file)\n"
        "print('said', flush=True)"
    )
    assert output.stdout == "said\n"
    assert (tmp_path / "a.txt").read_text() == "kept-7\n"


async def test_child_process_prints_are_captured(executor: BaseCodeExecutor) -> None:
    """However they are started. Their order among one another is that in which they write."""
    output = await executor.execute(
        "import os, subprocess, sys\nprint('parent')\n"
        "subprocess.run([sys.executable, '-c', 'print(\"run\")'], check=True)\n"
        "subprocess.run('echo shell; echo wrong >&2', shell=True)\n"
        "status = os.system('echo system; exit 3')\n"
        "subprocess.run(['echo', 'handed'], stdout=sys.stdout)\n"
        "caught = subprocess.run(['echo', 'caught'], capture_output=True, text=True).stdout\n"
        "os.waitstatus_to_exitcode(status), caught"
    )
    assert output.stdout == "parent\nrun\nshell\nsystem\nhanded\n"
    assert output.stderr == "wrong\n"
    assert [text(each) for each in output.shown] == ["(3, 'caught\\n')"]


async def test_every_unicode_plane_is_kept(executor: BaseCodeExecutor) -> None:
    output = await executor.execute(
        "größe = '日本 \U0001f600 e\u0301 \u202e'\nprint(größe)\nprint('\\udc80')\ngröße"
    )
    assert output.stdout == "日本 \U0001f600 e\u0301 \u202e\n?\n"
    assert text(output.shown[0]).startswith("'日本 \U0001f600 e\u0301")
    assert output.changed == ("größe",)


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
