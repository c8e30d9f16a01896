"""The walk over a cell's statements that finds what they do with names."""

import ast
import re
from collections.abc import Iterable

from parsimony_kernel.lineage.known_calls import (
    CHANGING_FUNCTIONS,
    MAGIC_CALLS,
    MUTATING_METHODS,
    NAMESPACES,
    OUTSIDE_MAGICS,
    QUIET_MAGICS,
    RUN_TEXT,
    TEXT_MAGICS,
    TIMING_MAGICS,
)
from parsimony_kernel.lineage.syntax.expressions import (
    has_true,
    is_namespace,
    last_name,
    opens_to_write,
)
from parsimony_kernel.lineage.syntax.names import Names
from parsimony_kernel.lineage.syntax.parsing import transformed, tree
from parsimony_kernel.lineage.syntax.scopes import bound_in, parameters

# Calls whose text argument names something that is written, not read.
_WRITERS = ("to_", "save", "write", "dump", "savefig", "mkdir", "unlink", "rename")
_OPTIONS = re.compile(r"\s*(?:-\w+(?:\s+\d+)?\s+)*")
_QUERIED = re.compile(r"@([^\W\d]\w*)")


class Visitor(ast.NodeVisitor):
    """Walks statements in the order of evaluation, knowing what is bound for certain."""

    def __init__(self) -> None:
        self.names = Names()

    def visit_Name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Load):
            self.names.read(node.id)
        elif isinstance(node.ctx, ast.Store):
            self.names.write(node.id)
        elif not self.names.functions:
            self.names.deletes.add(node.id)
            self.names.certain.discard(node.id)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        if not isinstance(node.ctx, ast.Load):
            self.names.mutate(node.value)
        self.visit(node.value)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        if is_namespace(node.value) and not (
            self.names.functions and last_name(node.value) == "locals"
        ):
            match node.slice:
                case ast.Constant(value=str(name)):
                    self.visit_Name(ast.Name(name, node.ctx))
                case _:
                    self.names.opaque = True
                    self.visit(node.slice)
            return
        if not isinstance(node.ctx, ast.Load):
            self.names.mutate(node.value)
        self.generic_visit(node)

    # Statements whose parts are evaluated in another order than they are written

    def visit_Assign(self, node: ast.Assign) -> None:
        self.visit(node.value)
        self._visit_all(node.targets)
        for target in node.targets:
            self.names.alias(target, node.value)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        self.visit(node.annotation)
        if node.value is not None:
            self.visit(node.value)
            self.visit(node.target)
            self.names.alias(node.target, node.value)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self.visit(node.value)
        if isinstance(node.target, ast.Name):
            self.names.read(node.target.id)
            self.names.mutate(node.target)
        self.visit(node.target)
        # A container that is added to keeps what it held.
        self.names.maybe += 1
        self.names.alias(node.target, ast.BinOp(node.target, node.op, node.value))
        self.names.maybe -= 1

    def visit_NamedExpr(self, node: ast.NamedExpr) -> None:
        self.visit(node.value)
        self.visit(node.target)
        self.names.alias(node.target, node.value)

    def visit_For(self, node: ast.For | ast.AsyncFor) -> None:
        self.visit(node.iter)
        self.names.add_touched(node.iter)
        self.names.alias(node.target, node.iter, part=True)
        self._visit_maybe([node.target, *node.body], node.orelse)

    visit_AsyncFor = visit_For

    def visit_With(self, node: ast.With | ast.AsyncWith) -> None:
        for item in node.items:
            self.visit(item)
            self.names.add_touched(item.context_expr)
            if item.optional_vars is not None:
                self.names.alias(item.optional_vars, item.context_expr, part=True)
        self._visit_all(node.body)

    visit_AsyncWith = visit_With

    def visit_While(self, node: ast.While) -> None:
        self.visit(node.test)
        self._visit_maybe(node.body, node.orelse)

    def visit_If(self, node: ast.If) -> None:
        self.visit(node.test)
        before = set(self.names.certain)
        self.names.maybe += 1
        self._visit_all(node.body)
        after, self.names.certain = self.names.certain, before
        otherwise = set(before)
        if node.orelse:
            self._visit_all(node.orelse)
            otherwise = self.names.certain
        self.names.certain = after & otherwise
        self.names.maybe -= 1

    def visit_Try(self, node: ast.Try | ast.TryStar) -> None:
        self._visit_all([each.type for each in node.handlers if each.type is not None])
        self._visit_maybe([*node.body, *node.orelse])
        for handler in node.handlers:
            before = set(self.names.certain)
            if handler.name is not None:  # unbound again at its end
                self.names.certain.add(handler.name)
            self._visit_maybe(handler.body)
            self.names.certain = before
        self._visit_all(node.finalbody)

    visit_TryStar = visit_Try

    def visit_Match(self, node: ast.Match) -> None:
        self.visit(node.subject)
        for case in node.cases:
            for each in ast.walk(case.pattern):
                if isinstance(each, ast.MatchAs | ast.MatchStar) and each.name is not None:
                    self.names.alias(ast.Name(each.name), node.subject, part=True)
        for case in node.cases:
            self._visit_maybe([case])

    def visit_MatchAs(self, node: ast.MatchAs) -> None:
        if node.name is not None:
            self.names.write(node.name)
        self.generic_visit(node)

    def visit_MatchStar(self, node: ast.MatchStar) -> None:
        if node.name is not None:
            self.names.write(node.name)

    def _visit_all(self, nodes: Iterable[ast.AST]) -> None:
        for node in nodes:
            self.visit(node)

    def _visit_maybe(self, *blocks: Iterable[ast.AST]) -> None:
        """Blocks that may or may not run: what they bind is not bound for certain."""
        for block in blocks:
            before = set(self.names.certain)
            self.names.maybe += 1
            self._visit_all(block)
            self.names.maybe -= 1
            self.names.certain = before

    # Definitions and scopes

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            name = alias.asname or alias.name.partition(".")[0]
            if alias.asname is None and "." in alias.name:
                self.names.read(name)  # the other modules of the package that it has stay
            self._import(name, alias.name)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        for alias in node.names:
            if alias.name == "*":
                self.names.opaque = True
            else:
                home = "." * node.level + (node.module or "")
                self._import(alias.asname or alias.name, f"{home}:{alias.name}")

    def _import(self, name: str, home: str) -> None:
        self.names.write(name)
        if not self.names.is_local(name):
            self.names.modules[name] = home

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        self._visit_all(node.decorator_list)
        self._visit_signature(node.args)
        if node.returns is not None:
            self.visit(node.returns)
        self.names.write(node.name)
        self._within_function(node.args, node.body)

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self._visit_signature(node.args)
        self._within_function(node.args, [node.body])

    def _visit_signature(self, arguments: ast.arguments) -> None:
        self._visit_all(arguments.defaults)
        self._visit_all(each for each in arguments.kw_defaults if each is not None)
        for each in parameters(arguments):
            if each.annotation is not None:
                self.visit(each.annotation)

    def _within_function(
        self, arguments: ast.arguments, body: list[ast.stmt] | list[ast.expr]
    ) -> None:
        bound, declared = bound_in(body)
        local = (bound | {each.arg for each in parameters(arguments)}) - declared
        # It runs later, if at all: what it binds is certain to nobody.
        certain, aliases = set(self.names.certain), dict(self.names.aliases)
        for each in local:
            self.names.aliases.pop(each, None)
        self.names.local.append(frozenset(local))
        self.names.declared.append(frozenset(declared))
        self.names.functions += 1
        self._visit_all(body)
        self.names.functions -= 1
        self.names.local.pop()
        self.names.declared.pop()
        self.names.certain, self.names.aliases = certain, aliases

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._visit_all(node.decorator_list)
        self._visit_all(node.bases)
        self._visit_all(node.keywords)
        bound, declared = bound_in(node.body)
        self.names.local.append(frozenset(bound - declared))
        self.names.declared.append(frozenset(declared))
        self.names.functions += 1
        self._visit_all(node.body)
        self.names.functions -= 1
        self.names.local.pop()
        self.names.declared.pop()
        self.names.write(node.name)

    def _comprehension(
        self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp
    ) -> None:
        targets = {
            each.id
            for generator in node.generators
            for each in ast.walk(generator.target)
            if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)
        }
        self.visit(node.generators[0].iter)
        aliases = dict(self.names.aliases)
        for generator in node.generators:
            self.names.add_touched(generator.iter)
            self.names.alias(generator.target, generator.iter, part=True)
        self.names.local.append(frozenset(targets))
        self.names.declared.append(self.names.declared[-1] if self.names.declared else frozenset())
        for position, generator in enumerate(node.generators):
            if position:
                self.visit(generator.iter)
            self.visit(generator.target)
            self._visit_all(generator.ifs)
        if isinstance(node, ast.DictComp):
            self.visit(node.key)
            self.visit(node.value)
        else:
            self.visit(node.elt)
        self.names.local.pop()
        self.names.declared.pop()
        for name in targets:
            self.names.aliases.pop(name, None)
            if name in aliases:
                self.names.aliases[name] = aliases[name]

    visit_ListComp = visit_SetComp = visit_GeneratorExp = visit_DictComp = _comprehension

    # Calls and literals

    def visit_Call(self, node: ast.Call) -> None:
        function, called = node.func, last_name(node.func)
        if called in MAGIC_CALLS and isinstance(function, ast.Attribute):
            self._magic(node)
            return
        if isinstance(function, ast.Name):
            self.names.calls.add(called)
            if called in NAMESPACES and not node.args:
                self.names.opaque = self.names.opaque or not (
                    self.names.functions and called != "globals"
                )
            elif called in RUN_TEXT and not self.names.is_local(called):
                self._dynamic(node)
                return
        elif isinstance(function, ast.Attribute):
            if called == "get" and is_namespace(function.value):
                match node.args:
                    case [ast.Constant(value=str(name)), *others]:
                        self.names.read(name)
                        self._visit_all(others)
                        return
            if called in RUN_TEXT and called != "eval":
                self.names.opaque = True
            if called in MUTATING_METHODS or has_true(node, "inplace"):
                self.names.mutate(function.value)
            if called in ("query", "eval"):
                self._visit_query(node)
            self.names.add_touched(function.value)
        else:
            self.names.add_touched(function)
        if called in CHANGING_FUNCTIONS and node.args:
            self.names.mutate(node.args[0])
        for each in node.keywords:
            if each.arg == "out":
                outs = each.value.elts if isinstance(each.value, ast.Tuple) else [each.value]
                for out in outs:
                    self.names.mutate(out)
        for part in (*node.args, *(each.value for each in node.keywords)):
            self.names.add_touched(part)
        self.visit(function)
        known = len(self.names.literals)
        self._visit_all(node.args)
        self._visit_all(node.keywords)
        if called.startswith(_WRITERS) or (called == "open" and opens_to_write(node)):
            del self.names.literals[known:]

    def visit_Compare(self, node: ast.Compare) -> None:
        match node:
            case ast.Compare(left=ast.Constant(value=str(name)), comparators=[held]) if (
                is_namespace(held)
            ):
                self.names.read(name)
            case _:
                self.generic_visit(node)

    def _visit_query(self, node: ast.Call) -> None:
        """The names that pandas looks up in the text of a query."""
        for each in node.args[:1]:
            if isinstance(each, ast.Constant) and isinstance(each.value, str):
                for name in _QUERIED.findall(each.value):
                    self.names.read(name)

    def _dynamic(self, node: ast.Call) -> None:
        self._visit_all(node.keywords)
        match node.args:
            case [ast.Constant(value=str(text))]:
                self._run_text(text)
            case [_, ast.Name() | ast.Dict() | ast.Attribute() | ast.Subscript() as held, *_]:
                self._visit_all(node.args)
                self.names.mutate(held)
            case _:
                self._visit_all(node.args)
                self.names.opaque = True

    def _magic(self, node: ast.Call) -> None:
        texts = [each.value for each in node.args if isinstance(each, ast.Constant)]
        plain = [each for each in texts if isinstance(each, str)]
        if not plain or len(plain) != len(node.args):
            self._visit_all(node.args)
            self.names.opaque = True
            return
        name, line, body = plain[0], "".join(plain[1:2]), "".join(plain[2:])
        if name in QUIET_MAGICS | OUTSIDE_MAGICS:
            return
        if name in TIMING_MAGICS or name in TEXT_MAGICS:
            if name == "capture":
                for each in line.split():
                    if each.isidentifier():
                        self.names.write(each)
                line = ""
            for text in (_without_options(line), body):
                self._run_text(text, binds=name in TEXT_MAGICS)
            return
        self.names.literals += line.split()
        self.names.opaque = True

    def _run_text(self, text: str, *, binds: bool = True) -> None:
        """Text that runs as a cell in this place."""
        statements = tree(text.strip("\n")).body or tree(transformed(text)).body
        self.names.opaque = self.names.opaque or (not statements and bool(text.strip()))
        if binds:
            self._visit_all(statements)
        else:
            nothing = ast.arguments([], [], None, [], [], None, [])
            self._within_function(nothing, statements)

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, str):
            self.names.literals.append(node.value)


def _without_options(line: str) -> str:
    """The statement that a magic's line holds, after options such as ``-n 10``."""
    return _OPTIONS.sub("", line, count=1)
