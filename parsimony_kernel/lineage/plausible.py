"""What a cell may change in place, as far as its text tells. Pure: code in, names out.

Libraries leave what they are handed as it is, but for the functions that are known to change it;
a person's own function may change whatever it can reach.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from parsimony_kernel.lineage.analysis import analyse

# Functions of libraries that change an argument of theirs.
_CHANGING = frozenset(
    {
        "shuffle", "heappush", "heappop", "heapify", "heapreplace", "heappushpop", "insort",
        "insort_left", "insort_right", "copyto", "put", "place", "putmask", "fill_diagonal",
        "setattr", "delattr", "next", "setitem", "delitem", "iadd", "isub", "imul", "advance",
        "put_along_axis", "move_to_end",
    }
)  # fmt: skip
# What can reach any name by its text.
_DYNAMIC = frozenset({"exec", "eval", "globals", "locals", "vars", "compile", "__import__"})
_MAGICS = frozenset({"run_line_magic", "run_cell_magic"})
_RUNS_ITS_TEXT = frozenset({"time", "timeit", "prun", "capture", "memit", "mprun", "lprun"})
_HARMLESS = frozenset(
    {
        "cd", "ls", "pwd", "matplotlib", "load_ext", "config", "who", "whos", "env", "pip",
        "conda", "precision", "alias", "html", "markdown", "latex", "bash", "sh", "writefile",
    }
)  # fmt: skip


@dataclass(frozen=True)
class Plausible:
    """What code may change.

    Args:
        names: what it plainly changes, or hands to what changes it.
        reads: every name whose value from before it uses.
        receivers: the names on which it calls methods.
        everything: it may change all that it reads.
        anything: it may change any name at all.
    """

    names: frozenset[str] = frozenset()
    reads: frozenset[str] = frozenset()
    receivers: frozenset[str] = frozenset()
    everything: bool = False
    anything: bool = False


def plausible(code: str) -> Plausible:
    """What ``code``, which is Python after IPython's transforms, may change in place."""
    try:
        tree = ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return Plausible(anything=True)
    known = analyse(code)
    try:
        nodes = list(ast.walk(tree))
    except RecursionError:
        return Plausible(anything=True)
    handed, receivers = set[str](), set[str]()
    inner: list[Plausible] = []
    everything = bool(known.mutated & known.writes)
    anything = False
    for node in nodes:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.Lambda() | ast.ClassDef():
                everything = True
            case ast.Call():
                called = _last(node.func)
                changing = called in _CHANGING or any(each.arg == "out" for each in node.keywords)
                if changing:
                    handed |= set(_names_in_arguments(node))
                if called in _DYNAMIC and isinstance(node.func, ast.Name):
                    anything = True
                if called in _MAGICS:
                    inner.append(_of_magic(node))
                if isinstance(node.func, ast.Attribute) and (root := _root(node.func.value)):
                    receivers.add(root)
            case ast.Attribute(attr="__dict__" | "__setitem__" | "__setattr__" | "__iadd__"):
                everything = True
    for each in inner:
        handed |= each.names
        receivers |= each.receivers
        everything = everything or each.everything
        anything = anything or each.anything
    reads = known.reads | known.mutated
    return Plausible(
        frozenset(known.mutated | handed),
        frozenset(reads.union(*(each.reads for each in inner))),
        frozenset(receivers),
        everything,
        anything,
    )


def _of_magic(call: ast.Call) -> Plausible:
    texts = [
        each.value
        for each in call.args
        if isinstance(each, ast.Constant) and isinstance(each.value, str)
    ]
    if not texts or len(texts) != len(call.args):
        return Plausible(anything=True)
    if texts[0] in _HARMLESS:
        return Plausible()
    return plausible(texts[-1]) if texts[0] in _RUNS_ITS_TEXT else Plausible(anything=True)


def _last(function: ast.expr) -> str:
    match function:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
    return ""


def _root(node: ast.expr) -> str:
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def _names_in_arguments(call: ast.Call) -> Iterator[str]:
    for part in (*call.args, *(each.value for each in call.keywords)):
        for node in ast.walk(part):
            if isinstance(node, ast.Name):
                yield node.id
