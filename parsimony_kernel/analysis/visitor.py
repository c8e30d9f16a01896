"""The one walk over a cell's statements: what they do with names, and what they call."""

import ast
import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from parsimony_kernel.analysis.calls import (
    MUTATES,
    MUTATES_ARGUMENT,
    MUTATES_RECEIVER,
    NAMESPACES,
    RUNS_TEXT,
    SQL_CALLS,
    names,
)
from parsimony_kernel.analysis.cell import Call, Magic
from parsimony_kernel.analysis.parse import parse_cell
from parsimony_kernel.analysis.roots import (
    has_true,
    is_namespace,
    last_name,
    mode_of,
    strings_in,
)
from parsimony_kernel.analysis.scopes import bound_in, parameters
from parsimony_kernel.analysis.sql import names_in_query
from parsimony_kernel.analysis.state import Found, State, holder_of, names_in, written
from parsimony_kernel.analysis.values import (
    Ref,
    Value,
    arguments_of,
    item_of,
    keywords_of,
    value_of,
)

# Calls whose text argument names something that is written, not read.
_WRITERS = ("to_", "save", "write", "dump", "savefig", "mkdir", "unlink", "rename")
_OPTIONS = re.compile(r"\s*(?:-[nrpsTDlo](?:\s+|(?=\d))\S+\s+|-{1,2}[\w-]+\s+)*")
_QUERIED = re.compile(r"@([^\W\d]\w*)")
_EXPANDED = re.compile(r"\{([^\W\d]\w*)|\$\{?([^\W\d]\w*)")
# Calls that change something, and attributes of the same names that are read all the time.
_PASSED = MUTATES - {"at", "put", "place", "next"}
_CLASSES = frozenset({"list", "dict", "set", "bytearray", "deque", "defaultdict", "ndarray"})
# What can reach any name by its text.
_DYNAMIC = frozenset({"exec", "eval", "globals", "locals", "vars", "compile", "__import__"})
_ANY_NAME = frozenset(
    {"user_ns", "user_global_ns", "f_globals", "f_locals", "__globals__", "_getframe", "__main__"}
)
_ANY_PART = frozenset({"__dict__", "__setitem__", "__setattr__", "__iadd__"})
_MAGIC_CALLS = frozenset({"run_line_magic", "run_cell_magic"})
_SHELL_CALLS = frozenset({"system", "getoutput"})
_TEXT_MAGICS, _TIMING_MAGICS = names("magics", "text"), names("magics", "timing")
_QUIET_MAGICS = names("magics", "quiet") | names("magics", "outside")
_SQL_TARGET = re.compile(r"\s*([^\W\d]\w*)\s*=?<<")


class Visitor(ast.NodeVisitor):
    """Walks statements in the order of evaluation, knowing what is bound for certain."""

    def __init__(self) -> None:
        self.names = State()
        # Of the statement at hand, what each name of ``a, b = x, y`` is made from.
        self.pairs: dict[str, frozenset[str]] = {}
        # Of the statement at hand, what its functions do when they run.
        self.later = Found()
        # The code that magics and ``exec`` run; the line before the text at hand, and its last.
        self.inner: list[ast.Module] = []
        self._line, self._end = 0, sys.maxsize
        self._statement: ast.stmt | None = None

    def begin(self, number: int, statement: ast.stmt) -> None:
        """Visit the top-level statement ``number``."""
        self.names.found, self.names.number = Found(), number
        self.pairs, self.later, self._statement = {}, Found(), statement
        self.visit(statement)
        if self.later.reads:
            self.pairs = {}

    @contextmanager
    def _deferred(self) -> Iterator[None]:
        """What is visited within runs later."""
        outer, self.names.found = self.names.found, Found()
        yield
        self.later.merge(self.names.found)
        self.names.found = outer

    def visit_Name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Load):
            self.names.read(node.id)
            if (self._home(node.id) or node.id) in MUTATES_ARGUMENT & _PASSED:
                self.names.found.changes_all = True
            self._reach_any(node.id in _ANY_NAME)
        elif isinstance(node.ctx, ast.Store):
            self.names.write(node.id)
        else:
            self.names.delete(node.id)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        if not isinstance(node.ctx, ast.Load):
            self.names.mutate(node.value)
        elif node.attr in _PASSED:
            self.names.found.changes_all = True
        self._visit_attribute(node)

    def _visit_attribute(self, node: ast.Attribute) -> None:
        """Visit an attribute, whose method is called at once if it is one."""
        if node.attr in MUTATES:
            self.names.may_mutate(holder_of(node.value))
        if node.attr in _ANY_PART:
            self.names.found.changes_all = True
        self._reach_any(node.attr in _ANY_NAME)
        self.visit(node.value)

    def _reach_any(self, reaches: bool) -> None:
        self.names.found.changes_any = self.names.found.changes_any or reaches

    def _home(self, name: str) -> str:
        """The name that an imported ``name`` has in its module."""
        return self.names.origin_of(name).rpartition(":")[2]

    def visit_Subscript(self, node: ast.Subscript) -> None:
        if is_namespace(node.value) and not (
            self.names.functions and last_name(node.value) == "locals"
        ):
            self._reach_any(True)
            match node.slice:
                case ast.Constant(value=str(name)):
                    self.visit_Name(ast.Name(name, node.ctx))
                case _:
                    self.names.found.opaque = True
                    self.visit(node.slice)
                    if isinstance(node.ctx, ast.Del):
                        self._look_up(node, "__delitem__")
            return
        if not isinstance(node.ctx, ast.Load):
            self.names.mutate(node.value)
        else:
            self._look_up(node, "__getitem__")
        self.generic_visit(node)

    def _look_up(self, node: ast.Subscript, method: str) -> None:
        made = ast.Attribute(node.value, method, ast.Load())
        origin = self._value(made)
        if isinstance(origin, Ref):
            at, key = self._at(node), self._value(node.slice)
            self.names.found.items.append(Call(written(made), origin, "", at, args=(key,)))

    def _at(self, node: ast.expr) -> int:
        """The line of the cell in which ``node`` stands."""
        return min(self._line + node.lineno, self._end)

    def _value(self, node: ast.expr) -> Value | None:
        return value_of(node, self.names.known)

    def _bind(self, target: ast.expr, value: Value | None) -> None:
        """``target``, which has been visited, stands for ``value``."""
        if isinstance(target, ast.Name):
            self.names.known[target.id] = value
        elif isinstance(target, ast.Tuple | ast.List) and isinstance(value, tuple):
            for each, item in zip(target.elts, value, strict=False):
                self._bind(each, item)

    @contextmanager
    def _scope(self, local: Iterable[str] = ()) -> Iterator[None]:
        """What is bound within is unknown around it; ``local`` are unknown within as well."""
        outer, self.names.known = self.names.known, {**self.names.known, **dict.fromkeys(local)}
        yield
        self.names.known = outer

    # Statements whose parts are evaluated in another order than they are written

    def visit_Assign(self, node: ast.Assign) -> None:
        self._visit_value(node)
        value = self._value(node.value)
        self._visit_all(node.targets)
        for target in node.targets:
            self.names.alias(target, node.value)
            self._bind(target, value)

    def _visit_value(self, node: ast.Assign) -> None:
        """Visit what is assigned; of ``a, b = x, y`` it is told what each name is made from."""
        match node:
            case ast.Assign(targets=[ast.Tuple(elts=targets)], value=ast.Tuple(elts=values)) if (
                len(targets) == len(values)
                and all(isinstance(each, ast.Name) for each in targets)
                and not any(isinstance(each, ast.Starred) for each in values)
                and node is self._statement
            ):
                every = self.names.found.reads
                for target, value in zip(targets, values, strict=True):
                    self.names.found.reads = set()
                    self.visit(value)
                    if isinstance(target, ast.Name):
                        self.pairs[target.id] = frozenset(self.names.found.reads)
                    every |= self.names.found.reads
                self.names.found.reads = every
            case _:
                self.visit(node.value)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        self.visit(node.annotation)
        if node.value is not None:
            self.visit(node.value)
            value = self._value(node.value)
            self.visit(node.target)
            self.names.alias(node.target, node.value)
            self._bind(node.target, value)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self.visit(node.value)
        value = self._value(ast.BinOp(node.target, node.op, node.value))
        if isinstance(node.target, ast.Name):
            self.names.read(node.target.id)
            self.names.mutate(node.target)
        self.visit(node.target)
        self._bind(node.target, value)
        # A container that is added to keeps what it held.
        self.names.maybe += 1
        self.names.alias(node.target, ast.BinOp(node.target, node.op, node.value))
        self.names.maybe -= 1

    def visit_NamedExpr(self, node: ast.NamedExpr) -> None:
        self.visit(node.value)
        value = self._value(node.value)
        self.visit(node.target)
        self.names.alias(node.target, node.value)
        self._bind(node.target, value)

    def visit_For(self, node: ast.For | ast.AsyncFor) -> None:
        self.visit(node.iter)
        self.names.touched_in(node.iter)
        self.names.alias(node.target, node.iter, part=True)
        self._visit_maybe(self._round(node, item_of(self._value(node.iter))), node.orelse)

    visit_AsyncFor = visit_For

    def _round(self, node: ast.For | ast.AsyncFor, value: Value | None) -> Iterator[ast.AST]:
        """The parts of a round of a loop; its target is known when the first is asked for."""
        yield node.target
        self._bind(node.target, value)
        yield from node.body

    def visit_With(self, node: ast.With | ast.AsyncWith) -> None:
        for item in node.items:
            value = self._value(item.context_expr)
            self.visit(item)
            self.names.touched_in(item.context_expr)
            if item.optional_vars is not None:
                self.names.alias(item.optional_vars, item.context_expr, part=True)
                self._bind(item.optional_vars, value)
        self._visit_all(node.body)

    visit_AsyncWith = visit_With

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        self.visit(node.values[0])
        self._visit_maybe(node.values[1:])

    def visit_IfExp(self, node: ast.IfExp) -> None:
        self.visit(node.test)
        self._visit_maybe([node.body], [node.orelse])

    def visit_While(self, node: ast.While) -> None:
        self.visit(node.test)
        self._visit_maybe(node.body, node.orelse)

    def visit_If(self, node: ast.If) -> None:
        self.visit(node.test)
        before = dict(self.names.certain)
        self.names.maybe += 1
        self._visit_all(node.body)
        after, self.names.certain = self.names.certain, before
        otherwise = dict(before)
        if node.orelse:
            self._visit_all(node.orelse)
            otherwise = self.names.certain
        self.names.certain = {
            name: min(after[name], otherwise[name]) for name in after.keys() & otherwise.keys()
        }
        self.names.maybe -= 1

    def visit_Try(self, node: ast.Try | ast.TryStar) -> None:
        self._visit_all([each.type for each in node.handlers if each.type is not None])
        self._visit_maybe([*node.body, *node.orelse])
        for handler in node.handlers:
            before = dict(self.names.certain)
            if handler.name is not None:
                self.names.certain[handler.name] = self.names.number
                self.names.bound.add(handler.name)
            self._visit_maybe(handler.body)
            self.names.certain = before
            if handler.name is not None and not self.names.is_local(handler.name):
                self.names.delete(handler.name)  # unbound again at its end
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

    def visit_MatchMapping(self, node: ast.MatchMapping) -> None:
        if node.rest is not None:
            self.names.write(node.rest)
        self.generic_visit(node)

    def _visit_all(self, nodes: Iterable[ast.AST]) -> None:
        for node in nodes:
            self.visit(node)

    def _visit_maybe(self, *blocks: Iterable[ast.AST]) -> None:
        """Blocks that may or may not run: what they bind is not bound for certain."""
        for block in blocks:
            before = dict(self.names.certain)
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
            self.names.known[name] = Ref(alias.name if alias.asname else name)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        for alias in node.names:
            if alias.name == "*":
                self.names.found.opaque = True
            else:
                home = "." * node.level + (node.module or "")
                self._import(alias.asname or alias.name, f"{home}:{alias.name}")
                if not node.level:
                    self.names.known[alias.asname or alias.name] = Ref(f"{home}.{alias.name}")

    def _import(self, name: str, home: str) -> None:
        self.names.write(name)
        self._reach_any(home == "__main__")
        if not self.names.is_local(name):
            self.names.modules[name] = self.names.found.modules[name] = home

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        self.names.found.changes_all = True
        self._visit_all(node.decorator_list)
        self._visit_signature(node.args)
        if node.returns is not None:
            self.visit(node.returns)
        self.names.write(node.name)
        self._within_function(node.args, node.body)

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self.names.found.changes_all = True
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
        certain, aliases = dict(self.names.certain), dict(self.names.aliases)
        for each in local:
            self.names.aliases.pop(each, None)
        self.names.local.append(frozenset(local))
        self.names.declared.append(frozenset(declared))
        self.names.found.keeps_state |= self.names.functions > 0
        self.names.functions += 1
        with self._deferred(), self._scope(local):
            self._visit_all(body)
        self.names.functions -= 1
        self.names.local.pop()
        self.names.declared.pop()
        self.names.certain, self.names.aliases = certain, aliases

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self.names.found.keeps_state = True
        self.names.found.changes_all = True
        self._visit_all(node.decorator_list)
        self._visit_all(node.bases)
        self._visit_all(node.keywords)
        bound, declared = bound_in(node.body)
        self.names.local.append(frozenset(bound - declared))
        self.names.declared.append(frozenset(declared))
        self.names.functions += 1
        with self._scope():
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
            self.names.touched_in(generator.iter)
            self.names.alias(generator.target, generator.iter, part=True)
        self.names.local.append(frozenset(targets))
        self.names.declared.append(self.names.declared[-1] if self.names.declared else frozenset())
        with self._scope():
            for position, generator in enumerate(node.generators):
                if position:
                    self.visit(generator.iter)
                value = item_of(self._value(generator.iter))
                self.visit(generator.target)
                self._bind(generator.target, value)
                self._visit_all(generator.ifs)
            parts = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
            self._visit_maybe(parts)
        self.names.local.pop()
        self.names.declared.pop()
        for name in targets:
            self.names.aliases.pop(name, None)
            if name in aliases:
                self.names.aliases[name] = aliases[name]

    visit_ListComp = visit_SetComp = visit_DictComp = _comprehension

    def visit_GeneratorExp(self, node: ast.GeneratorExp) -> None:
        self.names.found.keeps_state = True
        self._comprehension(node)
        with self._deferred():
            self._comprehension(node)

    def visit_Yield(self, node: ast.Yield | ast.YieldFrom) -> None:
        self.names.found.keeps_state = True
        self.generic_visit(node)

    visit_YieldFrom = visit_Yield

    # Calls and literals

    def visit_Call(self, node: ast.Call) -> None:
        function, called = node.func, last_name(node.func)
        self.names.found.calls.append(self._call(node))
        if called in _MAGIC_CALLS and isinstance(function, ast.Attribute):
            self._magic(node)
            return
        handed = [*node.args, *(each.value for each in node.keywords)]
        if isinstance(function, ast.Name):
            self.names.found.called.add(called)
            called = self._home(called) or called
            self._reach_any(called in _DYNAMIC)
            if called in NAMESPACES and not node.args:
                self.names.found.opaque = self.names.found.opaque or not (
                    self.names.functions and called != "globals"
                )
            elif called in RUNS_TEXT and not self.names.is_local(called):
                self._dynamic(node)
                return
        elif isinstance(function, ast.Attribute):
            if self._visit_method(node, function):
                return
        else:
            self.names.touched_in(function)
            self.names.may_mutate(node)
        if called in SQL_CALLS:
            self._visit_sql(strings_in(*node.args[:1]))
        if called in MUTATES_ARGUMENT and node.args:
            self.names.mutate(node.args[0])
            self.names.may_mutate(*handed)
        for each in node.keywords:
            if each.arg == "out":
                self.names.may_mutate(*handed)
                outs = each.value.elts if isinstance(each.value, ast.Tuple) else [each.value]
                for out in outs:
                    self.names.mutate(out)
        self.names.may_mutate(*_outputs(called, node))
        for part in handed:
            self.names.touched_in(part)
        self._visit_called(function)
        known = len(self.names.found.literals)
        self._visit_all(node.args)
        self._visit_all(node.keywords)
        if called.startswith(_WRITERS) or (
            called == "open" and set(mode_of(node) or "") & set("wax")
        ):
            del self.names.found.literals[known:]

    def _visit_called(self, function: ast.expr) -> None:
        """Visit what is called: a name that changes something is not handed on by that."""
        match function:
            case ast.Name(id=name):
                self.names.read(name)
                self._reach_any(name in _ANY_NAME)
            case ast.Attribute():
                self._visit_attribute(function)
            case _:
                self.visit(function)

    def _visit_method(self, node: ast.Call, function: ast.Attribute) -> bool:
        """What a method does to its object, and whether that is all there is of the call."""
        called = function.attr
        if called == "get" and is_namespace(function.value):
            match node.args:
                case [ast.Constant(value=str(name)), *others]:
                    self.names.read(name)
                    self._visit_all(others)
                    return True
        if isinstance(holder := holder_of(function.value), ast.Name):
            self.names.found.receivers.add(holder.id)
        if called in RUNS_TEXT and called != "eval":
            self.names.found.opaque = True
        if called in MUTATES_RECEIVER or has_true(node, "inplace"):
            self.names.mutate(function.value)
        if called in MUTATES and (
            (name := last_name(function.value)) in _CLASSES or name[:1].isupper()
        ):
            self.names.may_mutate(*node.args, *(each.value for each in node.keywords))
        if called in ("query", "eval"):
            for text in strings_in(*node.args[:1]):
                for each in _QUERIED.findall(text):
                    self.names.read(each)
        on = self._value(function.value)
        if called in _SHELL_CALLS and isinstance(on, Ref) and on.name.endswith("get_ipython()"):
            text = " ".join(strings_in(*node.args))
            self.names.found.magics.append(Magic("", text, self._at(node)))
            self._expand(text)
        self.names.touched_in(function.value)
        return False

    def _call(self, node: ast.Call) -> Call:
        name, root = written(node.func), _root_of(node.func)
        origin, known = self._value(node.func), self.names.known
        handed = [*node.args, *(each.value for each in node.keywords)]
        return Call(
            name,
            origin if isinstance(origin, Ref) else None,
            root,
            self._at(node),
            tuple(map(last_name, handed)),
            tuple(strings_in(*handed)),
            frozenset(each for part in (node.func, *handed) for each in names_in(part))
            - ({root} if isinstance(node.func, ast.Name) else set()),
            mode_of(node),
            self._value(node.func.value) if isinstance(node.func, ast.Attribute) else None,
            arguments_of(node, known),
            keywords_of(node, known),
        )

    def visit_Compare(self, node: ast.Compare) -> None:
        match node:
            case ast.Compare(left=ast.Constant(value=str(name)), comparators=[held]) if (
                is_namespace(held)
            ):
                self.names.read(name)
                self._reach_any(True)
            case _:
                self.generic_visit(node)

    def _visit_sql(self, queries: Iterable[str]) -> None:
        """DuckDB finds variables by the names of tables."""
        for query in queries:
            for name in names_in_query(query):
                self.names.read(name)
                self.names.found.touched.add(name)

    def _expand(self, text: str) -> None:
        """The names that IPython puts into a command."""
        for one, other in _EXPANDED.findall(text):
            self.names.read(one or other)

    def _dynamic(self, node: ast.Call) -> None:
        self._visit_all(node.keywords)
        match node.args:
            case [ast.Constant(value=str(text)) as said]:
                end, self._end = self._end, min(self._end, self._line + (said.end_lineno or 0))
                self._run_text(text, said.lineno - 1)
                self._end = end
            case [_, ast.Name() | ast.Dict() | ast.Attribute() | ast.Subscript() as held, *_]:
                self._visit_all(node.args)
                self.names.mutate(held)
            case _:
                self._visit_all(node.args)
                self.names.found.opaque = True

    def _magic(self, node: ast.Call) -> None:
        texts = [each.value for each in node.args if isinstance(each, ast.Constant)]
        plain = [each for each in texts if isinstance(each, str)]
        if not plain or len(plain) != len(node.args):
            self._visit_all(node.args)
            self.names.found.opaque = True
            self._reach_any(True)
            return
        name, line, body = plain[0], "".join(plain[1:2]), "".join(plain[2:])
        magic = Magic(name, line, self._at(node), body if len(plain) > 2 else None)
        self.names.found.magics.append(magic)
        self._expand(line)
        if name in _QUIET_MAGICS:
            return
        if name == "sql":
            if target := _SQL_TARGET.match(line):
                self.names.write(target[1])
            self._expand(body)
            self._visit_sql([f"{line}\n{body}"])
        elif name in _TEXT_MAGICS | _TIMING_MAGICS:
            if name == "capture":
                for each in line.split():
                    if each.isidentifier():
                        self.names.write(each)
                line = ""
            for number, text in ((node.lineno - 1, without_options(line)), (node.lineno, body)):
                self._run_text(text, number, binds=name in _TEXT_MAGICS)
        else:
            self.names.found.literals += line.split()
            self.names.found.opaque = True
            self._reach_any(True)

    def _run_text(self, text: str, line: int, *, binds: bool = True) -> None:
        """Text that runs as a cell in this place, below ``line``."""
        _, module, error = parse_cell(text.strip("\n"))
        self.names.found.opaque = self.names.found.opaque or error is not None
        self._reach_any(error is not None)
        self.inner.append(module)
        outer, self._line = self._line, self._line + line
        if binds:
            self._visit_all(module.body)
        else:
            nothing = ast.arguments([], [], None, [], [], None, [])
            self._within_function(nothing, module.body)
        self._line = outer

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, str):
            self.names.found.literals.append(node.value)
            self._reach_any(node.value == "__main__")


def _root_of(node: ast.expr) -> str:
    """The name that an expression begins with, through attributes, items and calls."""
    while isinstance(node, ast.Attribute | ast.Subscript | ast.Call):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else ""


def _outputs(called: str, node: ast.Call) -> list[ast.expr]:
    """The arguments into which a function of numpy's writes what it finds."""
    numpy = sys.modules.get("numpy")
    function = None if numpy is None else vars(numpy).get(called)
    if numpy is None or function is None or type(function) is not numpy.ufunc:
        return []
    return node.args[int(function.nin) :]


def without_options(line: str) -> str:
    """The statement that a magic's line holds, after options such as ``-n 10``."""
    return _OPTIONS.sub("", f"{line} ", count=1).rstrip()
