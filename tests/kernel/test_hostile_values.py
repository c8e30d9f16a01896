"""Objects that do harm when they are looked at: what looks at them lives, and so does the kernel.

Each cell binds ``a``. It is ordinary Python that a notebook may hold, and ends well in the plain
kernel.
"""

import gc
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent

import pytest

from parsimony_kernel.core.outputs import ExceptionObject, KernelOutput
from parsimony_kernel.execution.executor import CodeExecutor
from parsimony_kernel.testing.kernel_process import LiveKernel, live_kernel


def of_metaclass(body: str) -> str:
    return f"class M(type):\n    {body}\nclass A(metaclass=M): pass\na = A()"


def with_method(head: str, body: str) -> str:
    return f"class A:\n    def {head}: {body}\na = A()"


HOSTILE = {
    "metaclass: getattribute exits": of_metaclass(
        "def __getattribute__(cls, name): raise SystemExit('m')"
    ),
    "metaclass: getattribute raises": of_metaclass(
        "def __getattribute__(cls, name): raise RuntimeError('m')"
    ),
    "metaclass: everything is the class": of_metaclass("def __getattribute__(cls, name): return A"),
    "metaclass: instancecheck": of_metaclass("def __instancecheck__(cls, it): raise SystemExit"),
    "metaclass: subclasscheck": of_metaclass("def __subclasscheck__(cls, it): raise SystemExit"),
    "metaclass: repr": of_metaclass("def __repr__(cls): raise SystemExit"),
    "metaclass: eq": of_metaclass(
        "def __eq__(cls, it): raise SystemExit\n    def __hash__(cls): raise SystemExit"
    ),
    "metaclass: bool": of_metaclass("def __bool__(cls): raise SystemExit"),
    "class: raises": with_method("__class__(self)", "raise SystemExit").replace(
        "    def", "    @property\n    def"
    ),
    "class: lies, a frame": (
        "import pandas as pd\nclass A:\n    __class__ = pd.DataFrame\na = A()"
    ),
    "class: lies, an exception": "class A:\n    __class__ = ValueError\na = A()",
    "class: lies, a class": "class A:\n    __class__ = type\na = A()",
    "getattribute": with_method("__getattribute__(self, name)", "raise BaseException(name)"),
    "getattr: itself for ever": with_method("__getattr__(self, name)", "return self"),
    "eq: exits": with_method("__eq__(self, it)", "raise SystemExit"),
    "eq: an array": "import numpy as np\n"
    + with_method("__eq__(self, it)", "return np.array([True, False])"),
    "hash": with_method("__hash__(self)", "raise SystemExit"),
    "bool": with_method("__bool__(self)", "raise SystemExit"),
    "len: huge": with_method("__len__(self)", "return 10**30"),
    "len: negative": with_method("__len__(self)", "return -1"),
    "iter: endless": with_method("__iter__(self)", "\n        while True: yield self"),
    "dir": with_method("__dir__(self)", "raise SystemExit"),
    "copy": with_method("__reduce_ex__(self, protocol)", "raise SystemExit"),
    "del": with_method("__del__(self)", "raise SystemExit"),
    "slots": "class A:\n    __slots__ = ('x',)\na = A()",
    "repr: endless": with_method("__repr__(self)", "\n        while True: pass"),
    "repr: ten megabytes": with_method("__repr__(self)", "return 'x' * 10_000_000"),
    "repr: no text": with_method("__repr__(self)", "return 7"),
    "repr: exits": with_method("__repr__(self)", "raise SystemExit"),
    "repr: half a character": with_method("__repr__(self)", r"return '\ud800'"),
    "repr: interrupts": with_method("__repr__(self)", "raise KeyboardInterrupt"),
    "repr: cancels": "import asyncio\n"
    + with_method("__repr__(self)", "raise asyncio.CancelledError"),
    "repr: a text that exits": dedent(
        """
        class Text(str):
            def __str__(self): raise SystemExit
            __len__ = __getitem__ = encode = __repr__ = __str__
        class A:
            def __repr__(self): return Text('t')
        a = A()"""
    ),
    "named as a dict": "class dict:\n    x = property(lambda self: 1/0)\na = dict()\ndel dict",
    "named as a frame": (
        "class DataFrame:\n    __module__ = 'polars'\n"
        "    def __getattr__(self, name): raise SystemExit\na = DataFrame()"
    ),
    "no module": "class A: pass\nA.__module__ = A()\na = A()",
    "picture": with_method("_repr_png_(self)", "raise SystemExit"),
    "exception": dedent(
        """
        class A(Exception):
            def __str__(self): raise SystemExit
            def __getattribute__(self, name): raise SystemExit
        a = A()"""
    ),
    "signature": (
        "class Default:\n    def __repr__(self): raise SystemExit\ndef a(x=Default()): pass"
    ),
    "within a list and as a key": with_method("__repr__(self)", "raise SystemExit")
    + "\na = [A(), {A(): A()}, (A(),), {A()}]",
    "within a frame": dedent(
        """
        import pandas as pd
        class A:
            def __str__(self): raise SystemExit
            __repr__ = __ne__ = __eq__ = __str__
        a = pd.DataFrame({'x': pd.Series([A(), A()], dtype=object)})"""
    ),
    "a proxy of a frame": dedent(
        """
        import pandas as pd
        class A:
            __class__ = property(lambda self: pd.DataFrame)
            def __getattr__(self, name): return getattr(pd.DataFrame({'x': [1]}), name)
        a = A()"""
    ),
}

# Counts every question that reaches its own code.
LAZY = """
asked = []
class Lazy:
    def __getattribute__(self, name): asked.append(name)
    def __len__(self): asked.append('len')
    def __eq__(self, it): asked.append('eq')
    def __hash__(self): asked.append('hash')
    def __bool__(self): asked.append('bool')
    def __iter__(self): asked.append('iter')
lazy = Lazy()
"""


@pytest.fixture(params=HOSTILE.values(), ids=list(HOSTILE))
def hostile(request: pytest.FixtureRequest) -> str:
    cell: str = request.param
    return cell


def is_whole(output: KernelOutput) -> bool:
    """Whether it can be written down and read."""
    return KernelOutput.model_validate_json(output.model_dump_json()) == output


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
async def test_hostile_value_in_agent_cell_has_output(hostile: str) -> None:
    executor = CodeExecutor()
    bound = await executor.execute(hostile)
    assert bound.error is None
    assert "a" in bound.changed
    assert is_whole(bound)
    shown = await executor.execute("a", timeout_seconds=0.3)
    assert is_whole(shown)
    assert shown.outputs
    assert (await executor.execute("6 * 7")).outputs[0].model_dump()["text"] == "42"
    del executor
    gc.collect()  # what its __del__ raises is told here and not in another test


@pytest.mark.parametrize(
    "raised",
    [
        "class E(Exception):\n    def __str__(self): raise BaseException('x')",
        "class E(Exception):\n    def __str__(self): raise SystemExit",
        "class E(Exception):\n    def __str__(self): return 'x' * 10_000_000",
        r"class E(Exception):" + "\n" + r"    def __str__(self): return '\ud800'",
        "class E(Exception):\n    __notes__ = property(lambda self: 1/0)",
        "class E(Exception):\n    response = property(lambda self: exit_())\n"
        "def exit_(): raise SystemExit",
        "class E(Exception):\n    __cause__ = property(lambda self: [][1])",
        "class E(SyntaxError):\n    lineno = 'seven'\n    msg = 7",
        "class M(type):\n    def __getattribute__(cls, name): raise SystemExit\n"
        "class E(Exception, metaclass=M): pass",
        "class E(Exception):\n    def __getattr__(self, name): return self",
    ],
)
async def test_any_exception_is_an_output(raised: str) -> None:
    output = await CodeExecutor().execute(f"{raised}\nraise E()")
    assert isinstance(output.error, ExceptionObject)
    assert output.error.name == "E"
    assert is_whole(output)


async def test_lazy_object_is_not_computed_by_inspection() -> None:
    executor = CodeExecutor()
    await executor.execute(LAZY)
    await executor.execute("lazy")
    shown = (await executor.execute("list(asked)")).outputs[0]
    assert shown.model_dump()["text"] == "[]"


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveKernel]:
    folder: Path = tmp_path_factory.mktemp("notebook")
    with live_kernel(folder) as running:
        yield running


def ends_well(kernel: LiveKernel, source: str) -> str:
    """Run a cell; what it showed."""
    cell = kernel.end(kernel.begin(source), patience_s=20.0)
    assert cell.status == "ok", cell.text
    assert "Traceback" not in cell.text
    assert kernel.is_alive()
    return cell.text


@pytest.mark.kernel
def test_kernel_survives_hostile_variable(kernel: LiveKernel, hostile: str) -> None:
    ends_well(kernel, hostile)
    assert ends_well(kernel, "6 * 7") == "42"
    ends_well(kernel, "%%agent\nmake a table of 1, 2, 3")
    # Of a single line IPython itself asks what its first name is. Python tells what __del__ raises.
    assert kernel.run("if True:\n    a = None").status == "ok"
    assert ends_well(kernel, "6 * 7") == "42"


@pytest.mark.kernel
def test_agent_does_not_compute_lazy_object(kernel: LiveKernel) -> None:
    ends_well(kernel, LAZY)
    ends_well(kernel, "%%agent\nmake a table of 1, 2, 3")
    assert ends_well(kernel, "asked") == "[]"


@pytest.mark.kernel
def test_unwritable_name_is_no_variable(kernel: LiveKernel) -> None:
    ends_well(kernel, r"globals().update({7: 1, None: 2, 'half \ud800': 3})")
    ends_well(kernel, "%%agent\nmake a table of 1, 2, 3")
    ends_well(kernel, r"for key in (7, None, 'half \ud800'): del globals()[key]")
