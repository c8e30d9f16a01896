"""The parts of an altair chart: fields, axes, colours, tooltips.

A name of the data is escaped here, since Vega reads dots and brackets in it as a path.
"""

import re
from collections.abc import Iterable, Sequence

from parsimony_kernel.offline.codegen.python import chain, listed, literal
from parsimony_kernel.offline.schema import Column

PALETTE = (
    "#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#000000",
)  # fmt: skip


def chart_code(name: str, drawn: Sequence[str], title: str) -> str:
    """The statement that binds a chart to ``name``."""
    properties = f".properties(title={literal(title)}, width=520, height=320)"
    return chain(name, [*drawn, properties])


def encode(*channels: str) -> str:
    """The call that maps columns to channels."""
    inner = "".join(f"    {channel},\n" for channel in channels)
    return f".encode(\n{inner})"


def axis(
    channel: str,
    column: str,
    kind: str,
    title: str | None,
    *,
    zero: bool | None = None,
    sort: str | None = None,
    year: bool = False,
) -> str:
    """A channel of position: ``X``, ``Y`` or an offset of one."""
    parts = [field_of(column, kind)]
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


def color_channel(column: Column, *, nominal: bool = False) -> str:
    """The colour of a column: a palette for kinds, a scale for measures."""
    title = literal(column.name)
    whole = "int" in column.dtype
    if column.kind == "number" and not nominal and not whole:
        scale = 'scale=alt.Scale(scheme="viridis")'
        return f"alt.Color({field_of(column.name, 'quantitative')}, title={title}, {scale})"
    return (
        f"alt.Color({field_of(column.name, 'nominal')}, title={title}, "
        f"scale=alt.Scale(range={listed(PALETTE)}))"
    )


def field_of(column: str, kind: str) -> str:
    """A column as the argument of a channel."""
    if re.fullmatch(r"[^\W_][\w \-]*", column):
        return literal(f"{column}:{kind[0].upper()}")
    # Vega reads dots, brackets and quotes in a field as a path unless they are escaped.
    escaped = re.sub(r"([.\[\]\\'\"])", r"\\\1", column)
    return f'field={literal(escaped)}, type="{kind}"'


def tooltips(columns: Iterable[tuple[str, str]]) -> str:
    """The list of what a pointer shows."""
    parts = []
    for column, kind in columns:
        field = field_of(column, kind)
        simple = not field.startswith("field=")
        parts.append(field if simple else f"alt.Tooltip({field}, title={literal(column)})")
    return f"[{', '.join(parts)}]"
