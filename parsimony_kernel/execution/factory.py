"""Convert live objects to typed outputs, which can be stored; no other module does this.

Types are checked against libraries that are already imported; none is imported for the check. The
result is always an output and never an exception, whatever the value's own methods do.
"""

import base64
import builtins
import dataclasses
import html
import inspect
import io
import itertools
import json
import re
import traceback
from collections import Counter, OrderedDict, defaultdict, deque, namedtuple
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from types import BuiltinFunctionType, FunctionType, MethodType, TracebackType
from typing import Any, TypeVar

from parsimony_kernel.artifacts.chart_words import describe_chart, title_of
from parsimony_kernel.core.outputs import (
    ExceptionObject,
    FigureObject,
    KernelOutputType,
    PrimitiveObject,
)
from parsimony_kernel.execution import frames
from parsimony_kernel.execution.code_cell import LINES, from_cell, traceback_of
from parsimony_kernel.execution.inspection import (
    attempt,
    class_name,
    comes_from,
    is_a,
    is_exactly,
    plain,
    type_name,
)
from parsimony_kernel.lineage.classes import package_of

DISPLAY_CHARS = 4_000
VARIABLE_CHARS = 200
SNAPSHOT_BYTES = 8 * 1024
# The smallest summary, and how many tables may turn out not to fit before the rest is skipped.
_LEAST_BYTES = 64
_MOST_TOO_LARGE = 3
MESSAGE_CHARS = 2_000
_HALF_STACK = 10

_PNG = b"\x89PNG"
_REMOTE = re.compile(r"\s*(?:https?:)?//", re.IGNORECASE)

_NO_MESSAGE = "(its message cannot be shown)"

_OURS = str(Path(__file__).parent)
_TAG = re.compile(r"<(script|style)\b.*?(?:</\1\s*>|\Z)|<[^<>]*>", re.DOTALL | re.IGNORECASE)
_NO_TEXT = re.compile(r"<\S+ object(?: at 0x[0-9a-f]+)?>")

T = TypeVar("T")
# A value in several formats, by their mime types.
Bundle = Mapping[str, Any]

_NAMED_TUPLE = namedtuple("_Sample", "x").__repr__.__code__
_NUMBERS = (bool, float, complex, type(None))
# Containers whose items are shown, with their brackets. The named ones also show their type's name.
_BRACKETS: Any = {list: "[]", tuple: "()", dict: "{}", set: "{}", frozenset: "{}", deque: "[]"}
_NAMED = (Counter, OrderedDict, defaultdict, deque, frozenset)
_ROUTINES = (FunctionType, BuiltinFunctionType, MethodType)


class _CappedRepr:
    """A repr of bounded cost, however large or nested the value. For single use.

    Types are never matched by name, since a user's class may have any name.
    """

    def __init__(self, items: int, chars: int) -> None:
        self._items, self._chars = items, chars
        # The caps per level multiply, so there is one cap for the whole text as well.
        self._room = chars

    def repr(self, x: Any, level: int = 4) -> str:
        """Format ``x``, with nested items down to ``level`` levels."""
        if self._room <= 0:
            return "..."
        text = attempt(
            lambda: plain(self._repr(x, level)),
            lambda exc: f"<{type_name(x)}, whose repr raises {type_name(exc)}>",
        )
        if not is_exactly(x, *_BRACKETS):
            self._room -= len(text)
        return text

    def _repr(self, x: Any, level: int) -> str:
        if is_exactly(x, *_NUMBERS):
            return builtins.repr(x)
        if is_exactly(x, int):
            return builtins.repr(x) if x.bit_length() < 4_000 else f"<int of {x.bit_length()} bits>"
        if is_exactly(x, str, bytes, bytearray) or comes_from(x, "array", "array"):
            text = builtins.repr(x[: self._chars])
            return text if len(x) <= self._chars else text[:-1] + "…" + text[-1]
        if comes_from(x, "numpy", "ndarray"):
            return self._ndarray(x, level)
        if frames.is_frame(x):
            # The repr of a relation asks the database, and that of a frame may show every row.
            return frames.in_words(x)
        if _drawer(x) is _plotly:  # its repr has the data
            return f"<{type_name(x)} of plotly>"
        if (fields := _fields(x)) is not None:
            there = (name for name in fields[: self._items] if hasattr(x, name))
            told = (f"{name}={self.repr(getattr(x, name), level - 1)}" for name in there)
            return f"{type_name(x)}({', '.join(told)})"
        for kind, brackets in _BRACKETS.items():
            is_named = kind is deque or is_exactly(x, *_NAMED)
            if is_a(x, kind) and (is_named or type(x).__repr__ is kind.__repr__):
                inside = self._parts(kind, x, brackets, level)
                return f"{type_name(x)}({inside})" if is_named else inside
        return str.__str__(builtins.repr(x))[: self._chars + 1]

    def _parts(self, kind: Any, x: Any, brackets: str, level: int) -> str:
        """Format the first items, using the iteration of ``kind``, not of the user's subclass."""
        count = kind.__len__(x)
        if not count and kind in (set, frozenset):
            return "set()" if kind is set else ""
        if level <= 0:
            return f"{brackets[0]}...{brackets[1]}"
        if kind is dict:
            first = itertools.islice(dict.items(x), self._items)
            told = [f"{self.repr(k, level - 1)}: {self.repr(v, level - 1)}" for k, v in first]
        else:
            first = itertools.islice(kind.__iter__(x), self._items)
            told = [self.repr(each, level - 1) for each in first]
        more = ["..."] * (count > self._items) + [""] * (kind is tuple and count == 1)
        return brackets[0] + ", ".join(told + more).rstrip(" ") + brackets[1]

    def _ndarray(self, x: Any, level: int) -> str:
        shown = itertools.islice(x.flat, 10)
        told = [self.repr(each, level - 1) if x.dtype.hasobject else str(each) for each in shown]
        more = ", ..." if x.size > 10 else ""
        return f"ndarray of shape {x.shape}, dtype {x.dtype}: [{', '.join(told)}{more}]"


def _fields(x: Any) -> list[str] | None:
    """Return the fields of a named tuple or dataclass with a generated, unbounded repr."""
    shown_by: Any = type(x).__repr__
    if is_a(x, tuple) and getattr(shown_by, "__code__", None) == _NAMED_TUPLE:
        return list(type(x)._fields)  # type: ignore[attr-defined]
    if dataclasses.is_dataclass(type(x)) and hasattr(shown_by, "__wrapped__"):
        return [each.name for each in dataclasses.fields(x) if each.repr]
    return None


class OutputFactory:
    """Converts values to outputs.

    Args:
        local_dir: the folder that paths in tracebacks are shown relative to.
    """

    def __init__(self, local_dir: str | Path | None = None) -> None:
        self.local_dir = None if local_dir is None else Path(local_dir)

    def convert(self, value: Any, name: str | None = None) -> KernelOutputType:
        """Convert ``value`` to a table, a figure, an exception, or a capped repr."""
        if is_a(value, BaseException):
            return self.exception(value)
        return self._shown(value, name)

    def summary(self, value: Any, name: str) -> KernelOutputType:
        """Summarise a variable: no preview, no picture, a short repr."""
        if is_remote(value):
            told: KernelOutputType = value.summary
            return told
        if is_a(value, type, *_ROUTINES):
            kind = "class" if is_a(value, type) else "function"
            called: Any = value
            text = attempt(lambda: f"{name}{inspect.signature(called)}", lambda _: name)
            return PrimitiveObject(name=name, python_type=kind, text=_cut(text, VARIABLE_CHARS)[0])
        return self._shown(value, name, in_little=True)

    def _shown(self, value: Any, name: str | None, *, in_little: bool = False) -> KernelOutputType:
        items, chars = (8, VARIABLE_CHARS) if in_little else (100, DISPLAY_CHARS)

        def look() -> KernelOutputType:
            found: KernelOutputType | None = None
            if not is_exactly(value, *_NUMBERS, int, str, bytes, *_BRACKETS):
                found = frames.frame(value, name, preview=not in_little)
                found = found or figure(value, name, drawn=not in_little)
            return found or _primitive(value, name, items, chars)

        return attempt(look, lambda exc: _unseen(value, name, exc))

    def convert_displayed(self, value: Any, bundle: Bundle) -> KernelOutputType:
        """Convert a value that IPython has already formatted as ``bundle``."""
        picture, draw = picture_in(bundle), _drawer(value)
        if frames.is_frame(value) or draw is _altair or (draw is not None and not picture):
            return self.convert(value)
        words = attempt(lambda: figure(value, drawn=False), lambda _: None) if picture else None
        if words is not None:
            return words.model_copy(update=picture)
        return self.convert_bundle(bundle, source=type(value))

    def convert_bundle(self, bundle: Bundle, source: type | None = None) -> KernelOutputType:
        """Convert a mime bundle: its chart or picture, else its text."""
        picture, chart = picture_in(bundle), chart_in(bundle)
        if picture or chart:
            return (chart or _picture_of(source)).model_copy(update=picture)
        for mime in ("text/markdown", "text/latex", "text/plain", "text/html"):
            content = bundle.get(mime)
            has_better = mime == "text/plain" and "text/html" in bundle
            if not is_a(content, str) or (has_better and _NO_TEXT.fullmatch(content)):
                continue
            if mime == "text/html":
                content = html.unescape(_TAG.sub("", content)).strip() or mime
            text, cut = _cut(content, DISPLAY_CHARS)
            kind = "" if source is None else class_name(source)
            return PrimitiveObject(python_type=kind, text=text, truncated=cut)
        return PrimitiveObject(text=", ".join(sorted(bundle)))

    def exception(
        self, exc: BaseException, *, filename: str = "", asks: bool = True
    ) -> ExceptionObject:
        """Convert an exception.

        Args:
            exc: the exception.
            filename: the file name of its cell, see ``code_cell.cell_name``.
            asks: whether the exception's own methods may be called; false if they may hang.
        """

        def asked(look: Callable[[], T], otherwise: T) -> T:
            return attempt(look, lambda _: otherwise) if asks else otherwise

        raised_at = _raised_at(traceback_of(exc), filename)
        line, source_line = _in_cell(asked(lambda: _line(exc, filename), raised_at), filename)
        return ExceptionObject(
            name=type_name(exc),
            message=asked(lambda: _message(exc, leaves_cell=bool(filename)), _NO_MESSAGE),
            line=line,
            source_line=source_line,
            traceback=asked(lambda: self._traceback(exc, filename), type_name(exc)),
            status_code=asked(lambda: _status_code(exc), None),
        )

    def _traceback(self, exc: BaseException, filename: str) -> str:
        shown = from_cell(traceback_of(exc), filename)
        told = traceback.TracebackException(
            type(exc), exc, shown, max_group_width=5, max_group_depth=3
        )
        _shorten(told)
        text = "".join(told.format())
        if self.local_dir is not None:
            text = text.replace(f"{self.local_dir}/", "")
        return _cut(text, DISPLAY_CHARS * 2)[0]


def summarise(
    variables: Mapping[str, Any],
    *,
    budget_bytes: int = SNAPSHOT_BYTES,
    kept: list[dict[str, Any]] | None = None,
) -> tuple[list[dict[str, Any]], int]:
    """Summarise a namespace for the model, within ``budget_bytes`` of JSON.

    Args:
        variables: the values by their names.
        budget_bytes: the limit.
        kept: the list that gets the summaries, for a caller who may interrupt.

    Returns:
        The summaries in the order of ``variables``, earlier ones first to be kept, and the number
        of variables that did not fit.
    """
    factory, room, too_large = OutputFactory(), budget_bytes, 0
    kept = [] if kept is None else kept
    for name, value in variables.items():
        if room < _LEAST_BYTES:
            break
        # Tables take long to summarise.
        if too_large == _MOST_TOO_LARGE and rank(value) == 0:
            continue
        told = factory.summary(value, name).for_model()
        size = len(json.dumps(told, ensure_ascii=False).encode()) + 2
        too_large += size > room and rank(value) == 0
        if size <= room:
            kept.append(told)
            room -= size
    return kept, len(variables) - len(kept)


def rank(value: Any) -> int:
    """Rank a value by relevance to an analysis: 0 tables, 1 charts, 2 others, 3 functions, classes.

    Lower is more relevant.
    """
    kind = value.summary.type if is_remote(value) else ""
    if kind == "dataframe" or frames.is_frame(value):
        return 0
    if kind == "figure" or is_figure(value):
        return 1
    return 3 if is_a(value, type, *_ROUTINES) else 2


def is_remote(value: Any) -> bool:
    """Whether a value is a variable of another kernel."""
    return comes_from(value, "parsimony_kernel.execution.remote_client", "RemoteValue")


def _primitive(value: Any, name: str | None, items: int, chars: int) -> PrimitiveObject:
    text, cut = _cut(_CappedRepr(items, chars).repr(value), chars)
    return PrimitiveObject(
        name=name, python_type=type_name(value), text=text, truncated=cut or "..." in text[-8:]
    )


def _unseen(value: Any, name: str | None, exc: BaseException) -> PrimitiveObject:
    kind, message = type_name(value), attempt(lambda: _message(exc), lambda _: _NO_MESSAGE)
    why = _cut(f"{type_name(exc)}: {' '.join(message.split())}", VARIABLE_CHARS)[0]
    text = f"an object that cannot be looked at: {kind} raised {why}"
    return PrimitiveObject(name=name, python_type=kind, text=text)


def _cut(text: str, limit: int) -> tuple[str, bool]:
    text = plain(text)
    return (text, False) if len(text) <= limit else (text[: limit - 1] + "…", True)


def _message(exc: BaseException, *, leaves_cell: bool = False) -> str:
    if leaves_cell and is_a(exc, SystemExit):
        code = attempt(lambda: plain(f" with {exc.code!r}")[:200], lambda _: "")
        code = "" if exc.code is None else code
        return f"sys.exit ended this cell{code}; the kernel goes on"
    # The text of a SyntaxError repeats the file and the line, which have fields of their own.
    text = str(exc.msg if is_a(exc, SyntaxError) else exc)
    notes = [str(each) for each in getattr(exc, "__notes__", ())]
    return _cut("\n".join([text, *notes]), MESSAGE_CHARS)[0]


def _line(exc: BaseException, filename: str) -> int | None:
    """Return the line of ``filename`` that raised the exception."""
    if is_a(exc, SyntaxError) and exc.filename == filename:
        return exc.lineno if type(exc.lineno) is int else None
    return _raised_at(traceback_of(exc), filename)


def _raised_at(tb: TracebackType | None, filename: str) -> int | None:
    """Return the innermost line of ``filename`` in a traceback."""
    steps = traceback.walk_tb(tb)
    lines = [line for frame, line in steps if frame.f_code.co_filename == filename]
    return lines[-1] if lines else None


def _in_cell(line: int | None, filename: str) -> tuple[int | None, str]:
    """Return a line's number and text; ``(None, "")`` if the cell has no such line."""
    lines = LINES.get(filename, [])
    if line is None or not 0 < line <= len(lines):
        return None, ""
    return line, plain(lines[line - 1]).strip()[:200]


def _status_code(exc: BaseException) -> int | None:
    """Return the HTTP status of an HTTP client's exception, from any common attribute."""
    for owner in (exc, getattr(exc, "response", None)):
        for attribute in ("status_code", "status", "code"):
            code = getattr(owner, attribute, None)
            if is_a(code, int) and not is_a(code, bool) and 100 <= int.__int__(code) < 600:
                return int.__int__(code)
    return None


def _shorten(told: traceback.TracebackException) -> None:
    """Remove our own frames, and the middle of a deep stack."""
    chain = [told]
    for each in chain:
        each.stack[:] = [step for step in each.stack if not step.filename.startswith(_OURS)]
        del each.stack[_HALF_STACK:-_HALF_STACK]
        chain += filter(None, (each.__cause__, each.__context__))


# Charts and pictures: their descriptions and their bytes. Charts are recognised without importing
# the library that defines them.


def figure(value: Any, name: str | None = None, *, drawn: bool = True) -> FigureObject | None:
    """Convert a chart to a figure; ``None`` for anything else.

    With ``drawn`` false it is only described, not rendered.
    """
    draw = _drawer(value)
    return None if draw is None else draw(value, name, drawn)


def is_figure(value: Any) -> bool:
    """Whether a value is a chart of a supported library."""
    return _drawer(value) is not None


def _drawer(value: Any) -> Callable[[Any, str | None, bool], FigureObject] | None:
    found = (draw for (module, kind), draw in _DRAWERS.items() if comes_from(value, module, kind))
    return next(found, None)


def _altair(chart: Any, name: str | None, drawn: bool) -> FigureObject:
    if drawn:
        return from_spec(chart.to_dict(), name)
    light = chart
    data: Any = getattr(chart, "data", None)
    if hasattr(data, "head"):
        # Column types are inferred from the data, and a few rows are enough for that.
        light = chart.copy(deep=False)
        light.data = data.head(20)
    spec = light.to_dict(validate=False)
    return FigureObject(name=name, title=title_of(spec), description=describe_chart(spec))


def from_spec(spec: dict[str, Any], name: str | None = None) -> FigureObject:
    """Convert a Vega-Lite specification to a figure.

    The stored specification is a copy through JSON, with null for numbers that aren't finite. A
    specification that fetches data is left out, since viewing it would fetch.

    Raises:
        ValueError: when it is not JSON.
        TypeError: when it is not JSON.
    """
    text = json.dumps(spec, ensure_ascii=False)
    spec = json.loads(text.encode(), parse_constant=lambda _: None)
    made = FigureObject(name=name, title=title_of(spec), description=describe_chart(spec))
    address = next(addresses(spec), None)
    if address is None:
        return made.model_copy(update={"spec": spec})
    why = f"Not drawn, because it fetches {plain(address)[:200]}: load that in code first."
    return made.model_copy(update={"description": f"{made.description}. {why}"})


def addresses(spec: Any) -> Iterator[str]:
    """Yield the URLs that viewing a Vega-Lite specification would fetch: data and images."""
    has_images = '"image"' in json.dumps(spec, default=str)
    waiting = [("", spec)]
    while waiting:
        key, value = waiting.pop()
        if isinstance(value, Mapping):
            waiting += value.items()
        elif isinstance(value, list):
            waiting += ((key, each) for each in value)
        elif is_a(value, str) and (key == "url" or has_images) and _REMOTE.match(value):
            yield value


def _matplotlib(drawing: Any, name: str | None, drawn: bool) -> FigureObject:
    axes = drawing.get_axes()
    titles = [drawing.get_suptitle()] if hasattr(drawing, "get_suptitle") else []
    titles += [each.get_title() for each in axes]
    told = "; ".join(
        " by ".join(label for label in (each.get_ylabel(), each.get_xlabel()) if label)
        or "unlabelled axes"
        for each in axes
    )
    png = None
    if drawn:
        target = io.BytesIO()
        drawing.savefig(target, format="png", bbox_inches="tight")
        png = base64.b64encode(target.getvalue()).decode()
    return FigureObject(
        name=name,
        library="matplotlib",
        title=next((each for each in titles if each), ""),
        description=f"matplotlib figure of {told}" if told else "empty matplotlib figure",
        png_base64=png,
    )


def _plotly(drawing: Any, name: str | None = None, drawn: bool = False) -> FigureObject:
    """Describe a plotly figure, or its JSON, by its title: only a browser draws it."""
    title = attempt(lambda: drawing["layout"]["title"]["text"], lambda _: "")
    title = plain(title)[:200] if is_a(title, str) else ""
    return FigureObject(name=name, library="plotly", title=title, description="Figure of plotly")


_DRAWERS: dict[tuple[str, str], Callable[[Any, str | None, bool], FigureObject]] = {
    ("altair", "TopLevelMixin"): _altair,
    ("matplotlib.figure", "Figure"): _matplotlib,
    ("plotly.basedatatypes", "BaseFigure"): _plotly,
}


def chart_in(bundle: Bundle) -> FigureObject | None:
    """Describe the chart of a mime bundle that has its specification; else ``None``."""
    for mime, chart in bundle.items():
        if mime.startswith("application/vnd.vegalite"):
            return attempt(partial(from_spec, chart), lambda _: None)
        if mime.startswith("application/vnd.plotly"):
            return _plotly(chart)
    return None


def picture_in(bundle: Bundle) -> dict[str, str]:
    """Return the picture of a mime bundle by figure field: PNG in base64, else SVG; else empty."""
    png, svg = bundle.get("image/png"), bundle.get("image/svg+xml")
    if is_a(png, bytes) and png.startswith(_PNG):
        png = base64.b64encode(png).decode()
    for field, content in (("png_base64", png), ("svg", svg)):
        text = content.decode("utf-8", "replace") if is_a(content, bytes) else content
        if is_a(text, str) and text:
            return {field: plain(text)}
    return {}


def _picture_of(source: type | None) -> FigureObject:
    """Build a figure described only by the class that drew it."""
    library = "" if source is None else package_of(source)
    noun = "picture" if source is None else class_name(source)
    words = f"{noun} of {library}" if library else noun
    return FigureObject(library=library, description=words)
