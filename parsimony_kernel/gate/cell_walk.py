"""Walks the code of a cell in the order of evaluation, knowing what its names stand for."""

import ast
from collections.abc import Sequence
from typing import Any

from parsimony_kernel.gate.stand_ins import Origin, Scopes, Text


class CellWalk(ast.NodeVisitor):
    """Follows names, branches and scopes; what a subclass visits is judged under them."""

    def __init__(self, scopes: Scopes) -> None:
        self._scopes = scopes
        # A name that is bound in a class is found elsewhere under another.
        self._in_class = False
        self._later: list[tuple[ast.FunctionDef | ast.AsyncFunctionDef, Scopes]] = []

    def read(self, tree: ast.Module) -> None:
        for statement in tree.body:
            self.visit(statement)
        # A function runs after what follows it has been bound.
        while self._later:
            function, scopes = self._later.pop(0)
            outer, self._scopes = self._scopes, scopes.inner(_parameters(function.args))
            for statement in function.body:
                self.visit(statement)
            self._scopes = outer

    # Names

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            if alias.asname is not None:
                self._scopes.bind(alias.asname, (Origin(alias.name),))
            else:
                root = alias.name.partition(".")[0]
                self._scopes.bind(root, (Origin(root),))

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        module = node.module or ""
        for alias in node.names:
            if alias.name == "*":
                self._scopes.bind_all(module)
            elif not node.level:
                self._scopes.bind(alias.asname or alias.name, (Origin(f"{module}.{alias.name}"),))
            else:
                self._scopes.bind(alias.asname or alias.name, ())

    def visit_Assign(self, node: ast.Assign) -> None:
        plain = all(isinstance(target, ast.Name) for target in node.targets)
        self._visit_value(node.value, alias=plain and not self._in_class)
        for target in node.targets:
            self._bind(target, node.value)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self._visit_value(node.value, alias=isinstance(node.target, ast.Name))
            self._bind(node.target, node.value)

    def visit_NamedExpr(self, node: ast.NamedExpr) -> None:
        self._visit_value(node.value, alias=True)
        self._bind(node.target, node.value)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self.visit(node.value)
        if isinstance(node.target, ast.Name):
            made = ast.BinOp(ast.Name(node.target.id, ast.Load()), node.op, node.value)
            self._scopes.bind(node.target.id, self._scopes.values(made))
        else:
            self.visit(node.target)

    def _bind(self, target: ast.expr, value: ast.expr | None) -> None:
        if isinstance(target, ast.Name):
            self._scopes.bind(target.id, () if value is None else self._scopes.values(value))
        elif isinstance(target, ast.Starred):
            self._bind(target.value, None)
        elif isinstance(target, ast.Tuple | ast.List):
            parts: Sequence[ast.expr | None] = [None] * len(target.elts)
            if isinstance(value, ast.Tuple | ast.List) and len(value.elts) == len(target.elts):
                parts = value.elts
            for each, part in zip(target.elts, parts, strict=True):
                self._bind(each, part)
        else:
            self.visit(target)

    def _bind_each(self, target: ast.expr, values: ast.expr) -> None:
        if isinstance(target, ast.Name):
            self._scopes.bind(target.id, self._scopes.items(values))
        else:
            self._bind(target, None)

    def visit_Delete(self, node: ast.Delete) -> None:
        for target in node.targets:
            self._bind(target, None)

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> None:
        if node.name is not None:
            self._scopes.bind(node.name, ())
        self.generic_visit(node)

    # Statements that may not run

    def visit_If(self, node: ast.If) -> None:
        self.visit(node.test)
        self._perhaps(node.body, node.orelse)

    def visit_While(self, node: ast.While) -> None:
        self.visit(node.test)
        self._perhaps(node.body, node.orelse)

    def visit_For(self, node: ast.For | ast.AsyncFor) -> None:
        self.visit(node.iter)
        self._bind_each(node.target, node.iter)
        self._perhaps(node.body, node.orelse)

    def visit_AsyncFor(self, node: ast.AsyncFor) -> None:
        self.visit_For(node)

    def visit_Try(self, node: ast.Try) -> None:
        self._perhaps(node.body, node.handlers, node.orelse, node.finalbody)

    def visit_TryStar(self, node: Any) -> None:
        self.visit_Try(node)

    def visit_Match(self, node: ast.Match) -> None:
        self.visit(node.subject)
        self._perhaps(node.cases)

    def _perhaps(self, *blocks: Sequence[ast.AST]) -> None:
        with self._scopes.unsure():
            for block in blocks:
                for each in block:
                    self.visit(each)

    def visit_With(self, node: ast.With | ast.AsyncWith) -> None:
        for item in node.items:
            self.visit(item.context_expr)
            if item.optional_vars is not None:
                self._bind(item.optional_vars, item.context_expr)
        for statement in node.body:
            self.visit(statement)

    def visit_AsyncWith(self, node: ast.AsyncWith) -> None:
        self.visit_With(node)

    # Scopes

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        for each in (*node.decorator_list, *node.args.defaults, *node.args.kw_defaults):
            if each is not None:
                self.visit(each)
        self._scopes.bind(node.name, ())
        self._later.append((node, self._scopes))

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self.visit_FunctionDef(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        for each in (*node.decorator_list, *node.bases, *(k.value for k in node.keywords)):
            self.visit(each)
        self._scopes.bind(node.name, ())
        outer, self._scopes = self._scopes, self._scopes.inner(())
        around, self._in_class = self._in_class, True
        for statement in node.body:
            self.visit(statement)
        self._scopes, self._in_class = outer, around

    def visit_Lambda(self, node: ast.Lambda) -> None:
        for each in (*node.args.defaults, *node.args.kw_defaults):
            if each is not None:
                self.visit(each)
        outer, self._scopes = self._scopes, self._scopes.inner(_parameters(node.args))
        self.visit(node.body)
        self._scopes = outer

    def _visit_comprehension(
        self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp
    ) -> None:
        outer, self._scopes = self._scopes, self._scopes.inner(())
        for part in node.generators:
            self.visit(part.iter)
            self._bind_each(part.target, part.iter)
            for condition in part.ifs:
                self.visit(condition)
        if isinstance(node, ast.DictComp):
            self.visit(node.key)
            self.visit(node.value)
        else:
            self.visit(node.elt)
        self._scopes = outer

    def visit_ListComp(self, node: ast.ListComp) -> None:
        self._visit_comprehension(node)

    def visit_SetComp(self, node: ast.SetComp) -> None:
        self._visit_comprehension(node)

    def visit_GeneratorExp(self, node: ast.GeneratorExp) -> None:
        self._visit_comprehension(node)

    def visit_DictComp(self, node: ast.DictComp) -> None:
        self._visit_comprehension(node)

    # References that are not calls: handed on, kept, returned

    def _visit_value(self, node: ast.expr, *, alias: bool) -> None:
        """Visit what is assigned; of an alias only what is made of it is of interest."""
        if alias and isinstance(node, ast.Name | ast.Attribute):
            self._visit_within(node)
        else:
            self.visit(node)

    def _visit_within(self, node: ast.expr) -> None:
        if isinstance(node, ast.Attribute):
            inner = node.value
            if isinstance(inner, ast.Name | ast.Attribute):
                self._visit_within(inner)
            else:
                self.visit(inner)

    # What expressions stand for

    def _literals(self, node: ast.expr) -> list[Text]:
        return [text for text in self._scopes.texts(node) if text.whole]

    def _origins(self, node: ast.expr) -> list[str]:
        return [each.name for each in self._scopes.values(node) if isinstance(each, Origin)]


def argument_of(node: ast.Call, position: int, names: Sequence[str]) -> ast.expr | None:
    """The argument of a call that stands at ``position`` or goes by one of ``names``."""
    for keyword in node.keywords:
        if keyword.arg in names:
            return keyword.value
    if len(node.args) > position and not any(isinstance(a, ast.Starred) for a in node.args):
        return node.args[position]
    return None


def _parameters(arguments: ast.arguments) -> tuple[str, ...]:
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    every += [each for each in (arguments.vararg, arguments.kwarg) if each is not None]
    return tuple(each.arg for each in every)
