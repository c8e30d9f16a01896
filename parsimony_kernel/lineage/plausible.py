"""What a cell may change in place, as far as its text tells. Pure: code in, names out.

Libraries leave what they are handed as it is, but for the functions that are known to change it;
a person's own function may change whatever it can reach.
"""

import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass

from parsimony_kernel.lineage.analysis import CHANGES_BY_NAME, analyse
from parsimony_kernel.lineage.kinds.callables import CHANGING_FUNCTIONS

# Attributes that are read without a call all the time, though they are named like a change.
_READ = frozenset({"at", "put", "place", "next"})
_CHANGES = CHANGES_BY_NAME | CHANGING_FUNCTIONS
_CLASSES = frozenset({"list", "dict", "set", "bytearray", "deque", "defaultdict", "ndarray"})
# What can reach any name by its text.
_DYNAMIC = frozenset({"exec", "eval", "globals", "locals", "vars", "compile", "__import__"})
_NAMESPACES = frozenset(
    {"user_ns", "user_global_ns", "f_globals", "f_locals", "__globals__", "_getframe", "__main__"}
)
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
    try:
        known, nodes = analyse(code), list(ast.walk(tree))
    except RecursionError:
        return Plausible(anything=True)
    found = _Found({name: home.rpartition(":")[2] for name, home in known.modules})
    for node in nodes:
        found.look(node)
    bound = {name for node in nodes for name in _bound_by(node)}
    names = known.mutated | known.reached | found.names
    return Plausible(
        frozenset(names),
        frozenset(known.reads | names).union(*(each.reads for each in found.inner)),
        frozenset(found.receivers),
        found.everything
        or found.passed > found.called
        or not bound.isdisjoint(names)
        or any(each.everything for each in found.inner),
        found.anything or any(each.anything for each in found.inner),
    )


class _Found:
    """What the nodes of a cell say, in whatever order."""

    def __init__(self, homes: dict[str, str]) -> None:
        self._homes = homes
        self.names, self.receivers = set[str](), set[str]()
        self.everything = self.anything = False
        self.inner: list[Plausible] = []
        # How often what changes something is named, and how often it is called at once.
        self.passed = self.called = 0

    def look(self, node: ast.AST) -> None:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.Lambda() | ast.ClassDef():
                self.everything = True
            case ast.Call():
                self._call(node)
            case ast.Name(id=name, ctx=ast.Load()):
                self.passed += self._homes.get(name, name) in CHANGING_FUNCTIONS - _READ
                self.anything = self.anything or name in _NAMESPACES
            case ast.Attribute(value=value, attr=name, ctx=ctx):
                if not isinstance(ctx, ast.Load) or name in _CHANGES:
                    self.names |= set(_within(value))
                self.passed += name in _CHANGES - _READ and isinstance(ctx, ast.Load)
                if name in ("__dict__", "__setitem__", "__setattr__", "__iadd__"):
                    self.everything = True
                self.anything = self.anything or name in _NAMESPACES
            case ast.Subscript(value=value, ctx=ast.Store() | ast.Del()):
                self.names |= set(_within(value))
            case ast.AugAssign(target=ast.Name(id=name)):
                self.names.add(name)
            case ast.alias(name="__main__"):
                self.anything = True
            case ast.Constant(value="__main__"):
                self.anything = True

    def _call(self, node: ast.Call) -> None:
        match node.func:
            case ast.Name(id=name):
                called = self._homes.get(name, name)
                self.called += called in CHANGING_FUNCTIONS - _READ
                self.anything = self.anything or called in _DYNAMIC
            case ast.Attribute(value=value, attr=called):
                self.called += called in _CHANGES - _READ
                if root := _root(value):
                    self.receivers.add(root)
                if called in _CHANGES and _is_class(value):
                    self.names |= set(_names_in_arguments(node))
            case _:
                called = ""
                self.names |= set(_names(node))
        if called in CHANGING_FUNCTIONS or any(each.arg == "out" for each in node.keywords):
            self.names |= set(_names_in_arguments(node))
        self.names |= {name for each in _outputs(called, node) for name in _names(each)}
        if called in _MAGICS:
            magic = _of_magic(node)
            self.inner.append(magic)
            self.names |= magic.names
            self.receivers |= magic.receivers


def _bound_by(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name):
            yield name
        case (
            ast.MatchAs(name=str(name))
            | ast.MatchStar(name=str(name))
            | ast.MatchMapping(rest=str(name))
            | ast.ExceptHandler(name=str(name))
        ):
            yield name


def _outputs(called: str, node: ast.Call) -> list[ast.expr]:
    """The arguments into which a function of numpy's writes what it finds."""
    numpy = sys.modules.get("numpy")
    function = None if numpy is None else vars(numpy).get(called)
    if numpy is None or function is None or type(function) is not numpy.ufunc:
        return []
    return node.args[int(function.nin) :]


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


def _within(node: ast.expr) -> Iterator[str]:
    """The names of whose objects, or of what they hold, ``node`` may give a part."""
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    return _names(node)


def _names(node: ast.AST) -> Iterator[str]:
    return (each.id for each in ast.walk(node) if isinstance(each, ast.Name))


def _is_class(node: ast.expr) -> bool:
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name in _CLASSES or name[:1].isupper()
    return False


def _root(node: ast.expr) -> str:
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def _names_in_arguments(call: ast.Call) -> Iterator[str]:
    for part in (*call.args, *(each.value for each in call.keywords)):
        yield from _names(part)
