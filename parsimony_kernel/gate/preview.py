"""A preview of what a cell would do outside the notebook: the obvious cases, from its text.

It asks before the first line runs. What it doesn't see, the audit hook sees happen
(``execution/guard``): values that travel through functions, computed paths, text that is run. So
it errs towards saying nothing. Names of calls are in ``analysis/calls.toml``.
"""

import re
from collections.abc import Container, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from parsimony_kernel.analysis.calls import PATTERNS, SQL_CALLS, WRITES_BY_MODE, names
from parsimony_kernel.analysis.cell import Call, Magic
from parsimony_kernel.analysis.read import read
from parsimony_kernel.analysis.values import Ref, Text, Value
from parsimony_kernel.core.reach import Finding, Reach, ReachKind
from parsimony_kernel.core.redaction import NAMES_A_KEY
from parsimony_kernel.gate.origins import Origins, PathPolicy, Said

_MAX_WHAT = 120
_MAX_SOURCE = 200
_MAX_DEPTH = 5
_MAX_COMMAND = 4_000

_MODE = re.compile(r"[rwaxbtcn+]{1,3}")

_ADDRESS, _LOOPBACK = PATTERNS["address"], PATTERNS["loopback"]
_KEY_FILE, _KEY_NAME = PATTERNS["key_file"], NAMES_A_KEY
_CALLS = {name: kind for kind in ReachKind for name in names(kind, "calls")}
_MODULES = {name: kind for kind in ReachKind for name in names(kind, "modules")}
_MAGICS = {name: kind for kind in ReachKind for name in names(kind, "magics")}
_LIBRARIES, _VERBS = names("network", "libraries"), names("network", "verbs")
_HOSTS, _READERS = names("network", "hosts"), names("network", "readers")
_DISPLAYS = names("network", "shows")
_MOVING, _PATH_DELETIONS = names("deletion", "moves"), names("deletion", "methods")
_FIRST, _SECOND = names("outside_write", "first"), names("outside_write", "second")
_PATH_WRITES, _GOING = names("outside_write", "methods"), names("outside_write", "moves")
_LOOKS = names("installation", "looks")
_ONE_KEY, _ALL_KEYS = names("secret", "one"), names("secret", "all")
_SHOWING, _KEY_READERS = names("secret", "shows"), names("secret", "readers")
_LOADS = names("unpickling", "loads")
_HANDING, _HARMLESS = names("handing", "calls"), names("handing", "harmless")
# By the names of the arguments that say it.
_HOSTED, _FILED = names("network", "named"), names("outside_write", "named")


def preview(
    code: str,
    *,
    workspace: Path,
    folder: Path | None = None,
    namespace: Mapping[str, Any] | None = None,
) -> tuple[Reach, ...]:
    """Where ``code`` evidently reaches outside the notebook, in line order.

    Never raises. ``code`` may hold IPython's syntax, or be what IPython makes of it.

    Args:
        workspace: what may be written to; an absolute path.
        folder: where the code runs, absolute; ``workspace`` if not given. Paths are compared by
            their names: links are not followed.
        namespace: what is bound before the code runs, for names that it does not bind itself.
            Without it, ``os``, ``pd`` and their like stand for what they usually do.
    """
    paths = PathPolicy(str(workspace), str(folder or workspace))
    reader = _Preview(paths, Origins(namespace or {}))
    reader.read(code)
    lines = re.split(r"\r\n|\r|\n", code)  # as Python counts them
    return tuple(
        Reach(kind, _flat(what, _MAX_WHAT), line, _flat(_line(lines, line), _MAX_SOURCE))
        for kind, what, line in sorted(dict.fromkeys(reader.found), key=lambda each: each[2])
    )


class _Preview:
    """Reads cells in line order; ``found`` collects what they reach, and where."""

    def __init__(self, paths: PathPolicy, origins: Origins) -> None:
        self.found: list[Finding] = []
        self._paths = paths
        self._origins = origins
        # Files that the code makes itself, by their full names.
        self._made: set[str] = set()
        self._strings: frozenset[str] = frozenset()
        self._line = 1
        self._depth = 0

    def read(self, code: str) -> None:
        cell = read(code)
        self._strings |= cell.strings
        parts: list[Call | Magic] = [*cell.magics, *cell.calls, *cell.items]
        for each in sorted(parts, key=lambda each: each.line):
            if not self._depth:
                self._line = each.line
            if isinstance(each, Magic):
                self._magic(each)
            else:
                self._call(each)

    def _add(self, kind: ReachKind, what: str) -> None:
        self.found.append((kind, what, self._line))

    # Calls

    def _call(self, call: Call) -> None:
        if call.last in _HANDING:
            for number, each in enumerate(call.args):
                if isinstance(each, Ref) and self._origins.name(each):
                    rest = call.args[number + 1 :]
                    self._call(replace(call, name=each.name, origin=each, receiver=None, args=rest))
                    break
        name = self._origins.name(call.origin)
        # A method is known by its own name, whatever it is called on.
        last = name.rpartition(".")[2] if call.name == call.root else call.last
        kind = _kind_of(name)
        if kind is ReachKind.shell:
            command = self._command(call)
            self._add(_kind_of_command(command), command or name)
        elif kind is ReachKind.network:
            self._connect(name, call)
        elif kind is ReachKind.deletion:
            self._delete(name, call)
        elif kind is ReachKind.dynamic_code:
            self._run(name, call)
        elif kind is not None:
            told = self._text(call, 0)
            self._add(kind, name if told is None else f"{name} {told.text}")
        else:
            self._read_address(name or last, last, call)
        self._look_for_keys(name, last, call)
        self._use_file(name, last, call)
        if last in SQL_CALLS:
            self._query(self._text(call, 0, "sql", "query"))
        if last in _DISPLAYS:
            for text in self._strings:
                self._show(last, text)

    def _text(self, call: Call, position: int, *keywords: str) -> Said | None:
        """A call's argument, by position or by keyword."""
        return self._origins.text(_argument(call, position, *keywords))

    def _command(self, call: Call) -> str:
        """The command that is run, as far as it is known."""
        value = _argument(call, 0, "args", "command", "cmd")
        parts = value if isinstance(value, tuple) else (value, *call.args[1:])
        said = [self._origins.text(each) for each in parts]
        return " ".join("…" if each is None else each.text for each in said) if any(said) else ""

    def _connect(self, name: str, call: Call) -> None:
        texts = self._addressed(call)
        address = next(filter(_ADDRESS.match, texts), next(iter(texts), ""))
        if not _LOOPBACK.match(address) and (address or name not in _HOSTS):
            self._add(ReachKind.network, f"{name} {address}".strip())

    def _read_address(self, name: str, last: str, call: Call) -> None:
        if last in _READERS:
            for address in filter(_ADDRESS.match, self._addressed(call)):
                if not _LOOPBACK.match(address):
                    self._add(ReachKind.network, f"{name} {address}")

    def _addressed(self, call: Call) -> list[str]:
        """The string arguments that may be a host or an address."""
        named = (value for name, value in call.keywords.items() if name in _HOSTED)
        said = (self._origins.text(each) for each in (*call.args[:2], *named))
        return [each.text for each in said if each is not None]

    def _show(self, name: str, text: str) -> None:
        if image := PATTERNS["remote_image"].search(text):
            self._add(ReachKind.network, f"{name} {image[1] or image[2]}")

    def _run(self, name: str, call: Call) -> None:
        first = call.args[0] if call.args else Text(())
        if isinstance(first, Text) and first.parts == call.texts[:1] and name in ("exec", "eval"):
            return  # it has been read where it stands
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
            self._write(Said(found[1] or found[2] or found[3]))
        for found in (
            *PATTERNS["sql_address"].finditer(text),
            *PATTERNS["sql_install"].finditer(text),
        ):
            self._add(ReachKind.network, found[1])

    # Keys

    def _look_for_keys(self, name: str, last: str, call: Call) -> None:
        if name in _ONE_KEY:
            key = self._text(call, 0, "key")
            if key is not None and _KEY_NAME.search(key.text):
                self._add(ReachKind.secret, f"the environment variable {key.text}")
        elif name in _ALL_KEYS or (
            name in _SHOWING and "os.environ" in map(self._origins.name, call.args)
        ):
            self._add(ReachKind.secret, "the whole environment")
        elif last in _KEY_READERS:
            for value in (call.receiver, *call.args, *call.keywords.values()):
                said = self._origins.text(value)
                if said is not None and _KEY_FILE.search(said.text):
                    self._add(ReachKind.secret, said.text)

    # Files

    def _use_file(self, name: str, last: str, call: Call) -> None:
        on = self._origins.text(call.receiver)
        if name in _GOING:
            self._go(self._text(call, 0, "path"))
        elif name in _LOADS:
            said = self._text(call, 0, *_FILED)
            if said is not None and self._paths.is_outside(said):
                self._add(ReachKind.unpickling, f"{name} {said.text}")
        elif on is not None and on.path:
            if last in _PATH_DELETIONS:
                self._remove("", [on], f".{last}()", self._text(call, 0, "target"))
            elif last in _PATH_WRITES or (last == "open" and self._writes(call, 0, "r")):
                self._write(on)
        else:
            written = name if name in _FIRST | _SECOND else last
            reads = "read_only" in call.keywords or "os.O_RDONLY" in map(
                self._origins.name, call.args
            )
            if written in WRITES_BY_MODE:
                reads = not self._writes(call, 1, WRITES_BY_MODE[written])
            if written in _FIRST | _SECOND and not reads:
                self._write(self._text(call, int(written in _SECOND), *_FILED))

    def _writes(self, call: Call, position: int, mode: str) -> bool:
        """Whether a file is opened for writing; ``mode`` is the default."""
        given = (call.keywords.get("mode", call.keywords.get("flag")), *call.args[position:])
        said = (self._origins.text(each) for each in given)
        modes = [each.text for each in said if each is not None and _MODE.fullmatch(each.text)]
        return not set("wax+cn").isdisjoint(modes[0] if modes else mode)

    def _write(self, said: Said | None) -> None:
        if said is None:
            return
        if _ADDRESS.match(said.text):
            if not _LOOPBACK.match(said.text):
                self._add(ReachKind.network, said.text)
        elif self._paths.is_outside(said):
            of_record = " (the record)" if self._paths.is_of_record(said) else ""
            self._add(ReachKind.outside_write, said.text + of_record)
        elif said.whole:
            self._made.add(self._paths.reached(said.text))

    def _delete(self, name: str, call: Call) -> None:
        value = _argument(call, 0, "path", "src", "name", "paths")
        said = map(self._origins.text, value if isinstance(value, tuple) else (value,))
        gone = [each for each in said if each is not None]
        to = self._text(call, 1, "dst") if name in _MOVING else None
        self._remove(f"{name} ", gone, "", to)

    def _remove(self, before: str, gone: list[Said], after: str, to: Said | None) -> None:
        """Report files that are deleted or moved ``to`` a place, unless the code made them."""
        others = [each for each in gone if self._paths.reached(each.text) not in self._made]
        if to is not None:
            self._made.add(self._paths.reached(to.text))
        if others:
            went = f" to {self._paths.shown(to)}" if to is not None else ""
            names_of = " or ".join(map(self._paths.shown, others))
            self._add(ReachKind.deletion, before + names_of + after + went)
        elif to is not None and self._paths.is_outside(to):
            self._write(to)

    def _go(self, said: Said | None) -> None:
        if said is not None and self._paths.is_outside(said):
            self._add(ReachKind.outside_write, f"moves to {said.text}")
        elif said is not None and said.whole:
            self._paths.move(said)

    # Lines and cells of IPython

    def _magic(self, magic: Magic) -> None:
        name, text, body = magic.name, magic.text, magic.body
        kind = _MAGICS.get(name)
        said = f"%{'' if body is None else '%'}{name} {text}".strip()
        words = [each.strip("'\"") for each in text.split() if not each.startswith("-")]
        last = Said(words[-1] if words else "", path=True)
        if name in ("", "!"):
            self._add(_kind_of_command(text), f"!{text}")
        elif kind is ReachKind.shell:
            self._add(_kind_of_command(f"{text}\n{body or ''}"), f"{said} {body or ''}".strip())
        elif kind is ReachKind.installation:
            if not words or words[0] not in _LOOKS:
                self._add(kind, said)
        elif kind is ReachKind.outside_write:
            self._write(Said(words[0], path=True) if name == "save" and words else last)
        elif name == "store":
            self._store(text, said)
        elif name == "cd":
            self._go(last if text else Said("~"))
        elif name == "run":
            if words and self._paths.is_outside(Said(words[0])):
                self._add(ReachKind.dynamic_code, said)
        elif name in ("env", "set_env"):
            if "=" not in text and " " not in text and (not text or _KEY_NAME.search(text)):
                self._add(ReachKind.secret, said)
        elif kind is ReachKind.secret:
            if _KEY_FILE.search(text):
                self._add(kind, said)
        elif name in ("html", "markdown", "svg", "HTML"):
            self._show(f"%%{name}", body or "")
        elif kind is not None:
            self._add(kind, said)

    def _store(self, text: str, said: str) -> None:
        """``%store`` writes variables to the home folder, and reads them back."""
        if ">" in text:
            self._write(Said(text.rpartition(">")[2].strip(" '\""), path=True))
        elif text:
            is_read = text.startswith("-r")
            self._add(ReachKind.dynamic_code if is_read else ReachKind.outside_write, said)


def _kind_of(name: str) -> ReachKind | None:
    """Where a call of this full name reaches, whatever its arguments."""
    if name in _CALLS or not name:
        return _CALLS.get(name)
    owner, _, last = name.rpartition(".")
    if name in _HOSTS or (last in _VERBS and _home(owner.removesuffix("()"), _LIBRARIES)):
        return ReachKind.network
    known = "" if _home(name, _HARMLESS) else _home(owner, _MODULES)
    return _MODULES.get(known)


def _home(name: str, modules: Container[str]) -> str:
    """The one of ``modules`` that contains a name; empty if none does."""
    parts = [] if "(" in name else name.split(".")
    homes = (".".join(parts[:length]) for length in range(1, len(parts) + 1))
    return next((each for each in homes if each in modules), "")


def _kind_of_command(text: str) -> ReachKind:
    """Whether a command installs packages or only starts another program."""
    return (
        ReachKind.installation
        if PATTERNS["install"].search(text[:_MAX_COMMAND])
        else ReachKind.shell
    )


def _argument(call: Call, position: int, *keywords: str) -> Value | None:
    """A call's argument, by position or by keyword."""
    named = (call.keywords[each] for each in keywords if each in call.keywords)
    return next(named, call.args[position] if len(call.args) > position else None)


def _line(lines: Sequence[str], number: int) -> str:
    return lines[number - 1] if 0 < number <= len(lines) else ""


def _flat(text: str, limit: int) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= limit else flat[: limit - 1] + "…"
