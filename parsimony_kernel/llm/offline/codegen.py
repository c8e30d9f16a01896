"""An analysis becomes the code that an analyst would write: pandas for the data, altair to draw.

Text in, text out. Every name and value of the data enters as a Python literal; no code binds a
name that it was not given.
"""

import json
import keyword
import re
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from parsimony_kernel.llm.offline.analysis import MONTH_NAMES, Aggregate, Analysis, Group, Keep
from parsimony_kernel.llm.offline.schema import Column, Table
from parsimony_kernel.llm.offline.words import fold, slug, spoken, word_set

# The headings of the steps, by which a transcript is read later.
LOAD, LOOK, SEARCH, DISTINCT, KEEP, KEEP_FIRST = (
    "Load",
    "Look at",
    "Look for",
    "Count the different values in",
    "Keep the rows of",
    "First keep the rows of",
)
WIDTH = 96
MAX_POINTS = 5000
MAX_BARS = 30
PALETTE = (
    "#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#000000",
)  # fmt: skip

_RESERVED = word_set(
    "pd np alt json list dict set str int float sum min max len map filter print open type "
    "id input all any range object table"
)


@dataclass(frozen=True)
class Options:
    """What was learned from errors: how dates and names have to be treated."""

    mixed_dates: bool = False
    text_names: bool = False
    day_first: frozenset[str] = frozenset()
    title_suffix: str = ""


@dataclass(frozen=True)
class Cell:
    """A cell of code: its heading, and the names of what it leaves behind."""

    code: str
    purpose: str
    table: str | None = None
    chart: str | None = None
    title: str = ""


def literal(value: object) -> str:
    """``value`` as Python source, in double quotes where that is possible."""
    if isinstance(value, str) and value.isprintable() and '"' not in value and "\\" not in value:
        return f'"{value}"'
    return repr(value)


def identifier(text: str, fallback: str = "table") -> str:
    """A valid name that reads like ``text``."""
    name = re.sub(r"\W+", "_", slug(text, 60)) or fallback
    if name[0].isdigit():
        name = f"{fallback}_{name}"
    if not name.isidentifier():
        name = fallback
    if keyword.iskeyword(name) or keyword.issoftkeyword(name) or name in _RESERVED:
        name = f"{name}_{fallback if fallback not in name else 'data'}"
    return name


def unique(name: str, taken: Iterable[str]) -> str:
    """``name``, numbered if it is taken."""
    used = set(taken)
    if name not in used:
        return name
    return next(f"{name}_{n}" for n in range(2, len(used) + 3) if f"{name}_{n}" not in used)


# -- loading -------------------------------------------------------------------------------------

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
    return Cell(code, f"{LOAD} {path} as {name}", table=name, title=name)


# -- looking -------------------------------------------------------------------------------------


def look(name: str, columns: Sequence[str] = ()) -> Cell:
    """Show the table, or some columns of it, to see what they hold."""
    chosen = f"[{_listed(columns)}]" if columns else ""
    return Cell(f"{name}{chosen}", f"{LOOK} {name}")


def search(table: Table, words: Sequence[str]) -> Cell:
    """Print, as JSON, the values of text columns that have to do with ``words``."""
    columns = [c.name for c in table.texts][:20]
    pattern = literal(_stems(words))
    exact = _listed([w.casefold() for w in words])
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
        f"    for column in {_listed(columns)}\n"
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
        f"print({name}[{_listed(columns)}].nunique().to_json())",
        f"{DISTINCT} {name}",
    )


# -- filters -------------------------------------------------------------------------------------


def filtered_name(table: str, keeps: Sequence[Keep]) -> str:
    """A name that says what was kept."""
    parts = []
    for keep in keeps:
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
    name = re.sub(r"_+", "_", f"{table}_{'_'.join(parts)}").strip("_")
    return name if len(name) <= 48 and name.isidentifier() else f"{table}_filtered"


def keep_rows(
    table: str, name: str, keeps: Sequence[Keep], options: Options, *, first: bool
) -> Cell:
    """Bind the rows of ``table`` that meet all conditions to ``name``."""
    tests = [_test(table, keep, options) for keep in keeps]
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
    return Cell(_with_imports(code), f"{heading} {table} where {shown}", table=name)


def _test(table: str, keep: Keep, options: Options) -> str:
    value = _column(table, keep.column, options)
    if keep.column.is_date:
        value = _as_dates(value, keep.column, options)
        if keep.part:
            value = f"{value}.dt.{keep.part}"
    elif keep.column.kind == "number_text":
        value = _as_numbers(value)
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
            return f"{value}.isin({_listed(keep.values)})"
        case "not in":
            return f"~{value}.isin({_listed(keep.values)})"
        case "between":
            return f"{value}.between({first}, {literal(keep.values[1])})"
        case _:
            return f"{value} {keep.op} {first}"


# -- analyses ------------------------------------------------------------------------------------


def analyse(
    table: Table, analysis: Analysis, taken: Iterable[str], options: Options, heading: str
) -> Cell:
    """The cell that computes ``analysis`` on ``table`` and shows it."""
    writer = {
        "aggregate": _aggregate,
        "scalar": _scalar,
        "rows": _rows,
        "scatter": _scatter,
        "histogram": _histogram,
        "line": _line,
        "describe": _describe,
        "head": _head,
    }[analysis.shape]
    title = f"{analysis.title}{options.title_suffix}"
    cell = writer(table, analysis, set(taken), options, title)
    return Cell(_with_imports(cell.code), heading or title, cell.table, cell.chart, title)


def _aggregate(
    table: Table, analysis: Analysis, taken: set[str], options: Options, title: str
) -> Cell:
    aggregates, groups = analysis.aggregates, analysis.groups
    base = "_and_".join(a.name for a in aggregates)
    by = "_and_".join(slug(g.label) or "group" for g in groups)
    name = unique(identifier(f"{base}_by_{by}"[:60].strip("_"), "summary"), taken)
    keys, assigned = _keys(table.name, groups, options, {a.name for a in aggregates})
    for aggregate in aggregates:
        column = aggregate.column
        if column is not None and column.kind == "number_text":
            assigned[column.name] = _as_numbers(_column(table.name, column, options))
    names = [key.name for key in keys]
    labels = _aggregate_names(aggregates, names)
    steps = [_source(table.name, options), *_assign(assigned)]
    grouped = _listed([key.code for key in keys], raw=True) if len(keys) > 1 else keys[0].code
    steps.append(f".groupby({grouped}, observed=True)")
    if all(a.column is None for a in aggregates):
        steps.append(f".size()\n.reset_index(name={literal(labels[0])})")
    else:
        steps.append(_agg(aggregates, labels, options))
        steps.append(".reset_index()")
    along_time = groups[0].is_time or groups[0].unit is not None or len(groups) > 1
    if analysis.limit is not None:
        order = "nsmallest" if analysis.ascending else "nlargest"
        steps.append(f".{order}({analysis.limit}, {literal(labels[0])})")
        steps.append(".reset_index(drop=True)")
    elif analysis.sort is not None:
        order = ", ascending=False" if analysis.descending else ""
        steps.append(f".sort_values({literal(analysis.sort.name)}{order}, ignore_index=True)")
    elif not along_time:
        direction = "" if analysis.ascending else ", ascending=False"
        steps.append(f".sort_values({literal(labels[0])}{direction}, ignore_index=True)")
    code = _chain(name, steps)
    if groups[0].unit in ("weekday", "month_name") and analysis.limit is None:
        code += _calendar_order(name, names[0], groups[0].unit or "")
    side = "Lowest" if analysis.ascending else "Highest"
    extreme = "nsmallest" if side == "Lowest" else "nlargest"
    code += _headline(
        f"{side} {aggregates[0].label}:",
        f"{name}[{_listed([*names, labels[0]])}]" if len(labels) > 1 else name,
        f".{extreme}(1, {literal(labels[0])})",
    )
    if analysis.chart is None:
        return Cell(f"{code}\n{name}", "", name)
    chart = unique(f"{name}_chart", taken)
    drawn = _draw_aggregate(name, analysis, keys, labels, title)
    return Cell(f"{code}\n\n{_chart(chart, drawn, title)}\n{chart}", "", name, chart)


@dataclass(frozen=True)
class _Key:
    name: str
    code: str
    group: Group


def _keys(
    table: str, groups: Sequence[Group], options: Options, used: set[str]
) -> tuple[list[_Key], dict[str, str]]:
    keys: list[_Key] = []
    assigned: dict[str, str] = {}
    taken = set(used)
    for group in groups:
        column = group.column
        values = _column(table, column, options)
        name, code = column.name, literal(column.name)
        if column.is_date:
            dates = _as_dates(values, column, options)
            match group.unit:
                case "year" | "weekday" | "month_name" | "hour_of_day":
                    part = {"weekday": "day_name()", "month_name": "month_name()"}
                    name = group.unit
                    while name in taken:
                        name = f"{name}_of_{slug(column.name)}"
                    assigned[name] = f"{dates}.dt.{part.get(group.unit, group.unit)}"
                    code = literal(name)
                case None:
                    if column.kind == "date_text":
                        assigned[name] = dates
                case unit:
                    if column.kind == "date_text":
                        assigned[name] = dates
                    freq = {"hour": "h", "day": "D", "week": "W", "month": "MS", "quarter": "QS"}
                    code = f'pd.Grouper(key={literal(name)}, freq="{freq[unit]}")'
        taken.add(name)
        keys.append(_Key(name, code, group))
    return keys, assigned


def _aggregate_names(aggregates: Sequence[Aggregate], keys: Sequence[str]) -> list[str]:
    names: list[str] = []
    for aggregate in aggregates:
        names.append(unique(aggregate.name, [*names, *keys]))
    return names


def _agg(aggregates: Sequence[Aggregate], labels: Sequence[str], options: Options) -> str:
    measured = next(a.column for a in aggregates if a.column is not None)
    parts = []
    for aggregate, label in zip(aggregates, labels, strict=True):
        column = aggregate.column or measured
        func = "size" if aggregate.column is None else aggregate.func
        if label.isidentifier() and not keyword.iskeyword(label):
            parts.append(f'{label}=({literal(column.name)}, "{func}")')
        else:
            parts.append(f'**{{{literal(label)}: ({literal(column.name)}, "{func}")}}')
    return f".agg({', '.join(parts)})"


def _calendar_order(name: str, column: str, unit: str) -> str:
    calendar = "day_name" if unit == "weekday" else "month_name"
    listed = (
        "Monday Tuesday Wednesday Thursday Friday Saturday Sunday"
        if calendar == "day_name"
        else "January February March April May June July August September October November December"
    )
    return (
        f"\n{name} = {name}.sort_values(\n    {literal(column)},\n"
        f"    key=lambda names: names.map({literal(listed)}.split().index),\n"
        "    ignore_index=True,\n)"
    )


def _scalar(
    table: Table, analysis: Analysis, taken: set[str], options: Options, title: str
) -> Cell:
    lines: list[str] = []
    used = set(taken)
    first: str | None = None
    for aggregate in analysis.aggregates:
        column = aggregate.column
        if column is None:
            name, value = f"{table.name}_count", f"len({table.name})"
        else:
            name = identifier(aggregate.name, "result")
            values = _column(table.name, column, options)
            if column.kind == "number_text":
                values = _as_numbers(values)
            value = f"{values}.{aggregate.func}()"
        name = unique(name, used)
        used.add(name)
        first = first or name
        label = f"{aggregate.label[:1].upper()}{aggregate.label[1:]}{options.title_suffix}:"
        lines += [f"{name} = {value}", f"print({literal(label)}, {name})"]
    return Cell("\n".join(lines), "", None)


def _rows(table: Table, analysis: Analysis, taken: set[str], options: Options, title: str) -> Cell:
    sort, columns = analysis.sort, analysis.columns
    assigned: dict[str, str] = {}
    if sort is not None and sort.kind in ("date_text", "number_text"):
        values = _column(table.name, sort, options)
        assigned[sort.name] = (
            _as_dates(values, sort, options) if sort.is_date else _as_numbers(values)
        )
    steps = [_source(table.name, options), *_assign(assigned)]
    if analysis.limit is not None and sort is not None:
        if sort.is_number:
            order = "nsmallest" if analysis.ascending else "nlargest"
            steps.append(f".{order}({analysis.limit}, {literal(sort.name)})")
        else:
            direction = "" if analysis.ascending else ", ascending=False"
            steps.append(f".sort_values({literal(sort.name)}{direction})")
            steps.append(f".head({analysis.limit})")
        side = "lowest" if analysis.ascending else "highest"
        name = f"{table.name}_{side}_{slug(sort.name)}"
    else:
        if sort is not None:
            direction = "" if analysis.ascending else ", ascending=False"
            steps.append(f".sort_values({literal(sort.name)}{direction})")
        name = f"{table.name}_{'_'.join(slug(c.name, 16) for c in columns[:3]) or 'sorted'}"
    if columns:
        steps.append(f"[{_listed([c.name for c in columns])}]")
    steps.append(".reset_index(drop=True)")
    name = unique(identifier(name[:60], "rows"), taken)
    code = _chain(name, steps)
    if sort is not None:
        side = "Lowest" if analysis.ascending else "Highest"
        first = _first_text(table, sort)
        shown = [first, sort.name] if first and (not columns or len(columns) > 1) else [sort.name]
        shown = [s for s in shown if not columns or any(c.name == s for c in columns)]
        code += _headline(f"{side} {sort.name}:", f"{name}[{_listed(shown)}]", ".head(1)")
    else:
        code += _headline("First row:", name, ".head(1)")
    if analysis.chart is None:
        return Cell(f"{code}\n{name}", "", name)
    chart = unique(f"{name}_chart", taken)
    label, measure = columns[0], columns[-1]
    drawn = [
        f"alt.Chart({name})",
        ".mark_bar()",
        _encode(
            f"x={_axis('X', measure.name, 'quantitative', measure.name)}",
            f"y={_axis('Y', label.name, 'nominal', label.name, sort='None')}",
            f"tooltip={_tooltips([(label.name, 'nominal'), (measure.name, 'quantitative')])}",
        ),
    ]
    return Cell(f"{code}\n\n{_chart(chart, drawn, title)}\n{chart}", "", name, chart)


def _first_text(table: Table, other: Column) -> str | None:
    """The first column that can tell rows apart to a reader."""
    return next((c.name for c in table.columns if c != other and (c.is_text or c.is_date)), None)


def _describe(
    table: Table, analysis: Analysis, taken: set[str], options: Options, title: str
) -> Cell:
    columns = analysis.columns
    label = "_".join(slug(c.name, 20) for c in columns[:3])
    name = unique(identifier(f"{table.name}_{label}_summary".replace("__", "_")), taken)
    source = f"{table.name}[{_listed([c.name for c in columns])}]" if columns else table.name
    code = (
        f'print("Rows:", len({table.name}), "Columns:", {source}.shape[1], '
        f'"Missing values:", int({source}.isna().sum().sum()))\n'
        f'{name} = {source}.describe(include="all").T\n{name}'
    )
    return Cell(code, "", name)


def _head(table: Table, analysis: Analysis, taken: set[str], options: Options, title: str) -> Cell:
    side = "tail" if analysis.tail else "head"
    chosen = f"[{_listed([c.name for c in analysis.columns])}]" if analysis.columns else ""
    return Cell(f"{table.name}{chosen}.{side}({analysis.limit})", "")


def _scatter(
    table: Table, analysis: Analysis, taken: set[str], options: Options, title: str
) -> Cell:
    x, y = analysis.columns[:2]
    color = analysis.color
    columns = list(dict.fromkeys([x.name, y.name, *([color.name] if color else [])]))
    label = _first_text(table, x) if table.rows is not None and table.rows <= MAX_POINTS else None
    if label is not None and label not in columns:
        columns.append(label)
    name = unique(identifier(f"{slug(y.name)}_vs_{slug(x.name)}"[:60], "points"), taken)
    assigned = {
        c.name: _as_numbers(_column(table.name, c, options))
        for c in (x, y)
        if c.kind == "number_text"
    }
    steps = [
        _source(table.name, options),
        *_assign(assigned),
        f"[{_listed(columns)}]",
        f".dropna(subset={_listed(dict.fromkeys([x.name, y.name]))})",
    ]
    code = _chain(name, steps)
    if table.rows is None or table.rows > MAX_POINTS:
        code += (
            f"\n# A fixed sample keeps the chart small; every run draws the same points.\n"
            f"{name} = {name}.sample(min(len({name}), {MAX_POINTS}), random_state=0)"
        )
    code += f'\nprint("Points drawn:", len({name}), "of", len({table.name}))'
    channels = [
        f"x={_axis('X', x.name, 'quantitative', x.name, zero=False)}",
        f"y={_axis('Y', y.name, 'quantitative', y.name, zero=False)}",
    ]
    if color is not None:
        channels.append(f"color={_color(color)}")
    channels.append(
        "tooltip="
        + _tooltips([(c, "quantitative" if c in (x.name, y.name) else "nominal") for c in columns])
    )
    chart = unique(f"{name}_chart", taken)
    drawn = [f"alt.Chart({name})", ".mark_circle(size=50, opacity=0.7)", _encode(*channels)]
    return Cell(f"{code}\n\n{_chart(chart, drawn, title)}\n{chart}", "", name, chart)


def _histogram(
    table: Table, analysis: Analysis, taken: set[str], options: Options, title: str
) -> Cell:
    column = analysis.columns[0]
    values = _column(table.name, column, options)
    if column.kind == "number_text":
        values = _as_numbers(values)
    inner = slug(column.name) or "values"
    name = unique(identifier(f"{inner}_distribution", "bins"), taken)
    chart = unique(f"{name}_chart", taken)
    code = (
        f"{name} = (\n"
        f"    pd.cut({values}, bins={analysis.bins})\n"
        "    .value_counts(sort=False)\n"
        '    .rename_axis("interval")\n'
        '    .reset_index(name="count")\n'
        ")\n"
        f'{name}["start"] = [interval.left for interval in {name}["interval"]]\n'
        f'{name}["end"] = [interval.right for interval in {name}["interval"]]\n'
        f'{name} = {name}[["start", "end", "count"]]\n'
        f"print({literal(f'Median {column.name}:')}, {values}.median())"
    )
    drawn = [
        f"alt.Chart({name})",
        ".mark_bar()",
        _encode(
            f'x=alt.X("start:Q", bin="binned", title={literal(column.name)})',
            'x2="end:Q"',
            'y=alt.Y("count:Q", title="Number of rows")',
            'tooltip=["start:Q", "end:Q", "count:Q"]',
        ),
    ]
    return Cell(f"{code}\n\n{_chart(chart, drawn, title)}\n{chart}", "", name, chart)


def _line(table: Table, analysis: Analysis, taken: set[str], options: Options, title: str) -> Cell:
    x, measures, color = analysis.x, analysis.columns, analysis.color
    assert x is not None
    melted = len(measures) > 1
    columns = list(
        dict.fromkeys([x.name, *(m.name for m in measures), *([color.name] if color else [])])
    )
    label = "_and_".join(slug(m.name) for m in measures)[:40]
    name = unique(identifier(f"{label}_over_time", "series"), taken)
    assigned = {
        m.name: _as_numbers(_column(table.name, m, options))
        for m in measures
        if m.kind == "number_text"
    }
    if x.kind == "date_text":
        assigned[x.name] = _as_dates(_column(table.name, x, options), x, options)
    order = [color.name, x.name] if color is not None else [x.name]
    steps = [
        _source(table.name, options),
        *_assign(assigned),
        f"[{_listed(columns)}]",
        f".sort_values({_listed(order) if len(order) > 1 else literal(order[0])})",
    ]
    code = _chain(name, steps)
    limit = MAX_POINTS // (len(measures) if melted else 1)
    if table.rows is None or table.rows > limit:
        code += (
            "\n# Every n-th row keeps the chart small and its shape intact.\n"
            f"{name} = {name}.iloc[:: max(1, -(-len({name}) // {limit}))]"
        )
    code += f'\nprint("Points drawn:", len({name}), "of", len({table.name}))'
    code += _headline(
        f"Highest {measures[0].name}:",
        f"{name}[{_listed([x.name, measures[0].name])}]",
        f".nlargest(1, {literal(measures[0].name)})",
    )
    x_type = "temporal" if x.is_date else "quantitative"
    source = f"alt.Chart({name})"
    y_name, color_channel = measures[0].name, _color(color) if color is not None else None
    y_title = measures[0].name
    if melted:
        listed = _listed([m.name for m in measures])
        kept = [c for c in columns if all(c != m.name for m in measures)]
        source = (
            f"alt.Chart({name}.melt({_listed(kept)}, {listed}, "
            'var_name="measure", value_name="reading"))'
        )
        y_name, y_title = "reading", "Value"
        color_channel = _color(Column("measure", "text"))
    channels = [
        f"x={_axis('X', x.name, x_type, x.name, year=x.is_year)}",
        f"y={_axis('Y', y_name, 'quantitative', y_title, zero=False)}",
    ]
    tooltip = [(x.name, x_type), (y_name, "quantitative")]
    if color_channel is not None:
        channels.append(f"color={color_channel}")
        tooltip.append(("measure" if melted else color.name if color else "", "nominal"))
    if melted and color is not None:
        channels.append(f"strokeDash={_axis('StrokeDash', color.name, 'nominal', color.name)}")
    channels.append(f"tooltip={_tooltips(tooltip)}")
    chart = unique(f"{name}_chart", taken)
    drawn = [source, ".mark_line()", _encode(*channels)]
    return Cell(f"{code}\n\n{_chart(chart, drawn, title)}\n{chart}", "", name, chart)


# -- charts --------------------------------------------------------------------------------------


def _draw_aggregate(
    name: str, analysis: Analysis, keys: Sequence[_Key], labels: Sequence[str], title: str
) -> list[str]:
    first = keys[0]
    second = keys[1] if len(keys) > 1 else None
    melted = len(labels) > 1
    value, value_title = labels[0], _capital(analysis.aggregates[0].label)
    source = f"alt.Chart({name})"
    if melted:
        source = (
            f"alt.Chart({name}.melt({literal(first.name)}, {_listed(labels)}, "
            'var_name="measure", value_name="reading"))'
        )
        value, value_title = "reading", "Value"
    color_name = second.name if second is not None else "measure" if melted else None
    tooltip = [(k.name, _type(k.group)) for k in keys] + [(value, "quantitative")]
    if melted:
        tooltip.insert(1, ("measure", "nominal"))
    along = analysis.chart in ("line", "scatter")
    along_time = first.group.is_time
    by_rank = "-x" if not analysis.ascending else "x"
    if along or along_time or first.group.unit is not None:
        ordered = first.group.unit in ("weekday", "month_name")
        kind = _type(first.group)
        if analysis.chart == "bar" and along_time:
            kind = "temporal" if kind == "temporal" else "ordinal"
        channels = [
            "x="
            + _axis(
                "X",
                first.name,
                kind,
                _capital(first.group.label),
                year=kind == "quantitative" and _is_year(first.group),
                sort="None" if ordered else None,
            ),
            f"y={_axis('Y', value, 'quantitative', value_title, zero=False if along else None)}",
        ]
        offset = "xOffset"
    else:
        if analysis.limit is None and not melted and second is None:
            source = f"alt.Chart({name}.head({MAX_BARS}))"
        channels = [
            f"x={_axis('X', value, 'quantitative', value_title)}",
            f"y={_axis('Y', first.name, 'nominal', first.name, sort=literal(by_rank))}",
        ]
        offset = "yOffset"
    if color_name is not None:
        group_column = second.group.column if second is not None else Column("measure", "text")
        shown = Column(color_name, "text") if second is not None and second.group.unit else None
        channels.append(f"color={_color(shown or group_column, nominal=True)}")
        if analysis.chart == "bar" and not analysis.stacked:
            channels.append(f"{offset}={_axis(_channel(offset), color_name, 'nominal', None)}")
    channels.append(f"tooltip={_tooltips(tooltip)}")
    marks = {"line": ".mark_line(point=True)", "scatter": ".mark_circle(size=60)"}
    return [source, marks.get(analysis.chart or "", ".mark_bar()"), _encode(*channels)]


def _channel(offset: str) -> str:
    return offset[0].upper() + offset[1:]


def _is_year(group: Group) -> bool:
    return group.unit == "year" or group.column.is_year


def _type(group: Group) -> str:
    if _is_year(group):
        return "quantitative"
    if group.unit in ("weekday", "month_name", "hour_of_day"):
        return "ordinal"
    if group.column.is_date:
        return "temporal"
    return "ordinal" if group.column.is_number else "nominal"


def _chart(name: str, drawn: Sequence[str], title: str) -> str:
    properties = f".properties(title={literal(title)}, width=520, height=320)"
    return _chain(name, [*drawn, properties])


def _encode(*channels: str) -> str:
    inner = "".join(f"    {channel},\n" for channel in channels)
    return f".encode(\n{inner})"


def _axis(
    channel: str,
    column: str,
    kind: str,
    title: str | None,
    *,
    zero: bool | None = None,
    sort: str | None = None,
    year: bool = False,
) -> str:
    parts = [_field(column, kind)]
    if title is not None:
        parts.append(f"title={literal(title)}")
    if sort is not None:
        parts.append(f"sort={sort}")
    if year:
        parts.append('axis=alt.Axis(format="d", tickMinStep=1)')
        zero = False
    if zero is False:
        parts.append("scale=alt.Scale(zero=False)")
    return f"alt.{channel}({', '.join(parts)})"


def _color(column: Column, *, nominal: bool = False) -> str:
    title = literal(column.name)
    whole = "int" in column.dtype
    if column.kind == "number" and not nominal and not whole:
        scale = 'scale=alt.Scale(scheme="viridis")'
        return f"alt.Color({_field(column.name, 'quantitative')}, title={title}, {scale})"
    return (
        f"alt.Color({_field(column.name, 'nominal')}, title={title}, "
        f"scale=alt.Scale(range={_listed(PALETTE)}))"
    )


def _field(column: str, kind: str) -> str:
    if re.fullmatch(r"[^\W_][\w \-]*", column):
        return literal(f"{column}:{kind[0].upper()}")
    # Vega reads dots, brackets and quotes in a field as a path unless they are escaped.
    escaped = re.sub(r"([.\[\]\\'\"])", r"\\\1", column)
    return f'field={literal(escaped)}, type="{kind}"'


def _tooltips(columns: Iterable[tuple[str, str]]) -> str:
    parts = []
    for column, kind in columns:
        field = _field(column, kind)
        simple = not field.startswith("field=")
        parts.append(field if simple else f"alt.Tooltip({field}, title={literal(column)})")
    return f"[{', '.join(parts)}]"


# -- pieces --------------------------------------------------------------------------------------


def _column(table: str, column: Column, options: Options) -> str:
    source = f"{table}.reset_index().rename(columns=str)" if options.text_names else table
    return f"{source}[{literal(column.name)}]"


def _source(table: str, options: Options) -> str:
    return f"{table}.reset_index().rename(columns=str)" if options.text_names else table


def _as_dates(values: str, column: Column, options: Options) -> str:
    if column.kind == "date":
        return values
    form = column.date_format
    if options.mixed_dates:
        form = "mixed"
    elif column.day_first_unclear and column.name in options.day_first:
        form = "%d/%m/%Y"
    return f"pd.to_datetime({values}{f', format={literal(form)}' if form else ''})"


def _as_numbers(values: str) -> str:
    return f'pd.to_numeric({values}.astype(str).str.replace(r"[$€£,%\\s]", "", regex=True))'


def _assign(assigned: dict[str, str]) -> list[str]:
    if not assigned:
        return []
    plain = {k: v for k, v in assigned.items() if k.isidentifier() and not keyword.iskeyword(k)}
    parts = [f"{k}={v}" for k, v in plain.items()]
    odd = {k: v for k, v in assigned.items() if k not in plain}
    if odd:
        parts.append(f"**{{{', '.join(f'{literal(k)}: {v}' for k, v in odd.items())}}}")
    return [f".assign({', '.join(parts)})"]


def _chain(name: str, steps: Sequence[str]) -> str:
    whole = f"{name} = {''.join(steps)}"
    if len(whole) <= WIDTH and len(steps) <= 3 and "\n" not in whole:
        return whole
    lines: list[str] = []
    for step in steps:
        if step.startswith("[") and lines:
            lines[-1] += step
        else:
            lines += step.splitlines()
    wrapped = [w for line in lines for w in _wrapped(line)]
    body = "\n".join(f"    {line}" for line in wrapped)
    return f"{name} = (\n{body}\n)"


def _wrapped(line: str) -> list[str]:
    """``line``, its outermost call broken over several lines if it is long."""
    indent = " " * (len(line) - len(line.lstrip()))
    if len(line) + 4 <= WIDTH:
        return [line]
    opened = next((i for i in _code_positions(line) if line[i] in "(["), None)
    closed = _closing(line, opened) if opened is not None else None
    if opened is None or closed is None:
        return [line]
    parts = _parts(line[opened + 1 : closed])
    if line[opened] == "[":
        inner = textwrap.wrap(
            ", ".join(parts),
            WIDTH - len(indent) - 12,
            break_long_words=False,
            break_on_hyphens=False,
        )
        inner = [f"{indent}    {each}" for each in inner] if all(map(_solid, parts)) else []
    else:
        inner = [w for part in parts for w in _wrapped(f"{indent}    {part},")]
    return [line[: opened + 1], *inner, f"{indent}{line[closed:]}"] if inner else [line]


def _solid(part: str) -> bool:
    return " " not in part


def _closing(text: str, opened: int) -> int | None:
    """Where the bracket at ``opened`` closes; ``None`` unless its line ends soon after."""
    depth = 0
    for index in _code_positions(text):
        if index < opened:
            continue
        depth += {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}.get(text[index], 0)
        if depth == 0:
            return index
    return None


def _parts(text: str) -> list[str]:
    """The arguments in ``text``, split at its outermost commas."""
    parts, depth, start = [], 0, 0
    for index in _code_positions(text):
        char = text[index]
        depth += {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}.get(char, 0)
        if char == "," and depth == 0:
            parts.append(text[start:index].strip())
            start = index + 1
    parts.append(text[start:].strip())
    return [p for p in parts if p]


def _code_positions(text: str) -> Iterable[int]:
    """The positions in ``text`` that are not inside a string literal."""
    quote = ""
    index = 0
    while index < len(text):
        char = text[index]
        if quote:
            if char == "\\":
                index += 1
            elif char == quote:
                quote = ""
        elif char in "\"'":
            quote = char
        else:
            yield index
        index += 1


def _headline(label: str, frame: str, *calls: str) -> str:
    """A line that prints the first row of what the ``calls`` give."""
    steps = [*calls, ".to_string(index=False, header=False)"]
    line = f"print({literal(label)}, {frame}{''.join(steps)})"
    if len(line) <= WIDTH:
        return f"\n{line}"
    inner = f"    {frame}{''.join(steps)},"
    if len(inner) > WIDTH:
        inner = "\n".join([f"    {frame}", *(f"    {step}" for step in steps)]) + ","
    return f"\nprint(\n    {literal(label)},\n{inner}\n)"


def _with_imports(code: str) -> str:
    imports = []
    if "alt." in code:
        imports.append("import altair as alt")
    if re.search(r"\bpd\.", code):
        imports.append("import pandas as pd")
    return "\n".join(imports) + "\n\n" + code if imports else code


def _listed(values: Iterable[object], *, raw: bool = False) -> str:
    return f"[{', '.join(str(v) if raw else literal(v) for v in values)}]"


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def name_for_file(path: str) -> str:
    """The variable's name for what is read from ``path``."""
    stem = path.replace("\\", "/").rpartition("/")[2]
    stem = stem.rpartition(".")[0] or stem
    return identifier(" ".join(fold(stem)))
