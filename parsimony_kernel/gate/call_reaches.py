"""Where the calls and references of a cell reach, by the names of what they are."""

import ast
import re
from collections.abc import Callable, Sequence

from parsimony_kernel.analysis.calls import names
from parsimony_kernel.analysis.cell import Magic
from parsimony_kernel.analysis.visitor import without_options
from parsimony_kernel.core.reach import Finding, ReachKind
from parsimony_kernel.gate.cell_walk import argument_of
from parsimony_kernel.gate.file_reaches import SQL_CALL, FileReaches
from parsimony_kernel.gate.known_reaches import (
    ADDRESS,
    CALLS,
    HANDED_ON,
    KEY_NAME,
    KNOWN_PATH_DELETIONS,
    LOOKING,
    MODULES,
    OPENING,
    PATH_DELETIONS,
    UNPACKING,
    UNPACKING_BY_ARGUMENT,
    WRITING,
    kind_of,
)
from parsimony_kernel.gate.magic_reaches import kind_of_command, of_magic
from parsimony_kernel.gate.place import Place
from parsimony_kernel.gate.stand_ins import Origin, Scopes, Text, Value

_RUN_CODE = frozenset({"exec", "eval", "compile", "timeit.timeit", "timeit.repeat"})
_MAGIC_CALLS = frozenset({"run_line_magic", "run_cell_magic", "magic"})
_RUN_CODE_MAGICS = names("magics", "text") | names("magics", "timing")
_SHELL_CALLS = frozenset({"system", "getoutput", "system_piped", "system_raw"})
_ENVIRONMENT_PARTS = frozenset({"get", "setdefault", "update", "pop", "keys", "__contains__"})

# Reads code that stands in code, at a line.
Within = Callable[[str, Scopes, int], list[Finding]]
# Gives the text of a module that is read where it is imported.
Modules = Callable[[str], str | None]


class CallReaches(FileReaches):
    """Judges references, calls and methods.

    ``within`` reads code in the texts that are run; ``None`` where that goes too deep.
    """

    def __init__(
        self,
        place: Place,
        scopes: Scopes,
        found: list[Finding],
        within: Within | None,
        modules: Modules,
    ) -> None:
        super().__init__(place, scopes, found)
        self._within = within
        self._modules = modules
        self._imported: list[tuple[str, ast.AST]] = []

    def read(self, tree: ast.Module) -> None:
        super().read(tree)
        # A function that stands further below may write what is imported above.
        for name, node in self._imported:
            self._import(name, node)

    # Modules

    def visit_Import(self, node: ast.Import) -> None:
        super().visit_Import(node)
        self._imported += ((alias.name, node) for alias in node.names)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        super().visit_ImportFrom(node)
        if node.module and not node.level:
            self._imported += ((f"{node.module}.{alias.name}", node) for alias in node.names)

    def _import(self, name: str, node: ast.AST) -> None:
        parts = name.split(".")
        for length in range(1, len(parts) + 1):
            module = ".".join(parts[:length])
            if parts[length - 1] in self._modules_written:
                told = f"import {module}, which it writes itself"
                self._add(ReachKind.dynamic_code, told, node)
            elif (text := self._modules(module)) is not None:
                self._read_module(module, text, node)

    def _read_module(self, module: str, text: str, node: ast.AST) -> None:
        if self._within is None:
            self._add(ReachKind.dynamic_code, f"import {module}", node)
            return
        for kind, what, line in self._within(text, Scopes({}), getattr(node, "lineno", 1)):
            self._found.append((kind, f"{what} (in {module})", line))

    # References that are not calls: handed on, kept, returned

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
            elif name in ("exec", "eval") or name in CALLS or name in UNPACKING:
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
                self._add(kind_of_command(command), command, node)
            elif kind is ReachKind.deletion:
                self._delete(name, node)
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
            literals = [] if first is None else self._literals(first)
            self._imported += ((text.text, node) for text in literals)
            if not literals:
                self._add(ReachKind.dynamic_code, f"{name}(…)", node)
        elif name == "importlib.reload" and first is not None:
            self._imported += ((module, node) for module in self._origins(first))
        elif name == "getattr":
            self._get_attribute(node)
        elif name in UNPACKING or self._unpacks(name, node):
            self._add(ReachKind.dynamic_code, name, node)
        if name in OPENING:
            if any(isinstance(each, ast.Starred) for each in node.args) or any(
                keyword.arg is None for keyword in node.keywords
            ):
                self._add(ReachKind.dynamic_code, f"{name}(*…)", node)
            self._open(name, node)
        elif name == "os.open":
            flags = argument_of(node, 1, ("flags",))
            if flags is not None and ast.unparse(flags).rpartition(".")[2] != "O_RDONLY":
                self._write(argument_of(node, 0, ("path",)), node)
        elif name in WRITING and argument_of(node, 99, ("read_only",)) is None:
            position, keywords = WRITING[name]
            self._write(argument_of(node, position, keywords), node)
        elif name == "os.chdir" and first is not None:
            self._move(first, node)
        if LOOKING.search(name):
            self._look(node)
        if isinstance(node.func, ast.Name) and "." in name and kind is None:
            self._judge_files(last, node, known=name in WRITING)

    def _unpacks(self, name: str, node: ast.Call) -> bool:
        if name not in UNPACKING_BY_ARGUMENT:
            return False
        if any(each.arg is None for each in node.keywords):
            return True
        position, keyword, harmless = UNPACKING_BY_ARGUMENT[name]
        said = argument_of(node, position, (keyword,))
        return re.fullmatch(harmless, "" if said is None else ast.unparse(said)) is None

    def _with_address(self, name: str, node: ast.Call) -> str:
        texts = [text for argument in node.args[:2] for text in self._scopes.texts(argument)]
        return next((f"{name} {text.text}" for text in texts if ADDRESS.match(text.text)), name)

    def _command(self, node: ast.Call) -> str:
        """The command that is run, as far as it can be read."""
        first = argument_of(node, 0, ("args", "command", "cmd", "cmdline", "file", "program"))
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
        if not texts or not all(text.whole for text in texts) or self._within is None:
            self._add(ReachKind.dynamic_code, f"{name}(…)", node)
            return
        for text in texts:
            self._found += self._within(text.text, self._scopes, node.lineno)

    def _get_attribute(self, node: ast.Call) -> None:
        if len(node.args) < 2 or self._literals(node.args[1]):
            for value in self._scopes.values(node):
                self._refer_to((value,), node)
            return
        for name in self._origins(node.args[0]):
            known = name in MODULES or any(each.startswith(f"{name}.") for each in CALLS)
            known = known or f"{name}.loads" in UNPACKING
            if known or name in ("builtins", "__builtins__"):
                self._add(ReachKind.dynamic_code, f"getattr({name}, …)", node)

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
            of = self._shown(paths) or ast.unparse(function.value)
            self._add(ReachKind.deletion, f"{of}.{name}()", node)
        for path in paths:
            self._judge_path(name, path, node)
        if not reached and not paths:
            self._judge_files(name, node, known=any(origin in WRITING for origin in origins))
        if SQL_CALL.match(name) and first is not None:
            self._query(first, node)
        if any(origin.startswith("get_ipython()") for origin in origins) or name in (
            "run_line_magic",
            "run_cell_magic",
            "getoutput",
        ):
            self._ask_ipython(name, node, reached=reached)

    def _ask_ipython(self, name: str, node: ast.Call, *, reached: bool) -> None:
        texts = [self._scopes.texts(argument)[:1] for argument in node.args]
        said = [found[0].text if found else "…" for found in texts]
        if name in _SHELL_CALLS:
            if not reached:
                self._found += of_magic(Magic("", " ".join(said), node.lineno), self._place)
        elif name in _MAGIC_CALLS and said:
            whole = " ".join(said) if name == "magic" else said[0]
            called, _, rest = whole.lstrip("%").partition(" ")
            text = rest if name == "magic" else "".join(said[1:2])
            body = "".join(said[2:3]) if name == "run_cell_magic" else None
            self._found += of_magic(Magic(called, text.strip(), node.lineno, body), self._place)
            if called in _RUN_CODE_MAGICS and self._within is not None:
                for number, code in (
                    (node.lineno, without_options(text)),
                    (node.lineno, body or ""),
                ):
                    self._found += self._within(code, self._scopes, number)
        elif name in ("run_cell", "run_code", "ex", "ev", "safe_execfile", "run_cell_async"):
            self._run(f"get_ipython().{name}", node.args[0] if node.args else None, node)
