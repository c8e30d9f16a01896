"""Where the files that code opens, writes and deletes lie, and what it reads from addresses."""

import ast
import re
from collections.abc import Sequence

from parsimony_kernel.core.reach import Finding, ReachKind
from parsimony_kernel.gate.cell_walk import CellWalk, argument_of
from parsimony_kernel.gate.known_reaches import (
    ADDRESS,
    DELETED_ARGUMENTS,
    FILE_ARGUMENTS,
    KEY_PLACE,
    MOVING,
    OPENING,
    PATH_WRITES,
    READER,
    WRITER,
)
from parsimony_kernel.gate.place import Place
from parsimony_kernel.gate.stand_ins import Scopes, Text

_ADDRESS_ARGUMENTS = frozenset(
    {*FILE_ARGUMENTS, "url", "uri", "filepath_or_buffer", "source", "con", "connection"}
)
_MAX_NAMED = 4
_COPIED_TO = re.compile(r"\bcopy\b.*?\bto\s+'([^']+)'", re.IGNORECASE | re.DOTALL)
# Methods and functions whose first argument is a query.
SQL_CALL = re.compile(r"^(?:sql|execute|query|read_sql\w*|executescript|from_query)$")
_SQL_ADDRESS = re.compile(
    r"'((?:https?|s3|gs|gcs|r2|az|abfss|hf|md|postgres(?:ql)?|mysql):[^']*)'", re.IGNORECASE
)
_SQL_INSTALL = re.compile(r"(?:^|;)\s*(?:force\s+)?install\s+(\w+)", re.IGNORECASE)


class FileReaches(CellWalk):
    """Judges files. ``found`` is added to."""

    def __init__(self, place: Place, scopes: Scopes, found: list[Finding]) -> None:
        super().__init__(scopes)
        self._place = place
        self._found = found
        # The last names of the modules, and of their packages, whose files the code writes.
        self._modules_written: set[str] = set()

    def _add(self, kind: ReachKind, what: str, node: ast.AST) -> None:
        self._found.append((kind, what, getattr(node, "lineno", 1)))

    def _open(self, name: str, node: ast.Call) -> None:
        position, default = OPENING[name]
        mode = self._mode(argument_of(node, position, ("mode", "flag")), default)
        target = argument_of(node, 0, FILE_ARGUMENTS)
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
            of_record = " (the record)" if self._place.is_of_record(text) else ""
            self._add(ReachKind.outside_write, text.text + of_record, node)
        if text.text.endswith((".py", ".pyc", ".so", ".pyd")):
            *packages, module = re.split(r"[/\\]", text.text)
            self._modules_written |= {*packages[-2:], module.partition(".")[0]}

    def _delete(self, name: str, node: ast.Call) -> None:
        gone = self._named(argument_of(node, 0, DELETED_ARGUMENTS))
        said = [name, *filter(None, (gone,))]
        if name in MOVING and (to := self._named(argument_of(node, 1, ("dst",)))):
            said += ["to", to]
        self._add(ReachKind.deletion, " ".join(said), node)

    def _named(self, target: ast.expr | None) -> str:
        """The files that ``target`` may name; empty when that is not known."""
        if target is None:
            return ""
        values = (*self._scopes.texts(target), *self._scopes.items(target))
        return self._shown([value for value in values if isinstance(value, Text)])

    def _shown(self, texts: Sequence[Text]) -> str:
        names = list(dict.fromkeys(self._place.shown(text) for text in texts))
        more = [f"{len(names) - _MAX_NAMED} more"] if len(names) > _MAX_NAMED else []
        return " or ".join([*names[:_MAX_NAMED], *more])

    def _move(self, target: ast.expr, node: ast.Call) -> None:
        for text in self._scopes.texts(target):
            if self._place.is_outside(text):
                self._add(ReachKind.outside_write, f"moves to {text.text}", node)
            elif text.whole:
                self._place.move(text)

    def _look(self, node: ast.Call) -> None:
        for argument in (*node.args, *(keyword.value for keyword in node.keywords)):
            for text in self._scopes.texts(argument):
                if len(text.text) < 1_000 and KEY_PLACE.search(text.text):
                    self._add(ReachKind.secret, text.text, node)

    def _fetch(self, name: str, target: ast.expr, node: ast.Call) -> None:
        for text in self._scopes.texts(target):
            if ADDRESS.match(text.text):
                self._add(ReachKind.network, f"{name} {text.text}", node)

    def _judge_files(self, name: str, node: ast.Call, *, known: bool) -> None:
        """What ``name`` reads from or writes to; a ``known`` writer has been judged already."""
        if READER.match(name):
            named = [k.value for k in node.keywords if k.arg in _ADDRESS_ARGUMENTS]
            for target in (*node.args[:2], *named):
                self._fetch(name, target, node)
        if WRITER.match(name) and not known:
            self._write(argument_of(node, 0, FILE_ARGUMENTS), node)

    def _judge_path(self, name: str, path: Text, node: ast.Call) -> None:
        if name in PATH_WRITES:
            self._write_to(path, node)
        elif name == "open":
            mode = self._mode(argument_of(node, 0, ("mode",)), "r")
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
