"""A clause that names what to load."""

from collections.abc import Sequence

from parsimony_kernel.offline.grammar.clauses import Load, Mention
from parsimony_kernel.offline.grammar.items import Item
from parsimony_kernel.offline.grammar.rules import Phrase

PHRASE = Phrase(
    "load data/cars.csv as autos",
    "reads CSV, TSV, Parquet, Excel or JSON into a variable",
    "variable",
    (
        "read data/cars.csv into autos",
        "open data/cars.csv as autos",
        "import data/cars.csv as autos",
    ),
)


def read_load(items: Sequence[Item]) -> tuple[Load, list[Item]]:
    """The files to load, and the items that say something else."""
    load = Load()
    naming = False
    for index, item in enumerate(items):
        if item.kind in ("as", "called"):
            naming = True
        elif item.kind == "file":
            load.files.append(item.text)
        elif naming and _is_name(item, items[index - 1]):
            load.name = item.text
            naming = False
        elif item.kind in ("words", "column", "quoted"):
            load.words.append(Mention(item.text))
        elif (
            item.kind == "where"
            and item.value in ("in", "from", "for")
            and (not load.files and (not load.words or _file_follows(items, index + 1)))
        ):
            continue
        elif item.kind not in ("skip", "noun", "and", "comma", "of", "ref", "unit"):
            return load, list(items[index:])
    return load, []


def _file_follows(items: Sequence[Item], at: int) -> bool:
    for item in items[at:]:
        if item.kind == "file":
            return True
        if item.kind not in ("skip", "noun"):
            return False
    return True


def _is_name(item: Item, before: Item) -> bool:
    """Whether a variable is named: "as days" and "as data" do, "as a table" does not."""
    if item.kind == "noun":
        return before.kind != "skip" and item.text.isidentifier()
    return item.kind in ("words", "column", "quoted") or (
        item.kind not in ("skip", "and", "comma", "ref") and item.text.isidentifier()
    )
