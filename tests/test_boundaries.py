"""A handler for everything stands where foreign code runs, and says so on its line:
``# boundary: KIND - why``. Elsewhere expected trouble is a value, and an exception is a bug.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
ROOTS = ("parsimony_kernel", "extension")
KINDS = {
    "tool": "running foreign code: a cell, a tool's body, a host's hook, a provider",
    "user object": "looking at a user's object, to compare it or turn it into an output",
    "front end": "answering a message from a front end, or from another process",
    "subscriber": "watching or telling what happened, which must not change what happens",
}
MARK = re.compile(rf"# boundary: ({'|'.join(KINDS)}) - \w")
LEAVES = (ast.Return, ast.Break, ast.Continue)


def swallowers(tree: ast.AST) -> Iterator[slice]:
    """The heads of each handler and ``suppress`` of everything that may not raise again."""
    for node in ast.walk(tree):
        match node:
            case ast.ExceptHandler(type=kind, body=body):
                caught: list[ast.expr] = [kind or ast.Name("BaseException")]
                leaves = any(isinstance(each, LEAVES) for each in ast.walk(node))
                raises = isinstance(body[-1], ast.Raise) and not leaves
            case ast.Call(func=ast.Name("suppress") | ast.Attribute(attr="suppress")):
                caught, raises, body = node.args, False, []
            case _:
                continue
        names = {getattr(each, "id", None) for kind in caught for each in ast.walk(kind)}
        if names & {"Exception", "BaseException"} and not raises:
            yield slice(node.lineno - 1, body[0].lineno - 1 if body else node.end_lineno)


def test_every_broad_except_names_its_boundary() -> None:
    unmarked = []
    for path in sorted(p for root in ROOTS for p in (ROOT / root).rglob("*.py")):
        lines = path.read_text().splitlines()
        for head in swallowers(ast.parse("\n".join(lines))):
            if not any(map(MARK.search, lines[head])):
                where = f"{path.relative_to(ROOT)}:{head.start + 1}"
                unmarked.append(f"{where}: {lines[head.start].strip()}")
    assert not unmarked, "\n".join(
        [
            *unmarked,
            "Narrow it, raise again, or write `# boundary: KIND - why`, where KIND is",
            *(f"  {kind}: {what}" for kind, what in KINDS.items()),
        ]
    )
