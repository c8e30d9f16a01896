"""From a query to the short pandas that a person would write."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from parsimony_kernel.offline.query import CYCLES, Filter, Group, Measure, Query
from parsimony_kernel.offline.schema import Column, Table
from parsimony_kernel.offline.words import fold, identifier, literal, slug, spoken, unique

_FREQUENCY = {"quarter": "QS", "month": "MS", "week": "W", "day": "D", "hour": "h"}
_PERIOD = {"year": "Y", "quarter": "Q", "month": "M", "week": "W", "day": "D", "hour": "h"}
_DAYS = '["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]'
_PALETTE = (
    'alt.Scale(range=["#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", '
    '"#F0E442", "#000000"])'
)
_MOST_BARS = 30


@dataclass(frozen=True)
class Cell:
    """Code, its heading, and the names that it binds: a table and a chart, where there are any."""

    code: str
    purpose: str
    table: str = ""
    chart: str = ""


def load(path: str, name: str, options: Sequence[str] = ()) -> Cell:
    """Read a file; ``options`` are more arguments of the reader."""
    suffix = path.casefold().rpartition(".")[2]
    given = list(options)
    if suffix == "tsv" and not any(each.startswith("sep=") for each in given):
        given.insert(0, 'sep="\\t"')
    if suffix in ("jsonl", "ndjson"):
        given.insert(0, "lines=True")
    readers = {"parquet": "parquet", "pq": "parquet", "xlsx": "excel", "xls": "excel"}
    reader = readers.get(suffix, "json" if "json" in suffix else "csv")
    call = f"pd.read_{reader}({', '.join([literal(path), *given])})"
    return Cell(
        f"import pandas as pd\n\n{name} = {call}\n{name}.head()", f"Load {path} as {name}", name
    )


def look(table: Table, words: Sequence[str]) -> Cell:
    """Search the texts of a table for words."""
    names = [c.name for c in table.columns if c.kind == "text" and not c.is_date]
    t = table.name
    code = (
        "import json\n\n"
        f"print(json.dumps({{column: [value for value in {t}[column].dropna().astype(str)"
        ".unique()\n"
        f"    if any(word == value.casefold() or len(word) > 3 and word[:-1] in value.casefold()\n"
        f"           for word in {_list(words)})][:30]\n"
        f"    for column in {_list(names)}}}, ensure_ascii=False))"
    )
    return Cell(code, f"Look for {spoken(map(repr, words[:3]), 'or')} in {t}")


def write(query: Query, table: Table, taken: Sequence[str]) -> Cell:
    """The cell that answers ``query``."""
    return _Writer(query, table, taken).cell()


def export(name: str, path: str) -> Cell:
    """Write a table to a file."""
    suffix = path.casefold().rpartition(".")[2]
    call = {
        "xlsx": "to_excel({}, index=False)",
        "parquet": "to_parquet({})",
        "json": 'to_json({}, orient="records")',
    }.get(suffix, "to_csv({}, index=False)")
    code = f'{name}.{call.format(literal(path))}\nprint("Rows written:", len({name}))'
    return Cell(code, f"Write {name} to {path}", name)


def _list(values: Sequence[object]) -> str:
    return f"[{', '.join(map(literal, values))}]"


class _Writer:
    def __init__(self, query: Query, table: Table, taken: Sequence[str]) -> None:
        self.query, self.table = query, table
        self.taken = set(taken)
        self.imports: set[str] = set()
        self.t = query.table

    def cell(self) -> Cell:
        write = getattr(self, f"_{self.query.do}")
        lines, name, chart = write()
        imports = {
            "alt": "import altair as alt",
            "pd": "import pandas as pd",
            "math": "import math",
        }
        body = "\n".join(lines)
        used = [text for key, text in imports.items() if re.search(rf"\b{key}\.", body)]
        used.sort(key=lambda text: (not text.startswith("import math"), text))
        head = "\n".join(used) + "\n\n" if used else ""
        return Cell(head + body, self.query.title, name, chart)

    def _name(self, text: str) -> str:
        values = [v for f in self.query.filters for v in f.values][:3]
        made = identifier(" ".join(map(str, (text, *values))))
        name = unique(made, self.taken)
        self.taken.add(name)
        return name

    # -- rows that are kept ------------------------------------------------------------------

    def _column(self, column: Column) -> str:
        text = f"{self.t}[{literal(column.name)}]"
        return self._dated(column, text) if column.is_date else text

    def _of(self, column: Column, source: str) -> str:
        return self._dated(column, f"{source}[{literal(column.name)}]")

    def _dated(self, column: Column, text: str) -> str:
        if column.kind == "date":
            return text
        return f"pd.to_datetime({', '.join(filter(None, (text, column.dates)))})"

    def _mask(self, each: Filter) -> str:
        text = self._column(each.column)
        if each.part:
            text += f".dt.{each.part}"
        values = [literal(v) for v in each.values]
        match each.op:
            case "missing":
                return f"{text}.isna()"
            case "present":
                return f"{text}.notna()"
            case "between":
                return f"{text}.between({values[0]}, {values[1]})"
            case "in" if len(values) == 1:
                return f"{text} == {values[0]}"
            case "in":
                return f"{text}.isin({_list(each.values)})"
            case "not in" if len(values) == 1:
                return f"({text} != {values[0]}) & {text}.notna()"
            case "not in":
                return f"~{text}.isin({_list(each.values)}) & {text}.notna()"
            case op:
                return f"{text} {op} {values[0]}"

    def _masks(self, filters: Sequence[Filter] = ()) -> str:
        masks = [self._mask(each) for each in filters or self.query.filters]
        if len(masks) < 2:
            return "".join(masks)
        return (" | " if self.query.any_of else " & ").join(f"({each})" for each in masks)

    def _kept(self) -> str:
        return f"{self.t}[{self._masks()}]" if self.query.filters else self.t

    # -- groups ------------------------------------------------------------------------------

    def _based(self, source: str) -> tuple[list[str], list[str], list[str]]:
        """The chain up to the groups: its lines, the keys, and the names of their columns."""
        query = self.query
        assigned: dict[str, str] = {}
        keys, names = [], []
        plain = source == self.t
        for group in query.groups:
            column, part = group.column, group.part
            of = f"{self.t if plain else 'd'}[{literal(column.name)}]"
            if column.is_date and column.kind != "date":
                of = self._dated(column, of)
            if part == "year":
                assigned["year"] = f"{of}.dt.year"
                keys.append('"year"')
                names.append("year")
            elif part == "weekday":
                assigned[part] = f"pd.Categorical({of}.dt.day_name(), {_DAYS}, ordered=True)"
                keys.append(literal(part))
                names.append(part)
            elif part in CYCLES:
                word, piece = ("month", "month") if part == "month_name" else ("hour", "hour")
                assigned[word] = f"{of}.dt.{piece}"
                keys.append(literal(word))
                names.append(word)
            else:
                if column.is_date and column.kind != "date":
                    assigned[column.name] = of
                key = (
                    f"pd.Grouper(key={literal(column.name)}, freq={literal(_FREQUENCY[part])})"
                    if part
                    else literal(column.name)
                )
                keys.append(key)
                names.append(column.name)
        for measure in query.measures:
            if measure.other is not None and measure.agg != "ratio":
                a, b = (
                    f"{self.t if plain else 'd'}[{literal(c.name)}]"
                    for c in (measure.column, measure.other)
                    if c
                )
                assigned[measure.what] = f"{a} {measure.sign} {b}"
            if measure.over in _FREQUENCY or measure.over == "year":
                time = self.table.times[0]
                if time.kind != "date":
                    assigned[time.name] = self._dated(
                        time, f"{self.t if plain else 'd'}[{literal(time.name)}]"
                    )
        lines = [source]
        if assigned:
            start = "" if plain else "lambda d: "
            given = [
                f"{literal(k)}: {start}{v}" if not k.isidentifier() else f"{k}={start}{v}"
                for k, v in assigned.items()
            ]
            simple = all(k.isidentifier() for k in assigned)
            inner = ", ".join(
                given if simple else [f"{literal(k)}: {start}{v}" for k, v in assigned.items()]
            )
            lines.append(f".assign({inner})" if simple else f".assign(**{{{inner}}})")
        return lines, keys, names

    def _aggregate(self) -> tuple[list[str], str, str]:
        query = self.query
        if query.share and query.filters:
            return self._share_kept()
        if not query.groups:
            return self._scalars()
        measures = query.measures
        lines, keys, names = self._based(self._kept())
        over = measures[0].over
        if any(m.agg in ("first", "last") for m in measures):
            lines.append(f".sort_values({literal(over)})")
        keyed = keys[0] if len(keys) == 1 else f"[{', '.join(keys)}]"
        if over in _FREQUENCY or over == "year":
            column = measures[0].column
            freq = {"year": "YS"}.get(over) or _FREQUENCY[over]
            time = literal(self.table.times[0].name)
            both = f"[{', '.join([*keys, f'pd.Grouper(key={time}, freq={literal(freq)})'])}]"
            assert column is not None
            lines += [
                f".groupby({both}, observed=True)[{literal(column.name)}].sum()",
                f".groupby({keyed}, observed=True).mean()",
                f".reset_index(name={literal(measures[0].name)})",
            ]
        elif [m.agg for m in measures] == ["count"]:
            lines += [f".groupby({keyed}, observed=True)", ".size()", '.reset_index(name="count")']
        else:
            lines += [
                f".groupby({keyed}, observed=True)",
                f".agg({self._aggs()})",
                ".reset_index()",
            ]
        lines += [
            f".assign({m.name}=lambda d: d[{literal('total ' + m.column.name)}]"
            f" / d[{literal('total ' + m.other.name)}])"
            for m in measures
            if m.agg == "ratio" and m.column and m.other
        ]
        value = measures[0].name
        percent = ", in percent" if query.share or query.window == "growth" else ""
        label = query.what + percent
        if query.window:
            lines, value = self._along(lines, names, value)
        if query.share:
            lines.append(
                f".assign(share_percent=lambda d: 100 * d[{literal(value)}]"
                f" / d[{literal(value)}].sum())"
            )
        in_order = query.groups[0].is_time or query.groups[0].part in CYCLES
        if query.limit:
            size = f"{query.limit:g}"
            side = "nsmallest" if query.ascending else "nlargest"
            lines += [f".{side}({size}, {literal(value)})", ".reset_index(drop=True)"]
        elif not in_order and not query.window:
            lines.append(
                f".sort_values({literal(value)}, ascending={bool(query.ascending)}, "
                "ignore_index=True)"
            )
        name = self._name(
            f"{query.window} {'share ' if query.share else ''}"
            f"{' and '.join(m.name for m in measures)} "
            f"by {' and '.join(g.label for g in query.groups)}"
        )
        side, word = ("nsmallest", "Lowest") if query.ascending else ("nlargest", "Highest")
        shown = ["share_percent"] if query.share else [value]
        is_more = query.window or query.share or len(measures) > 1 or measures[0].agg == "ratio"
        picked = f"[{_list([*names, *shown])}]" if is_more else ""
        told = [_told(f"{word} {label}", f"{name}{picked}", side, shown[0])]
        code = [_chain(name, lines), *told]
        if not query.chart:
            return [*code, name], name, ""
        values = shown if len(measures) == 1 or query.window else [m.name for m in measures]
        chart = unique(f"{name}_chart", self.taken)
        drawn = self._draw(name, names, values)
        return [*code, "", _chain(chart, drawn), chart], name, chart

    def _aggs(self) -> str:
        parts = []
        for m in self.query.measures:
            if m.agg == "ratio" and m.column and m.other:
                parts += [
                    f'{literal("total " + c.name)}: ({literal(c.name)}, "sum")'
                    for c in (m.column, m.other)
                ]
                continue
            column = (
                m.what if m.other else m.column.name if m.column else self.table.columns[0].name
            )
            function = (
                f"lambda v: v.quantile({m.q / 100:g})"
                if m.agg == "percentile"
                else literal("size" if m.agg == "count" else m.agg)
            )
            parts.append(f"{literal(m.name)}: ({literal(column)}, {function})")
        if all(re.match(r'"[a-z_]\w*": ', each) for each in parts):
            return ", ".join(re.sub(r'^"(\w+)": ', r"\1=", each) for each in parts)
        return f"**{{{', '.join(parts)}}}"

    def _along(self, lines: list[str], names: Sequence[str], value: str) -> tuple[list[str], str]:
        query = self.query
        made = f"{query.window}_{value}"
        of = (
            f"d[{literal(value)}]"
            if len(names) == 1
            else f"d.groupby({literal(names[1])})[{literal(value)}]"
        )
        call = {
            "cumulative": f"{of}.cumsum()",
            "growth": f"100 * {of}.pct_change()",
            "rolling": f"{of}.rolling({query.rows}).{query.text or 'mean'}()"
            if len(names) == 1
            else f"{of}.transform(lambda v: v.rolling({query.rows}).{query.text or 'mean'}())",
        }[query.window]
        return [*lines, f".assign({made}=lambda d: {call})"], made

    def _share_kept(self) -> tuple[list[str], str, str]:
        """How much of the whole, or of each group, meets the filters."""
        query = self.query
        column = query.measures[0].column
        name = self._name(f"share {query.by}"[:50])
        base = f"{self.t}[{self._masks(query.base)}]" if query.base else self.t
        if query.groups:
            kept = self._masks()
            if column is not None:
                kept = f"{self.t}[{literal(column.name)}].where({kept}, 0)"
            lines, keys, _ = self._based(f"{base}.assign(kept={kept})")
            keyed = keys[0] if len(keys) == 1 else f"[{', '.join(keys)}]"
            lines.append(f".groupby({keyed}, observed=True)")
            if column is None:
                lines.append('["kept"].mean().mul(100)')
            else:
                both = f'["kept", {literal(column.name)}]'
                lines += [
                    f"[{both}].sum()",
                    f'.pipe(lambda d: 100 * d["kept"] / d[{literal(column.name)}])',
                ]
            lines.append('.reset_index(name="share_percent")')
            told = _told("Highest share, in percent", name, "nlargest", "share_percent")
            return [_chain(name, lines), told, name], name, ""
        part = f"len({self._kept()}) / len({base})"
        if column is not None:
            of = literal(column.name)
            part = f"{self._kept()}[{of}].sum() / {base}[{of}].sum()"
        return [f"{name} = 100 * {part}", f'print("{query.title}, in percent:", {name})'], "", ""

    def _scalars(self) -> tuple[list[str], str, str]:
        lines = []
        source = self._kept()
        for m in self.query.measures:
            name = self._name(f"{m.name}")
            of = f"{source}[{literal(m.column.name)}]" if m.column else source
            if m.agg == "count":
                value = f"len({source})"
            elif m.agg == "ratio" and m.column and m.other:
                value = f"{of}.sum() / {source}[{literal(m.other.name)}].sum()"
            elif m.other is not None and m.column is not None:
                value = f"({of} {m.sign} {source}[{literal(m.other.name)}]).{m.agg}()"
            elif m.agg == "percentile":
                value = f"{of}.quantile({m.q / 100:g})"
            elif m.agg == "nunique" and m.column and m.over:
                period = literal(_PERIOD[m.over])
                value = f"{self._of(m.column, source)}.dt.to_period({period}).nunique()"
            elif m.agg in ("first", "last") and m.column:
                time = self.table.column(m.over)
                base = self._dated(time, f"{self.t}[{literal(m.over)}]") if time else ""
                order = f'{source}.assign(_at={base}).sort_values("_at")'
                at = 0 if m.agg == "first" else -1
                value = f"{order}[{literal(m.column.name)}].dropna().iloc[{at}]"
            elif m.over:
                time = self.table.times[0]
                dates = self._dated(time, f"{self.t}[{literal(time.name)}]")
                piece = (
                    "dt.year" if m.over == "year" else f"dt.to_period({literal(_PERIOD[m.over])})"
                )
                value = f"{of}.groupby({dates}.{piece}).sum().{m.agg}()"
            elif m.column and m.column.is_date:
                value = f"{self._of(m.column, source)}.{m.agg}()"
            else:
                value = f"{of}.{m.agg}()"
            label = m.label[:1].upper() + m.label[1:] + self.query.by
            lines += [f"{name} = {value}", f"print({literal(label + ':')}, {name})"]
        return lines, "", ""

    # -- rows --------------------------------------------------------------------------------

    def _rows(self) -> tuple[list[str], str, str]:
        query = self.query
        source = self._kept()
        lines = [source]
        if query.sort is not None and query.limit:
            size = f"{query.limit:g}"
            if query.is_percent:
                size = f"math.ceil(len({source}) * {query.limit:g} / 100)"
            side = "nsmallest" if query.ascending else "nlargest"
            lines.append(f".{side}({size}, {literal(query.sort.name)})")
        elif query.sort is not None:
            lines.append(
                f".sort_values({literal(query.sort.name)}, ascending={bool(query.ascending)})"
            )
        if query.columns:
            lines.append(f"[{_list([c.name for c in query.columns])}]")
        if lines == [self.t]:
            return [self.t], self.t, ""
        by = f"by {query.sort.name}" if query.sort else ""
        text = f"{self.t} {by} {' '.join(c.name for c in query.columns)}"
        name = self._name(text)
        told = f'print("Rows:", len({name}), "of", len({self.t}))'
        return [_chain(name, lines), told, name], name, ""

    def _head(self) -> tuple[list[str], str, str]:
        side = "tail" if self.query.ascending else "head"
        return [f"{self._kept()}.{side}({self.query.limit:g})"], "", ""

    def _describe(self) -> tuple[list[str], str, str]:
        of = (
            f"{self._kept()}[{_list([c.name for c in self.query.columns])}]"
            if self.query.columns
            else self._kept()
        )
        name = self._name(f"summary of {self.t}")
        lines = [
            of,
            '.describe(include="all")',
            ".transpose()",
            '.rename_axis("column")',
            ".reset_index()",
        ]
        return [_chain(name, lines), name], name, ""

    def _missing(self) -> tuple[list[str], str, str]:
        name = self._name(f"missing values of {self.t}")
        lines = [
            self._kept(),
            ".isna()",
            ".sum()",
            '.rename_axis("column")',
            '.reset_index(name="missing")',
        ]
        told = f'print("Missing values in all:", {name}["missing"].sum())'
        code = [_chain(name, lines), told]
        if not self.query.chart:
            return [*code, name], name, ""
        drawn = [
            f"alt.Chart({name})",
            ".mark_bar()",
            '.encode(x="missing:Q", y=alt.Y("column:N", sort="-x"))',
            self._properties(),
        ]
        return [*code, "", _chain(f"{name}_chart", drawn), f"{name}_chart"], name, f"{name}_chart"

    def _changed(self, text: str, lines: list[str], told: str = "") -> tuple[list[str], str, str]:
        name = self._name(text)
        after = [told.format(name=name)] if told else []
        return [_chain(name, lines), *after, f"{name}.head()"], name, ""

    def _dropna(self) -> tuple[list[str], str, str]:
        subset = (
            f"subset={_list([c.name for c in self.query.columns])}" if self.query.columns else ""
        )
        told = f'print("Rows kept:", len({{name}}), "of", len({self.t}))'
        return self._changed(f"{self.t} complete", [self.t, f".dropna({subset})"], told)

    def _fillna(self) -> tuple[list[str], str, str]:
        column = self.query.columns[0]
        of, how = f"{self.t}[{literal(column.name)}]", self.query.text
        value = (
            f"{of}.{how}()"
            if how in ("mean", "median")
            else how
            if re.fullmatch(r"[\d.]+", how)
            else literal(how)
        )
        told = f'print("Filled:", {of}.isna().sum())'
        key = literal(column.name)
        return self._changed(
            f"{self.t} filled", [self.t, f".assign(**{{{key}: {of}.fillna({value})}})"], told
        )

    def _derive(self) -> tuple[list[str], str, str]:
        key, value = self.query.text, self.query.expression
        assign = f"{key}={value}" if key.isidentifier() else f"**{{{literal(key)}: {value}}}"
        return self._changed(f"{self.t} with {key}", [self.t, f".assign({assign})"])

    def _rename(self) -> tuple[list[str], str, str]:
        pair = f"{{{literal(self.query.columns[0].name)}: {literal(self.query.text)}}}"
        return self._changed(f"{self.t} renamed", [self.t, f".rename(columns={pair})"])

    def _join(self) -> tuple[list[str], str, str]:
        other = self.query.other
        on = literal(self.query.columns[0].name) if self.query.columns else ""
        keys = f"on={on}, " if on else ""
        call = f".merge({other}, {keys}how={literal(self.query.text)})"
        told = f'print("Rows:", len({{name}}), "of", len({self.t}), "and", len({other}))'
        return self._changed(f"{self.t} with {other}", [self.t, call], told)

    def _correlation(self) -> tuple[list[str], str, str]:
        query = self.query
        names = [c.name for c in query.columns]
        if len(names) == 2 and not query.groups:
            name = self._name(f"correlation of {' and '.join(names)}")
            a, b = (f"{self._kept()}[{literal(each)}]" for each in names)
            return (
                [
                    f"{name} = {a}.corr({b})",
                    f'print("Correlation of {names[0]} and {names[1]}:", {name})',
                ],
                "",
                "",
            )
        name = self._name(f"correlations of {self.t}")
        listed = names if len(names) > 2 else [c.name for c in self.table.measures]
        lines = [
            f"{self._kept()}[{_list(listed)}]",
            ".corr()",
            '.rename_axis("column")',
            ".reset_index()",
        ]
        if len(names) == 1:
            lines = [
                f"{self._kept()}[{_list(listed)}]",
                f".corrwith({self._kept()}[{literal(names[0])}])",
                f".drop({literal(names[0])})",
                ".sort_values(key=abs, ascending=False)",
                '.rename_axis("column")',
                '.reset_index(name="correlation")',
            ]
        code = [_chain(name, lines)]
        if not query.chart:
            return [*code, name], name, ""
        chart = f"{name}_chart"
        drawn = [
            f'alt.Chart({name}.melt("column", var_name="other", value_name="correlation"))',
            ".mark_rect()",
            '.encode(x="column:N", y="other:N", color=alt.Color("correlation:Q", '
            'scale=alt.Scale(scheme="blueorange", domain=[-1, 1])), '
            'tooltip=["column:N", "other:N", "correlation:Q"])',
            self._properties(),
        ]
        return [*code, "", _chain(chart, drawn), chart], name, chart

    # -- charts ------------------------------------------------------------------------------

    def _properties(self) -> str:
        return f".properties(title={literal(self.query.title)}, width=520, height=320)"

    def _plain_chart(
        self, columns: Sequence[Column], drawn: list[str], text: str
    ) -> tuple[list[str], str, str]:
        name = self._name(f"{text} chart")
        listed = _list(list(dict.fromkeys(c.name for c in columns)))
        return (
            [
                _chain(name, [f"alt.Chart({self._kept()}[{listed}])", *drawn, self._properties()]),
                name,
            ],
            "",
            name,
        )

    def _histogram(self) -> tuple[list[str], str, str]:
        query = self.query
        column, groups = query.columns[0], [g.column for g in query.groups]
        colour = [f"color={_colour(groups[0])}"] if groups else []
        stack = ", stack=None" if groups else ""
        mark = ".mark_bar(opacity=0.6)" if groups else ".mark_bar()"
        bins = f"bin=alt.Bin(maxbins={query.bins})"
        x = f"x=alt.X({_field(column, 'Q')}, {bins}, title={literal(column.name)})"
        encode = [x, f'y=alt.Y("count()", title="Rows"{stack})', *colour]
        return self._plain_chart(
            [column, *groups], [mark, _encode(encode)], f"distribution of {column.name}"
        )

    def _box(self) -> tuple[list[str], str, str]:
        column, groups = self.query.columns[0], [g.column for g in self.query.groups]
        x = [f"x={_axis('X', groups[0], 'N')}"] if groups else []
        encode = [*x, f"y={_axis('Y', column, 'Q')}"]
        return self._plain_chart(
            [column, *groups], [".mark_boxplot()", _encode(encode)], f"spread of {column.name}"
        )

    def _scatter(self) -> tuple[list[str], str, str]:
        a, b = self.query.columns[:2]
        colours = (
            [self.query.color] if self.query.color else [g.column for g in self.query.groups][:1]
        )
        encode = [
            f"x={_axis('X', a, 'Q', zero=False)}",
            f"y={_axis('Y', b, 'Q', zero=False)}",
            *(f"color={_colour(c)}" for c in colours),
        ]
        return self._plain_chart(
            [a, b, *colours],
            [".mark_circle(size=60)", _encode(encode)],
            f"{b.name} against {a.name}",
        )

    def _line(self) -> tuple[list[str], str, str]:
        query = self.query
        time, column = query.groups[0].column, query.columns[0]
        colours = [query.color] if query.color else []
        names = list(dict.fromkeys([time.name, column.name, *(c.name for c in colours)]))
        source = self._kept()
        lines = [f"{source}[{_list(names)}]"]
        key = literal(time.name)
        if time.kind != "date" and time.is_date:
            lines.insert(
                1,
                f".assign(**{{{key}: lambda d: {self._dated(time, f'd[{key}]')}}})",
            )
        lines.append(f".sort_values({_list([*(c.name for c in colours), time.name])})")
        name = self._name(f"{column.name} over time")
        encode = [
            f"x={_axis('X', time, 'T' if time.is_date else 'Q', year=time.is_year)}",
            f"y={_axis('Y', column, 'Q', zero=False)}",
            *(f"color={_colour(c)}" for c in colours),
        ]
        chart = unique(f"{name}_chart", self.taken)
        told = _told(f"Highest {column.name}", name, "nlargest", column.name)
        drawn = [f"alt.Chart({name})", ".mark_line()", _encode(encode), self._properties()]
        return [_chain(name, lines), told, "", _chain(chart, drawn), chart], name, chart

    def _draw(self, name: str, keys: Sequence[str], values: Sequence[str]) -> list[str]:
        """A table of groups: along time, or as bars by rank."""
        query = self.query
        first, second = query.groups[0], query.groups[1] if len(keys) > 1 else None
        source, value, colour = f"alt.Chart({name})", values[0], keys[1] if second else ""
        if len(values) > 1 and second is None:
            melted = f'{_list(values)}, var_name="measure", value_name="reading"'
            source = f"alt.Chart({name}.melt({literal(keys[0])}, {melted}))"
            value, colour = "reading", "measure"
        in_order = first.is_time or first.part in CYCLES
        kind = query.chart if query.chart != "auto" else "line" if first.is_time else "bar"
        title = literal(" and ".join(m.label for m in query.measures)[:60])
        of_time = first.column.is_date and first.part not in (*CYCLES, "year")
        along = "T" if of_time else "O" if kind == "bar" or first.part in CYCLES else "Q"
        along = "N" if not in_order else along
        year = along == "Q" and (first.part == "year" or first.column.is_year)
        if in_order or kind != "bar":
            sort = ", sort=None" if first.part in CYCLES else ""
            axis = (
                ', axis=alt.Axis(format="d", tickMinStep=1), scale=alt.Scale(zero=False)'
                if year
                else ""
            )
            label = first.label.capitalize() if in_order else first.label
            zero = ", scale=alt.Scale(zero=False)" if kind == "line" else ""
            encode = [
                f"x=alt.X({_named(keys[0], along)}, title={literal(label)}{sort}{axis})",
                f"y=alt.Y({_named(value, 'Q')}, title={title}{zero})",
            ]
        else:
            source = (
                source
                if second or len(values) > 1 or query.limit
                else f"alt.Chart({name}.head({_MOST_BARS}))"
            )
            order = literal("x" if query.ascending else "-x")
            encode = [
                f"x=alt.X({_named(value, 'Q')}, title={title})",
                f"y=alt.Y({_named(keys[0], 'N')}, sort={order})",
            ]
        if colour:
            encode.append(f"color=alt.Color({_named(colour, 'N')}, scale={_PALETTE})")
            if kind == "bar" and not query.stacked:
                offset = "x" if in_order else "y"
                encode.append(f"{offset}Offset=alt.{offset.upper()}Offset({_named(colour, 'N')})")
        tips = [
            _named(keys[0], along),
            *([_named(colour, "N")] if colour else []),
            _named(value, "Q"),
        ]
        encode.append(f"tooltip=[{', '.join(tips)}]")
        mark = {"line": ".mark_line(point=True)", "area": ".mark_area()"}.get(kind, ".mark_bar()")
        return [source, mark, _encode(encode), self._properties()]


def _told(words: str, name: str, side: str, value: str) -> str:
    """Print the extreme row of a table."""
    row = (
        f"    {name}\n    .{side}(1, {literal(value)})\n    .to_string(index=False, header=False),"
    )
    return f"print(\n    {literal(words + ':')},\n{row}\n)"


def _named(name: str, kind: str) -> str:
    """A field of a chart; Vega reads dots, brackets and quotes in it as a path unless escaped."""
    if re.fullmatch(r"[^\W_][\w \-]*", name):
        return literal(f"{name}:{kind}")
    escaped = re.sub(r"([.:\[\]\\'\"])", r"\\\1", name)
    return literal(f"{escaped}:{kind}")


def _field(column: Column, kind: str) -> str:
    return _named(column.name, kind)


def _axis(channel: str, column: Column, kind: str, *, zero: bool = True, year: bool = False) -> str:
    more = ', axis=alt.Axis(format="d", tickMinStep=1)' if year else ""
    more += ", scale=alt.Scale(zero=False)" if not zero or year else ""
    return f"alt.{channel}({_field(column, kind)}, title={literal(column.name)}{more})"


def _colour(column: Column) -> str:
    return f"alt.Color({_field(column, 'N')}, title={literal(column.name)}, scale={_PALETTE})"


def _encode(channels: Sequence[str]) -> str:
    return ".encode(\n" + "".join(f"        {each},\n" for each in channels) + "    )"


def _chain(name: str, lines: Sequence[str]) -> str:
    if len(lines) == 1 or (
        len(lines) == 2 and sum(map(len, lines)) + len(name) < 90 and "\n" not in lines[1]
    ):
        return f"{name} = {''.join(lines)}"
    return f"{name} = (\n" + "".join(f"    {each}\n" for each in lines) + ")"


def name_for_file(path: str) -> str:
    """The variable's name for what is read from ``path``."""
    stem = path.replace("\\", "/").rpartition("/")[2]
    return identifier(" ".join(fold(stem.rpartition(".")[0] or stem)))


def slug_of(title: str) -> str:
    """A file's name for what has ``title``."""
    return slug(title) or "table"


_ = (Group, Measure)
