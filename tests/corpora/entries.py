"""The entries of both corpora: everyday cells that reach outside, and cells that don't."""

import tomllib
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any, Literal, get_args

FOLDER = Path(__file__).parent

Kind = Literal[
    "network",
    "program",
    "delete",
    "write",
    "database",
    "unpickle",
    "install",
    "runnable",
    "key",
    "namespace",
]
KINDS = frozenset(get_args(Kind))


@dataclass(frozen=True)
class Entry:
    """One cell, with the cells and files that stand in the notebook before it."""

    id: str
    cell: str
    kind: Kind | None = None
    target: str = ""
    before: list[str] = field(default_factory=list)
    needs: str = ""
    files: dict[str, str] = field(default_factory=dict)
    outside: dict[str, str] = field(default_factory=dict)

    @property
    def installed(self) -> bool:
        """Whether the distribution that the entry needs is installed."""
        try:
            return not self.needs or bool(metadata.distribution(self.needs))
        except metadata.PackageNotFoundError:
            return False

    def place(self, workspace: Path, outside: Path) -> None:
        """Write the entry's files to an existing workspace and an existing folder outside it."""
        for folder, files in ((workspace, self.files), (outside, self.outside)):
            for name, text in files.items():
                path = folder / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")


def load(
    name: Literal["reaching", "harmless"], *, outside: str = "{outside}", home: str = "{home}"
) -> list[Entry]:
    """Read the entries of a corpus, with both placeholders replaced."""
    listed = tomllib.loads((FOLDER / f"{name}.toml").read_text(encoding="utf-8"))

    def fill(value: Any) -> Any:
        if isinstance(value, str):
            return value.replace("{outside}", outside).replace("{home}", home)
        if isinstance(value, list):
            return [fill(each) for each in value]
        return {key: fill(each) for key, each in value.items()}

    return [Entry(**fill(entry)) for entry in listed["cell"]]
