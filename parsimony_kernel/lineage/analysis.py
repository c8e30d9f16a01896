"""What a cell's code says it does with names. Pure: code in, names out.

It reads the syntax and nothing else, so it answers for code that has not run, and errs towards
naming too much: a name that only might be read counts as read.
"""

import ast
from collections.abc import Iterable
from dataclasses import dataclass

# Methods of builtin containers, frames and arrays that change their object.
_MUTATORS = frozenset(
    {
        "append", "extend", "insert", "pop", "popitem", "remove", "clear", "sort", "reverse",
        "update", "setdefault", "add", "discard", "difference_update", "intersection_update",
        "symmetric_difference_update", "appendleft", "popleft", "extendleft", "rotate",
        "fill", "put", "itemset", "resize", "setflags", "partition", "set_value", "setfield",
    }
)  # fmt: skip

# Calls whose text argument names something that is written, not read.
_WRITERS = ("to_", "save", "write", "dump", "savefig", "mkdir", "unlink", "rename")


@dataclass(frozen=True)
class CellNames:
    """The module-level names of a cell.

    ``reads`` are those whose value from before the cell is used, ``writes`` those that are bound,
    ``deletes`` those that are unbound, ``mutated`` those whose object is changed in place.
    ``literals`` are the strings of the code, except what is plainly only written to.
    """

    reads: frozenset[str] = frozenset()
    writes: frozenset[str] = frozenset()
    deletes: frozenset[str] = frozenset()
    mutated: frozenset[str] = frozenset()
    literals: tuple[str, ...] = ()


def analyse(code: str) -> CellNames:
    """The names of ``code``, which is Python after IPython's transforms. Nonsense has none."""
    try:
        tree = ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return CellNames()
    visitor = _Visitor()
    try:
        for statement in tree.body:
            visitor.visit(statement)
    except RecursionError:
        return CellNames()
    return CellNames(
        reads=frozenset(visitor.reads),
        writes=frozenset(visitor.writes),
        deletes=frozenset(visitor.deletes),
        mutated=frozenset(visitor.mutated),
        literals=tuple(dict.fromkeys(visitor.literals)),
    )


class _Visitor(ast.NodeVisitor):
    """Walks statements in the order of evaluation, knowing what is bound for certain."""

    def __init__(self) -> None:
        self.reads: set[str] = set()
        self.writes: set[str] = set()
        self.deletes: set[str] = set()
        self.mutated: set[str] = set()
        self.literals: list[str] = []
        self._certain: set[str] = set()
        # Names that belong to the functions and comprehensions around, innermost last.
        self._local: list[frozenset[str]] = []
        self._global: list[frozenset[str]] = []
        # How many of them are functions and classes; a comprehension binds around itself.
        self._functions = 0

    # Names

    def _is_local(self, name: str) -> bool:
        for local, declared in zip(reversed(self._local), reversed(self._global), strict=True):
            if name in local:
                return True
            if name in declared:
                return False
        return False

    def _read(self, name: str) -> None:
        if not self._is_local(name) and name not in self._certain:
            self.reads.add(name)

    def _write(self, name: str) -> None:
        if self._is_local(name):
            return
        if not self._functions:
            self._certain.add(name)
            self.writes.add(name)
        elif name in self._global[-1]:
            self.writes.add(name)

    def _mutate(self, target: ast.expr) -> None:
        root = target
        while isinstance(root, ast.Attribute | ast.Subscript | ast.Call):
            if isinstance(root, ast.Call):
                return  # what a call returns is an object of its own, as far as can be told
            root = root.value
        if isinstance(root, ast.Name) and not self._is_local(root.id):
            self.mutated.add(root.id)

    def visit_Name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Load):
            self._read(node.id)
        elif isinstance(node.ctx, ast.Store):
            self._write(node.id)
        elif not self._functions:
            self.deletes.add(node.id)
            self._certain.discard(node.id)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        if not isinstance(node.ctx, ast.Load):
            self._mutate(node.value)
        self.visit(node.value)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        if not isinstance(node.ctx, ast.Load):
            self._mutate(node.value)
        self.generic_visit(node)

    # Statements whose parts are evaluated in another order than they are written

    def visit_Assign(self, node: ast.Assign) -> None:
        self.visit(node.value)
        self._visit_all(node.targets)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        self.visit(node.annotation)
        if node.value is not None:
            self.visit(node.value)
            self.visit(node.target)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self.visit(node.value)
        if isinstance(node.target, ast.Name):
            self._read(node.target.id)
            self._mutate(node.target)
        self.visit(node.target)

    def visit_NamedExpr(self, node: ast.NamedExpr) -> None:
        self.visit(node.value)
        self.visit(node.target)

    def visit_For(self, node: ast.For | ast.AsyncFor) -> None:
        self.visit(node.iter)
        self._visit_maybe([node.target, *node.body], node.orelse)

    visit_AsyncFor = visit_For

    def visit_While(self, node: ast.While) -> None:
        self.visit(node.test)
        self._visit_maybe(node.body, node.orelse)

    def visit_If(self, node: ast.If) -> None:
        self.visit(node.test)
        before = set(self._certain)
        self._visit_all(node.body)
        after, self._certain = self._certain, before
        otherwise = set(before)
        if node.orelse:
            self._visit_all(node.orelse)
            otherwise = self._certain
        self._certain = after & otherwise

    def visit_Try(self, node: ast.Try | ast.TryStar) -> None:
        self._visit_maybe(node.body, node.orelse, *(each.body for each in node.handlers))
        self._visit_all([each.type for each in node.handlers if each.type is not None])
        self._visit_all(node.finalbody)

    visit_TryStar = visit_Try

    def visit_Match(self, node: ast.Match) -> None:
        self.visit(node.subject)
        for case in node.cases:
            self._visit_maybe([case])

    def visit_MatchAs(self, node: ast.MatchAs) -> None:
        if node.name is not None:
            self._write(node.name)
        self.generic_visit(node)

    def visit_MatchStar(self, node: ast.MatchStar) -> None:
        if node.name is not None:
            self._write(node.name)

    def _visit_all(self, nodes: Iterable[ast.AST]) -> None:
        for node in nodes:
            self.visit(node)

    def _visit_maybe(self, *blocks: Iterable[ast.AST]) -> None:
        """Blocks that may or may not run: what they bind is not bound for certain."""
        for block in blocks:
            before = set(self._certain)
            self._visit_all(block)
            self._certain = before

    # Definitions and scopes

    def visit_Import(self, node: ast.Import | ast.ImportFrom) -> None:
        for alias in node.names:
            self._write(alias.asname or alias.name.partition(".")[0])

    visit_ImportFrom = visit_Import

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        self._visit_all(node.decorator_list)
        self._visit_signature(node.args)
        if node.returns is not None:
            self.visit(node.returns)
        self._write(node.name)
        self._within_function(node.args, node.body)

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self._visit_signature(node.args)
        self._within_function(node.args, [node.body])

    def _visit_signature(self, arguments: ast.arguments) -> None:
        self._visit_all(arguments.defaults)
        self._visit_all(each for each in arguments.kw_defaults if each is not None)
        for each in _parameters(arguments):
            if each.annotation is not None:
                self.visit(each.annotation)

    def _within_function(
        self, arguments: ast.arguments, body: list[ast.stmt] | list[ast.expr]
    ) -> None:
        bound, declared = _bound_in(body)
        local = (bound | {each.arg for each in _parameters(arguments)}) - declared
        # It runs later, if at all: what it binds is certain to nobody.
        certain = set(self._certain)
        self._local.append(frozenset(local))
        self._global.append(frozenset(declared))
        self._functions += 1
        self._visit_all(body)
        self._functions -= 1
        self._local.pop()
        self._global.pop()
        self._certain = certain

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._visit_all(node.decorator_list)
        self._visit_all(node.bases)
        self._visit_all(node.keywords)
        bound, declared = _bound_in(node.body)
        self._local.append(frozenset(bound - declared))
        self._global.append(frozenset(declared))
        self._functions += 1
        self._visit_all(node.body)
        self._functions -= 1
        self._local.pop()
        self._global.pop()
        self._write(node.name)

    def _comprehension(
        self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp
    ) -> None:
        targets = {
            each.id
            for generator in node.generators
            for each in ast.walk(generator.target)
            if isinstance(each, ast.Name)
        }
        self.visit(node.generators[0].iter)
        self._local.append(frozenset(targets))
        self._global.append(self._global[-1] if self._global else frozenset())
        for position, generator in enumerate(node.generators):
            if position:
                self.visit(generator.iter)
            self._visit_all(generator.ifs)
        if isinstance(node, ast.DictComp):
            self.visit(node.key)
            self.visit(node.value)
        else:
            self.visit(node.elt)
        self._local.pop()
        self._global.pop()

    visit_ListComp = visit_SetComp = visit_GeneratorExp = visit_DictComp = _comprehension

    # Calls and literals

    def visit_Call(self, node: ast.Call) -> None:
        function = node.func
        method = function.attr if isinstance(function, ast.Attribute) else ""
        called = method or (function.id if isinstance(function, ast.Name) else "")
        in_place = any(
            each.arg == "inplace"
            and isinstance(each.value, ast.Constant)
            and each.value.value is True
            for each in node.keywords
        )
        if isinstance(function, ast.Attribute) and (method in _MUTATORS or in_place):
            self._mutate(function.value)
        self.visit(function)
        known = len(self.literals)
        self._visit_all(node.args)
        self._visit_all(node.keywords)
        if called.startswith(_WRITERS) or (called == "open" and _opens_to_write(node)):
            del self.literals[known:]

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, str):
            self.literals.append(node.value)


def _opens_to_write(node: ast.Call) -> bool:
    modes = [*node.args[1:2], *(each.value for each in node.keywords if each.arg == "mode")]
    return any(
        isinstance(each, ast.Constant)
        and isinstance(each.value, str)
        and bool(set(each.value) & set("wax"))
        for each in modes
    )


def _parameters(arguments: ast.arguments) -> list[ast.arg]:
    found = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    return found + [each for each in (arguments.vararg, arguments.kwarg) if each is not None]


def _bound_in(body: Iterable[ast.AST]) -> tuple[set[str], set[str]]:
    """The names that a function's or class's own body binds, and those it declares global."""
    bound: set[str] = set()
    declared: set[str] = set()
    pending = list(body)
    while pending:
        node = pending.pop()
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                bound.add(node.name)
                continue
            case ast.Lambda():
                continue
            case ast.Global():
                declared.update(node.names)
            case ast.Name(ctx=ast.Store() | ast.Del()):
                bound.add(node.id)
            case ast.Import() | ast.ImportFrom():
                bound.update(each.asname or each.name.partition(".")[0] for each in node.names)
            case ast.ExceptHandler(name=str(name)):
                bound.add(name)
            case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                bound.add(name)
            case ast.ListComp() | ast.SetComp() | ast.GeneratorExp() | ast.DictComp():
                # Its targets are its own; only a walrus inside binds here.
                pending += [
                    each.target for each in ast.walk(node) if isinstance(each, ast.NamedExpr)
                ]
                continue
        pending += list(ast.iter_child_nodes(node))
    return bound, declared
