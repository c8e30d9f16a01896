"""How code uses the names in it: hands them on, uses them up, or asks for their elements."""

import ast
from dataclasses import dataclass

from parsimony_kernel.analysis.calls import (
    ATOMIC_FUNCTIONS,
    SEEDING_FUNCTIONS,
    STREAM_FUNCTIONS,
    VALUE_MODULES,
)
from parsimony_kernel.lineage.slicing.vocabulary import (
    BUILTINS,
    RANDOM,
    Vocabulary,
    arguments_of,
    last_of,
    root_of,
)

# Methods that take random numbers where no state of them is given, and modules of such functions.
_DRAWING = frozenset({"sample", "rvs", "fit", "fit_transform", "fit_predict"})
_RANDOM_MODULES = frozenset({"sklearn", "scipy"})
# Builtins that run what a class says of its objects, and ask for no elements.
_ASKING = frozenset({"str", "format", "bool", "hash", "abs", "int", "float", "round"})


@dataclass(frozen=True)
class Uses:
    """The names that a statement uses, and those of which it asks for the elements."""

    used: frozenset[str] = frozenset()
    iterated: frozenset[str] = frozenset()


def uses_of(node: ast.AST, known: Vocabulary) -> Uses:
    """What running ``node`` uses, but for what it only hands on, shows or measures."""
    finder = _Finder(known)
    finder.look(node, "")
    return Uses(frozenset(finder.used), frozenset(finder.iterated))


class _Finder:
    """Walks an expression with how what it gives is used: ``"used"``, ``"iterated"`` or not."""

    def __init__(self, known: Vocabulary) -> None:
        self._known = known
        self.used: set[str] = set()
        self.iterated: set[str] = set()

    def look(self, node: ast.AST, how: str) -> None:
        match node:
            case ast.Name(id=name):
                if how:
                    self.used.add(name)
                if how == "iterated":
                    self.iterated.add(name)
            case ast.Call():
                self._look_at_call(node)
            case ast.For() | ast.AsyncFor() | ast.comprehension():
                self.look(node.iter, "iterated")
                self._look_at_rest(node, "", "iter")
            case ast.Starred(value=value, ctx=ast.Load()) | ast.YieldFrom(value=value):
                self.look(value, "iterated")
            case ast.Dict(keys=keys, values=values):
                for key, value in zip(keys, values, strict=True):
                    self.look(value, how if key is not None else "iterated")
                    if key is not None:
                        self.look(key, "used")
            case ast.Assign(targets=targets, value=value):
                unpacks = any(isinstance(each, ast.Tuple | ast.List) for each in targets)
                pairs = isinstance(value, ast.Tuple | ast.List)
                self.look(value, "iterated" if unpacks and not pairs else "")
                for each in targets:
                    self.look(each, "")
            case ast.AugAssign(value=value, target=target):
                self.look(value, "iterated")
                self.look(target, "used")
            case ast.Compare(left=left, comparators=others, ops=ops):
                self.look(left, "used")
                for operator, other in zip(ops, others, strict=True):
                    within = isinstance(operator, ast.In | ast.NotIn)
                    self.look(other, "iterated" if within else "used")
            case ast.Subscript(value=value, slice=index):
                self.look(value, "iterated" if how == "iterated" else "used")
                self.look(index, "used")
            case ast.Attribute(value=value):
                self.look(value, how or "used")
            case ast.withitem(context_expr=value, optional_vars=target):
                self.look(value, "used")
                if target is not None:
                    self.look(target, "")
            case ast.BinOp() | ast.UnaryOp() | ast.Await() | ast.Match():
                self._look_at_rest(node, how or "used")
            case ast.If(test=test) | ast.While(test=test) | ast.Assert(test=test):
                self.look(test, "used")
                self._look_at_rest(node, "", "test")
            case ast.Expr(value=value):
                self.look(value, "")
            case _:
                self._look_at_rest(node, how)

    def _look_at_rest(self, node: ast.AST, how: str, without: str = "") -> None:
        for name, value in ast.iter_fields(node):
            if name == without:
                continue
            for each in value if isinstance(value, list) else [value]:
                if isinstance(each, ast.AST):
                    self.look(each, how if isinstance(each, ast.expr) else "")

    def _look_at_call(self, node: ast.Call) -> None:
        how = "used"
        match node.func:
            case ast.Name(id=name) if name in BUILTINS and name not in self._known.functions:
                how = "" if name in ATOMIC_FUNCTIONS - {"any", "all"} else "iterated"
                how = "used" if name in _ASKING else how
            case ast.Name(id=name):
                self.used.add(name)
            case ast.Attribute(value=receiver):
                self.look(receiver, "used")
            case function:
                self.look(function, "used")
        if draws(node, self._known):
            self.used.add(RANDOM)
        for each in arguments_of(node):
            self.look(each, how)


def draws(node: ast.Call, known: Vocabulary) -> bool:
    """Whether a call may take, or set, the random numbers that a library keeps for all."""
    called = last_of(node.func)
    if called in SEEDING_FUNCTIONS:
        return True
    if called in STREAM_FUNCTIONS or any(each.arg == "random_state" for each in node.keywords):
        return False
    root, _ = root_of(node.func)
    if root not in known.imports:
        return called in _DRAWING
    path = f"{known.homes[root]}.{ast.unparse(node.func)}".replace(":", ".").split(".")
    return "random" in path or path[0] in _RANDOM_MODULES or path[0] not in VALUE_MODULES
