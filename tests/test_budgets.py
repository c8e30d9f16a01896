"""How large each room may be: lines of code, without blank lines, comments and docstrings.

Data files (tables, templates, styles) count at half. The budgets stand in ``pyproject.toml`` and
only fall: a room that grew takes its lines from another, in the same change.
"""

import ast
import tomllib
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCES = {
    "parsimony_kernel": ROOT / "parsimony_kernel",
    "parsimony_agent": ROOT / "extension" / "parsimony_agent",
}
DATA = {".toml", ".j2", ".js", ".mjs", ".yaml", ".json", ".css"}
_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def lines_of_code(text: str) -> int:
    lines = enumerate(map(str.strip, text.splitlines()), 1)
    held = {number for number, line in lines if line and not line.startswith("#")}
    docstrings: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, _DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            docstrings.update(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
        elif isinstance(node, ast.Constant | ast.JoinedStr):  # a text's blank lines are code
            held.update(range(node.lineno, (node.end_lineno or 0) + 1))
    return len(held - docstrings)


def rooms() -> Counter[str]:
    sizes: Counter[str] = Counter()
    for name, source in SOURCES.items():
        for path in source.rglob("*"):
            parts = path.relative_to(source).parts
            room = name if name == "parsimony_agent" else parts[0] if len(parts) > 1 else "(top)"
            if path.suffix == ".py":
                sizes[room] += lines_of_code(path.read_text())
            elif path.suffix in DATA:
                lines = path.read_text(errors="replace").splitlines()
                sizes[room] += sum(bool(line.strip()) for line in lines) // 2
    return sizes


def test_no_room_exceeds_its_budget() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    budgets: dict[str, int] = settings["tool"]["budgets"]
    sizes = rooms()
    assert set(sizes) == set(budgets), "each room has a budget in pyproject.toml, [tool.budgets]"
    grown = {
        room: f"{sizes[room]} of {budgets[room]}" for room in sizes if sizes[room] > budgets[room]
    }
    assert not grown, f"these rooms grew; take the lines from somewhere: {grown}"
