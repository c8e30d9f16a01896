"""What the cells of a notebook define, and the names that stand for something from the start."""

import ast
import builtins
import functools
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from parsimony_kernel.analysis.parse import tree

# What a private namespace holds before any code has run, and how to get it elsewhere.
SEEDS: Mapping[str, str] = {
    "pd": "import pandas as pd",
    "np": "import numpy as np",
    "alt": "import altair as alt",
    "datetime": "from datetime import datetime",
    "timedelta": "from datetime import timedelta",
    "timezone": "from datetime import timezone",
    "read_excel": "from parsimony_kernel import read_excel",
    "read_pdf_text": "from parsimony_kernel import read_pdf_text",
    "read_pptx_text": "from parsimony_kernel import read_pptx_text",
    "load_dataset": "from parsimony_kernel import load_dataset",
    "display": "from IPython.display import display",
    "get_ipython": "from IPython import get_ipython",
}

BUILTINS = frozenset(vars(builtins)) | {"__name__", "__builtins__"}
# What star imports, exec and %run bind: names that no text tells.
ANY = "*"
# The random numbers that libraries keep for all.
RANDOM = "*random"

Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
_DEFINING_WORDS = ("def ", "lambda", "class ", "import ")


@dataclass(frozen=True, eq=False)
class Vocabulary:
    """The functions, classes and imports of a notebook, and the methods of its classes, by name.

    Args:
        harmless: the functions that leave their arguments and globals alone.
        holding: those that hold objects of their own: defaults, or what a decorator gave them.
        nesting: those in which others are defined.
        homes: what the names of imports stand for: ``pandas``, ``math:sqrt``.
    """

    functions: Mapping[str, tuple[Function, ...]]
    classes: frozenset[str]
    methods: frozenset[str]
    imports: frozenset[str]
    harmless: frozenset[str]
    holding: frozenset[str]
    nesting: frozenset[str]
    homes: Mapping[str, str]


def gathered(codes: Collection[str]) -> Vocabulary:
    """What ``codes`` define, every function taken for harmless."""
    functions: dict[str, list[Function]] = {}
    classes, methods = set[str](), set[str]()
    homes = {name: home for text in SEEDS.values() for name, home in _homes(tree(text).body[0])}
    for node in (each for code in codes for each in nodes_of(tree(code))):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                functions.setdefault(node.name, []).append(node)
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Lambda() as made):
                functions.setdefault(name, []).append(made)
            case ast.ClassDef():
                classes.add(node.name)
                methods |= {
                    each.name
                    for each in node.body
                    if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)
                }
            case ast.Import() | ast.ImportFrom():
                homes |= _homes(node)
    return Vocabulary(
        {name: tuple(found) for name, found in functions.items()},
        frozenset(classes),
        frozenset(methods),
        frozenset(homes),
        harmless=frozenset(functions),
        holding=frozenset(name for name, found in functions.items() if any(map(_holds, found))),
        nesting=frozenset(name for name, found in functions.items() if any(map(_nests, found))),
        homes=homes,
    )


def _homes(node: ast.stmt) -> Iterator[tuple[str, str]]:
    match node:
        case ast.Import(names=names):
            for each in names:
                yield each.asname or each.name.partition(".")[0], each.name
        case ast.ImportFrom(names=names):
            for each in names:
                yield each.asname or each.name, f"{node.module or ''}:{each.name}"


def _holds(function: Function) -> bool:
    defaults = [*function.args.defaults, *filter(None, function.args.kw_defaults)]
    return any(not isinstance(each, ast.Constant) for each in defaults) or bool(
        getattr(function, "decorator_list", ())
    )


def _nests(function: Function) -> bool:
    return any(isinstance(each, Function | ast.ClassDef) for each in nodes_of(function)[1:])


@functools.lru_cache(maxsize=4_096)
def defines(code: str) -> bool:
    """Whether a cell adds to the vocabulary of the notebook."""
    return any(word in code for word in _DEFINING_WORDS) and any(
        isinstance(each, Function | ast.ClassDef | ast.Import | ast.ImportFrom)
        for each in nodes_of(tree(code))
    )


def nodes_of(root: ast.AST) -> list[ast.AST]:
    """``root`` and all that is below it, the nearest first, as ``ast.walk`` gives them, without
    the marks for loading and storing."""
    found = [root]
    for node in found:
        for name in node._fields:
            value = getattr(node, name, None)
            if isinstance(value, list):
                found += [each for each in value if isinstance(each, ast.AST)]
            elif isinstance(value, ast.AST) and not isinstance(value, ast.expr_context):
                found.append(value)
    return found


def names_in(root: ast.AST) -> Iterator[str]:
    """Every name in ``root``, once for each time it stands there."""
    for each in nodes_of(root):
        if isinstance(each, ast.Name):
            yield each.id


def root_of(node: ast.AST) -> tuple[str, int]:
    """The name at the beginning of ``a.b[c].d``, and how many steps follow; ``""`` for others."""
    steps = 0
    while isinstance(node, ast.Attribute | ast.Subscript | ast.Starred):
        steps += not isinstance(node, ast.Starred)
        node = node.value
    return (node.id, steps) if isinstance(node, ast.Name) else ("", steps)


def last_of(node: ast.expr) -> str:
    """The last name of ``a.b.c``; ``""`` for others."""
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
    return ""


def arguments_of(call: ast.Call) -> list[ast.expr]:
    """What a call is handed."""
    return [*call.args, *(each.value for each in call.keywords)]
