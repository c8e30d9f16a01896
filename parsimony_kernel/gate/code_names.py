"""What a cell names in its code: what it calls, imports and reads. Its texts name nothing."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from parsimony_kernel.gate.cell_lines import Magic, taken_apart


@dataclass(frozen=True)
class CodeNames:
    """Names as they are written, with their dots. ``read`` are variables and attributes."""

    called: frozenset[str] = frozenset()
    imported: frozenset[str] = frozenset()
    read: frozenset[str] = frozenset()


@lru_cache(maxsize=8)
def names_in(code: str) -> CodeNames:
    """What ``code``, which may hold IPython's syntax, names; nothing where it cannot be read."""
    try:
        taken = taken_apart(code)
        nodes = [] if taken.tree is None else list(ast.walk(taken.tree))
        commands = frozenset(map(_command, taken.magics))
    except RecursionError:
        return CodeNames()
    return CodeNames(
        commands | {_dotted(node.func) for node in nodes if isinstance(node, ast.Call)},
        frozenset(name for node in nodes for name in _imported(node)),
        commands | {name for node in nodes if (name := _read(node))},
    )


def is_among(name: str, written: frozenset[str]) -> bool:
    """Whether ``name``, or something that ends in it, stands in ``written``."""
    return any(each == name or each.endswith(f".{name}") for each in written)


def _command(magic: Magic) -> str:
    return magic.name if magic.name not in ("", "!") else magic.text.partition(" ")[0]


def _dotted(node: ast.expr) -> str:
    if isinstance(node, ast.Name):
        return node.id
    if not isinstance(node, ast.Attribute):
        return ""
    before = _dotted(node.value)
    return f"{before}.{node.attr}" if before else node.attr


def _read(node: ast.AST) -> str:
    if not isinstance(node, ast.Name | ast.Attribute) or not isinstance(node.ctx, ast.Load):
        return ""
    return _dotted(node)


def _imported(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Import):
        for alias in node.names:
            yield from _with_packages(alias.name)
    elif isinstance(node, ast.ImportFrom) and not node.level:
        for alias in node.names:
            yield from _with_packages(f"{node.module}.{alias.name}")


def _with_packages(name: str) -> Iterator[str]:
    parts = name.split(".")
    return (".".join(parts[:length]) for length in range(1, len(parts) + 1))
