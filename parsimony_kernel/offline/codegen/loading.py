"""The code that reads a file into a variable.

The reader follows from the name of the file; everything else is learned from errors.
"""

from collections.abc import Sequence

from parsimony_kernel.offline.codegen.cells import LOAD, Cell
from parsimony_kernel.offline.codegen.python import identifier, literal
from parsimony_kernel.offline.words import fold

_READERS = {
    "csv": "read_csv",
    "txt": "read_csv",
    "tsv": "read_csv",
    "parquet": "read_parquet",
    "pq": "read_parquet",
    "xlsx": "read_excel",
    "xls": "read_excel",
    "json": "read_json",
    "jsonl": "read_json",
    "ndjson": "read_json",
}


def load(path: str, name: str, options: Sequence[str] = ()) -> Cell:
    """Read ``path`` into ``name``; ``options`` are more arguments of the reader."""
    suffix = path.casefold().rpartition(".")[2]
    given = list(options)
    if suffix == "tsv" and not any(o.startswith("sep=") for o in given):
        given.insert(0, 'sep="\\t"')
    if suffix in ("jsonl", "ndjson") and "lines=True" not in given:
        given.insert(0, "lines=True")
    if "normalize" in given:
        code = (
            "import json\nfrom pathlib import Path\n\nimport pandas as pd\n\n"
            f'{name} = pd.json_normalize(json.loads(Path({literal(path)}).read_text("utf-8")))\n'
            f"{name}.head()"
        )
    else:
        arguments = ", ".join([literal(path), *given])
        reader = _READERS.get(suffix, "read_csv")
        code = f"import pandas as pd\n\n{name} = pd.{reader}({arguments})\n{name}.head()"
    return Cell(code, f"{LOAD} {path} as {name}", table=name)


def name_for_file(path: str) -> str:
    """The variable's name for what is read from ``path``."""
    stem = path.replace("\\", "/").rpartition("/")[2]
    stem = stem.rpartition(".")[0] or stem
    return identifier(" ".join(fold(stem)))
