"""The rewrite to ``await``, as the shell does it."""

from collections.abc import Iterator
from typing import Any

import pytest
from IPython.core.interactiveshell import InteractiveShell

from parsimony_agent.transform import asking, awaiting


@pytest.fixture
def shell() -> Iterator[Any]:
    shell = InteractiveShell()
    shell.register_magic_function(lambda line, cell=None: None, "line_cell", "agent")
    shell.input_transformers_post.append(awaiting("agent"))
    shell.input_transformer_manager.token_transformers.append(asking("agent"))
    yield shell
    shell.history_manager.end_session()


CELL = "get_ipython().run_cell_magic('agent', "
LINE = "get_ipython().run_line_magic('agent', "


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("%%agent\nplot {x} for $y\n", f"await {CELL}'', 'plot {{x}} for $y\\n')\n"),
        ("%%agent", f"await {CELL}'', '\\n')\n"),
        ("%%agent\n", f"await {CELL}'', '\\n')\n"),
        ("%%agent -m é", f"await {CELL}'-m é', '\\n')\n"),
        ("\n\n%%agent\nhi", f"await {CELL}'', 'hi\\n')\n"),
        ("%agent answer 2", f"await {LINE}'answer 2')\n"),
        ("%agent answer\t2", f"await {LINE}'answer\\t2')\n"),
        ("agent answer 2", f"await {LINE}'answer 2')\n"),
        ("x = 'é'\n%agent answer é", f"x = 'é'\nawait {LINE}'answer é')\n"),
        ("%agent answer is a.b fine?", f"await {LINE}'answer is a.b fine?')\n"),
        ("%agent fix what's wrong ??", f'await {LINE}"fix what\'s wrong ??")\n'),
        ("if x:\n  %agent answer why?", f"if x:\n  await {LINE}'answer why?')\n"),
        ("%agent context why?", f"{LINE}'context why?')\n"),
        ("if x:\n    %agent answer 2", f"if x:\n    await {LINE}'answer 2')\n"),
    ],
)
def test_awaitable_magic_is_awaited(shell: Any, source: str, expected: str) -> None:
    assert shell.transform_cell(source) == expected


def test_form_feed_in_string_moves_nothing() -> None:
    """Python counts it as white space, and a splitter of lines as an end of one."""
    lines = ["y = 'a\x0cb'\n", f"{LINE}'answer 2')\n"]
    assert "".join(awaiting("agent")(lines)) == f"y = 'a\x0cb'\nawait {LINE}'answer 2')\n"


@pytest.mark.parametrize(
    "source",
    [
        "%agent",
        "%agent history",
        "%agent answering",
        "def f():\n    %agent answer 2",
        "%agent?",
        "%agent history?",
        "shell?",
        's = """\n%agent answer why?\n"""',
        f's = """\n{CELL}"", "")\n"""',
        f"task = {CELL}'', 'x')",
        f"await {CELL}'', 'x')",
        f"create_task({CELL}'', 'x'))",
        "f(run_cell_magic('agent', '', 'x'))",
        "%%other\n%agent answer 2",
        "def broken(:\n  x = run_line_magic('agent', 'answer 2')",
    ],
)
def test_other_code_is_untouched(shell: Any, source: str) -> None:
    plain = InteractiveShell()
    try:
        plain.register_magic_function(lambda line, cell=None: None, "line_cell", "agent")
        assert shell.transform_cell(source) == plain.transform_cell(source)
    finally:
        plain.history_manager.end_session()
