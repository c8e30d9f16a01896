"""What running code gave back, as values.

The single typed boundary between live Python objects and everything that reads them: the model,
the journal, the record. JSON in and out, bounded in size; ``for_model`` is the compact form that
a prompt carries.
"""

from collections.abc import Iterator
from itertools import zip_longest
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, field_serializer, field_validator

from parsimony_kernel.core.text import utf8

# Of the rows of one table that a model reads.
MAX_TABLE_TEXT = 3_900

Kind = Literal["table", "series", "unnamed series"]

# Code may print half of a character, which JSON cannot carry.
Text = Annotated[str, AfterValidator(utf8)]


def _if_any(**facts: Any) -> dict[str, Any]:
    return {name: fact for name, fact in facts.items() if fact or fact == ""}


class _Output(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class ColumnSummary(_Output):
    """One column: its name as the frame has it, its dtype in words, a few sample values as text.

    ``missing`` is how many of its values are; ``None`` where they were too many to be counted.
    """

    name: Text
    dtype: Text
    samples: tuple[Text, ...] = ()
    missing: int | None = None
    is_index: bool = False

    def for_model(self) -> dict[str, Any]:
        """Name, dtype, and what is worth saying of its values."""
        told = {"samples": list(self.samples), "missing": self.missing, "index": self.is_index}
        return {
            "name": self.name,
            "dtype": self.dtype,
            **{key: value for key, value in told.items() if value},
        }


class DataFrameObject(_Output):
    """A table, or as its ``kind`` says a series, whose name is that of its last column unless it is
    unnamed. ``rows`` is ``None`` for a lazy frame, which is never collected.

    ``columns`` holds the first 40 in full; the rest are in ``more_columns`` by name alone, and of
    very many the last are only counted, in ``columns_left_out``. ``preview`` are the first rows as
    text, in the order of ``preview_columns``: all of a short table. Of a long one ``last_rows``
    are the last.
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
        """Whether every cell stands in ``preview``."""
        return len(self.preview) == self.rows and len(self.preview_columns) == self.column_count

    @property
    def column_count(self) -> int:
        return len(self.columns) + len(self.more_columns) + self.columns_left_out

    def for_model(self) -> dict[str, Any]:
        """Shape, columns with dtype and samples; ``with_rows`` has the rows too.

        The library is named where it is not pandas: the methods of its tables are others.
        """
        columns = [column.for_model() for column in self.columns]
        more = {
            "more_columns": list(self.more_columns),
            "columns_left_out": self.columns_left_out,
        }
        library = None if self.library == "pandas" else self.library
        kind = None if self.kind == "table" else self.kind
        told = {"type": self.type, "rows": self.rows, "columns": columns}
        return {**told, **_if_any(name=self.name, kind=kind, library=library, **more)}

    def with_rows(self) -> dict[str, Any]:
        """The form for the model of a table that is shown: its rows, as lines of text."""
        told = self.for_model()
        if self.preview_columns:
            told["text"] = self._in_lines()
            if self.is_whole:
                for column in told["columns"]:
                    column.pop("samples", None)
        return told

    def first_rows(self, most: int) -> list[str]:
        """The first rows as lines of text, after a line with the columns."""
        return list(_aligned([self.preview_columns, *self.preview[:most]])) if self.preview else []

    def _in_lines(self) -> str:
        """The rows in columns of text, as many of either end as there is room for."""
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
    """Rows of cells with their columns one below the other."""
    widths = [max(map(len, column)) for column in zip_longest(*table, fillvalue="")]
    for row in table:
        cells = (cell.rjust(width) for cell, width in zip(row, widths, strict=False))
        yield "  ".join(cells).rstrip()


class FigureObject(_Output):
    """A picture: a Vega-Lite specification, PNG or SVG, and words for who cannot see it."""

    type: Literal["figure"] = "figure"
    name: Text | None = None
    library: Text = "altair"
    title: Text = ""
    description: Text = ""
    spec: dict[str, Any] | None = None
    png_base64: Text | None = None
    svg: Text | None = None

    def for_model(self) -> dict[str, Any]:
        """Title and description; never the data or the pixels."""
        told = {"type": self.type, "title": self.title, "description": self.description}
        return {**told, **_if_any(name=self.name)}


class PrimitiveObject(_Output):
    """Anything else, by its capped ``repr``."""

    type: Literal["primitive"] = "primitive"
    name: Text | None = None
    python_type: Text = ""
    text: Text = ""
    truncated: bool = False

    def for_model(self) -> dict[str, Any]:
        """Type and text."""
        told = {"type": self.type, "python_type": self.python_type, "text": self.text}
        return {**told, **_if_any(name=self.name, truncated=self.truncated)}


class PrintedText(PrimitiveObject):
    """What a cell printed, as one of its typed values."""


class ExceptionObject(_Output):
    """An exception that left the cell. ``line`` is the line of the cell, counted from 1.

    ``past_deadline`` says that the code was stopped because its time was up, ``state_lost`` that
    what earlier cells made can no longer be relied on.
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
        """One sentence and where; a traceback is for people."""
        summary: dict[str, Any] = {"type": self.type, "name": self.name, "message": self.message}
        if self.line is not None:
            summary["line"] = self.line
            summary["source_line"] = self.source_line
        return summary


KernelOutputType = Annotated[
    DataFrameObject | FigureObject | PrimitiveObject | ExceptionObject,
    Field(discriminator="type"),
]


class FetchLogEntry(_Output):
    """One source that the cell read: a path or an address, and how much came."""

    source: Text
    kind: Literal["file", "url"] = "file"
    size_bytes: int | None = None


class KernelOutput(_Output):
    """All that one execution gave back.

    ``outputs`` begins with what was printed, if anything was, and then keeps the order of display;
    an exception, if any, is its last member. ``shown`` are those that ``stdout`` does not say:
    whoever tells people or a model of both takes these, and JSON holds no more.
    ``changed`` and ``deleted`` are names of the namespace; ``variables`` summarises the changed.
    ``overwritten`` are those of the changed that had been bound by the person, and
    ``printed_before`` the characters of ``stdout`` that stand before each of those shown, where
    that is known.
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
        """The outputs without what was printed."""
        return tuple(each for each in self.outputs if not isinstance(each, PrintedText))

    def without_error(self) -> "KernelOutput":
        """The same without the exception that ended the cell."""
        kept = tuple(each for each in self.outputs if not isinstance(each, ExceptionObject))
        return self.model_copy(update={"outputs": kept})

    def followed_by(self, rest: "KernelOutput") -> "KernelOutput":
        """Of code that went on: all of it."""
        summaries = {each.name: each for each in self.variables} | {
            each.name: each for each in rest.variables
        }
        return KernelOutput(
            stdout=self.stdout + rest.stdout,
            stderr=self.stderr + rest.stderr,
            outputs=(*self.shown, *rest.shown),
            printed_before=(
                *self.printed_before,
                *(len(self.stdout) + each for each in rest.printed_before),
            ),
            changed=tuple(dict.fromkeys((*self.changed, *rest.changed))),
            deleted=tuple(dict.fromkeys((*self.deleted, *rest.deleted))),
            overwritten=tuple(dict.fromkeys((*self.overwritten, *rest.overwritten))),
            variables=tuple(summaries.values()),
            fetched=(*self.fetched, *rest.fetched),
            duration_s=self.duration_s + rest.duration_s,
            truncated=self.truncated or rest.truncated,
        )

    @property
    def error(self) -> ExceptionObject | None:
        """The exception that ended the cell, if one did."""
        raised = (each for each in reversed(self.outputs) if isinstance(each, ExceptionObject))
        return next(raised, None)

    def for_model(self) -> dict[str, Any]:
        """The compact form: streams, outputs, and what became of the variables."""
        summary: dict[str, Any] = {
            "stdout": self.stdout,
            "stderr": self.stderr,
            "outputs": [
                o.with_rows() if isinstance(o, DataFrameObject) else o.for_model()
                for o in self.shown
            ],
            "printed_before": list(self.printed_before) if self.stdout else [],
            "variables": [v.for_model() for v in self.variables],
            "overwritten": list(self.overwritten),
            "deleted": list(self.deleted),
            "truncated": self.truncated,
        }
        return {name: told for name, told in summary.items() if told}
