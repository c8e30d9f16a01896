"""The AST visitor that collects how a cell's statements use names, and their calls."""

import ast
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import accumulate
from typing import Any

from parsimony_kernel.analysis import calls, values
from parsimony_kernel.analysis.calls import MUTATES, MUTATES_ARGUMENT, names
from parsimony_kernel.analysis.cell_names import NOTHING, Call, Magic, Names, State, holder_of
from parsimony_kernel.analysis.parse import TABLE, parse_cell, read_query
from parsimony_kernel.analysis.values import Ref, Value, last_name, names_in, strings_in

_OPTIONS = re.compile(r"\s*(?:-[nrpsTDlo](?:\s+|(?=\d))\S+\s+|-{1,2}[\w-]+\s+)*")
_QUERIED = re.compile(r"@([^\W\d]\w*)")
_EXPANDED = re.compile(r"\{([^\W\d]\w*)|\$\{?([^\W\d]\w*)")
_SQL_TARGET = re.compile(r"\s*([^\W\d]\w*)\s*=?<<")
# Calls whose string argument names an output, not an input.
_WRITERS = tuple(names("functions", "write"))
# Mutating functions passed as values; the excluded names are usually attributes only read.
_PASSED = MUTATES - {"at", "put", "place", "next"}
_CLASSES = names("functions", "classes")
# Functions and attributes that can reach any name, or any part of an object, by a string.
_DYNAMIC = names("functions", "dynamic")
_ANY_NAME, _ANY_PART = names("attributes", "any_name"), names("attributes", "any_part")
_TEXT_MAGICS, _TIMING_MAGICS = names("magics", "text"), names("magics", "timing")
_QUIET_MAGICS = names("magics", "quiet") | names("magics", "outside")


class Visitor(State):
    """A visitor of statements in evaluation order that tracks the names certainly bound."""

    def __init__(self) -> None:
        super().__init__()
        # The effects of the functions in the current statement when they are called.
        self.later = NOTHING
        # The line before the current text, and its last line.
        self._line, self._end = 0, sys.maxsize

    def visit(self, node: Any) -> None:
        """Visit a node or a list of nodes; a callable in the list is called at its position."""
        if handler := _HANDLERS.get(type(node)):
            handler(self, node)
        elif isinstance(node, list):
            for each in node:
                self.visit(each)
        elif callable(node):
            node()

    def _parts(self, node: ast.AST, *fields: str) -> None:
        for each in fields or node._fields:
            self.visit(getattr(node, each, None))

    # Names, attributes and items

    def visit_Name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Load):
            self.read(node.id)
            self.found.changes_all |= self._home(node.id) in MUTATES_ARGUMENT & _PASSED
            self.found.changes_any |= node.id in _ANY_NAME
        else:
            (self.write if isinstance(node.ctx, ast.Store) else self.delete)(node.id)

    def _home(self, name: str) -> str:
        """Return the name under which its module defines an imported ``name``."""
        known = self.known.get(name)
        return known.name.rpartition(".")[2] if isinstance(known, Ref) else name

    def visit_Attribute(self, node: ast.Attribute, is_called: bool = False) -> None:
        is_read = isinstance(node.ctx, ast.Load)
        if not is_read:
            self.mutate(node.value, sets=True)
        elif isinstance(node.value, ast.Name) and node.attr not in calls.READS_COLUMNS:
            self.doubted.add(f"{node.value.id}.{node.attr}")
        if node.attr in MUTATES:
            self.may_mutate(holder_of(node.value))
        passed = is_read and not is_called and node.attr in _PASSED
        self.found.changes_all |= passed or node.attr in _ANY_PART
        self.found.changes_any |= node.attr in _ANY_NAME
        self.visit(node.value)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        is_local = self.functions and last_name(node.value) == "locals"
        if values.is_namespace(node.value) and not is_local:
            self.found.changes_any = True
            if isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, str):
                self.visit_Name(ast.Name(node.slice.value, node.ctx))
                return
            self.found.opaque = True
            self.visit(node.slice)
            if isinstance(node.ctx, ast.Del):
                self._item(node, "__delitem__")
            return
        if isinstance(node.ctx, ast.Load):
            self._item(node, "__getitem__")
        else:
            label = getattr(node.slice, "value", None)
            self.mutate(node.value, sets=isinstance(label, str))
        self._parts(node)
        if isinstance(node.ctx, ast.Load):
            self.look_up(values.item_lookup(node))

    def _item(self, node: ast.Subscript, method: str) -> None:
        origin = values.attribute_of(self._value(node.value), method)
        if isinstance(origin, Ref):
            name = f"{values.written(node.value)}.{method}".lstrip(".")
            args = (self._value(node.slice),)
            call = Call(name, origin, "", self._at(node), args=args)
            self.found.items[call] = None

    def _at(self, node: ast.expr) -> int:
        """Return the line of ``node`` in the cell."""
        return min(self._line + node.lineno, self._end)

    def _value(self, node: ast.expr) -> Value | None:
        return values.value_of(node, self.known)

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, str):
            self.found.literals[node.value] = None
            self.found.strings.add(node.value)
            self.found.changes_any |= node.value == "__main__"

    # Bindings

    def _bind(self, target: ast.expr, value: Any, known: Value | None, part: bool = False) -> None:
        """Bind ``target`` to the result of ``value``, whose abstract value is ``known``."""
        self.visit(target)
        if value is not None:
            self.alias(target, value, part=part)
        if isinstance(target, ast.Name):
            self.known[target.id] = known
        elif isinstance(target, ast.Tuple | ast.List) and isinstance(known, tuple):
            for each, item in zip(target.elts, known, strict=False):
                self._bind(each, None, item)

    def visit_Assign(self, node: ast.Assign | ast.AnnAssign | ast.NamedExpr) -> None:
        self._parts(node, "annotation", "value")
        known = None if node.value is None else self._value(node.value)
        for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
            if node.value is not None:
                self._bind(target, node.value, known)
            if isinstance(node.value, ast.Lambda) and isinstance(target, ast.Name):
                self.found.defined.add(target.id)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self.visit(node.value)
        made = ast.BinOp(node.target, node.op, node.value)
        if isinstance(node.target, ast.Name):
            self.read(node.target.id)
            self.mutate(node.target)
        elif isinstance(node.target, ast.Subscript):
            self.look_up(values.item_lookup(node.target))
        self.found.changes_inside = True
        # A container keeps its old items, so its aliases are extended, not replaced.
        self.maybe += 1
        self._bind(node.target, made, self._value(made))
        self.maybe -= 1

    def visit_With(self, node: ast.With | ast.AsyncWith) -> None:
        for item in node.items:
            self.visit(item.context_expr)
            self.mark_touched(names_in(item.context_expr))
            if item.optional_vars is not None:
                known = self._value(item.context_expr)
                self._bind(item.optional_vars, item.context_expr, known, part=True)
        self._branches(node.body)  # the context manager may suppress an error in it

    def visit_Import(self, node: ast.Import | ast.ImportFrom) -> None:
        is_from = isinstance(node, ast.ImportFrom)
        module = "." * (getattr(node, "level", 0) or 0) + (getattr(node, "module", "") or "")
        for alias in node.names:
            home = f"{module}:{alias.name}" if is_from else alias.name
            name, path = alias.asname or alias.name, home.replace(":", ".")
            if not path.startswith("."):
                self.found.imported.update(accumulate(path.split("."), "{}.{}".format))
            if name == "*":
                self.found.opaque = True
                self.doubted.add(None)
                continue
            if name == home and "." in name:
                name = path = name.partition(".")[0]
                self.read(name)  # other modules of the package stay imported
            self.write(name)
            self.known[name] = None if path.startswith(".") else Ref(path)
            self.found.changes_any |= home == "__main__"
            if not self.is_local(name):
                self.found.modules[name] = home

    # Conditional blocks

    def _branches(self, *blocks: Any) -> None:
        """Visit alternative blocks: only names that all of them bind are certainly bound."""
        before, ends = self.certain, []
        self.maybe += 1
        for block in blocks:
            self.certain = dict(before)
            self.visit(block)
            ends.append(self.certain)
        self.maybe -= 1
        every = set.intersection(*map(set, ends))
        self.certain = {name: min(end[name] for end in ends) for name in every}

    def visit_If(self, node: ast.If | ast.IfExp | ast.While) -> None:
        self.visit(node.test)
        self._branches(node.body, node.orelse, *([()] if isinstance(node, ast.While) else []))

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        self.visit(node.values[0])
        self._branches(node.values[1:], ())

    def visit_Assert(self, node: ast.Assert) -> None:
        self.visit(node.test)
        self._branches([node.msg], ())

    def visit_For(self, node: ast.For | ast.AsyncFor) -> None:
        self.visit(node.iter)
        self.mark_touched(names_in(node.iter))
        self.alias(node.target, node.iter, part=True)
        known = values.item_of(self._value(node.iter))
        self._branches([lambda: self._bind(node.target, None, known), *node.body], node.orelse, ())

    def visit_Try(self, node: ast.Try | ast.TryStar) -> None:
        self.visit([each.type for each in node.handlers])
        self._branches([*node.body, *node.orelse], *node.handlers, ())
        self.visit(node.finalbody)

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> None:
        name = node.name or ""
        self.certain[name] = self.number
        self.bound.add(name)
        self.visit(node.body)
        if name and not self.is_local(name):
            self.delete(name)  # Python deletes it at the end of the handler

    def visit_Match(self, node: ast.Match) -> None:
        self.visit(node.subject)
        blocks = []
        for case in node.cases:
            targets = [ast.Name(each, ast.Store()) for each in bound_in(case.pattern)]
            for target in targets:
                self.alias(target, node.subject, part=True)
            blocks.append([*targets, case])
        self._branches(*blocks, ())

    # Definitions and scopes

    @contextmanager
    def _within(self, scope: Mapping[str, bool], functions: int) -> Iterator[None]:
        """Enter a scope while its body is visited; ``scope`` says which names are local to it."""
        local = [name for name, is_local in scope.items() if is_local]
        known, outer = self.known, self.scope
        aliases = {each: self.aliases.get(each, {}) for each in local}
        self.known, self.scope = {**known, **dict.fromkeys(local)}, {**outer, **scope}
        self.functions += functions
        yield
        self.functions -= functions
        self.known, self.scope = known, outer
        self.aliases |= aliases

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> None:
        self.found.changes_all = True
        self.doubted.update(names_in(node))  # its body runs whenever it is called
        self._parts(node, "decorator_list", "args", "returns")
        if not isinstance(node, ast.Lambda):
            self.write(node.name)
            self.found.defined.add(node.name)
        parts = ast.iter_child_nodes(node.args)
        self._run_later(node.body, {each.arg for each in parts if isinstance(each, ast.arg)})

    def _run_later(self, body: Any, parameters: Iterable[str] = ()) -> None:
        self.found.keeps_state |= self.functions > 0
        scope = dict.fromkeys(parameters, True) | bound_in(body)
        with self._deferred(), self._within(scope, 1):
            self.aliases |= {each: {} for each in filter(self.is_local, scope)}
            self.visit(body)

    @contextmanager
    def _deferred(self) -> Iterator[None]:
        """Collect the findings for deferred code in ``later``, while it is visited."""
        outer, self.found = self.found, Names()
        yield
        if self.found != NOTHING:
            self.later = Names() if self.later is NOTHING else self.later
            self.later.merge(self.found)
        self.found = outer

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self.found.keeps_state = self.found.changes_all = True
        self.doubted.update(names_in(node))
        self._parts(node, "decorator_list", "bases", "keywords")
        with self._within(bound_in(node.body), 1):
            self.visit(node.body)
        self.write(node.name)
        self.found.defined.add(node.name)

    def visit_ListComp(self, node: Any) -> None:
        first = node.generators[0]
        self.visit(first.iter)
        self.mark_touched(names_in(*(each.iter for each in node.generators)))
        with self._within(bound_in([each.target for each in node.generators]), 0):
            for each in node.generators:
                self.visit(each.iter if each is not first else None)
                known = values.item_of(self._value(each.iter))
                self._bind(each.target, each.iter, known, part=True)
                self.visit(each.ifs)
            self._branches([getattr(node, each, None) for each in ("key", "value", "elt")], ())

    def visit_GeneratorExp(self, node: ast.GeneratorExp) -> None:
        self.found.keeps_state = True
        self.visit_ListComp(node)
        with self._deferred():
            self.visit_ListComp(node)

    def visit_Yield(self, node: ast.Yield | ast.YieldFrom) -> None:
        self.found.keeps_state = True
        self._parts(node)

    # Calls

    def visit_Call(self, node: ast.Call) -> None:
        function, called = node.func, last_name(node.func)
        handed = [*node.args, *(each.value for each in node.keywords)]
        call = self._call(node, handed)
        self.found.calls[call] = None
        if isinstance(function, ast.Name):
            self.read(called)
            self.found.changes_any |= called in _ANY_NAME
            called = self._home(called)
            self.found.changes_any |= called in _DYNAMIC
            if called in calls.NAMESPACES and not node.args:
                self.found.opaque |= not (self.functions and called != "globals")
            elif called in calls.RUNS_TEXT and not self.is_local(called):
                self._dynamic(node)
                return
        elif isinstance(function, ast.Attribute):
            if called in ("run_line_magic", "run_cell_magic"):
                self._magic(node)
                return
            self._method(node, function, handed)
        else:
            self.may_mutate(node)
        if called in calls.SQL_CALLS:
            self._query(*strings_in(*node.args[:1]))
        if called in calls.READS_TABLE and (table := _text(*node.args[:1])):
            self._tables([table], ())
        elif called in calls.CHANGES_TABLE and (table := _text(*node.args[:1])):
            self._tables((), [table])
        changed = node.args[:1] if called in MUTATES_ARGUMENT else []
        for out in (*_given(node, "out"), *changed):
            self.may_mutate(*handed)
            for each in out.elts if isinstance(out, ast.Tuple) else [out]:
                self.mutate(each)
        self.may_mutate(*_outputs(called, node))
        self.mark_touched(call.handed)
        # Calling a mutating function doesn't pass it on as a value.
        if isinstance(function, ast.Attribute):
            self.visit_Attribute(function, is_called=True)
        elif not isinstance(function, ast.Name):
            self.visit(function)
        modes = (*node.args[1:2], *_given(node, "mode"))
        mode = "".join(_text(each) or "" for each in modes)
        writes = called == "open" and not set("wax").isdisjoint(mode)
        literals = self.found.literals
        if writes or called.startswith(_WRITERS):
            self.found.literals = dict(literals)
        self._parts(node, "args", "keywords")
        self.found.literals = literals
        self.look_up(*values.call_lookups(node))
        self._doubt(node, handed)

    def _call(self, node: ast.Call, handed: list[ast.expr]) -> Call:
        root, on = node.func, None
        if isinstance(root, ast.Attribute):
            on = self._value(root.value)
            origin = values.attribute_of(on, root.attr)
        else:
            origin = self._value(root)
        while isinstance(root, ast.Attribute | ast.Subscript | ast.Call):
            root = root.func if isinstance(root, ast.Call) else root.value
        return Call(
            values.written(node.func),
            origin if isinstance(origin, Ref) else None,
            root.id if isinstance(root, ast.Name) else "",
            self._at(node),
            tuple(map(last_name, handed)),
            tuple(strings_in(*handed)),
            frozenset(names_in(*handed, *([] if isinstance(node.func, ast.Name) else [node.func]))),
            on,
            values.arguments_of(node, self.known),
            {each.arg: self._value(each.value) for each in node.keywords if each.arg},
        )

    def _doubt(self, node: ast.Call, handed: list[ast.expr]) -> None:
        """Record the frames that a call may mutate."""
        function = node.func
        if isinstance(function, ast.Name):
            origin = self._value(function)
            if function.id in calls.HARMLESS:
                return
            if not isinstance(origin, Ref) or origin.outer:
                self.doubted.add(None)
        elif _is_in_place(node):
            self.doubted.add(None)
        elif getattr(function, "attr", "") in calls.READS_COLUMNS:
            return
        if getattr(holder_of(function), "id", "") not in calls.LIBRARIES:
            self.hand_on(*handed)

    def _method(self, node: ast.Call, function: ast.Attribute, handed: list[ast.expr]) -> None:
        """Record the effects of a method call on its receiver."""
        called, on = function.attr, function.value
        self.found.opaque |= called in calls.RUNS_TEXT and called != "eval"
        if called in calls.MUTATES_RECEIVER or _is_in_place(node):
            self.mutate(on)
        if called in MUTATES and ((name := last_name(on)) in _CLASSES or name[:1].isupper()):
            self.may_mutate(*handed)
        if called in ("query", "eval"):
            for name in _QUERIED.findall(" ".join(strings_in(*node.args[:1]))):
                self.read(name)
        shell = self._value(on) if called in ("system", "getoutput") else None
        if isinstance(shell, Ref) and shell.name.endswith("get_ipython()"):
            self._command("", " ".join(strings_in(*node.args)), None, node)

    def _query(self, *queries: str) -> None:
        """Record the tables of SQL queries: of the database, or variables, as DuckDB finds them."""
        for query in map(read_query, queries):
            self._tables(query.reads, query.changes)
            for name in query.reads:
                self.read(name)
                self.found.touched.add(name)
            for name in query.makes:
                self.write(TABLE + name)
            self.found.literals.update(dict.fromkeys(query.texts))

    def _tables(self, reads: Iterable[str], changes: Iterable[str]) -> None:
        """Record database tables that are read, and those that are modified."""
        changed = {TABLE + name for name in changes}
        for name in (*(TABLE + name for name in reads), *changed):
            self.read(name)
        self.found.mutated |= changed

    def _command(self, name: str, line: str, body: str | None, node: ast.Call) -> None:
        self.found.magics[Magic(name, line, self._at(node), body)] = None
        self._expand(line)

    def _expand(self, text: str) -> None:
        """Record reads of the names that IPython expands in a command."""
        for one, other in _EXPANDED.findall(text):
            self.read(one or other)

    # Code in texts

    def _dynamic(self, node: ast.Call) -> None:
        self.doubted.add(None)
        self.visit(node.keywords)
        match node.args:
            case [ast.Constant(value=str(text), lineno=line, end_lineno=last)]:
                end, self._end = self._end, min(self._end, self._line + (last or 0))
                self.found.strings.add(text)
                self._run_text(text, line - 1)
                self._end = end
            case [_, ast.Name() | ast.Dict() | ast.Attribute() | ast.Subscript() as held, *_]:
                self.visit(node.args)
                self.mutate(held)
            case _:
                self.visit(node.args)
                self.found.opaque = True

    def _magic(self, node: ast.Call) -> None:
        self.doubted.add(None)
        texts = [text for each in node.args if (text := _text(each)) is not None]
        if not texts or len(texts) != len(node.args):
            self.visit(node.args)
            self.found.opaque = self.found.changes_any = True
            return
        self.found.strings.update(texts)
        name, line, body = (*texts, "", "")[:3]
        self._command(name, line, body if len(texts) > 2 else None, node)
        if name in _QUIET_MAGICS:
            return
        if name == "sql":
            if target := _SQL_TARGET.match(line):
                self.write(target[1])
            self._expand(body)
            self._query(f"{line}\n{body}")
        elif name in _TEXT_MAGICS | _TIMING_MAGICS:
            if name == "capture":
                for each in filter(str.isidentifier, line.split()):
                    self.write(each)
                line = ""
            for number, text in enumerate((_OPTIONS.sub("", f"{line} ", count=1).rstrip(), body)):
                self._run_text(text, node.lineno - 1 + number, binds=name in _TEXT_MAGICS)
        else:
            self.found.literals.update(dict.fromkeys(line.split()))
            self.found.opaque = self.found.changes_any = True

    def _run_text(self, text: str, line: int, *, binds: bool = True) -> None:
        """Visit text that runs like a cell, starting below ``line``.

        Args:
            text: the code.
            line: the line before it, relative to the current text.
            binds: whether its names are bound in the notebook; otherwise it counts as deferred.
        """
        _, module, error = parse_cell(text.strip("\n"))
        self.found.opaque |= error is not None
        self.found.changes_any |= error is not None
        outer, self._line = self._line, self._line + line
        (self.visit if binds else self._run_later)(module.body)
        self._line = outer


# Node types that share the handler of another one.
_LIKE = {
    "AnnAssign": "Assign", "NamedExpr": "Assign", "AsyncWith": "With", "ImportFrom": "Import",
    "IfExp": "If", "While": "If", "AsyncFor": "For", "TryStar": "Try", "SetComp": "ListComp",
    "AsyncFunctionDef": "FunctionDef", "Lambda": "FunctionDef", "DictComp": "ListComp",
    "YieldFrom": "Yield",
}  # fmt: skip
_HANDLERS: dict[type, Callable[[Visitor, Any], None]] = {
    kind: getattr(Visitor, f"visit_{_LIKE.get(name, name)}", Visitor._parts)
    for name, kind in vars(ast).items()
    if isinstance(kind, type)
}


def bound_in(body: Any) -> dict[str, bool]:
    """Return the names that the body of a function or class binds, or declares global.

    The value is true for names local to it, false for global ones.
    """
    bound, declared = set[str](), set[str]()
    pending = list(body) if isinstance(body, list) else [body]
    while pending:
        node = pending.pop()
        match node:
            case ast.Lambda():
                continue
            case ast.ListComp() | ast.SetComp() | ast.GeneratorExp() | ast.DictComp():
                # A comprehension's targets are local to it; only a walrus inside binds here.
                pending += [e.target for e in ast.walk(node) if isinstance(e, ast.NamedExpr)]
                continue
            case ast.Global():
                declared.update(node.names)
            case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
                bound.add(name)
            case ast.alias():
                bound.add(node.asname or node.name.partition(".")[0])
            case _:
                bound.add(getattr(node, "name", getattr(node, "rest", None)) or "")
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            pending += ast.iter_child_nodes(node)
    return dict.fromkeys(bound - {""}, True) | dict.fromkeys(declared, False)


def _text(node: ast.expr | None = None) -> str | None:
    """Return the value of a string literal, ``None`` for other nodes."""
    said = getattr(node, "value", None)
    return said if isinstance(node, ast.Constant) and isinstance(said, str) else None


def _given(node: ast.Call, keyword: str) -> list[ast.expr]:
    """Return the argument that a call is given by ``keyword``, if any."""
    return [each.value for each in node.keywords if each.arg == keyword]


def _is_in_place(node: ast.Call) -> bool:
    return any(getattr(each, "value", True) is not False for each in _given(node, "inplace"))


def _outputs(called: str, node: ast.Call) -> list[ast.expr]:
    """Return the positional output arguments of a NumPy ufunc."""
    function: Any = vars(sys.modules.get("numpy", sys)).get(called)
    return node.args[function.nin :] if type(function).__name__ == "ufunc" else []
