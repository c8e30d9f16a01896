"""The code that looks at a table before anything is computed: values and how many there are.

What is printed is one line of JSON, so that it can be read back.
"""

import json
import re
from collections.abc import Sequence

from parsimony_kernel.offline.codegen.cells import DISTINCT, LOOK, SEARCH, Cell
from parsimony_kernel.offline.codegen.python import listed, literal
from parsimony_kernel.offline.schema import Table
from parsimony_kernel.offline.words import spoken


def look(name: str, columns: Sequence[str] = ()) -> Cell:
    """Show the table, or some columns of it, to see what they hold."""
    chosen = f"[{listed(columns)}]" if columns else ""
    return Cell(f"{name}{chosen}", f"{LOOK} {name}")


def search(table: Table, words: Sequence[str]) -> Cell:
    """Print, as JSON, the values of text columns that have to do with ``words``."""
    columns = listed([c.name for c in table.texts][:20])
    if not table.whole or any(not c.dtype for c in table.columns):
        # Of a wide table not every type is known; those that are no numbers are found by pandas.
        columns = f'{table.name}.select_dtypes(exclude=["number", "datetime"]).columns[:20]'
    pattern = literal(_stems(words))
    exact = listed([w.casefold() for w in words])
    code = (
        "import json\n\n"
        f"# Searched for: {json.dumps(list(words), ensure_ascii=False)}\n"
        "# All values where they are few; where they are many, those that look alike.\n"
        "print(json.dumps({\n"
        f"    column: {table.name}[column].dropna().astype(str).drop_duplicates().pipe(\n"
        "        lambda values: values if len(values) <= 40 else\n"
        f"        values[values.str.contains({pattern}, case=False)]\n"
        "        .sort_values(\n"
        f'            key=lambda each: ~each.str.casefold().isin({exact}), kind="stable"\n'
        "        )\n"
        "    ).head(40).tolist()\n"
        f"    for column in {columns}\n"
        "}, ensure_ascii=False))"
    )
    return Cell(code, f"{SEARCH} {spoken(w[:40] for w in words)} in {table.name}")


def _stems(words: Sequence[str]) -> str:
    # Short stems find near misses too: "Japn", "Japanese".
    parts = []
    for word in words:
        parts.append(re.escape(word))
        if len(word) > 4:
            parts.append(re.escape(word[: max(3, len(word) - 2)]))
    return "|".join(dict.fromkeys(parts))


def count_distinct(name: str, columns: Sequence[str]) -> Cell:
    """Print, as JSON, how many different values columns have."""
    return Cell(
        f"print({name}[{listed(columns)}].nunique().to_json())",
        f"{DISTINCT} {name}",
    )
