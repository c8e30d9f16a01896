"""The code that keeps rows, under a name that says which."""

import re
from collections.abc import Sequence

from parsimony_kernel.offline.analysis import MONTH_NAMES, Except, Keep
from parsimony_kernel.offline.codegen.cells import KEEP, KEEP_FIRST, Cell, Options
from parsimony_kernel.offline.codegen.conversions import as_dates, as_numbers, values_of
from parsimony_kernel.offline.codegen.python import listed, literal, with_imports
from parsimony_kernel.offline.words import slug


def filtered_name(table: str, keeps: Sequence[Keep | Except]) -> str:
    """A name that says what was kept."""
    parts: list[str] = []
    for keep in keeps:
        if isinstance(keep, Except):
            parts += ["without", *_parts(keep.keeps)]
        else:
            parts += _parts([keep])
    name = re.sub(r"_+", "_", f"{table}_{'_'.join(parts)}").strip("_")
    return name if len(name) <= 48 and name.isidentifier() else f"{table}_filtered"


def _parts(keeps: Sequence[Keep]) -> list[str]:
    parts = []
    for keep in keeps:
        if keep.op in ("missing", "present"):
            parts.append(f"{'no' if keep.op == 'missing' else 'with'}_{slug(keep.column.name, 24)}")
            continue
        words = {">": "above", ">=": "from", "<": "below", "<=": "to", "!=": "not"}
        if keep.column.is_date:
            words |= {">": "after", "<": "before"}
        texts = dict.fromkeys(str(v).partition(" 23:")[0] for v in keep.values)
        values = "_".join(slug(text, 16) for text in list(texts)[:2])
        if keep.part == "month":
            values = MONTH_NAMES[int(keep.values[0]) - 1].casefold()
        match keep.op:
            case "in" | "==" if keep.part or keep.column.is_text or keep.column.is_year:
                parts.append(values)
            case "not in":
                parts.append(f"not_{values}")
            case "between" if keep.part:
                parts.append(values)
            case _:
                parts.append(f"{slug(keep.column.name, 16)}_{words.get(keep.op, '')}_{values}")
    return parts


def keep_rows(
    table: str, name: str, keeps: Sequence[Keep | Except], options: Options, *, first: bool
) -> Cell:
    """Bind the rows of ``table`` that meet all conditions to ``name``."""
    tests = [
        _left_out(table, keep.keeps, options)
        if isinstance(keep, Except)
        else _test(table, keep, options)
        for keep in keeps
    ]
    if len(tests) == 1:
        body = f"{name} = {table}[{tests[0]}]"
        if len(body) > 96:
            body = f"{name} = {table}[\n    {tests[0]}\n]"
    else:
        joined = "\n    & ".join(f"({t})" for t in tests)
        body = f"{name} = {table}[\n    {joined}\n]"
    code = f'{body}\nprint("Rows kept:", len({name}), "of", len({table}))\n{name}.head()'
    shown = " and ".join(str(keep) for keep in keeps)
    heading = KEEP_FIRST if first else KEEP
    return Cell(with_imports(code), f"{heading} {table} where {shown}", table=name)


def _left_out(table: str, keeps: Sequence[Keep], options: Options) -> str:
    tests = [f"({_test(table, keep, options)})" for keep in keeps]
    joined = tests[0] if len(tests) == 1 else f"({' & '.join(tests)})"
    # pandas.NA compares to pandas.NA, which would be kept neither way.
    return f"~{joined}.fillna(False)"


def _test(table: str, keep: Keep, options: Options) -> str:
    value = values_of(table, keep.column, options)
    if keep.op in ("missing", "present"):
        return f"{value}.{'isna' if keep.op == 'missing' else 'notna'}()"
    if keep.column.is_date:
        value = as_dates(value, keep.column, options)
        if keep.part:
            value = f"{value}.dt.{keep.part}"
    elif keep.column.kind == "number_text":
        value = as_numbers(value)
    elif keep.column.kind == "boolean" or (
        any(isinstance(v, str) for v in keep.values)
        and keep.column.dtype not in ("str", "object", "string", "category")
    ):
        value = f"{value}.astype(str)"
    first = literal(keep.values[0])
    match keep.op:
        case "in" if len(keep.values) == 1:
            return f"{value} == {first}"
        case "not in" if len(keep.values) == 1:
            return f"{value} != {first}"
        case "in":
            return f"{value}.isin({listed(keep.values)})"
        case "not in":
            return f"~{value}.isin({listed(keep.values)})"
        case "between":
            return f"{value}.between({first}, {literal(keep.values[1])})"
        case _:
            return f"{value} {keep.op} {first}"
