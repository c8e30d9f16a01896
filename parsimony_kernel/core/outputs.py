"""The result of running code, as values.

The only typed boundary between live Python objects and their readers: the model, the journal, the
record. JSON in and out, bounded in size; ``for_model`` is the compact form for a prompt.
"""

from collections.abc import Iterator
from itertools import zip_longest
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, field_serializer, field_validator

from parsimony_kernel.core.text import utf8

# Characters for the rows of one table in a prompt.
MAX_TABLE_TEXT = 3_900

Kind = Literal["table", "series", "unnamed series", "index"]
# Most names of changed variables that are listed without a summary.
_MOST_NAMES = 40
# Whether several texts of a column differ only in capitals or outer spaces, or some are blank.
Spellings = Literal["", "several", "blank", "unchecked"]

# Code may print a lone surrogate, which JSON cannot encode.
Text = Annotated[str, AfterValidator(utf8)]


def _if_any(**facts: Any) -> dict[str, Any]:
    return {name: fact for name, fact in facts.items() if fact or fact == ""}


class _Output(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class ColumnSummary(_Output):
    """One column: its name, its dtype in words, a few sample values as text.

    ``missing`` counts its missing values; ``None`` if there were too many values to count.
    """

    name: Text
    dtype: Text
    samples: tuple[Text, ...] = ()
    missing: int | None = None
    is_index: bool = False
    spellings: Spellings = ""

    def for_model(self) -> dict[str, Any]:
        """Return the name, the dtype, and the informative facts about its values."""
        told: dict[str, Any] = {"samples": list(self.samples), "missing": self.missing}
        told |= {"index": self.is_index, "spellings": self.spellings}
        facts = {key: value for key, value in told.items() if value}
        return {"name": self.name, "dtype": self.dtype, **facts}


class DataFrameObject(_Output):
    """A table or, by its ``kind``, an index or a series.

    The name of a series is that of its last column, unless it is unnamed.
    ``rows`` is ``None`` for a lazy frame, which is never collected. ``columns`` describes the first
    40 in full; ``more_columns`` has the names of the rest, and ``columns_left_out`` counts those
    beyond that. ``preview`` has the first rows as text, in the order of ``preview_columns``: all
    rows of a short table. For a long one, ``last_rows`` are the last.
    """

    type: Literal["dataframe"] = "dataframe"
    name: Text | None = None
    library: Text = "pandas"
    kind: Kind = "table"
    rows: int | None
    columns: tuple[ColumnSummary, ...] = ()
    more_columns: tuple[Text, ...] = ()
    columns_left_out: int = 0
    preview_columns: tuple[Text, ...] = ()
    preview: tuple[tuple[Text, ...], ...] = ()
    last_rows: tuple[tuple[Text, ...], ...] = ()

    @property
    def is_whole(self) -> bool:
        """Whether every cell is in ``preview``."""
        return len(self.preview) == self.rows and len(self.preview_columns) == self.column_count

    @property
    def column_count(self) -> int:
        return len(self.columns) + len(self.more_columns) + self.columns_left_out

    def for_model(self) -> dict[str, Any]:
        """Return the shape, and the columns with dtype and samples; ``with_rows`` adds the rows.

        The library is named if it is not pandas, since its tables have other methods.
        """
        columns = [column.for_model() for column in self.columns]
        more = {"more_columns": list(self.more_columns), "columns_left_out": self.columns_left_out}
        library = None if self.library == "pandas" else self.library
        kind = None if self.kind == "table" else self.kind
        told = {"type": self.type, "rows": self.rows, "columns": columns}
        return {**told, **_if_any(name=self.name, kind=kind, library=library, **more)}

    def with_rows(self) -> dict[str, Any]:
        """Return the model's form of a displayed table, with its rows as lines of text."""
        told = self.for_model()
        if self.preview_columns:
            told["text"] = self._in_lines()
            if self.is_whole:
                for column in told["columns"]:
                    column.pop("samples", None)
        return told

    def first_rows(self, most: int) -> list[str]:
        """Return the first rows as lines of text, below a line of column names."""
        return list(_aligned([self.preview_columns, *self.preview[:most]])) if self.preview else []

    def _in_lines(self) -> str:
        """Format the rows as aligned text, with as many from either end as fit."""
        for first, last in ((len(self.preview), len(self.last_rows)), (10, 5), (5, 3), (3, 0)):
            head = self.preview[:first]
            tail = self.last_rows if self.last_rows else self.preview[first:]
            tail = tail[len(tail) - min(last, len(tail)) :]
            gap = [("…",)] * ((self.rows or len(head)) > len(head) + len(tail))
            table = [self.preview_columns, *head, *gap, *tail]
            text = "\n".join(_aligned(table))
            if len(text) <= MAX_TABLE_TEXT:
                break
        return text


def _aligned(table: list[tuple[str, ...]]) -> Iterator[str]:
    """Yield rows of cells as lines with aligned columns."""
    widths = [max(map(len, column)) for column in zip_longest(*table, fillvalue="")]
    for row in table:
        cells = (cell.rjust(width) for cell, width in zip(row, widths, strict=False))
        yield "  ".join(cells).rstrip()


class FigureObject(_Output):
    """A picture: a Vega-Lite specification, PNG or SVG, with alternative text."""

    type: Literal["figure"] = "figure"
    name: Text | None = None
    library: Text = "altair"
    title: Text = ""
    description: Text = ""
    spec: dict[str, Any] | None = None
    png_base64: Text | None = None
    svg: Text | None = None

    def for_model(self) -> dict[str, Any]:
        """Return the title and description, never the data or the pixels."""
        told = {"type": self.type, "title": self.title, "description": self.description}
        return {**told, **_if_any(name=self.name)}


class PrimitiveObject(_Output):
    """Any other object, by its capped ``repr``."""

    type: Literal["primitive"] = "primitive"
    name: Text | None = None
    python_type: Text = ""
    text: Text = ""
    truncated: bool = False

    def for_model(self) -> dict[str, Any]:
        """Return the type and the text."""
        told = {"type": self.type, "python_type": self.python_type, "text": self.text}
        return {**told, **_if_any(name=self.name, truncated=self.truncated)}


class PrintedText(PrimitiveObject):
    """A cell's printed text, as one of its typed outputs."""


class ExceptionObject(_Output):
    """An exception that ended the cell. ``line`` is the line of the cell, counted from 1.

    ``past_deadline`` means that the code was stopped by its deadline, ``state_lost`` that the
    values of earlier cells are no longer reliable.
    """

    type: Literal["exception"] = "exception"
    name: Text
    message: Text = ""
    line: int | None = None
    source_line: Text = ""
    traceback: Text = ""
    status_code: int | None = None
    past_deadline: bool = False
    state_lost: bool = False

    def for_model(self) -> dict[str, Any]:
        """Return one sentence and the line; tracebacks are for people."""
        summary: dict[str, Any] = {"type": self.type, "name": self.name, "message": self.message}
        if self.line is not None:
            summary |= {"line": self.line, "source_line": self.source_line}
        return summary


KernelOutputType = Annotated[
    DataFrameObject | FigureObject | PrimitiveObject | ExceptionObject, Field(discriminator="type")
]


class FetchLogEntry(_Output):
    """One source that the cell read: a path or an address, and the amount read."""

    source: Text
    kind: Literal["file", "url"] = "file"
    size_bytes: int | None = None


class KernelOutput(_Output):
    """The whole result of one execution.

    ``outputs`` starts with the printed text, if any, followed by the displays in order; an
    exception, if any, comes last. ``shown`` are the outputs that ``stdout`` does not contain: use
    these next to ``stdout``; JSON holds only these. ``changed`` and ``deleted`` are names in the
    namespace; ``variables`` summarises the changed ones. ``overwritten`` are the changed ones that
    the person had bound. ``printed_before`` gives, for each of ``shown``, the characters of
    ``stdout`` before it, if known.
    """

    stdout: Text = ""
    stderr: Text = ""
    outputs: tuple[KernelOutputType, ...] = Field(default=(), validate_default=True)
    printed_before: tuple[int, ...] = ()
    changed: tuple[Text, ...] = ()
    deleted: tuple[Text, ...] = ()
    overwritten: tuple[Text, ...] = ()
    variables: tuple[KernelOutputType, ...] = ()
    fetched: tuple[FetchLogEntry, ...] = ()
    duration_s: float = Field(default=0.0, allow_inf_nan=False)
    truncated: bool = False

    @field_validator("outputs")
    @classmethod
    def _with_printed(cls, outputs: tuple[KernelOutputType, ...], info: Any) -> Any:
        text = info.data.get("stdout")
        shown = (each for each in outputs if not isinstance(each, PrintedText))
        return (*([PrintedText(python_type="str", text=text)] if text else []), *shown)

    @field_serializer("outputs", mode="wrap")
    def _without_printed(self, _: Any, handler: Any) -> Any:
        return handler(self.shown)

    @property
    def shown(self) -> tuple[KernelOutputType, ...]:
        """The outputs without the printed text."""
        return tuple(each for each in self.outputs if not isinstance(each, PrintedText))

    def without_error(self) -> "KernelOutput":
        """Return the same output without the exception that ended the cell."""
        kept = tuple(each for each in self.outputs if not isinstance(each, ExceptionObject))
        return self.model_copy(update={"outputs": kept})

    def followed_by(self, rest: "KernelOutput") -> "KernelOutput":
        """Return the combined output of code that continued with ``rest``."""
        summaries = {each.name: each for each in (*self.variables, *rest.variables)}
        later = (len(self.stdout) + each for each in rest.printed_before)
        return KernelOutput(
            stdout=self.stdout + rest.stdout,
            stderr=self.stderr + rest.stderr,
            outputs=self.shown + rest.shown,
            printed_before=(*self.printed_before, *later),
            changed=tuple(dict.fromkeys(self.changed + rest.changed)),
            deleted=tuple(dict.fromkeys(self.deleted + rest.deleted)),
            overwritten=tuple(dict.fromkeys(self.overwritten + rest.overwritten)),
            variables=tuple(summaries.values()),
            fetched=self.fetched + rest.fetched,
            duration_s=self.duration_s + rest.duration_s,
            truncated=self.truncated or rest.truncated,
        )

    @property
    def error(self) -> ExceptionObject | None:
        """The exception that ended the cell, if any."""
        raised = (each for each in reversed(self.outputs) if isinstance(each, ExceptionObject))
        return next(raised, None)

    def for_model(self) -> dict[str, Any]:
        """Return the compact form: streams, outputs, and changes to variables."""
        described = {each.name for each in self.variables}
        summary: dict[str, Any] = {
            "stdout": self.stdout,
            "stderr": self.stderr,
            "outputs": [
                o.with_rows() if isinstance(o, DataFrameObject) else o.for_model()
                for o in self.shown
            ],
            "printed_before": list(self.printed_before) if self.stdout else [],
            "variables": [v.for_model() for v in self.variables],
            "also_changed": [each for each in self.changed if each not in described][:_MOST_NAMES],
            "overwritten": list(self.overwritten),
            "deleted": list(self.deleted),
            "truncated": self.truncated,
        }
        return {name: told for name, told in summary.items() if told}
