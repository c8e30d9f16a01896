"""Preview of a cell's side effects outside the notebook: the obvious cases, by static analysis.

It lets the gate ask before the first line runs. What it misses (values passed through functions,
computed paths, generated code) the audit hook catches at run time (``execution/guard``). So when
in doubt it reports nothing. The names of calls are in ``analysis/calls.toml``.

Names are resolved in the namespace, or by convention if they are not bound. Paths are compared as
text, without following links; the disk is asked only whether what is deleted exists.
"""
# ruff: noqa: PTH111, PTH118, PTH120

import builtins
import functools
import os
import re
import types
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path, PosixPath, PurePath, PurePosixPath, PureWindowsPath, WindowsPath
from typing import Any

from parsimony_kernel.analysis.calls import CONVENTION, PATTERNS, SQL_CALLS, WRITES_BY_MODE, names
from parsimony_kernel.analysis.cell_names import Call, Magic
from parsimony_kernel.analysis.read import read
from parsimony_kernel.analysis.values import Ref, Text, Value
from parsimony_kernel.core.reach import Reach, ReachKind
from parsimony_kernel.core.redaction import NAMES_A_KEY
from parsimony_kernel.identity import ARTIFACT_FOLDER

_MAX_TEXT = 20_000
_MAX_NAME = 4_096
# Paths where writing has no lasting effect.
_NOWHERE = ("/dev/null", "/dev/stdout", "/dev/stderr", "/dev/shm/")
_PATHS = (PosixPath, WindowsPath, PurePosixPath, PureWindowsPath)
_ROOT = re.compile(r"[^.(]*")
_BUILTINS = frozenset({*vars(builtins), "display", "get_ipython"})
# Aliases of the same object, normalised to one name.
_SAME = (
    (re.compile(r"^(?:posix|nt)(?=\.)"), "os"),
    (re.compile(r"^(?:builtins|__builtins__)\."), ""),
    (re.compile(r"^_?io\.open$"), "open"),
    (re.compile(r"^_(?=pickle\.|socket\.)"), ""),
    (re.compile(r"^[\w.()]*\bget_ipython\b"), "get_ipython"),
)


@dataclass(frozen=True)
class Said:
    """The known text of a string or path: all of it if ``whole``, else a prefix."""

    text: str
    whole: bool = True
    path: bool = False


def _origin_of(thing: Any) -> str:
    """Return an object's full name without running any code of its class."""
    kind = type(thing)
    if kind is functools.partial:
        return _origin_of(thing.func)
    if issubclass(kind, types.ModuleType):
        return str(types.ModuleType.__getattribute__(thing, "__dict__").get("__name__"))
    if issubclass(kind, type):
        return _name_of(thing)
    if kind in (types.FunctionType, types.BuiltinFunctionType):
        return f"{thing.__module__}.{thing.__qualname__}"
    if kind is types.MethodType:
        return f"{_name_of(type(thing.__self__))}().{getattr(thing.__func__, '__name__', '')}"
    name = _name_of(kind)
    return "os.environ" if name == "os._Environ" else f"{name}()"


def _name_of(kind: type) -> str:
    module, name = (type.__getattribute__(kind, part) for part in ("__module__", "__qualname__"))
    return f"{module}.{name}"


class PathPolicy:
    """Paths that code may write to: the workspace without its record ``.ockham``.

    Args:
        workspace: an absolute path.
        folder: the working folder, absolute; ``move`` changes it as the code does.
    """

    def __init__(self, workspace: str, folder: str) -> None:
        self._workspace = os.path.normpath(workspace)
        self._folder = folder

    def is_outside(self, path: Said) -> bool:
        """Whether a path lies outside the workspace, or in its record.

        A partly known path is judged by its known folder.
        """
        known = path.text if path.whole else os.path.dirname(path.text)
        is_file_name = 0 < len(known) <= _MAX_NAME and "\n" not in known and "\0" not in known
        if not is_file_name or known.startswith(_NOWHERE):
            return False
        return not self._holds(self.reached(known)) or self.is_of_record(path)

    def may_lead_back(self, path: Said) -> bool:
        """Whether a partly known path begins above the workspace, and may lead into it."""
        folder = self.reached(os.path.dirname(path.text))
        return not path.whole and PurePath(self._workspace).is_relative_to(folder)

    def is_of_record(self, path: Said) -> bool:
        """Whether a path, as far as it is known, lies in the workspace's record."""
        known = self.reached(path.text if path.whole else os.path.dirname(path.text))
        below = known.removeprefix(self._workspace).lstrip(os.sep)
        return self._holds(known) and below.partition(os.sep)[0].casefold() == ARTIFACT_FOLDER

    def shown(self, path: Said) -> str:
        """Render the path for a person: relative inside the workspace, else in full."""
        shortened = self.reached(path.text)
        if self._holds(shortened):
            shortened = os.path.relpath(shortened, self._workspace)
        elif path.text.startswith("~"):
            shortened = path.text
        shortened += "/" * (path.text.endswith("/") and not shortened.endswith("/"))
        return shortened if path.whole else f"{shortened}…"

    def move(self, folder: Said) -> None:
        """Change the working folder, as ``os.chdir`` in the code would."""
        self._folder = self.reached(folder.text)

    def reached(self, name: str) -> str:
        """Return the absolute path of a name."""
        return os.path.normpath(os.path.join(self._folder, os.path.expanduser(name)))

    def _holds(self, path: str) -> bool:
        return PurePath(path).is_relative_to(self._workspace)


_MAX_WHAT = 120
_MAX_LINE = 200
_MAX_DEPTH = 5
_MAX_COMMAND = 4_000

_MODE = re.compile(r"[rwaxbtcn+]{1,3}")
_CALLS = {name: kind for kind in ReachKind for name in names(kind, "calls")}
_MODULES = {name: kind for kind in ReachKind for name in names(kind, "modules")}
_MAGICS = {name: kind for kind in ReachKind for name in names(kind, "magics")}
# Calls that write a file, and the position of the argument that names it.
_WRITERS = dict.fromkeys(names("outside_write", "first"), 0) | dict.fromkeys(
    names("outside_write", "second"), 1
)


def preview(
    code: str,
    *,
    workspace: Path,
    folder: Path | None = None,
    namespace: Mapping[str, Any] | None = None,
    is_watched: bool = False,
) -> tuple[Reach, ...]:
    """Return the evident side effects of ``code`` outside the notebook, in line order.

    Never raises. ``code`` may contain IPython syntax, or be IPython's translation of it.

    Args:
        code: the source of the cell.
        workspace: absolute path of the folder that may be written to.
        folder: absolute path of the working folder; ``workspace`` if not given. Paths are compared
            as text: links are not followed.
        namespace: bindings before the code runs, for names that the code doesn't bind itself.
            Without it, ``os``, ``pd`` and the like have their conventional meaning.
        is_watched: the audit hook watches the code, so a deletion where nothing is yet isn't
            reported: the hook sees whether anything is there then, and who made it.
    """
    paths = PathPolicy(str(workspace), str(folder or workspace))
    reader = _Preview(code, paths, namespace or {}, is_watched)
    reader.read(code)
    return tuple(sorted(dict.fromkeys(reader.found), key=lambda each: each.line))


class _Preview:
    """Reader of a cell, in line order; ``found`` collects the side effects."""

    def __init__(
        self, code: str, paths: PathPolicy, namespace: Mapping[str, Any], is_watched: bool
    ) -> None:
        self.found: list[Reach] = []
        self._lines = re.split(r"\r\n|\r|\n", code)  # as Python counts them
        self._paths = paths
        # The bindings before the cell runs.
        self._namespace = namespace
        self._is_watched = is_watched
        # Absolute paths of files that the code itself creates.
        self._made: set[str] = set()
        self._strings: frozenset[str] = frozenset()
        # Whether the code may put something else in the place of what reaches outside.
        self._mocks = False
        self._line = 1
        self._depth = 0

    def read(self, code: str) -> None:
        cell = read(code)
        self._strings |= cell.strings
        called = (self._name(each.origin) for each in cell.calls)
        self._mocks |= any(_home(each, names("handing", "mocks")) for each in called)
        parts: list[Call | Magic] = [*cell.magics, *cell.calls, *cell.items]
        for each in sorted(parts, key=lambda each: each.line):
            if not self._depth:
                self._line = each.line
            if isinstance(each, Magic):
                self._magic(each)
            else:
                self._call(each)

    def _add(self, kind: ReachKind, what: str) -> None:
        source = "".join(self._lines[self._line - 1 : self._line])
        reach = Reach(kind, _flat(what, _MAX_WHAT), self._line, _flat(source, _MAX_LINE))
        self.found.append(reach)

    def _link(self, address: str, by: str = "") -> None:
        """Report a network address, unless it is a loopback address, or holds the data itself."""
        if not (PATTERNS["loopback"].match(address) or address.startswith("data:")):
            self._add(ReachKind.network, f"{by} {address}".strip())

    # Calls

    def _call(self, call: Call) -> None:
        if call.last in names("handing", "calls"):
            for number, each in enumerate(call.args):
                if isinstance(each, Ref) and self._name(each):
                    rest = call.args[number + 1 :]
                    self._call(replace(call, name=each.name, origin=each, receiver=None, args=rest))
                    break
        name = self._name(call.origin)
        if self._mocks and _home(name.partition("(")[0], names("handing", "watched")):
            return  # the audit hook sees whether it is the real one
        # A method is matched by its own name, whatever object it is called on.
        last = name.rpartition(".")[2] if call.name == call.root else call.last
        match kind := _kind_of(name):
            case ReachKind.shell:
                command = self._command(call)
                self._add(_kind_of_command(command), command or name)
            case ReachKind.deletion:
                value = _argument(call, 0, "path", "src", "name", "paths")
                to = self._text(call, 1, "dst") if name in names("deletion", "moves") else None
                self._remove(f"{name} {{}}", value if isinstance(value, tuple) else (value,), to)
            case ReachKind.dynamic_code:
                self._run(name, call)
            case ReachKind.network | None:
                self._connect(name, last, call, is_link=kind is not None)
            case _:
                argument = self._text(call, 0)
                self._add(kind, name if argument is None else f"{name} {argument.text}")
        self._look_for_keys(name, last, call)
        self._use_file(name, last, call)
        if last in SQL_CALLS:
            self._query(self._text(call, 0, "sql", "query"))
        if last in names("network", "shows"):
            for text in self._strings:
                self._show(last, text)

    def _text(self, call: Call, position: int, *keywords: str) -> Said | None:
        """Return a call's argument as text, by position or keyword."""
        return self._said(_argument(call, position, *keywords))

    def _texts(self, values: Iterable[Value | None]) -> list[Said]:
        return [text for each in values if (text := self._said(each)) is not None]

    def _command(self, call: Call) -> str:
        """Render the shell command, with "…" for unknown parts."""
        value = _argument(call, 0, "args", "command", "cmd")
        parts = value if isinstance(value, tuple) else (value, *call.args[1:])
        texts = [self._said(each) for each in parts]
        return " ".join("…" if each is None else each.text for each in texts) if any(texts) else ""

    def _connect(self, name: str, last: str, call: Call, *, is_link: bool) -> None:
        """Report a call's address arguments; a call that always connects is reported without
        any, too."""
        named = (each for key, each in call.keywords.items() if key in names("network", "named"))
        texts = [each.text for each in self._texts((*call.args[:2], *named)) if each.text]
        addresses = [*filter(PATTERNS["address"].match, texts)]
        if is_link:
            nowhere = [] if name in names("network", "hosts") else [""]
            addresses = (addresses or texts or nowhere)[:1]
        if is_link or last in names("network", "readers"):
            for each in addresses:
                self._link(each, name or last)

    def _show(self, name: str, text: str) -> None:
        if image := PATTERNS["remote_image"].search(text):
            # The browser fetches it, even from private servers, and no audit hook sees that.
            self._add(ReachKind.network, f"{name} {image[1] or image[2]}")

    def _run(self, name: str, call: Call) -> None:
        first = call.args[0] if call.args else Text(())
        if isinstance(first, Text) and first.parts == call.texts[:1] and name in ("exec", "eval"):
            return  # the literal was already read with its cell
        text = self._text(call, 0)
        if text is None or not text.whole or self._depth == _MAX_DEPTH:
            self._add(ReachKind.dynamic_code, f"{name}(…)")
            return
        self._depth += 1
        self.read(text.text)
        self._depth -= 1

    def _query(self, query: Said | None) -> None:
        text = "" if query is None else query.text
        for found in PATTERNS["sql_file"].finditer(text):
            self._write(Said(next(filter(None, found.groups()))))
        for pattern in ("sql_address", "sql_install"):
            for found in PATTERNS[pattern].finditer(text):
                self._add(ReachKind.network, found[1])

    # Keys

    def _look_for_keys(self, name: str, last: str, call: Call) -> None:
        if name in names("secret", "one"):
            key = self._text(call, 0, "key")
            if key is not None and NAMES_A_KEY.search(key.text):
                self._add(ReachKind.secret, f"the environment variable {key.text}")
        elif name in names("secret", "all") or (
            name in names("secret", "shows") and "os.environ" in map(self._name, call.args)
        ):
            self._add(ReachKind.secret, "the whole environment")
        elif last in names("secret", "readers"):
            for text in self._texts((call.receiver, *call.args, *call.keywords.values())):
                if PATTERNS["key_file"].search(text.text):
                    self._add(ReachKind.secret, text.text)

    # Files

    def _use_file(self, name: str, last: str, call: Call) -> None:
        on = self._said(call.receiver)
        if name in names("outside_write", "moves"):
            self._go(self._text(call, 0, "path"))
        elif name in names("unpickling", "loads"):
            path = self._text(call, 0, *names("outside_write", "named"))
            if path is not None and self._paths.is_outside(path):
                self._add(ReachKind.unpickling, f"{name} {path.text}")
        elif on is not None and on.path:
            if last in names("deletion", "methods"):
                self._remove(f"{{}}.{last}()", (call.receiver,), self._text(call, 0, "target"))
            elif last in names("outside_write", "methods") or (
                last == "open" and self._writes(call, 0, "r")
            ):
                self._write(on, is_watched=True)
        else:
            writer = name if name in _WRITERS else last
            writes = "read_only" not in call.keywords and "os.O_RDONLY" not in map(
                self._name, call.args
            )
            if writer in WRITES_BY_MODE:
                writes = self._writes(call, 1, WRITES_BY_MODE[writer])
            if writes and (place := _WRITERS.get(writer)) is not None:
                path = self._text(call, place, *names("outside_write", "named"))
                self._write(path, is_watched=name == "open")

    def _writes(self, call: Call, position: int, mode: str) -> bool:
        """Whether a call opens a file for writing; ``mode`` is the default mode."""
        given = (call.keywords.get("mode", call.keywords.get("flag")), *call.args[position:])
        modes = [each.text for each in self._texts(given) if _MODE.fullmatch(each.text)]
        return not set("wax+cn").isdisjoint(modes[0] if modes else mode)

    def _write(self, path: Said | None, *, is_watched: bool = False) -> None:
        """Report a file that is written outside; ``is_watched``: the hook sees its real path."""
        if path is None or (is_watched and self._paths.may_lead_back(path)):
            return
        if PATTERNS["address"].match(path.text):
            self._link(path.text)
        elif self._paths.is_outside(path):
            of_record = " (the record)" if self._paths.is_of_record(path) else ""
            self._add(ReachKind.outside_write, path.text + of_record)
        elif path.whole:
            self._made.add(self._paths.reached(path.text))

    def _remove(self, did: str, values: Iterable[Value | None], to: Said | None) -> None:
        """Report files that are deleted or moved ``to`` a path, unless the code created them."""
        paths = self._texts(values)
        gone = [each for each in paths if self._is_there(each)]
        if to is not None:
            self._made.add(self._paths.reached(to.text))
        if gone:
            went = "" if to is None else f" to {self._paths.shown(to)}"
            what = " or ".join(map(self._paths.shown, gone))
            self._add(ReachKind.deletion, did.format(what) + went)
        elif to is not None and self._paths.is_outside(to):
            self._write(to)

    def _is_there(self, path: Said) -> bool:
        """Whether a path, or the folder of one that is known in part, may hold what isn't made."""
        name = self._paths.reached(path.text if path.whole else os.path.dirname(path.text))
        is_made = self._paths.reached(path.text) in self._made
        return not is_made and (not self._is_watched or os.path.lexists(name))

    def _go(self, folder: Said | None) -> None:
        if folder is not None and self._paths.is_outside(folder):
            self._add(ReachKind.outside_write, f"moves to {folder.text}")
        elif folder is not None and folder.whole:
            self._paths.move(folder)

    # IPython magics

    def _magic(self, magic: Magic) -> None:
        name, text, body = magic.name, magic.text, magic.body or ""
        command = f"%{'' if magic.body is None else '%'}{name} {text}".strip()
        words = [each.strip("'\"") for each in text.split() if not each.startswith("-")]
        last = Said(words[-1] if words else "", path=True)
        match name, _MAGICS.get(name):
            case "" | "!", _:
                self._add(_kind_of_command(text), f"!{text}")
            case "store", _ if ">" in text:
                self._write(Said(text.rpartition(">")[2].strip(" '\""), path=True))
            case "store", _ if text:  # writes to the home folder, or reads from it
                is_read = text.startswith("-r")
                self._add(ReachKind.dynamic_code if is_read else ReachKind.outside_write, command)
            case "cd", _:
                self._go(last if text else Said("~"))
            case "run", _:
                if words and self._paths.is_outside(Said(words[0])):
                    self._add(ReachKind.dynamic_code, command)
            case "env" | "set_env", _:
                if "=" not in text and " " not in text and (not text or NAMES_A_KEY.search(text)):
                    self._add(ReachKind.secret, command)
            case "html" | "markdown" | "svg" | "HTML", _:
                self._show(f"%%{name}", body)
            case _, ReachKind.shell:
                self._add(_kind_of_command(f"{text}\n{body}"), f"{command} {body}".strip())
            case _, ReachKind.installation:
                if not words or words[0] not in names("installation", "looks"):
                    self._add(ReachKind.installation, command)
            case _, ReachKind.outside_write:
                self._write(Said(words[0], path=True) if name == "save" and words else last)
            case _, ReachKind.secret:
                if PATTERNS["key_file"].search(text):
                    self._add(ReachKind.secret, command)
            case _, ReachKind() as kind:
                self._add(kind, command)

    def _name(self, value: Value | None) -> str:
        """Return the full name of a library object; empty if unknown or not of a library."""
        if not isinstance(value, Ref):
            return ""
        name = value.name
        if value.outer:
            root = _ROOT.match(name)[0]  # type: ignore[index]
            if root in self._namespace:
                home = _origin_of(self._namespace[root])
            else:
                home = CONVENTION.get(root, root if root in _BUILTINS else "")
            if not home or home.startswith("__main__."):
                return ""
            name = home + name[len(root) :]
        for pattern, instead in _SAME:
            name = pattern.sub(instead, name)
        return name

    def _said(self, value: Value | None) -> Said | None:
        """Resolve a string or a path as far as it is known from the left; of several, the first."""
        match value:
            case (first, *_):
                return self._said(first)
            case Ref(name=name, outer=True):
                thing = self._namespace.get(name)
                if type(thing) is str or type(thing) in _PATHS:
                    return Said(str(thing)[:_MAX_TEXT], path=type(thing) is not str)
            case Text(parts=parts, path=path):
                known = ""
                for part in parts:
                    piece = Said(part) if isinstance(part, str) else self._said(part)
                    if piece is None or len(known) > _MAX_TEXT:
                        return Said(known, whole=False, path=path) if known else None
                    known, path = known + piece.text, path or piece.path
                return Said(known, path=path)
        return None


def _kind_of(name: str) -> ReachKind | None:
    """Classify a call by its full name alone."""
    if name in _CALLS or not name:
        return _CALLS.get(name)
    owner, _, last = name.rpartition(".")
    if name in names("network", "hosts") or (
        last in names("network", "verbs")
        and _home(owner.removesuffix("()"), names("network", "libraries"))
    ):
        return ReachKind.network
    is_harmless = _home(name, names("handing", "harmless"))
    return None if is_harmless else _MODULES.get(_home(owner, _MODULES))


def _home(name: str, modules: Container[str]) -> str:
    """Return the first of ``modules`` that contains a name; empty if none does."""
    parts = [] if "(" in name else name.split(".")
    homes = (".".join(parts[:length]) for length in range(1, len(parts) + 1))
    return next((each for each in homes if each in modules), "")


def _kind_of_command(text: str) -> ReachKind:
    """Classify a command: does it install packages, or only start another program?"""
    installs = PATTERNS["install"].search(text[:_MAX_COMMAND])
    return ReachKind.installation if installs else ReachKind.shell


def _argument(call: Call, position: int, *keywords: str) -> Value | None:
    """Return a call's argument, by position or keyword."""
    named = (call.keywords[each] for each in keywords if each in call.keywords)
    return next(named, call.args[position] if len(call.args) > position else None)


def _flat(text: str, limit: int) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= limit else flat[: limit - 1] + "…"
