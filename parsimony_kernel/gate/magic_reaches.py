"""Where IPython's own lines and cells reach: shell commands, installations, files, keys."""

from collections.abc import Iterator

from parsimony_kernel.analysis.cell import Magic
from parsimony_kernel.core.reach import Finding, ReachKind
from parsimony_kernel.gate.known_reaches import ADDRESS, INSTALLING, KEY_NAME, KEY_PLACE
from parsimony_kernel.gate.place import Place
from parsimony_kernel.gate.stand_ins import Text

_MAX_COMMAND = 4_000

_SHELL_MAGICS = frozenset(
    {"", "!", "sx", "system", "bash", "sh", "script", "perl", "ruby", "cmd", "pwsh", "powershell",
     "python", "python2", "python3", "pypy", "cp", "mv", "mkdir", "alias", "rehashx"}
)  # fmt: skip
_INSTALL_MAGICS = frozenset({"pip", "conda", "mamba", "micromamba", "uv"})
_LOOKING_ONLY = frozenset({"list", "show", "freeze", "check", "search", "info", "config", "env"})


def of_magic(magic: Magic, place: Place) -> Iterator[Finding]:
    """Where a line or a cell for IPython reaches."""
    name, text, line = magic.name, magic.text, magic.line
    said = f"%{'' if magic.body is None else '%'}{name} {text}".strip()
    if name in _SHELL_MAGICS:
        ran = f"{text}\n{magic.body or ''}".strip() if name in ("", "!") or magic.body else text
        told = f"!{text}" if name in ("", "!") else said
        if magic.body and name not in ("", "!"):
            told = f"{said} {magic.body.strip()}"
        yield (kind_of_command(ran), told, line)
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
    elif name in ("reset", "reset_selective"):
        yield (ReachKind.forgetting, said, line)
    elif name == "killbgscripts":
        yield (ReachKind.process, said, line)
    elif name == "store" and ">" in text:
        target = Text(text.rpartition(">")[2].strip(" '\""), whole=True, path=True)
        if place.is_outside(target):
            yield (ReachKind.outside_write, target.text, line)
    elif name == "save":
        named = [part for part in text.split(" ") if part and not part.startswith("-")]
        target = Text(named[0].strip("'\"") if named else "", whole=True, path=True)
        if place.is_outside(target):
            yield (ReachKind.outside_write, target.text, line)
    elif name in ("writefile", "file", "notebook", "logstart"):
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
            place.move(target)
    elif name == "sql" and ADDRESS.match(text):
        yield (ReachKind.network, said, line)


def kind_of_command(text: str) -> ReachKind:
    """Whether a command installs something or only starts another program."""
    return ReachKind.installation if INSTALLING.search(text[:_MAX_COMMAND]) else ReachKind.shell
