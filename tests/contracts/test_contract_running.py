"""What every executor runs, and what it leaves as it was."""

import sys
from pathlib import Path

import pytest

from parsimony_kernel.execution.base import BaseCodeExecutor
from tests.contracts.told import failure, text


async def test_top_level_await_works(executor: BaseCodeExecutor) -> None:
    output = await executor.execute(
        "import asyncio\nasync def f():\n    await asyncio.sleep(0)\n    return 7\n"
        "async with asyncio.timeout(5):\n    x = await f()\nawait asyncio.gather(f(), f())"
    )
    assert [text(each) for each in output.outputs] == ["[7, 7]"]
    assert executor.variables()["x"] == 7


async def test_classes_dataclasses_decorators_and_super_work(executor: BaseCodeExecutor) -> None:
    output = await executor.execute(
        "from __future__ import annotations\n"
        "import functools\nfrom dataclasses import dataclass\n"
        "def twice(f):\n    @functools.wraps(f)\n    def g(*a): return f(f(*a))\n    return g\n"
        "@dataclass(order=True)\nclass P:\n    x: int\n    y: str = 'é'\n"
        "class Q(P):\n    def __post_init__(self): super().__init__\n"
        "@twice\ndef inc(n): return n + 1\n"
        "if __name__ == '__main__':\n    print(inc(1))\nQ(1) < Q(2), P(3)"
    )
    assert output.error is None
    assert (output.stdout, text(output.shown[0])) == ("3\n", "(True, P(x=3, y='é'))")


async def test_working_folder_is_set_and_restored(
    executor: BaseCodeExecutor, tmp_path: Path
) -> None:
    before = Path.cwd()
    (tmp_path / "sub").mkdir()
    await executor.set_cwd(str(tmp_path))
    output = await executor.execute("import os\nprint(os.getcwd())\nos.chdir('sub')")
    assert output.stdout == f"{tmp_path}\n"
    assert "working folder" in output.stderr
    assert (await executor.execute("print(os.getcwd())")).stdout == f"{tmp_path}\n"
    assert Path.cwd() == before


async def test_missing_folder_is_refused(executor: BaseCodeExecutor) -> None:
    with pytest.raises(NotADirectoryError, match="no/such"):
        await executor.set_cwd("no/such")


async def test_replaced_streams_are_restored(executor: BaseCodeExecutor) -> None:
    before = sys.stdout, sys.stderr, sys.displayhook
    await executor.execute("import io, sys\nsys.stdout = sys.stderr = io.StringIO()")
    assert (sys.stdout, sys.stderr, sys.displayhook) == before
    assert (await executor.execute("print(1)")).stdout == "1\n"


async def test_clearing_removes_variables_and_origins(executor: BaseCodeExecutor) -> None:
    await executor.execute("x = [1]", producer_notebook_path="nb.ipynb")
    await executor.clear_namespace()
    assert executor.variables() == {}
    assert executor.origin_ledger.get("x") is None
    assert failure(await executor.execute("x")).name == "NameError"


async def test_eval_takes_one_expression(executor: BaseCodeExecutor) -> None:
    await executor.execute("x = 20")
    assert text((await executor.eval(" x + 1 ")).outputs[0]) == "21"
    assert failure(await executor.eval("x = 1")).name == "SyntaxError"
    assert failure(await executor.eval("")).name == "SyntaxError"


async def test_async_generators_and_comprehensions_work(executor: BaseCodeExecutor) -> None:
    output = await executor.execute(
        "import asyncio\nasync def count(to):\n    try:\n        for n in range(to):\n"
        "            await asyncio.sleep(0)\n            yield n\n    finally:\n"
        "        print('closed')\nasync for n in count(3):\n    print(n)\n"
        "[n * 2 async for n in count(2)]"
    )
    assert output.error is None
    assert output.stdout == "0\n1\n2\nclosed\nclosed\n"
    assert text(output.shown[0]) == "[0, 2]"


@pytest.mark.parametrize(
    ("first", "then", "shown"),
    [
        ("x = [1]\ndef f(): return x", "x = [2]\nf()", "[2]"),
        (
            "done = []\nasync def count():\n    try:\n        yield 1\n        yield 2\n"
            "    finally:\n        done.append(1)\nnumbers = count()\nn = await anext(numbers)",
            "await numbers.aclose()\nn, done",
            "(1, [1])",
        ),
        (
            "from abc import ABC, abstractmethod\nfrom enum import Enum\nclass Shape(ABC):\n"
            "    @property\n    @abstractmethod\n    def area(self): ...\n"
            "class Colour(Enum):\n    RED = 1\nclass Square(Shape):\n    side = 3\n"
            "    @property\n    def area(self): return self.side ** 2\n"
            "    @staticmethod\n    def unit(): return Square()\ns = Square()",
            "s.area, Square.unit().area, Colour.RED, isinstance(s, Shape)",
            "(9, 9, <Colour.RED: 1>, True)",
        ),
        (
            "class P:\n    x = 7",
            "import pickle, sys\ntry:\n    kept = pickle.loads(pickle.dumps(P().x))\n"
            "except Exception as exc:\n    kept = exc\n"
            "kept, pickle.loads(pickle.dumps(print)) is print",
            "(7, True)",
        ),
    ],
    ids=["function", "async-generator", "metaclass", "pickled"],
)
async def test_definitions_survive_the_cell(
    executor: BaseCodeExecutor, first: str, then: str, shown: str
) -> None:
    await executor.execute(first)
    output = await executor.execute(then)
    assert output.error is None
    assert text(output.outputs[-1]) == shown


async def test_array_can_be_resized_in_place(executor: BaseCodeExecutor) -> None:
    await executor.execute("import numpy as np\narr = np.arange(3)")
    output = await executor.execute("arr.resize(5)\narr.tolist()")
    assert output.error is None
    assert output.changed == ("arr",)
    assert text(output.outputs[0]) == "[0, 1, 2, 0, 0]"
