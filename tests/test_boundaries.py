"""A handler for everything stands where code of others is run, and says whose."""

import ast
import re
from pathlib import Path

ROOTS = ("parsimony_kernel", "extension")
MARK = re.compile(r"# boundary: (tool|user object|front end|subscriber)\b")


def is_broad(handler: ast.ExceptHandler) -> bool:
    names = {
        node.id
        for node in ast.walk(handler.type or ast.Name("BaseException"))
        if isinstance(node, ast.Name)
    }
    return not names.isdisjoint({"Exception", "BaseException"})


def raises_again(handler: ast.ExceptHandler) -> bool:
    last = handler.body[-1]
    return isinstance(last, ast.Raise)


def test_each_broad_handler_raises_again_or_says_whose_code_it_is_around() -> None:
    unmarked = []
    for path in (path for root in ROOTS for path in Path(root).rglob("*.py")):
        text = path.read_text()
        lines = text.splitlines()
        unmarked += [
            f"{path}:{node.lineno}: {lines[node.lineno - 1].strip()}"
            for node in ast.walk(ast.parse(text))
            if isinstance(node, ast.ExceptHandler)
            and is_broad(node)
            and not raises_again(node)
            and not MARK.search(lines[node.lineno - 1])
        ]
    assert unmarked == [], (
        "narrow it, or mark it `# boundary: tool | user object | front end | subscriber`"
    )
