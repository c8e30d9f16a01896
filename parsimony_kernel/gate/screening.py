"""What a cell of code would do outside the notebook, read from its text.

This is no sandbox. It shows a person what the code says it will do, so that they can decide;
code that hides what it does is not found, and nothing is held back by it.
"""

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from parsimony_kernel.gate.cell_lines import Magic, split, taken_apart
from parsimony_kernel.gate.known_reaches import (
    ADDRESS,
    CALLS,
    FILE_ARGUMENTS,
    HANDED_ON,
    INSTALLING,
    KEY_NAME,
    KEY_PLACE,
    KNOWN_PATH_DELETIONS,
    LOOKING,
    MODULES,
    OPENING,
    PATH_DELETIONS,
    PATH_WRITES,
    READER,
    WRITER,
    WRITING,
    kind_of,
)
from parsimony_kernel.gate.reach import Reach, ReachKind
from parsimony_kernel.gate.stand_ins import Origin, Scopes, Text, Value, folder_of, is_outside

_MAX_WHAT = 120
_MAX_SOURCE = 200
_MAX_COMMAND = 4_000
_MAX_DEPTH = 5

_RUN_CODE = frozenset({"exec", "eval", "compile", "timeit.timeit", "timeit.repeat"})
_MAGIC_CALLS = frozenset({"run_line_magic", "run_cell_magic", "magic"})
_SHELL_CALLS = frozenset({"system", "getoutput", "system_piped", "system_raw"})
_SHELL_MAGICS = frozenset(
    {"", "!", "sx", "system", "bash", "sh", "script", "perl", "ruby", "cmd", "pwsh", "powershell",
     "python", "python2", "python3", "pypy", "cp", "mv", "mkdir", "alias", "rehashx"}
)  # fmt: skip
_OTHER_LANGUAGES = frozenset(
    {
        "javascript",
        "js",
        "html",
        "HTML",
        "latex",
        "markdown",
        "svg",
        "SVG",
        "sql",
        "writefile",
        "file",
    }
)
_INSTALL_MAGICS = frozenset({"pip", "conda", "mamba", "micromamba", "uv"})
_LOOKING_ONLY = frozenset({"list", "show", "freeze", "check", "search", "info", "config", "env"})
_ENVIRONMENT_PARTS = frozenset({"get", "setdefault", "update", "pop", "keys", "__contains__"})
_ADDRESS_ARGUMENTS = frozenset(
    {*FILE_ARGUMENTS, "url", "uri", "filepath_or_buffer", "source", "con", "connection"}
)
_COPIED_TO = re.compile(r"\bcopy\b.*?\bto\s+'([^']+)'", re.IGNORECASE | re.DOTALL)
_SQL_CALL = re.compile(r"^(?:sql|execute|query|read_sql\w*|executescript|from_query)$")
_SQL_ADDRESS = re.compile(
    r"'((?:https?|s3|gs|gcs|r2|az|abfss|hf|md|postgres(?:ql)?|mysql):[^']*)'", re.IGNORECASE
)


_SQL_INSTALL = re.compile(r"(?:^|;)\s*(?:force\s+)?install\s+(\w+)", re.IGNORECASE)


def screened(
    code: str,
    *,
    workspace: Path,
    folder: Path | None = None,
    namespace: Mapping[str, Any] | None = None,
) -> tuple[Reach, ...]:
    """Where ``code`` reaches outside the notebook, in the order of its lines.

    Never raises. ``code`` may hold IPython's syntax, or be what IPython makes of it.

    Args:
        workspace: what may be written to; an absolute path.
        folder: where the code runs, absolute; ``workspace`` if not given. Paths are compared by
            their names: links are not followed.
        namespace: what is bound before the code runs, for names that it does not bind itself.
            Without it, ``os``, ``pd`` and their like stand for what they usually do.
    """
    found: list[tuple[ReachKind, str, int]] = []
    start = folder or workspace
    try:
        _screen(code, _Place(str(workspace), str(start)), Scopes(namespace or {}), found)
    except RecursionError:
        found.append((ReachKind.dynamic_code, "the code is nested too deeply to be read", 1))
    lines = split(code)
    ordered = sorted(dict.fromkeys(found), key=lambda each: each[2])
    return tuple(
        Reach(kind, _flat(what, _MAX_WHAT), line, _flat(_line(lines, line), _MAX_SOURCE))
        for kind, what, line in ordered
    )


class _Place:
    def __init__(self, workspace: str, folder: str) -> None:
        self.workspace = workspace
        self.folder = folder

    def is_outside(self, text: Text) -> bool:
        return is_outside(text, self.workspace, self.folder)


def _screen(
    code: str,
    place: _Place,
    scopes: Scopes,
    found: list[tuple[ReachKind, str, int]],
    *,
    depth: int = 0,
    line: int | None = None,
) -> None:
    """Screen ``code``; ``line`` stands for every line of it when it is code within code."""
    taken = taken_apart(code)
    inner: list[tuple[ReachKind, str, int]] = []
    for magic in taken.magics:
        inner += _of_magic(magic, place)
    if taken.tree is not None and not any(_is_foreign(magic) for magic in taken.magics):
        screen = _Screen(place, scopes, inner, depth)
        screen.read(taken.tree)
    found += inner if line is None else [(kind, what, line) for kind, what, _ in inner]


def _is_foreign(magic: Magic) -> bool:
    return magic.body is not None and magic.name in _SHELL_MAGICS | _OTHER_LANGUAGES


def _of_magic(magic: Magic, place: _Place) -> Iterator[tuple[ReachKind, str, int]]:
    name, text, line = magic.name, magic.text, magic.line
    said = f"%{'' if magic.body is None else '%'}{name} {text}".strip()
    if name in _SHELL_MAGICS:
        ran = f"{text}\n{magic.body or ''}".strip() if name in ("", "!") or magic.body else text
        told = f"!{text}" if name in ("", "!") else said
        if magic.body and name not in ("", "!"):
            told = f"{said} {magic.body.strip()}"
        yield (_kind_of_command(ran), told, line)
    elif name in _INSTALL_MAGICS:
        if text.split(" ")[0] not in _LOOKING_ONLY:
            yield (ReachKind.installation, said, line)
    elif name in ("rm", "rmdir"):
        yield (ReachKind.deletion, said, line)
    elif name in ("run", "javascript", "js"):
        yield (ReachKind.dynamic_code, said, line)
    elif name in ("env", "set_env"):
        if "=" not in text and " " not in text and (not text or KEY_NAME.search(text)):
            yield (ReachKind.secret, said, line)
    elif name in ("writefile", "file", "save", "notebook", "logstart"):
        target = Text(text.split(" ")[-1].strip("'\""), whole=True, path=True)
        if place.is_outside(target):
            yield (ReachKind.outside_write, target.text, line)
    elif name in ("cat", "less", "more", "man", "pycat", "load", "loadpy"):
        if ADDRESS.match(text):
            yield (ReachKind.network, said, line)
        elif KEY_PLACE.search(text):
            yield (ReachKind.secret, said, line)
    elif name == "cd":
        target = Text(text.strip("'\"") or "~", whole=True, path=True)
        if place.is_outside(target):
            yield (ReachKind.outside_write, f"moves to {target.text}", line)
        else:
            place.folder = folder_of(target, place.folder)
    elif name == "sql" and ADDRESS.match(text):
        yield (ReachKind.network, said, line)


def _kind_of_command(text: str) -> ReachKind:
    return ReachKind.installation if INSTALLING.search(text[:_MAX_COMMAND]) else ReachKind.shell


class _Screen(ast.NodeVisitor):
    """Walks code in the order of evaluation, knowing what its names stand for."""

    def __init__(
        self,
        place: _Place,
        scopes: Scopes,
        found: list[tuple[ReachKind, str, int]],
        depth: int,
    ) -> None:
        self._place = place
        self._scopes = scopes
        self._found = found
        self._depth = depth
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

    def _add(self, kind: ReachKind, what: str, node: ast.AST) -> None:
        self._found.append((kind, what, getattr(node, "lineno", 1)))

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

    def visit_Name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Load):
            self._refer(node)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        if isinstance(node.ctx, ast.Load):
            self._refer(node)
        self._visit_within(node)

    def _refer(self, node: ast.Name | ast.Attribute) -> None:
        for name in self._origins(node):
            if name in ("os.environ", "os.environb"):
                self._add(ReachKind.secret, "the whole environment", node)
            elif name in ("os.getenv", "os.environ.get"):
                self._add(ReachKind.secret, name, node)
            elif name in ("exec", "eval") or name in CALLS:
                self._add(CALLS.get(name, ReachKind.dynamic_code), name, node)
            elif name.rpartition(".")[2] in HANDED_ON and name not in MODULES:
                kind = kind_of(name)
                if kind is not None:
                    self._add(kind, name, node)
        if (
            isinstance(node, ast.Attribute)
            and node.attr in PATH_DELETIONS
            and not self._origins(node)
        ):
            self._add(ReachKind.deletion, f".{node.attr}", node)

    def visit_Compare(self, node: ast.Compare) -> None:
        self.visit(node.left)
        for operator, other in zip(node.ops, node.comparators, strict=True):
            is_member = isinstance(operator, ast.In | ast.NotIn)
            if is_member and "os.environ" in self._origins(other):
                continue
            self.visit(other)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        self.visit(node.slice)
        origins = self._origins(node.value)
        if not {"os.environ", "os.environb"} & set(origins):
            self.visit(node.value)
            if "sys.modules" in origins and not self._scopes.texts(node.slice):
                self._add(ReachKind.dynamic_code, "sys.modules[…]", node)
            if isinstance(node.ctx, ast.Load):
                self._refer_to(self._scopes.values(node), node)
            return
        if isinstance(node.ctx, ast.Load):
            self._ask_environment(node.slice, node)

    def _refer_to(self, values: Sequence[Value], node: ast.AST) -> None:
        for value in values:
            if isinstance(value, Origin) and value.name in CALLS:
                self._add(CALLS[value.name], value.name, node)

    def _ask_environment(self, key: ast.expr | None, node: ast.AST) -> None:
        names = [] if key is None else self._scopes.texts(key)
        if not names:
            self._add(ReachKind.secret, "the environment", node)
        for name in names:
            if KEY_NAME.search(name.text):
                self._add(ReachKind.secret, f"the environment variable {name.text}", node)

    # Calls

    def visit_Call(self, node: ast.Call) -> None:
        origins = self._origins(node.func)
        for name in origins:
            self._judge(name, node)
        if isinstance(node.func, ast.Attribute):
            self._judge_method(node.func, node, origins)
        if isinstance(node.func, ast.Name | ast.Attribute):
            if not self._is_part_of_environment(node.func):
                self._visit_within(node.func)
        else:
            self.visit(node.func)
        for argument in (*node.args, *(keyword.value for keyword in node.keywords)):
            self.visit(argument)

    def _is_part_of_environment(self, function: ast.expr) -> bool:
        return isinstance(function, ast.Attribute) and "os.environ" in self._origins(function.value)

    def _judge(self, name: str, node: ast.Call) -> None:
        first = node.args[0] if node.args else None
        kind = kind_of(name)
        last = name.rpartition(".")[2]
        if kind is not None:
            command = self._command(node) if kind is ReachKind.shell else ""
            if command:
                self._add(_kind_of_command(command), command, node)
            else:
                self._add(kind, self._with_address(name, node), node)
        elif name.startswith("sklearn.datasets.fetch_") or last == "from_pretrained":
            self._add(ReachKind.network, name, node)
        elif name in ("os.environ.get", "os.getenv", "os.environ.pop", "os.getenvb"):
            self._ask_environment(first, node)
        elif name.startswith("os.environ.") and last not in _ENVIRONMENT_PARTS:
            self._add(ReachKind.secret, "the whole environment", node)
        elif name in _RUN_CODE:
            self._run(name, first, node)
        elif name in ("__import__", "importlib.import_module"):
            if first is None or not self._literals(first):
                self._add(ReachKind.dynamic_code, f"{name}(…)", node)
        elif name == "getattr":
            self._get_attribute(node)
        elif name in OPENING:
            self._open(name, node)
        elif name == "os.open":
            flags = "" if len(node.args) < 2 else ast.unparse(node.args[1])
            if re.search(r"O_(?:WRONLY|RDWR|CREAT|APPEND|TRUNC)", flags):
                self._write(first, node)
        elif name in WRITING:
            position, keywords = WRITING[name]
            self._write(_argument(node, position, keywords), node)
        elif name == "os.chdir" and first is not None:
            self._move(first, node)
        if LOOKING.search(name):
            self._look(node)
        if isinstance(node.func, ast.Name) and "." in name and kind is None:
            self._judge_files(last, node, known=name in WRITING)

    def _with_address(self, name: str, node: ast.Call) -> str:
        texts = [text for argument in node.args[:2] for text in self._scopes.texts(argument)]
        return next((f"{name} {text.text}" for text in texts if ADDRESS.match(text.text)), name)

    def _command(self, node: ast.Call) -> str:
        """The command that is run, as far as it can be read."""
        first = _argument(node, 0, ("args", "command", "cmd", "cmdline", "file", "program"))
        if first is None:
            return ""
        listed = [text.text for text in self._scopes.items(first) if isinstance(text, Text)]
        if listed:
            return " ".join(listed)
        parts = node.args or [first]
        return " ".join(text.text for part in parts for text in self._scopes.texts(part)[:1])

    def _run(self, name: str, code: ast.expr | None, node: ast.Call) -> None:
        texts = [] if code is None else self._scopes.texts(code)
        if not texts and name.startswith("timeit."):
            return  # a function, which is read where it stands
        if not texts or not all(text.whole for text in texts) or self._depth >= _MAX_DEPTH:
            self._add(ReachKind.dynamic_code, f"{name}(…)", node)
            return
        for text in texts:
            inner: list[tuple[ReachKind, str, int]] = []
            _screen(
                text.text,
                self._place,
                self._scopes,
                inner,
                depth=self._depth + 1,
                line=node.lineno,
            )
            self._found += inner

    def _get_attribute(self, node: ast.Call) -> None:
        if len(node.args) < 2 or self._literals(node.args[1]):
            for value in self._scopes.values(node):
                self._refer_to((value,), node)
            return
        for name in self._origins(node.args[0]):
            known = name in MODULES or any(each.startswith(f"{name}.") for each in CALLS)
            if known or name in ("builtins", "__builtins__"):
                self._add(ReachKind.dynamic_code, f"getattr({name}, …)", node)

    def _open(self, name: str, node: ast.Call) -> None:
        position, default = OPENING[name]
        mode = self._mode(_argument(node, position, ("mode", "flag")), default)
        target = _argument(node, 0, FILE_ARGUMENTS)
        if any(letter in mode for letter in "wax+cn"):
            self._write(target, node)
        if name == "fsspec.open" and target is not None:
            self._fetch(name, target, node)

    def _mode(self, node: ast.expr | None, default: str) -> str:
        if node is None:
            return default
        texts = self._scopes.texts(node)
        return "".join(text.text for text in texts) if texts else "w"

    def _write(self, target: ast.expr | None, node: ast.Call) -> None:
        for text in [] if target is None else self._scopes.texts(target):
            self._write_to(text, node)

    def _write_to(self, text: Text, node: ast.AST) -> None:
        if ADDRESS.match(text.text):
            self._add(ReachKind.network, text.text, node)
        elif self._place.is_outside(text):
            self._add(ReachKind.outside_write, text.text, node)

    def _move(self, target: ast.expr, node: ast.Call) -> None:
        for text in self._scopes.texts(target):
            if self._place.is_outside(text):
                self._add(ReachKind.outside_write, f"moves to {text.text}", node)
            elif text.whole:
                self._place.folder = folder_of(text, self._place.folder)

    def _look(self, node: ast.Call) -> None:
        for argument in (*node.args, *(keyword.value for keyword in node.keywords)):
            for text in self._scopes.texts(argument):
                if len(text.text) < 1_000 and KEY_PLACE.search(text.text):
                    self._add(ReachKind.secret, text.text, node)

    def _fetch(self, name: str, target: ast.expr, node: ast.Call) -> None:
        for text in self._scopes.texts(target):
            if ADDRESS.match(text.text):
                self._add(ReachKind.network, f"{name} {text.text}", node)

    # Methods, whatever they are called on

    def _judge_method(
        self, function: ast.Attribute, node: ast.Call, origins: Sequence[str]
    ) -> None:
        name = function.attr
        receiver = [v for v in self._scopes.values(function.value) if isinstance(v, Text)]
        paths = [text for text in receiver if text.path]
        first = node.args[0] if node.args else None
        reached = any(kind_of(origin) for origin in origins)
        if not reached and (name in PATH_DELETIONS or (paths and name in KNOWN_PATH_DELETIONS)):
            of = paths[0].text if paths else ast.unparse(function.value)
            self._add(ReachKind.deletion, f"{of}.{name}()", node)
        for path in paths:
            self._judge_path(name, path, node)
        if not reached and not paths:
            self._judge_files(name, node, known=any(origin in WRITING for origin in origins))
        if _SQL_CALL.match(name) and first is not None:
            self._query(first, node)
        if any(origin.startswith("get_ipython()") for origin in origins) or name in (
            "run_line_magic",
            "run_cell_magic",
            "getoutput",
        ):
            self._ask_ipython(name, node, reached=reached)

    def _judge_files(self, name: str, node: ast.Call, *, known: bool) -> None:
        """What ``name`` reads from or writes to; a ``known`` writer has been judged already."""
        if READER.match(name):
            named = [k.value for k in node.keywords if k.arg in _ADDRESS_ARGUMENTS]
            for target in (*node.args[:2], *named):
                self._fetch(name, target, node)
        if WRITER.match(name) and not known:
            self._write(_argument(node, 0, FILE_ARGUMENTS), node)

    def _judge_path(self, name: str, path: Text, node: ast.Call) -> None:
        if name in PATH_WRITES:
            self._write_to(path, node)
        elif name == "open":
            mode = self._mode(_argument(node, 0, ("mode",)), "r")
            if any(letter in mode for letter in "wax+"):
                self._write_to(path, node)
        if name in ("read_text", "read_bytes", "open", "iterdir", "glob", "rglob") and (
            KEY_PLACE.search(path.text)
        ):
            self._add(ReachKind.secret, path.text, node)

    def _query(self, first: ast.expr, node: ast.Call) -> None:
        for text in self._scopes.texts(first):
            for found in _COPIED_TO.finditer(text.text):
                self._write_to(Text(found[1], whole=text.whole), node)
            for found in (*_SQL_ADDRESS.finditer(text.text), *_SQL_INSTALL.finditer(text.text)):
                self._add(ReachKind.network, found[1], node)

    def _ask_ipython(self, name: str, node: ast.Call, *, reached: bool) -> None:
        texts = [self._scopes.texts(argument)[:1] for argument in node.args]
        said = [found[0].text if found else "…" for found in texts]
        if name in _SHELL_CALLS:
            if not reached:
                told = " ".join(said)
                self._add(_kind_of_command(told), f"!{told}", node)
        elif name in _MAGIC_CALLS and said:
            is_cell = name == "run_cell_magic"
            whole = " ".join(said) if name == "magic" else said[0]
            called, _, rest = whole.lstrip("%").partition(" ")
            text = rest if name == "magic" else "".join(said[1:2])
            body = "".join(said[2:3]) if is_cell else None
            marks = "%%" if is_cell else "%"
            again = f"{marks}{called} {text}" + (f"\n{body}" if body is not None else "")
            inner: list[tuple[ReachKind, str, int]] = []
            if self._depth < _MAX_DEPTH:
                _screen(again, self._place, self._scopes, inner, depth=self._depth + 1,
                        line=node.lineno)  # fmt: skip
            self._found += inner
        elif name in ("run_cell", "run_code", "ex", "ev", "safe_execfile", "run_cell_async"):
            self._run(f"get_ipython().{name}", node.args[0] if node.args else None, node)

    def _literals(self, node: ast.expr) -> list[Text]:
        return [text for text in self._scopes.texts(node) if text.whole]

    def _origins(self, node: ast.expr) -> list[str]:
        return [each.name for each in self._scopes.values(node) if isinstance(each, Origin)]


def _argument(node: ast.Call, position: int, names: Sequence[str]) -> ast.expr | None:
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


def _line(lines: Sequence[str], number: int) -> str:
    return lines[number - 1] if 0 < number <= len(lines) else ""


def _flat(text: str, limit: int) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= limit else flat[: limit - 1] + "…"
