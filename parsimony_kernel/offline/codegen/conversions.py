"""Columns as expressions; dates and numbers written as text are converted where they are used.

The table itself is never changed.
"""

import keyword

from parsimony_kernel.offline.codegen.cells import Options
from parsimony_kernel.offline.codegen.python import literal
from parsimony_kernel.offline.schema import Column


def values_of(table: str, column: Column, options: Options) -> str:
    """The values of a column, as an expression."""
    source = f"{table}.reset_index().rename(columns=str)" if options.text_names else table
    return f"{source}[{literal(column.name)}]"


def source_of(table: str, options: Options) -> str:
    """The table, as an expression."""
    return f"{table}.reset_index().rename(columns=str)" if options.text_names else table


def as_dates(values: str, column: Column, options: Options) -> str:
    """``values`` as dates."""
    if column.kind == "date":
        return values
    form = column.date_format
    if options.mixed_dates:
        form = "mixed"
    elif column.day_first_unclear and column.name in options.day_first:
        form = "%d/%m/%Y"
    return f"pd.to_datetime({values}{f', format={literal(form)}' if form else ''})"


def as_numbers(values: str) -> str:
    """``values`` as numbers, without signs of currency and thousands."""
    return f'pd.to_numeric({values}.astype(str).str.replace(r"[$€£,%\\s]", "", regex=True))'


def assigning(assigned: dict[str, str]) -> list[str]:
    """The step that adds converted columns; none if there are none."""
    if not assigned:
        return []
    plain = {k: v for k, v in assigned.items() if k.isidentifier() and not keyword.iskeyword(k)}
    parts = [f"{k}={v}" for k, v in plain.items()]
    odd = {k: v for k, v in assigned.items() if k not in plain}
    if odd:
        parts.append(f"**{{{', '.join(f'{literal(k)}: {v}' for k, v in odd.items())}}}")
    return [f".assign({', '.join(parts)})"]
